"""Messages of 11/MTL for tests: golden vectors, written by hand from the specification, and engines in some state."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from triomq.protocols.mtl import (
    ConfirmModel,
    ControlServerEvent,
    ControlState,
    FlowDirection,
    Frames,
    MTLControlServer,
    MTLDataClient,
    MTLDataServer,
    MTLSettings,
    WriterLog,
)
from triomq.protocols.mtl.data_engine import MTLDataEngine

OPEN = b'{"protocol": {"name": "MTL", "version": 1}, "virtual-host": "test-env"}'

# Headers in hexadecimal: type, sequence, and the fields behind it
LEASE = bytes.fromhex("01 0000000000000001 06 616263313233")
RESPONSE = bytes.fromhex("02 0000000000000001")
SUMMON = bytes.fromhex("03 0000000000000002 08 7265736f75726365")
DISMISS = bytes.fromhex("04 0000000000000003 08 7265736f75726365")
CONTENT = bytes.fromhex(
    "05 0000000000000001 08 7265736f75726365 0000001c 0c 636f6e74656e742d74797065 53 0000000a 746578742f706c61696e"
)
CONFIRM = bytes.fromhex("06 0000000000000007 01")
REJECT = bytes.fromhex("07 0000000000000008 00 01")
PING = bytes.fromhex("08")
PONG = bytes.fromhex("09")

TEXT_PLAIN = CONTENT[18:]
"""The table of CONTENT."""

HEADERS = {
    "Lease": LEASE,
    "Response": RESPONSE,
    "Summon": SUMMON,
    "Dismiss": DISMISS,
    "Content": CONTENT,
    "Confirm": CONFIRM,
    "Reject": REJECT,
    "Ping": PING,
    "Pong": PONG,
}
BODIES = {"Response": b"200", "Content": b"hello"}
MESSAGES: dict[str, Frames] = {name: (header, BODIES.get(name, b"")) for name, header in HEADERS.items()}
"""One message of each data command."""

PROFILES = ("test", "queue")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256")


def numbered(header: bytes, sequence: int) -> bytes:
    """Put another sequence into a header."""
    return header[:1] + sequence.to_bytes(8, "big") + header[9:]


def content(
    sequence: int, body: bytes = b"hello", *, resource: bytes = b"resource", table: bytes = TEXT_PLAIN
) -> Frames:
    """Return a Content."""
    return (b"\x05" + sequence.to_bytes(8, "big") + bytes((len(resource),)) + resource + table, body)


def confirm(sequence: int, *, multiple: bool = False) -> Frames:
    return (b"\x06" + sequence.to_bytes(8, "big") + bytes((multiple,)), b"")


def reject(sequence: int, *, multiple: bool = False, recycle: bool = False) -> Frames:
    return (b"\x07" + sequence.to_bytes(8, "big") + bytes((multiple, recycle)), b"")


def response(sequence: int, code: int) -> Frames:
    return (b"\x02" + sequence.to_bytes(8, "big"), b"%d" % code)


# Control sessions


def asked(name: str, arguments: Mapping[str, object] | bytes = b"{}", *envelope: bytes) -> Frames:
    """Return a control command."""
    body = arguments if isinstance(arguments, bytes) else msgspec.json.encode(arguments)
    return (*envelope, name.encode(), body)


def replies(engine: MTLControlServer) -> list[tuple[int, dict[str, Any]]]:
    """Return codes and fields of what an engine sends; those without an envelope."""
    return [(int(code), msgspec.json.decode(body)) for code, body in engine.messages_to_send()]


def ask(
    engine: MTLControlServer, name: str, arguments: Mapping[str, object] | bytes = b"{}"
) -> ControlServerEvent | int | None:
    """Give an engine a command; return the event, or the code with which the engine has answered itself."""
    event = engine.receive(asked(name, arguments))
    said = replies(engine)
    assert event is None or said == []
    return said[0][0] if said else event


def session(state: ControlState = "working", settings: MTLSettings | None = None) -> MTLControlServer:
    """Make a server's engine whose client has come so far."""
    engine = MTLControlServer(MECHANISMS, settings)
    if state == "unknown":
        return engine
    engine.receive(asked("Connection.Open", OPEN))
    engine.require_login()
    if state != "guest":
        engine.receive(asked("Connection.Authorize", {"mechanism": "PLAIN", "response": "AGd1ZXN0AGd1ZXN0"}))
        if state == "challenged":
            engine.challenge(b"more")
        else:
            engine.ready(PROFILES)
    if state == "working":
        engine.receive(asked("Connection.Profile", {"profile": "test"}))
        engine.done()
    engine.messages_to_send()
    assert engine.state == state
    return engine


# Data flows


def sent(engine: MTLDataEngine[Any]) -> list[Frames]:
    return engine.messages_to_send()


def served(
    direction: FlowDirection = "writer",
    confirm: ConfirmModel = "full",
    resources: Sequence[str] = ("resource",),
    *,
    settings: MTLSettings | None = None,
    log: WriterLog | None = None,
) -> MTLDataServer:
    """Make a server's engine whose peer has claimed a lease, "abc123"."""
    engine = MTLDataServer(now=0.0, settings=settings)
    claim = engine.receive(MESSAGES["Lease"])
    engine.grant(claim, direction, resources, confirm=confirm, log=log)  # type: ignore[arg-type]
    engine.messages_to_send()
    return engine


def connected(
    direction: FlowDirection = "reader", confirm: ConfirmModel = "full", *, settings: MTLSettings | None = None
) -> MTLDataClient:
    """Make a client's engine whose lease is granted."""
    engine = MTLDataClient(direction, confirm=confirm, now=0.0, settings=settings)
    engine.receive(response(engine.claim("abc123"), 200))
    engine.messages_to_send()
    return engine
