"""A client's side of a control session."""

from typing import Any

import msgspec
import pytest

from protocols.mtl.wire import MECHANISMS, PROFILES
from triomq.errors import LocalProtocolError
from triomq.protocols.mtl import (
    ControlClientEvent,
    DataLeased,
    Frames,
    IllFormed,
    LoginRequired,
    MTLControlClient,
    MTLControlServer,
    OpenReceived,
    ReplyReceived,
    SASLChallenged,
    SessionReady,
)


def reply(engine: MTLControlClient, frames: Frames, code: int, fields: dict[str, Any]) -> ControlClientEvent:
    """Answer a command that an engine has written."""
    return engine.receive((*frames[:-2], b"%d" % code, msgspec.json.encode(fields)))


def ready() -> MTLControlClient:
    engine = MTLControlClient()
    reply(engine, engine.open("/"), 201, {"profiles": PROFILES})
    return engine


def working() -> MTLControlClient:
    engine = ready()
    reply(engine, engine.choose_profile("test"), 200, {})
    return engine


def test_commands_stand_as_the_specification_writes_them() -> None:
    engine = MTLControlClient()
    frames = engine.open("test-env")
    assert frames[1:3] == (b"", b"Connection.Open")
    assert msgspec.json.decode(frames[3]) == {"protocol": {"name": "MTL", "version": 1}, "virtual-host": "test-env"}
    assert reply(engine, frames, 401, {"mechanisms": MECHANISMS}) == LoginRequired(MECHANISMS)
    frames = engine.authorize("SCRAM-SHA-256", None)
    assert frames[2:] == (b"Connection.Authorize", b'{"mechanism":"SCRAM-SHA-256"}')
    challenged = reply(engine, frames, 402, {"mechanism": "SCRAM-SHA-256", "challenge": "eA=="})
    assert challenged == SASLChallenged("SCRAM-SHA-256", b"x")
    frames = engine.authorize("SCRAM-SHA-256", b"")
    assert frames[3] == b'{"mechanism":"SCRAM-SHA-256","response":""}'
    assert reply(engine, frames, 201, {"profiles": PROFILES}) == SessionReady(PROFILES)
    frames = engine.choose_profile("test")
    assert frames[2:] == (b"Connection.Profile", b'{"profile":"test"}')
    assert reply(engine, frames, 200, {"status": "OK"}) == ReplyReceived(200, "", {"status": "OK"})
    frames = engine.ask_lease("reader", ["a"], "full", 10)
    assert frames[2:] == (b"Connection.Reader", b'{"resources":["a"],"confirm":"full","prefetch":10}')
    assert reply(engine, frames, 202, {"port": 5976, "lease": "token"}) == DataLeased("token", 5976, "")
    frames = engine.ask_lease("writer", [], "none")
    assert frames[2:] == (b"Connection.Writer", b'{"resources":[],"confirm":"none"}')
    assert reply(engine, frames, 202, {"lease": "token", "endpoint": "ipc:///x"}) == DataLeased("token", 0, "ipc:///x")
    frames = engine.ask_lease("writer", [], "none", lease="token")
    assert frames[2:] == (b"Connection.Writer", b'{"resources":[],"confirm":"none","lease":"token"}')
    reply(engine, frames, 202, {"port": 1, "lease": "token"})
    frames = engine.release("token")
    assert frames[2:] == (b"Connection.Release", b'{"lease":"token"}')
    reply(engine, frames, 200, {})
    frames = engine.call("Queue.Create", {"name": "q"})
    assert frames[2:] == (b"Queue.Create", b'{"name":"q"}')
    refused = {"status": "Conflict", "reason": "it is durable"}
    assert reply(engine, frames, 409, refused) == ReplyReceived(409, "it is durable", refused)
    frames = engine.close()
    assert frames[2:] == (b"Connection.Close", b"{}")
    reply(engine, frames, 200, {})
    assert engine.state == "unknown"


def test_reply_that_comes_late_is_told_from_the_next_one() -> None:
    engine = working()
    first = engine.call("Queue.List", {})
    with pytest.raises(LocalProtocolError, match="not answered"):
        engine.call("Queue.Stats", {})
    engine.give_up()
    assert reply(engine, first, 200, {}) == IllFormed("late")
    second = engine.call("Queue.Stats", {})
    assert second[0] != first[0]
    assert reply(engine, first, 200, {}) == IllFormed("late")
    assert isinstance(reply(engine, second, 200, {}), ReplyReceived)
    assert reply(engine, second, 200, {}) == IllFormed("late")


def test_login_that_is_wanted_at_any_time_begins_the_session_anew() -> None:
    engine = working()
    assert reply(engine, engine.call("Queue.List", {}), 401, {"mechanisms": []}) == LoginRequired(())
    assert engine.state == "unknown"
    assert engine.open("/")


def test_command_that_has_no_place_is_our_own_mistake() -> None:
    engine = ready()
    with pytest.raises(LocalProtocolError, match="no place"):
        engine.ask_lease("reader", [], "none")
    with pytest.raises(LocalProtocolError, match="no place"):
        MTLControlClient().choose_profile("test")


WRONG: list[tuple[str, int, dict[str, Any]]] = [
    ("open", 201, {"profiles": "test"}),
    ("open", 201, {"profiles": [1]}),
    ("open", 401, {"mechanisms": {}}),
    ("authorize", 402, {"mechanism": "PLAIN"}),
    ("authorize", 402, {"mechanism": 1, "challenge": ""}),
    ("authorize", 402, {"mechanism": "PLAIN", "challenge": "!"}),
    ("lease", 202, {"port": 1}),
    ("lease", 202, {"port": "1", "lease": "x"}),
    ("lease", 202, {"port": -1, "lease": "x"}),
    ("lease", 202, {"port": 65536, "lease": "x"}),
    ("lease", 202, {"port": 1, "lease": ""}),
    ("lease", 202, {"port": 1, "lease": "x" * 256}),
    ("lease", 202, {"port": 1, "lease": "x", "endpoint": 7}),
]


@pytest.mark.parametrize(("command", "code", "fields"), WRONG)
def test_reply_that_makes_no_sense_is_dropped(command: str, code: int, fields: dict[str, Any]) -> None:
    if command == "lease":
        engine = working()
        frames = engine.ask_lease("reader", [], "none")
    else:
        engine = MTLControlClient()
        frames = engine.open("/")
    if command == "authorize":
        reply(engine, frames, 401, {})
        frames = engine.authorize("PLAIN", b"")
    before = engine.state
    assert reply(engine, frames, code, fields) == IllFormed("json")
    assert engine.state == before
    assert reply(engine, frames, 400, {}) != IllFormed("late")  # it still waits


def test_client_and_server_understand_each_other() -> None:
    server, client = MTLControlServer(MECHANISMS), MTLControlClient()
    assert server.receive(client.open("v")) == OpenReceived("v")
    server.ready(PROFILES)
    assert [client.receive(frames) for frames in server.messages_to_send()] == [SessionReady(PROFILES)]


def test_representations_show_no_secret() -> None:
    assert "token" not in repr(DataLeased("token", 1, ""))
    assert "x" not in repr(SASLChallenged("PLAIN", b"x")).replace("SASLChallenged", "")
