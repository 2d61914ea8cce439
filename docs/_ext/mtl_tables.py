"""Draw the states of MTL's control sessions and data flows, and its codes, from the tables that the engines obey."""

from collections.abc import Mapping
from itertools import groupby

from amqp_tables import list_table
from docutils import nodes
from emqp_tables import words
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from triomq.protocols.mtl.codes import FAULT_REASONS, STATUSES
from triomq.protocols.mtl.states import CONTROL_CLIENT, CONTROL_REFUSALS, CONTROL_SERVER, DATA_CLIENT, DATA_SERVER

SESSIONS: dict[str, Mapping[str, Mapping[str, str]]] = {"server": CONTROL_SERVER, "client": CONTROL_CLIENT}
FLOWS: dict[str, Mapping[str, Mapping[str, str]]] = {"server": DATA_SERVER, "client": DATA_CLIENT}


def grouped(table: Mapping[str, Mapping[str, str]]) -> list[tuple[str, list[str], str]]:
    """Return each state, events that lead from it to one and the same, and that."""
    rows = []
    for state, events in table.items():
        ordered = sorted(events, key=lambda event: (events[event] != state, list(table).index(events[event])))
        for after, group in groupby(ordered, key=lambda event: events[event]):
            rows.append((state, list(group), "the same" if after == state else after))
    return rows


class MTLSessions(SphinxDirective):
    """``.. mtl-session:: server`` is the table of a control session, as one side sees it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        rows = [
            (state, ", ".join(f"``{event}``" for event in events), after)
            for state, events, after in grouped(SESSIONS[self.arguments[0]])
        ]
        return self.parse_text_to_nodes("\n".join(list_table(("in state", "command and answer", "leads to"), rows)))


class MTLFlows(SphinxDirective):
    """``.. mtl-flow:: server`` is the table of a data flow, as one side sees it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        rows = []
        for state, events, after in grouped(FLOWS[self.arguments[0]]):
            other = ", ".join(event for event in events if not event.startswith(("received ", "sent ")))
            rows.append((state, words("received ", events), words("sent ", events), other, after))
        columns = ("in state", "received", "sent", "or", "leads to")
        return self.parse_text_to_nodes("\n".join(list_table(columns, rows)))


class MTLCodes(SphinxDirective):
    """``.. mtl-codes::`` is the table of the codes of replies."""

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        rows = [(str(code), status) for code, status in STATUSES.items()]
        return self.parse_text_to_nodes("\n".join(list_table(("code", "status"), rows)))


class MTLFaults(SphinxDirective):
    """``.. mtl-faults::`` is the table of reasons for which messages are dropped."""

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        rows = [(f"``{reason}``", meaning) for reason, meaning in FAULT_REASONS.items()]
        return self.parse_text_to_nodes("\n".join(list_table(("reason", "what it means"), rows)))


class MTLRefusals(SphinxDirective):
    """``.. mtl-refusals::`` is the table of answers to commands that have no place in a state."""

    def run(self) -> list[nodes.Node]:
        """Write the table."""
        rows = [(state, str(code)) for state, code in CONTROL_REFUSALS.items()]
        return self.parse_text_to_nodes("\n".join(list_table(("in state", "answer"), rows)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("mtl-session", MTLSessions)
    app.add_directive("mtl-flow", MTLFlows)
    app.add_directive("mtl-codes", MTLCodes)
    app.add_directive("mtl-faults", MTLFaults)
    app.add_directive("mtl-refusals", MTLRefusals)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
