"""The tables of states, held against their words."""

from typing import get_args

import pytest

from triomq.protocols.zmtp.states import CLIENT, HOLDING, SERVER, UNTIL_OPEN, Mechanism, State, StateTable

TABLES = [table for tables in (SERVER, CLIENT) for table in tables.values()]
every = pytest.mark.parametrize("table", TABLES)


@every
def test_every_state_of_a_table_can_be_reached(table: StateTable) -> None:
    reached = {following for row in table.values() for following in row.values()}
    assert reached | {"signature"} == set(table)


def test_every_state_stands_in_a_table_and_is_of_one_kind() -> None:
    assert {state for table in TABLES for state in table} == set(get_args(State))
    assert UNTIL_OPEN | HOLDING | {"open", "closed"} == set(get_args(State))
    assert set(SERVER) == set(CLIENT) == set(get_args(Mechanism))


@every
def test_every_state_may_end_but_the_last(table: StateTable) -> None:
    for state, row in table.items():
        for event in ("received end", "found fault", "received ERROR", "lost"):
            assert (state == "closed") is not (event in row)


@every
def test_states_that_hold_are_left_by_our_own_side_alone(table: StateTable) -> None:
    for state in HOLDING & set(table):
        assert {event for event in table[state] if event.startswith("received ")} == {"received end", "received ERROR"}
