"""Both ends of tap connections for tests, and the bytes between them."""

import msgspec

from triomq.protocols.tap import (
    ClientEvent,
    LoginRequested,
    ServerEvent,
    ServerGreeting,
    Settings,
    TapClientEngine,
    TapEngine,
    TapServerEngine,
    Welcomed,
)

GREETING = bytes.fromhex("00000008 94 00 a3") + b"tap" + bytes.fromhex("01 a0")
"""A client's that says nothing of itself: kind 0, "tap", version 1, an empty text."""

LOGIN = bytes.fromhex("00000015 94 01 a5") + b"PLAIN" + bytes.fromhex("c4 0a") + b"\0guest\0abc" + b"\xa0"


def framed(*fields: object) -> bytes:
    """Make a frame of any fields."""
    body = msgspec.msgpack.encode(fields)
    return len(body).to_bytes(4, "big") + body


def sent(engine: TapEngine[ClientEvent] | TapEngine[ServerEvent]) -> bytes:
    """Return what an engine sends."""
    return b"".join(engine.data_to_send())


def messages(data: bytes) -> list[list[object]]:
    """Return the fields of each message."""
    found = []
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(msgspec.msgpack.decode(data[4 : 4 + size]))
        data = data[4 + size :]
    return found


def serving(settings: Settings | None = None) -> TapServerEngine:
    """Make a server whose client is in."""
    engine = TapServerEngine(now=0.0, settings=settings)
    engine.receive_data(GREETING + LOGIN)
    assert isinstance(engine.events()[0], LoginRequested)
    engine.welcome()
    sent(engine)
    return engine


def client(settings: Settings | None = None, *, max_frame: int = 1 << 20) -> TapClientEngine:
    """Make a client that is in."""
    engine = TapClientEngine(now=0.0, settings=settings)
    engine.receive_data(framed(0, "tap", 1, "", ["PLAIN"]))
    assert engine.events() == [ServerGreeting("tap", 1, mechanisms=("PLAIN",))]
    engine.log_in("PLAIN", b"\0guest\0guest")
    engine.receive_data(framed(2, max_frame))
    assert engine.events() == [Welcomed(max_frame)]
    sent(engine)
    return engine


def talk(client: TapClientEngine, server: TapServerEngine) -> tuple[list[ClientEvent], list[ServerEvent]]:
    """Carry what both have to say until neither has more; return what each has heard."""
    heard_by_client: list[ClientEvent] = []
    heard_by_server: list[ServerEvent] = []
    while True:
        up, down = sent(client), sent(server)
        if up:
            server.receive_data(up)
        if down:
            client.receive_data(down)
        heard_by_client += client.events()
        heard_by_server += server.events()
        if not up and not down:
            return heard_by_client, heard_by_server
