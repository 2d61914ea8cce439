"""Draw the states of a MicroMsg2 connection from the tables that the engine obeys."""

from amqp_tables import list_table
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from triomq.protocols.micromsg.states import CLIENT, SERVER, StateTable

STATES: dict[str, StateTable] = {"server": SERVER, "client": CLIENT}
COLUMNS = ("in state", "received", "sent", "otherwise", "leads to")


def words(direction: str, events: list[str]) -> str:
    """Name what is received, what is sent, or what is neither."""
    return ", ".join(event.removeprefix(direction).lstrip() for event in events if event.startswith(direction))


def rows(table: StateTable) -> list[tuple[str, ...]]:
    """Return a row for each state and each one that it leads to."""
    found = []
    for state, events in table.items():
        for after in dict.fromkeys(events.values()):
            together = [event for event, following in events.items() if following == after]
            other = ", ".join(event for event in together if event.split()[0] not in ("received", "sent"))
            leads = "the same" if after == state else after
            found.append((state, words("received", together), words("sent", together), other, leads))
    return found


class MicroMsgStates(SphinxDirective):
    """``.. micromsg-states:: server`` is the table of states of a role."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        return self.parse_text_to_nodes("\n".join(list_table(COLUMNS, rows(STATES[self.arguments[0]]))))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("micromsg-states", MicroMsgStates)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
