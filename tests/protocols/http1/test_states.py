"""The tables of states are whole."""

import pytest

from triomq.protocols.http1.states import CLIENT, READS, SERVER, StateTable

TABLES = pytest.mark.parametrize("table", [SERVER, CLIENT], ids=["server", "client"])


@TABLES
def test_each_state_is_reached_and_leads_on(table: StateTable) -> None:
    reached = {after for events in table.values() for after in events.values()}
    assert reached == set(table)
    assert all(events or state == "closed" for state, events in table.items())


@TABLES
def test_each_state_may_end(table: StateTable) -> None:
    for state, events in table.items():
        assert state == "closed" or events["found fault"] == "closed"


def test_state_that_reads_ends_with_the_stream() -> None:
    assert {state for state, events in SERVER.items() if "received end" in events} == READS
