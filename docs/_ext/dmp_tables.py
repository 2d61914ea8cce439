"""Draw the states of direct connections from the tables that the engine obeys."""

from amqp_tables import StatesTable
from sphinx.application import Sphinx

from triomq.protocols.dmp.states import CLIENT, SERVER, StateTable

STATES: dict[str, StateTable] = {"server": SERVER, "client": CLIENT}


class DMPStates(StatesTable):
    """``.. dmp-states:: server`` is the table of states of a role."""

    states = STATES


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("dmp-states", DMPStates)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
