"""The tables of states, held against their words."""

from typing import get_args

import pytest

from triomq.protocols.dmp.states import CLIENT, SERVER, State, StateTable


@pytest.mark.parametrize("table", [SERVER, CLIENT])
def test_every_state_has_a_row_or_belongs_to_the_other_role(table: StateTable) -> None:
    assert set(table) <= set(get_args(State))
    assert set(SERVER) | set(CLIENT) == set(get_args(State))
    reached = {following for row in table.values() for following in row.values()}
    assert reached | {"waiting"} == set(table)


@pytest.mark.parametrize("table", [SERVER, CLIENT])
def test_every_state_may_end_but_the_last(table: StateTable) -> None:
    for state, row in table.items():
        assert (state == "closed") is not ("received end" in row)
        assert (state == "closed") is not ("found fault" in row)
