"""Every client of ours comes back by itself when its network breaks, loses nothing that was confirmed, and says so."""

import pytest

from clients.network.kinds import KINDS, Kind
from clients.network.table import BLACK_HOLE, FAULTS, STATES, Fault, State, try_all, why_not

CELLS = [
    pytest.param(fault, kind, state, id=f"{fault.name}-{kind.name}-{state}")
    for fault in FAULTS
    for kind in KINDS
    for state in STATES
    if not why_not(kind, fault, state)
]


@pytest.mark.parametrize(("fault", "kind", "state"), CELLS)
def test_client_is_back_by_itself_and_nothing_confirmed_is_lost(fault: Fault, kind: Kind, state: State) -> None:
    seen = try_all(fault)[kind.name, state]
    assert not seen.error, seen.error
    if fault is BLACK_HOLE and kind.logs:
        assert seen.said
