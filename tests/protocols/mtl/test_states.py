"""The tables of states, held against their words, and against engines that go through all of them."""

from collections.abc import Callable
from typing import Any, get_args

import pytest

from protocols.mtl.wire import (
    MESSAGES,
    OPEN,
    PROFILES,
    ask,
    connected,
    content,
    response,
    sent,
    served,
    session,
)
from triomq.errors import LocalProtocolError
from triomq.protocols.mtl import (
    STATUSES,
    ControlState,
    FlowState,
    IllFormed,
    LeaseClaimed,
    MTLControlServer,
    MTLDataClient,
    MTLDataServer,
    content_suffix,
)
from triomq.protocols.mtl.data_engine import MTLDataEngine
from triomq.protocols.mtl.states import (
    CONTROL_CLIENT,
    CONTROL_REFUSALS,
    CONTROL_SERVER,
    DATA_CLIENT,
    DATA_SERVER,
    ControlTable,
    FlowTable,
)

TABLES: list[tuple[str, Any]] = [
    ("control server", CONTROL_SERVER),
    ("control client", CONTROL_CLIENT),
    ("data server", DATA_SERVER),
    ("data client", DATA_CLIENT),
]


@pytest.mark.parametrize(("side", "table"), TABLES)
def test_every_state_of_a_table_is_known_and_reached(side: str, table: ControlTable | FlowTable) -> None:
    states = get_args(ControlState if side.startswith("control") else FlowState)
    assert set(table) <= set(states)
    reached = {following for row in table.values() for following in row.values()}
    assert reached | {"unknown" if side.startswith("control") else "unleased"} == set(table)


# The server's side of a control session

COMMANDS: dict[str, tuple[str, bytes]] = {
    "Open": ("Connection.Open", OPEN),
    "Authorize": ("Connection.Authorize", b'{"mechanism": "PLAIN"}'),
    "Profile": ("Connection.Profile", b'{"profile": "test"}'),
    "Reader": ("Connection.Reader", b'{"resources": []}'),
    "Writer": ("Connection.Writer", b'{"resources": []}'),
    "Release": ("Connection.Release", b'{"lease": "token"}'),
    "Close": ("Connection.Close", b"{}"),
    "command": ("Queue.Create", b"{}"),
}
ANSWERS: dict[int, Callable[[MTLControlServer], object]] = {
    200: lambda engine: engine.done(),
    201: lambda engine: engine.ready(PROFILES),
    202: lambda engine: engine.grant_lease("lease", 5976),
    401: lambda engine: engine.require_login(),
    402: lambda engine: engine.challenge(b"x"),
    **{
        code: lambda engine, code=code: engine.refuse(code)
        for code in STATUSES
        if code >= 400 and code not in (401, 402)
    },
}
CONTROL_STATES = list(CONTROL_SERVER)


@pytest.mark.parametrize("state", CONTROL_STATES)
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_in_every_state_has_an_owner_or_the_answer_of_the_table(state: ControlState, name: str) -> None:
    found = ask(session(state), *COMMANDS[name])
    if any(event.startswith(f"{name} ") for event in CONTROL_SERVER[state]):
        assert not isinstance(found, int | IllFormed | None)
    else:
        assert found == CONTROL_REFUSALS[state]


@pytest.mark.parametrize("state", CONTROL_STATES)
@pytest.mark.parametrize("name", COMMANDS)
def test_every_answer_goes_where_the_table_says_or_is_none(state: ControlState, name: str) -> None:
    row = CONTROL_SERVER[state]
    if not any(event.startswith(f"{name} ") for event in row):
        return
    for code, answer in ANSWERS.items():
        engine = session(state)
        ask(engine, *COMMANDS[name])
        if (code < 400 and f"{name} {code}" not in row) or (code == 402 and name != "Authorize"):
            with pytest.raises(LocalProtocolError, match="is no"):
                answer(engine)
            assert engine.state == state
            continue
        answer(engine)
        refused = row.get(f"{name} refused", state) if code >= 400 else None
        assert engine.state == row.get(f"{name} {code}", refused)


@pytest.mark.parametrize("state", CONTROL_STATES)
def test_login_that_expires_makes_a_guest_of_who_had_one(state: ControlState) -> None:
    engine = session(state)
    engine.expire()
    assert engine.state == CONTROL_SERVER[state].get("expired", state)
    if state in ("ready", "working"):
        assert ask(engine, "Connection.Profile") == 401


# Data flows


