"""Each malformed input of which it is said what becomes of it, by engines of both flows.

Numbers are those of the table in docs/conformance/mtl.rst. What depends on users, leases or queues is shown where these
are, with the endpoint.
"""

import pytest

from protocols.mtl.wire import (
    MESSAGES,
    OPEN,
    PING,
    TEXT_PLAIN,
    ask,
    asked,
    confirm,
    content,
    numbered,
    reject,
    response,
    sent,
    served,
    session,
)
from triomq.protocols import encode_table
from triomq.protocols.mtl import ControlState, FaultReason, FlowDirection, Frames, IllFormed, MTLDataServer
from triomq.protocols.mtl.properties import DEEPEST_TABLE
from triomq.protocols.mtl.requests import DEEPEST_JSON

JSON = b"{}"

CONTROL_DROPPED: list[tuple[int, Frames, FaultReason]] = [
    (2, (b"Connection.Open",), "frames"),
    (2, (b"a", b"Connection.Open", OPEN), "frames"),
    (2, (b"a", b"b", b"Connection.Open", OPEN), "frames"),
    (2, (b"a", b"", b"Connection.Open", OPEN, b""), "frames"),
    (2, (b"", b"Connection.Open"), "name"),
    (3, (b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"", b"Connection.Open", OPEN), "envelope"),
    (4, (b"", b"", JSON), "name"),
    (4, (b"", b"Connection.\xd6pen", JSON), "name"),
    (4, (b"", b"C" * 256, JSON), "name"),
    (5, (b"", b"Connection.Open", b"\xff"), "json"),
    (5, (b"", b"Connection.Open", b"{"), "json"),
    (5, (b"", b"Connection.Open", b"[]"), "json"),
    (5, (b"", b"Connection.Open", b'{"a": NaN}'), "json"),
    (5, (b"", b"Connection.Open", b'{"a": -Infinity}'), "json"),
    (5, (b"", b"Connection.Open", b'{"a":' * (DEEPEST_JSON + 1) + b"1" + b"}" * (DEEPEST_JSON + 1)), "json"),
    (5, (b"", b"Connection.Open", b'{"a": "' + b"x" * 65536 + b'"}'), "too-long"),
    (6, (b"", b"Connection.Open", b""), "json"),
]


@pytest.mark.parametrize(("row", "frames", "reason"), CONTROL_DROPPED)
def test_ill_formed_command_is_dropped_in_every_state(row: int, frames: Frames, reason: FaultReason) -> None:
    states: tuple[ControlState, ...] = ("unknown", "guest", "challenged", "ready", "working")
    for state in states:
        engine = session(state)
        assert engine.receive(frames) == IllFormed(reason)
        assert (engine.state, engine.messages_to_send()) == (state, [])


CONTROL_ANSWERED: list[tuple[int, ControlState, str, bytes, int]] = [
    (8, "working", "Connection", JSON, 501),
    (8, "working", "Connection.Explode", JSON, 501),
    (9, "unknown", "Connection.Profile", JSON, 401),
    (9, "unknown", "Nonsense", JSON, 401),
    (10, "unknown", "Connection.Open", b'{"virtual-host": "/"}', 400),
    (11, "unknown", "Connection.Open", b'{"protocol": {"name": "MTL", "version": 2}}', 505),
    (12, "unknown", "Connection.Open", b'{"protocol": {"name": "MTL", "version": 1}, "virtual-host": 7}', 400),
    (13, "guest", "Connection.Authorize", b'{"mechanism": "NTLM"}', 401),
    (14, "guest", "Connection.Authorize", b'{"mechanism": "PLAIN", "response": "?"}', 400),
    (18, "ready", "Connection.Profile", b'{"profile": "none"}', 400),
    (19, "ready", "Connection.Reader", b'{"resources": []}', 400),
    (19, "ready", "Queue.Create", JSON, 400),
    (20, "guest", "Queue.Create", JSON, 401),
    (20, "challenged", "Queue.Create", JSON, 401),
    (21, "working", "Connection.Writer", b'{"resources": null}', 400),
    (23, "working", "Connection.Writer", b'{"resources": [], "confirm": "sometimes"}', 400),
]


@pytest.mark.parametrize(("row", "state", "name", "body", "code"), CONTROL_ANSWERED)
def test_invalid_command_is_answered(row: int, state: ControlState, name: str, body: bytes, code: int) -> None:
    engine = session(state)
    assert ask(engine, name, body) == code
    assert engine.receive(asked("Connection.Open", OPEN)) is not None  # and the client may begin anew


