"""Draw the states of HTTP connections from the tables that the engine obeys."""

from amqp_tables import StatesTable
from sphinx.application import Sphinx

from triomq.protocols.http1.states import CLIENT, SERVER, StateTable

STATES: dict[str, StateTable] = {"server": SERVER, "client": CLIENT}


class HTTPStates(StatesTable):
    """``.. http-states:: server`` is the table of states of a role."""

    states = STATES


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("http-states", HTTPStates)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
