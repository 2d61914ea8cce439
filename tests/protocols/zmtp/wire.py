"""What peers say, octet by octet, and two engines that talk to each other."""

from collections.abc import Iterable

from triomq.protocols.zmtp import Event, Settings, ZMTPClientEngine, ZMTPEngine, ZMTPServerEngine

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
PLAIN_GREETING = GREETING.replace(b"NULL\0", b"PLAIN")


def command(name: bytes, data: bytes = b"") -> bytes:
    body = bytes([len(name)]) + name + data
    return (b"\x04" + bytes([len(body)]) if len(body) < 256 else b"\x06" + len(body).to_bytes(8, "big")) + body


def properties(**values: bytes) -> bytes:
    found = b""
    for name, value in values.items():
        name = name.replace("_", "-")
        found += bytes([len(name)]) + name.encode() + len(value).to_bytes(4, "big") + value
    return found


def ready(kind: bytes = b"DEALER", identity: bytes = b"") -> bytes:
    return command(b"READY", properties(Socket_Type=kind, Identity=identity))


def hello(user: bytes = b"ada", password: bytes = b"secret") -> bytes:
    return command(b"HELLO", bytes([len(user)]) + user + bytes([len(password)]) + password)


def initiate(kind: bytes = b"DEALER", identity: bytes = b"") -> bytes:
    return command(b"INITIATE", properties(Socket_Type=kind, Identity=identity))


def message(*frames: bytes) -> bytes:
    wire = b""
    for number, frame in enumerate(frames, 1):
        more = number < len(frames)
        if len(frame) < 256:
            wire += bytes([more, len(frame)]) + frame
        else:
            wire += bytes([2 | more]) + len(frame).to_bytes(8, "big") + frame
    return wire


def said(engine: ZMTPEngine) -> bytes:
    return b"".join(engine.data_to_send())


def happened(engine: ZMTPEngine) -> list[Event]:
    found: list[Event] = []
    while (events := engine.events()) or engine.has_more:
        found += events
    return found


def server(**settings: object) -> ZMTPServerEngine:
    return ZMTPServerEngine(now=0.0, settings=Settings(**settings))  # type: ignore[arg-type]


def client(**settings: object) -> ZMTPClientEngine:
    return ZMTPClientEngine(now=0.0, settings=Settings(**{"socket_type": "DEALER", **settings}))  # type: ignore[arg-type]


def opened(kind: bytes = b"DEALER", **settings: object) -> ZMTPServerEngine:
    """Return a server's engine with an open connection, whose first words are taken."""
    engine = server(**settings)
    engine.receive_data(GREETING + ready(kind))
    happened(engine)
    said(engine)
    assert engine.is_open
    return engine


def talk(*engines: ZMTPEngine) -> None:
    """Carry octets between two engines until both are silent."""
    one, other = engines
    while any(each.outbox.unsent for each in engines):
        for sender, receiver in ((one, other), (other, one)):
            if data := said(sender):
                receiver.receive_data(data)


def pieces(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    found, place = [], 0
    for size in sizes:
        found.append(data[place : place + size])
        place += size
    return [piece for piece in (*found, data[place:]) if piece]
