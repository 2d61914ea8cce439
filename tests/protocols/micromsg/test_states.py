"""The tables of states: each state can be reached and left, and both sides have the same ones."""

from typing import get_args

import pytest

from triomq.protocols.micromsg.states import CLIENT, SERVER, State, StateTable


@pytest.mark.parametrize("table", [SERVER, CLIENT], ids=["server", "client"])
def test_each_state_can_be_reached_and_ends(table: StateTable) -> None:
    reached, waiting = {"hello"}, ["hello"]
    while waiting:
        for following in table[waiting.pop()].values():  # type: ignore[index]
            if following not in reached:
                reached.add(following)
                waiting.append(following)
    assert reached == set(table)
    for state, events in table.items():
        assert set(events.values()) <= set(get_args(State))
        assert state == "closed" or {"received ERROR", "sent ERROR", "received end", "found fault", "lost"} <= set(
            events
        )


def test_what_one_side_sends_the_other_receives() -> None:
    for table, other in ((SERVER, CLIENT), (CLIENT, SERVER)):
        sent = {
            event.removeprefix("sent ") for events in table.values() for event in events if event.startswith("sent")
        }
        received = {event.removeprefix("received ") for events in other.values() for event in events}
        assert sent <= received
