"""Draw the states of direct connections from the tables that the engine obeys."""

from amqp_tables import list_table
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from triomq.protocols.dmp.states import CLIENT, SERVER, StateTable

STATES: dict[str, StateTable] = {"server": SERVER, "client": CLIENT}


class DMPStates(SphinxDirective):
    """``.. dmp-states:: server`` is the table of states of a role."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        table = STATES[self.arguments[0]]
        rows = [(state, event, after) for state, events in table.items() for event, after in events.items()]
        return self.parse_text_to_nodes("\n".join(list_table(("in state", "what happens", "leads to"), rows)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("dmp-states", DMPStates)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
