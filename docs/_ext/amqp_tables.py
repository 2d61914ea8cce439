"""Draw the AMQP reference from the tables that the engine obeys: its methods and its states."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from triomq.protocols.amqp.codec import MethodLayout
from triomq.protocols.amqp.control import BROKER_METHODS
from triomq.protocols.amqp.states import CHANNEL, CLIENT, SERVER, StateTable

STATES: dict[str, StateTable] = {"server": SERVER, "client": CLIENT, "channel": CHANNEL}


def list_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Write a table in reStructuredText."""
    yield from (".. list-table::", "   :header-rows: 1", "")
    for row in (columns, *rows):
        for index, cell in enumerate(row):
            yield f"   {'* -' if index == 0 else '  -'} {cell}"
    yield ""


def method_row(layout: MethodLayout) -> tuple[str, ...]:
    """Describe one method."""
    row = layout.row
    fields = ", ".join(f"``{field.name}`` ({field.domain})" for field in layout.fields if not field.reserved)
    return (
        row.name,
        str(row.method_id),
        row.sender,
        fields + (" + content" if row.content else ""),
        ", ".join(row.replies),
        f":class:`~triomq.protocols.amqp.{row.method.__name__}`",
    )


class AMQPMethods(SphinxDirective):
    """``.. amqp-methods::`` is one table per class of methods."""

    def run(self) -> list[nodes.Node]:
        """Write the tables."""
        lines: list[str] = []
        columns = ("method", "number", "sent by", "fields", "answered by", "type")
        for class_id, layouts in groupby(BROKER_METHODS.layouts, lambda layout: layout.row.class_id):
            rows = list(layouts)
            lines += [f".. rubric:: {rows[0].row.name.split('.')[0]}, class {class_id}", ""]
            lines += list_table(columns, map(method_row, rows))
        return self.parse_text_to_nodes("\n".join(lines))


class StatesTable(SphinxDirective):
    """The table of states of a role, as an engine obeys it."""

    required_arguments = 1
    states: ClassVar[Mapping[str, Mapping[str, Mapping[str, str]]]]

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        table = self.states[self.arguments[0]]
        rows = [(state, event, after) for state, events in table.items() for event, after in events.items()]
        return self.parse_text_to_nodes("\n".join(list_table(("in state", "what happens", "leads to"), rows)))


class AMQPStates(StatesTable):
    """``.. amqp-states:: server`` is the table of states of a role, or of a channel."""

    states = STATES


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("amqp-methods", AMQPMethods)
    app.add_directive("amqp-states", AMQPStates)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
