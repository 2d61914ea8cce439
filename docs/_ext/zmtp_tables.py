"""Draw the states of a ZMTP connection from the tables that the engine obeys."""

from amqp_tables import StatesTable
from sphinx.application import Sphinx

from triomq.protocols.zmtp.states import CLIENT, SERVER

STATES = {
    f"{role}-{mechanism.lower()}": table
    for role, tables in (("server", SERVER), ("client", CLIENT))
    for mechanism, table in tables.items()
}


class ZMTPStates(StatesTable):
    """``.. zmtp-states:: server-plain`` is the table of states of a role with a mechanism."""

    states = STATES


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("zmtp-states", ZMTPStates)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