def nested(levels: int) -> bytes:
    table: dict[str, object] = {"x": 1}
    for _ in range(levels):
        table = {"x": table}
    return encode_table(table)  # type: ignore[arg-type]


SEQUENCE = bytes(7) + b"\x05"
DATA_DROPPED: list[tuple[int, Frames, FaultReason]] = [
    (29, (PING,), "frames"),
    (29, (), "frames"),
    (29, (b"", PING, b""), "frames"),
    (29, (b"", PING), "header"),
    (30, (b"", b""), "header"),
    (30, (b"\x00", b""), "type"),
    (30, (b"\x0a", b""), "type"),
    (31, (PING + b"\0", b""), "header"),
    *(
        (31, (frames[0][:-1], frames[1]), "header")
        for name, frames in MESSAGES.items()
        if name not in ("Ping", "Pong", "Content")
    ),
    (34, (MESSAGES["Content"][0][:-1], b""), "table"),
    *((31, (frames[0] + b"\0", frames[1]), "header") for frames in MESSAGES.values()),
    (31, (b"\x05" + SEQUENCE + b"\x00\0\0\0", b""), "header"),
    (32, (b"\x03" + SEQUENCE + b"\x02a\n", b""), "text"),
    (32, (b"\x05" + SEQUENCE + b"\x02a\xff" + TEXT_PLAIN, b""), "text"),
    (33, (b"\x06" + SEQUENCE + b"\x02", b""), "boolean"),
    (33, (b"\x07" + SEQUENCE + b"\x00\xff", b""), "boolean"),
    (34, content(5, table=b"\0\0\0\x08\x01aF\0\0\0\x09"), "table"),
    (34, content(5, table=b"\0\0\0\x03\x01aZ"), "table"),
    (34, content(5, table=b"\0\0\0\x02\x00V"), "table"),
    (34, content(5, table=b"\0\0\0\x03\x01\x1fV"), "table"),
    (34, content(5, table=b"\0\0\0\x03\x01\xffV"), "table"),
    (34, content(5, table=encode_table({"l": [{"": 1}]})), "table"),
    (34, content(5, table=nested(DEEPEST_TABLE + 1)), "table"),
    (42, content(0), "sequence"),
]


@pytest.mark.parametrize(("row", "frames", "reason"), DATA_DROPPED)
@pytest.mark.parametrize("direction", ["reader", "writer", None])
def test_ill_formed_data_command_is_dropped_in_every_state(
    row: int, frames: Frames, reason: FaultReason, direction: FlowDirection | None
) -> None:
    engine = MTLDataServer(now=0.0) if direction is None else served(direction)
    if len(frames) == 2:
        assert engine.receive_run([frames], 0) is None
    assert engine.receive(frames) == IllFormed(reason)
    assert sent(engine) == []


def test_table_may_nest_as_deep_as_allowed() -> None:
    assert not isinstance(served().receive(content(5, table=nested(DEEPEST_TABLE))), IllFormed)


def test_numbers_35_to_41_are_answered() -> None:
    unleased, reader, writer = MTLDataServer(now=0.0), served("reader"), served("writer")
    claim = unleased.receive(MESSAGES["Lease"])
    assert claim is not None
    unleased.respond(1, 403)  # 35
    unleased.receive(MESSAGES["Summon"])  # 37
    assert unleased.receive((PING, b"")) == IllFormed("unasked")  # 38
    assert sent(unleased) == [response(1, 403), response(2, 403)]
    writer.receive((numbered(MESSAGES["Lease"][0], 4)[:-1] + b"x", b""))  # 36
    writer.receive(MESSAGES["Summon"])  # 39
    writer.receive(content(7, resource=b"other"))  # 41
    assert sent(writer) == [response(4, 403), response(2, 400), reject(7)]
    reader.receive((MESSAGES["Summon"][0][:-1] + b"x", b""))  # 39
    reader.receive(MESSAGES["Dismiss"])  # 40
    reader.receive(content(7))  # 41
    assert sent(reader) == [response(2, 400), response(3, 400), reject(7)]


def test_numbers_43_to_46_are_passed_over_or_answered_again() -> None:
    writer = served("writer")
    writer.receive_run([content(1)], 0)
    writer.accept([1])
    writer.confirm_contents([1])
    sent(writer)
    assert writer.receive(content(1)) is None  # 43
    assert sent(writer) == [confirm(1)]
    for message in (confirm(1), reject(1), response(1, 200), MESSAGES["Pong"]):  # 44, 45
        assert writer.receive(message) == IllFormed("unasked")
    assert sent(writer) == []
