"""The tables of states, held against their words, and against engines that go through all of them."""

from contextlib import suppress
from typing import get_args

import pytest

from protocols.emqp.wire import ANNOUNCED, CALL, frames, hear, opened, sent, serving
from triomq.errors import LocalProtocolError
from triomq.protocols.emqp import NO_HEADERS, BrokerEngine, Extension, JobState, MessageDropped, PeerEngine, Role
from triomq.protocols.emqp.engine import EMQPEngine
from triomq.protocols.emqp.reader import COMMANDS
from triomq.protocols.emqp.states import BROKER, BROKER_STALE, PEER_STALE, PEERS, State, StateTable

TABLES: list[tuple[str, StateTable]] = [("broker", BROKER), *PEERS.items()]
ROLES = get_args(Role)
NUMBERED = Extension(number=1)

MESSAGES = {
    "INFORM client": frames(b"INFORM", b"", b"client", ANNOUNCED),
    "INFORM worker": frames(b"INFORM", b"", b"worker", ANNOUNCED),
    "INFORM scheduler": frames(b"INFORM", b"", b"scheduler", ANNOUNCED),
    "ACK-of-INFORM": frames(b"ACK", b"p-1", ANNOUNCED),
    "ACK-of-a-command": frames(b"ACK", b"other"),
    "REPLY": frames(b"REPLY", b"1", b"x"),
    "ERROR": frames(b"ERROR", b"x", b"full", b"text"),
    "HEARTBEAT": frames(b"HEARTBEAT", b"1"),
    "READY": frames(b"READY"),
    "REQUEST": frames(b"REQUEST", b"q", b"", CALL),
    "PUBLISH": frames(b"PUBLISH", b"t", b"", b"1"),
    "SCHEDULE": frames(b"SCHEDULE", b"q", b"", b"5", CALL, b""),
    "UNSCHEDULE": frames(b"UNSCHEDULE", b"q", b"", b"-1", CALL, b""),
    "SUBSCRIBE": frames(b"SUBSCRIBE", b"t"),
    "UNSUBSCRIBE": frames(b"UNSUBSCRIBE", b"t"),
    "PROGRESS": frames(b"PROGRESS", b"x", b"1"),
    "CANCEL": frames(b"CANCEL", b"x"),
    "RETURN": frames(b"RETURN", b'["x"]'),
    "STATE": frames(b"STATE", b'["x"]', b'{"state":"ok"}'),
    "KBAI": frames(b"KBAI"),
}
for name in ("DISCONNECT", "STATUS", "ROUTER_SHOW_WORKERS", "ROUTER_SHOW_SCHEDULERS", "HELLO"):
    MESSAGES[name] = frames(name.encode())
"""One message for each event of the tables that begins with "received"."""


def engine_in(side: str, state: State) -> EMQPEngine:
    """Bring an engine into a state, by ways that the other tests show."""
    engine: EMQPEngine
    if side == "broker":
        engine = serving(state) if state in ROLES else serving("worker")
        if state == "guest":
            engine = BrokerEngine(lambda: b"b-1", now=0.0, unix_time=0.0)
    else:
        engine = opened(side, new_id=lambda: b"p-1")  # type: ignore[arg-type]
        if state == "informing":
            engine.receive(frames(b"ERROR", b"x", b"inform", b""))
    if state == "left":
        engine.receive(MESSAGES["KBAI"])
    elif state == "leaving":
        engine.leave()
    elif state == "closed":
        engine.close()
    sent(engine)
    assert engine.state == state
    return engine


WHERE_IT_CAN = {("broker", name) for name in ("PROGRESS", "CANCEL", "STATE")}
"""What a broker says to those that understand it, and is told whether they do."""

ROWS = [(side, table, state) for side, table in TABLES for state in table]


@pytest.mark.parametrize(("side", "table"), TABLES)
def test_every_state_of_a_table_is_known_and_reached(side: str, table: StateTable) -> None:
    assert set(table) <= set(get_args(State))
    reached = {following for row in table.values() for following in row.values()}
    assert reached | {"guest" if side == "broker" else "informing"} == set(table)


def test_tables_have_all_states_and_all_commands() -> None:
    assert {state for _, table in TABLES for state in table} == set(get_args(State))
    events = {event for _, table in TABLES for row in table.values() for event in row}
    assert {event.removeprefix("received ") for event in events if event.startswith("received ")} == set(MESSAGES)
    assert {row.received.split()[1] for row in COMMANDS.values()} == {
        name.split()[0].removesuffix("-of-INFORM").removesuffix("-of-a-command") for name in MESSAGES
    }


