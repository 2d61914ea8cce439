"""Draw what each profile of MTL has from the profiles themselves: commands with their arguments, ways of confirming."""

import inspect
import re
from collections.abc import Sequence

import msgspec
from amqp_tables import list_table
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from triomq.endpoints.mtl import ResourceProfile
from triomq.endpoints.mtl.profiles import BUILT_IN

_ARGUMENT = re.compile(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", re.DOTALL | re.MULTILINE)


def commands(profile: type[ResourceProfile]) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """List the commands of a profile: what each does, and what it takes."""
    rows = []
    for command in profile.commands.values():
        does = (inspect.getdoc(command.call) or "").partition("\n")[0]
        rows.append((f"``{command.name}``", does, "; ".join(map(shown, arguments(command.arguments))) or "–"))
    return ("command", "does", "arguments"), sorted(rows)


class Argument(msgspec.Struct, frozen=True):
    """One key of a command's JSON."""

    name: str
    default: object
    is_required: bool
    text: str


def arguments(kind: type[msgspec.Struct]) -> list[Argument]:
    """List the keys of a command's JSON, in order."""
    _, _, described = (inspect.getdoc(kind) or "").partition("Args:\n")
    texts = {name: " ".join(text.split()) for name, text in _ARGUMENT.findall(described)}
    return [
        Argument(field.encode_name, default_of(field), field.required, texts.get(field.name, ""))
        for field in msgspec.structs.fields(kind)
    ]


def default_of(field: msgspec.structs.FieldInfo) -> object:
    """Return what counts where a key is not there."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.default is msgspec.NODEFAULT else field.default


def shown(argument: Argument) -> str:
    """Return an argument as the table has it."""
    default = "" if argument.is_required else f", else ``{msgspec.json.encode(argument.default).decode()}``"
    return f"``{argument.name}``{default}: {argument.text.rstrip('.')}"


def confirms() -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """List how each profile confirms."""
    rows = [
        (f"``{name}``", *(", ".join(sorted(found)) for found in (kind.writer_confirms, kind.reader_confirms)))
        for name, kind in BUILT_IN.items()
    ]
    return ("profile", "writers", "readers"), rows


class MTLProfileTable(SphinxDirective):
    """``.. mtl-profile-table:: queue`` is the commands of a profile, ``confirms`` how all of them confirm."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        (wanted,) = self.arguments
        columns, rows = confirms() if wanted == "confirms" else commands(BUILT_IN[wanted])
        return self.parse_text_to_nodes("\n".join(list_table(columns, rows)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("mtl-profile-table", MTLProfileTable)
    return {"parallel_read_safe": True}
