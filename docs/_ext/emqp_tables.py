"""Draw the states of eMQP's conversations, and its commands, from the tables that the engine obeys."""

from itertools import groupby

from amqp_tables import list_table
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from triomq.protocols.emqp.reader import COMMANDS
from triomq.protocols.emqp.states import BROKER, BROKER_STALE, PEER_STALE, PEERS, Stale, State, StateTable

STATES: dict[str, tuple[StateTable, Stale]] = {
    "broker": (BROKER, BROKER_STALE),
    **{role: (table, PEER_STALE) for role, table in PEERS.items()},
}


def words(direction: str, events: list[str]) -> str:
    """Name the commands of some events: those received, those sent, or what is neither."""
    named = [event.removeprefix(direction).replace("-", " ") for event in events if event.startswith(direction)]
    return ", ".join(f"``{name}``" for name in named) if direction else ", ".join(named)


def state_rows(table: StateTable, stale: Stale) -> list[tuple[str, str, str, str, str]]:
    """Return a row for each state and each one that it leads to."""
    rows = []
    for state, events in table.items():
        ordered = sorted(events, key=lambda event: (events[event] != state, list(table).index(events[event])))
        for after, group in groupby(ordered, key=lambda event: events[event]):
            together = list(group)
            other = [event for event in together if " " not in event]
            named = [words("received ", together), words("sent ", together), words("", other)]
            rows.append((state, *named, "the same" if after == state else after))
        if dropped := sorted(name for name in stale.get(state, ()) if _is_heard(table, name)):
            rows.append((state, words("received ", dropped), "", "", "passed over"))
    return rows


def _is_heard(table: StateTable, event: str) -> bool:
    """Tell whether a side hears that in any state: what is stale is said for all roles at once."""
    return any(event in events for events in table.values())


class EMQPStates(SphinxDirective):
    """``.. emqp-states:: broker`` is the table of a broker with one peer, or of a peer by its role."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        columns = ("in state", "received", "sent", "or", "leads to")
        return self.parse_text_to_nodes("\n".join(list_table(columns, state_rows(*STATES[self.arguments[0]]))))


def sides(received: str) -> str:
    """Say who hears a command."""
    tables: dict[str, StateTable] = {"broker": BROKER, **PEERS}
    hearing = [side for side, table in tables.items() if any(_matches(received, row) for row in table.values())]
    return "all" if len(hearing) == len(tables) else ", ".join(hearing)


def _matches(received: str, row: dict[str, State] | object) -> bool:
    return isinstance(row, dict) and any(
        event == received or event.startswith((f"{received} ", f"{received}-")) for event in row
    )


class EMQPCommands(SphinxDirective):
    """``.. emqp-commands::`` is the table of commands: who hears each, and with how many frames at least."""

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        rows = [(f"``{name.decode()}``", sides(row.received), str(row.least)) for name, row in COMMANDS.items()]
        return self.parse_text_to_nodes("\n".join(list_table(("command", "heard by", "frames, at least"), rows)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("emqp-states", EMQPStates)
    app.add_directive("emqp-commands", EMQPCommands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