@pytest.mark.parametrize(("side", "table", "state"), ROWS)
def test_every_message_in_every_state_goes_where_the_table_says(side: str, table: StateTable, state: State) -> None:
    stale = BROKER_STALE if side == "broker" else PEER_STALE
    for name, message in MESSAGES.items():
        engine = engine_in(side, state)
        event = engine.receive(message)
        assert engine.state == table[state].get(f"received {name}", state), name
        in_order = f"received {name}" in table[state]
        is_stale = state == "closed" or f"received {name}" in stale.get(state, ())
        assert isinstance(event, MessageDropped) is not (in_order or is_stale), name
        if is_stale:
            assert event is None
            assert sent(engine) == []


def say(engine: EMQPEngine, name: str) -> None:
    """Have an engine say a command, in whichever way its side does."""
    if name == "DISCONNECT":
        engine.disconnect()
    elif name == "KBAI":
        engine.leave()
    elif isinstance(engine, BrokerEngine):
        commands = {
            "ACK": lambda: engine.acknowledge(b"x"),
            "ERROR": lambda: engine.refuse(b"x", "full", "text"),
            "REPLY": lambda: engine.reply(b"x", b"1"),
            "REQUEST": lambda: engine.request(b"x", "q", NO_HEADERS, b"1"),
            "PROGRESS": lambda: engine.progress(b"x", b"1", NUMBERED),
            "CANCEL": lambda: engine.cancel(b"x"),
            "STATE": lambda: engine.report_state(b"x", JobState(state="ok")),
            "PUBLISH": lambda: engine.publish("t", b"1"),
            "SCHEDULE": lambda: engine.schedule("q", NO_HEADERS, b"1", interval=1),
            "UNSCHEDULE": lambda: engine.schedule("q", NO_HEADERS, b"1", ends=True),
        }
        commands[name]()
    else:
        assert isinstance(engine, PeerEngine)
        commands = {
            "READY": lambda: engine.ready(2),
            "REPLY": lambda: engine.reply(b"x", b"1"),
            "REQUEST": lambda: engine.request("q", b"1"),
            "PUBLISH": lambda: engine.publish("t", b"1"),
            "SCHEDULE": lambda: engine.schedule("q", b"1", interval=1),
            "UNSCHEDULE": lambda: engine.schedule("q", b"1", ends=True),
            "SUBSCRIBE": lambda: engine.subscribe("t"),
            "UNSUBSCRIBE": lambda: engine.unsubscribe("t"),
            "PROGRESS": lambda: engine.progress(b"x", b"1", NUMBERED),
            "CANCEL": lambda: engine.cancel(b"x"),
            "RETURN": lambda: engine.give_back([b"x"]),
            "STATE": lambda: engine.ask_states([b"x"]),
        }
        commands[name]() if name in commands else engine.ask(name)  # type: ignore[arg-type]


@pytest.mark.parametrize(("side", "table", "state"), ROWS)
def test_every_command_in_every_state_is_sent_or_dropped_or_a_mistake(
    side: str, table: StateTable, state: State
) -> None:
    everywhere = {event for row in table.values() for event in row if event.startswith("sent ")}
    for event in everywhere - {"sent HEARTBEAT", "sent INFORM"}:  # which are the timers' and the engine's own
        engine = engine_in(side, state)
        name = event.removeprefix("sent ")
        if event in table[state] and (state, name) != ("guest", "ERROR"):  # which has no extensions
            say(engine, name)
            assert {message[2].decode() for message in sent(engine)} - {"KBYE"} == {name}
            assert engine.state == table[state][event]
        elif state in ("leaving", "left", "closed") or name in ("ERROR", "KBAI") or (side, name) in WHERE_IT_CAN:
            with suppress(LocalProtocolError):  # what hands over a job
                say(engine, name)
            assert sent(engine) == []
        else:
            with pytest.raises(LocalProtocolError, match="has no place"):
                say(engine, name)


@pytest.mark.parametrize(("side", "table"), TABLES)
def test_every_state_may_be_lost_but_the_last(side: str, table: StateTable) -> None:
    for state, row in table.items():
        assert (state == "closed") is not ("lost" in row)


def test_events_of_the_table_that_are_no_commands_are_lost_unanswered_and_unknown() -> None:
    events = {event for _, table in TABLES for row in table.values() for event in row}
    assert {event for event in events if " " not in event} == {"lost", "unanswered", "unknown"}


def test_a_message_of_no_table_hears_nothing_after_the_end() -> None:
    engine = serving()
    engine.close()
    assert hear(engine, [*MESSAGES.values(), (b"",), frames(b"INFORM")]) == []
    assert engine.outbox.finished
