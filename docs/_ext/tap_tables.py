"""Draw tap's reference from what the engine obeys: the Structs of its messages, and its tables of states."""

import types
import typing
from collections.abc import Iterator

import msgspec
from amqp_tables import list_table
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from triomq.protocols.tap import CLIENT_MESSAGES, SERVER_MESSAGES, TapMessage
from triomq.protocols.tap.messages import ANSWERED_BY, Identity, Number, Offset
from triomq.protocols.tap.states import CLIENT, SERVER, StateTable

STATES: dict[str, StateTable] = {"server": SERVER, "client": CLIENT}
MESSAGES: dict[str, tuple[type[TapMessage], ...]] = {"client": CLIENT_MESSAGES, "server": SERVER_MESSAGES}
INTEGERS = {Number: "u32", Offset: "u63", Identity: "u64"}


def kind_of(annotation: object) -> str:
    """Say how a field stands on the wire."""
    if annotation in INTEGERS:
        return INTEGERS[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        plain, meta = arguments[0], arguments[1]
        if plain is str:
            return f"text of {meta.min_length or 0} to {meta.max_length}"
        if plain is int:
            return f"integer from {meta.ge} to {meta.le}"
        return f"{kind_of(plain)}, at most {meta.max_length:,}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join("nil" if each is type(None) else kind_of(each) for each in arguments)
    if origin is typing.Literal:
        return f"the text ``{arguments[0]}``"
    if origin is dict:
        return f"map from {kind_of(arguments[0])} to {kind_of(arguments[1])}"
    if origin is tuple:
        return f"array of {kind_of(arguments[0])}"
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return f"[{', '.join(fields_of(annotation))}]"
    return {bytes: "bin", memoryview: "bin", str: "text", int: "integer", bool: "bool"}[typing.cast("type", annotation)]


def fields_of(struct: type[msgspec.Struct]) -> Iterator[str]:
    """Describe the fields of a Struct in the order of the wire, with a question mark where one may be left out."""
    hints = typing.get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        text = f"{field.name}{'' if field.required else '?'} {kind_of(hints[field.name])}"
        default = field.default
        yield f"{text}, {default:,} by default" if not field.required and isinstance(default, int) else text


def message_row(message: type[TapMessage]) -> tuple[str, ...]:
    """Describe one message."""
    answer = ANSWERED_BY.get(message)
    return (
        message.wire_name,
        str(message.__struct_config__.tag),
        "; ".join(fields_of(message)),
        answer.wire_name if answer else "",
        f":class:`~triomq.protocols.tap.{message.__name__}`",
    )


class TapMessages(SphinxDirective):
    """``.. tap-messages:: client`` is the table of the messages of a role."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        role = self.arguments[0]
        columns = ("name", "kind", "fields", "answered by", "type")
        rows = [message_row(message) for message in MESSAGES[role]]
        if role == "server":
            columns, rows = (*columns[:3], columns[4]), [(*row[:3], row[4]) for row in rows]
        return self.parse_text_to_nodes("\n".join(list_table(columns, rows)))


class TapStates(SphinxDirective):
    """``.. tap-states:: server`` is the table of states of a role."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        table = STATES[self.arguments[0]]
        rows = []
        for state, events in table.items():
            for after in dict.fromkeys(events.values()):
                together = ", ".join(event for event, following in events.items() if following == after)
                rows.append((state, together, "the same" if after == state else after))
        return self.parse_text_to_nodes("\n".join(list_table(("in state", "what happens", "leads to"), rows)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("tap-messages", TapMessages)
    app.add_directive("tap-states", TapStates)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