def flow_server(state: FlowState) -> MTLDataServer:
    engine = MTLDataServer(now=0.0) if state == "unleased" else served("reader" if state == "reading" else "writer")
    if state == "closed":
        engine.close()
    assert engine.state == state
    return engine


def flow_client(state: FlowState) -> MTLDataClient:
    engine = connected("reader" if state == "reading" else "writer")
    if state in ("unleased", "claiming"):
        engine = MTLDataClient("writer", confirm="full", now=0.0)
    if state == "claiming":
        engine.claim("abc123")
    if state == "closed":
        engine.close()
    engine.messages_to_send()
    assert engine.state == state
    engine.next_sequence = 100  # so that there is something to confirm
    return engine


SIDES: dict[str, tuple[FlowTable, Callable[[Any], MTLDataEngine[Any]]]] = {
    "server": (DATA_SERVER, flow_server),
    "client": (DATA_CLIENT, flow_client),
}
FLOWS = [(side, state) for side, (table, _) in SIDES.items() for state in table]


@pytest.mark.parametrize(("side", "state"), FLOWS)
@pytest.mark.parametrize("name", MESSAGES)
def test_every_data_command_is_heard_where_the_table_says(side: str, state: FlowState, name: str) -> None:
    table, make = SIDES[side]
    engine = make(state)
    engine.next_sequence = 100
    engine._awaits_pong = True
    event = engine.receive(MESSAGES[name])
    answers = sent(engine)
    assert engine.state == ("writing" if (state, name) == ("claiming", "Response") else state)
    if f"received {name}" in table[state]:
        assert event is not None or answers or name == "Pong"
        assert not isinstance(event, IllFormed)
    elif state == "closed":
        assert (event, answers) == (None, [])
    elif side == "server" and name in ("Summon", "Dismiss", "Content"):
        assert event is None
        assert answers[0][0][:1] in (b"\x02", b"\x07")  # Response, or Reject
    else:
        assert (event, answers) == (IllFormed("unasked"), [])


SAYS: dict[str, Callable[[Any], object]] = {
    "Lease": lambda engine: engine.claim("x"),
    "Response": lambda engine: engine.respond(1, 200),
    "Summon": lambda engine: engine.summon("resource"),
    "Dismiss": lambda engine: engine.dismiss("resource"),
    "Content": lambda engine: engine.send_contents(content_suffix("resource", b"\0\0\0\0"), [b"x"]),
    "Confirm": lambda engine: engine.confirm(1),
    "Reject": lambda engine: engine.reject(1),
}


@pytest.mark.parametrize("state", DATA_CLIENT)
@pytest.mark.parametrize("name", ["Lease", "Summon", "Dismiss", "Content", "Confirm", "Reject"])
def test_client_says_what_the_table_allows(state: FlowState, name: str) -> None:
    engine = flow_client(state)
    if f"sent {name}" in DATA_CLIENT[state]:
        SAYS[name](engine)
        assert [frames[0][0] for frames in sent(engine)] == [MESSAGES[name][0][0]]
        assert engine.state == DATA_CLIENT[state][f"sent {name}"]
    else:
        with pytest.raises(LocalProtocolError, match="has no place"):
            SAYS[name](engine)
        assert sent(engine) == []


@pytest.mark.parametrize("state", DATA_SERVER)
def test_server_says_what_the_table_allows(state: FlowState) -> None:
    row = DATA_SERVER[state]
    engine = flow_server(state)
    engine.respond(1, 200)
    assert bool(sent(engine)) is ("sent Response" in row)
    if "sent Content" in row:
        assert SAYS["Content"](engine) == 1
    else:
        with pytest.raises(LocalProtocolError, match="has no place"):
            SAYS["Content"](engine)
    sent(engine)
    engine.accept([1, 2])
    engine.confirm_contents([1])
    engine.reject_contents([2], recycle=True)
    assert [frames[0][0] for frames in sent(engine)] == ([6, 7] if "sent Confirm" in row else [])


@pytest.mark.parametrize("state", DATA_SERVER)
def test_lease_is_granted_once_and_taken_back(state: FlowState) -> None:
    engine = flow_server(state)
    if state != "unleased":
        with pytest.raises(LocalProtocolError, match="granted already"):
            engine.grant(LeaseClaimed(1, "x"), "reader", (), confirm="none")
    engine.revoke()
    assert engine.state == DATA_SERVER[state].get("revoked", state)
    if engine.state == "unleased":
        assert engine.receive(content(1)) is None
        assert sent(engine) == [response(1, 403)]
