"""The tables of states are closed, and every method in them exists."""

from typing import get_args

import pytest

from triomq.protocols.amqp import METHODS
from triomq.protocols.amqp.states import CHANNEL, CLIENT, SERVER, ChannelPhase, ConnectionState

TABLES = {"server": SERVER, "client": CLIENT, "channel": CHANNEL}


@pytest.mark.parametrize("name", TABLES)
def test_every_state_can_be_reached_and_is_named(name: str) -> None:
    table, known = TABLES[name], set(get_args(ChannelPhase if name == "channel" else ConnectionState))
    first = "closed" if name == "channel" else "waiting"
    reached, look = {first}, [first]
    while look:
        for state in table[look.pop()].values():
            if state not in reached:
                reached.add(state)
                look.append(state)
    assert reached == set(table)
    assert reached <= known


@pytest.mark.parametrize("name", TABLES)
def test_events_are_methods_that_the_right_side_sends(name: str) -> None:
    senders = {row.name: row.sender for row in METHODS} | {"protocol header": "client"}
    for events in TABLES[name].values():
        for event in events:
            verb, _, method = event.partition(" ")
            assert verb in ("sent", "received")
            if name != "channel":
                ours = name if verb == "sent" else ("client" if name == "server" else "server")
                assert senders[method] in (ours, "both"), event


def test_events_that_one_role_sends_the_other_may_receive() -> None:
    server = {event for row in SERVER.values() for event in row}
    client = {event for row in CLIENT.values() for event in row}
    # The protocol header brings start, and close brings close-ok: these need no event of their own.
    implied = {"sent connection.start", "sent connection.close-ok"}
    for ours, theirs in ((server, client), (client, server)):
        sent = {event.removeprefix("sent ") for event in ours | implied if event.startswith("sent ")}
        received = {event.removeprefix("received ") for event in theirs if event.startswith("received ")}
        assert received - {"protocol header"} <= sent
