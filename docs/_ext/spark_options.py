"""Draw the tables of options of Spark's source and sink from the Structs that read them, and from their docstrings.

Another draws what there is for options of other sources and sinks, from the table that errors are made of too.
"""

import types
import typing
from collections.abc import Iterator

import msgspec
from amqp_tables import list_table
from config_keys import WORDS, meanings
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from triomq.pipeline.foreign_options import FOREIGN_OPTIONS
from triomq.pipeline.options import ConnectionOptions
from triomq.pipeline.sink_options import SparkSinkOptions
from triomq.pipeline.source_options import SparkSourceOptions

STRUCTS: dict[str, type[ConnectionOptions]] = {
    "connection": ConnectionOptions,
    "source": SparkSourceOptions,
    "sink": SparkSinkOptions,
}
"""What the directive takes, and the Struct that it stands for; what both have in common is shown once."""


def takes(kind: object) -> str:
    """Return what an option may be."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return " or ".join(f"``{choice}``" for choice in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(takes(member) for member in arguments if member is not type(None))
    if origin is not typing.Annotated:
        return WORDS[typing.cast("type", kind)]
    plain, meta = arguments
    least = f" from {meta.ge:,}" if meta.ge is not None else " above 0" if meta.gt is not None else ""
    return WORDS[plain] + least


def default(value: object) -> str:
    """Return what holds when an option is not there."""
    if value in ("", None):
        return "none"
    return f"``{msgspec.json.encode(value).decode()}``" if not isinstance(value, str) else f"``{value}``"


def rows(struct: type[ConnectionOptions]) -> Iterator[tuple[str, ...]]:
    """Describe each option of a Struct that is not in all."""
    texts = meanings(struct)
    common = set() if struct is ConnectionOptions else {*ConnectionOptions.__struct_fields__}
    for field in msgspec.structs.fields(struct):
        if field.name not in common:
            yield f"``{field.encode_name}``", texts[field.name], takes(field.type), default(field.default)


class SparkOptions(SphinxDirective):
    """``.. spark-options:: source`` is the table of the options that the source has beside the common ones."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        lines = list_table(("option", "meaning", "takes", "by default"), rows(STRUCTS[self.arguments[0]]))
        return self.parse_text_to_nodes("\n".join(lines))


class ForeignOptions(SphinxDirective):
    """``.. foreign-options:: source`` is the table of what there is for options of Kafka's source."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        found = [option for option in FOREIGN_OPTIONS if option.group == self.arguments[0]]
        names = [
            ", ".join(f"``{name}{'…' if name.endswith('.') else ''}``" for name in option.names) for option in found
        ]
        answers = [option.answer or "the same" for option in found]
        lines = list_table(("there", "here"), zip(names, answers, strict=True))
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("spark-options", SparkOptions)
    app.add_directive("foreign-options", ForeignOptions)
    return {"parallel_read_safe": True}
