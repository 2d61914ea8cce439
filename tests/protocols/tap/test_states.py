"""The tables of states, held against their words and the messages."""

from typing import get_args

import pytest

from triomq.protocols.tap import CLIENT_MESSAGES, SERVER_MESSAGES, TapMessage
from triomq.protocols.tap.states import CLIENT, HOLDING, SERVER, Role, State, StateTable

both = pytest.mark.parametrize("table", [SERVER, CLIENT])


@both
def test_every_state_has_a_row_or_belongs_to_the_other_role(table: StateTable) -> None:
    assert set(table) <= set(get_args(State))
    assert set(SERVER) | set(CLIENT) == set(get_args(State))
    reached = {following for row in table.values() for following in row.values()}
    assert reached | {"greeting"} == set(table)


@both
def test_every_state_may_end_but_the_last(table: StateTable) -> None:
    for state, row in table.items():
        assert (state == "closed") is not ("received end" in row)
        assert (state == "closed") is not ("found fault" in row)


@pytest.mark.parametrize(
    ("table", "received", "sent"),
    [(SERVER, CLIENT_MESSAGES, SERVER_MESSAGES), (CLIENT, SERVER_MESSAGES, CLIENT_MESSAGES)],
)
def test_every_message_has_a_place(
    table: StateTable, received: tuple[type[TapMessage], ...], sent: tuple[type[TapMessage], ...]
) -> None:
    events = {event for row in table.values() for event in row}
    assert {f"received {message.wire_name}" for message in received} == {
        e for e in events if e.startswith("received ")
    } - {"received end"}
    # Greetings are sent by the engine itself: a client's before anything, a server's when it has heard the client's.
    assert {f"sent {message.wire_name}" for message in sent} - {"sent GREETING"} == {
        e for e in events if e.startswith("sent ")
    }


@pytest.mark.parametrize(("role", "table"), [("server", SERVER), ("client", CLIENT)])
def test_states_that_hold_are_left_by_our_own_side_alone(role: Role, table: StateTable) -> None:
    for state in HOLDING[role]:
        received = [event for event in table[state] if event.startswith("received ")]
        assert set(received) <= {"received end", "received CLOSE"}
