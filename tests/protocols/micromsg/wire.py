"""Octets of MicroMsg2, written by hand, and both ends of connections for tests."""

from collections.abc import Iterable

from triomq.protocols.micromsg import (
    DEFAULT_OPTIONAL,
    Event,
    HandshakeCompleted,
    HandshakeExtension,
    MicroMessageRun,
    MicroMsgClient,
    MicroMsgEngine,
    MicroMsgServer,
    Settings,
)


def handshake(
    required: bytes = b"", optional: bytes = b"", *, identity: bytes = b"hulk", version: bytes = b"\1\0", flags: int = 0
) -> bytes:
    lists = b"".join(len(each).to_bytes(2, "big") + each for each in (required, optional))
    return version + bytes((flags, len(identity))) + identity + lists


def message(
    sequence: int,
    body: bytes = b"hi",
    *,
    destination: bytes = b"queue",
    properties: bytes = b"",
    large: bool = False,
    continued: bool = False,
) -> bytes:
    is_large = large or len(body) > 255
    head = bytes((8 * is_large | 16 * continued,)) + sequence.to_bytes(2, "big") + bytes((len(destination),))
    size = len(body).to_bytes(4 if is_large else 1, "big")
    return head + destination + len(properties).to_bytes(2, "big") + properties + size + body


def command(text: bytes) -> bytes:
    return bytes((1, len(text))) + text if len(text) < 256 else b"\x09" + len(text).to_bytes(4, "big") + text


def extension(number: int, payload: bytes) -> bytes:
    return bytes((2, number, len(payload))) + payload


def ack(number: int, sequence: int) -> bytes:
    return extension(number, sequence.to_bytes(2, "big"))


def error(text: bytes) -> bytes:
    return bytes((4, len(text))) + text


def sent(engine: MicroMsgEngine) -> bytes:
    """Return what an engine sends."""
    return b"".join(engine.data_to_send())


def named(*names: str) -> tuple[HandshakeExtension, ...]:
    return tuple(map(HandshakeExtension, names))


def serving(final: bytes = b"batch-ack:max-count=10", settings: Settings | None = None) -> MicroMsgServer:
    """Make a server whose client has chosen these extensions, all of them required."""
    engine = MicroMsgServer(now=0.0, settings=settings)
    engine.receive_data(handshake(final) + handshake(final))
    found = engine.events()
    assert [type(event) for event in found] == [HandshakeCompleted], found
    sent(engine)
    return engine


def client(reply: bytes = b"batch-ack:max-count=10", settings: Settings | None = None) -> MicroMsgClient:
    """Make a client whose server has offered these extensions, all of them optional."""
    engine = MicroMsgClient(now=0.0, settings=settings)
    engine.receive_data(handshake(b"", reply))
    found = engine.events()
    assert [type(event) for event in found] == [HandshakeCompleted], found
    sent(engine)
    return engine


def talk(client: MicroMsgClient, server: MicroMsgServer) -> tuple[list[Event], list[Event]]:
    """Carry what both have to say until neither has more; return what each has heard."""
    heard_by_client: list[Event] = []
    heard_by_server: list[Event] = []
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


def pair(
    *extensions: str, client_settings: Settings | None = None, server_settings: Settings | None = None
) -> tuple[MicroMsgClient, MicroMsgServer]:
    """Make both ends of a connection, with extensions that both know beside those of every side."""
    default = Settings(optional=(*DEFAULT_OPTIONAL, *named(*extensions)))
    one = MicroMsgClient(now=0.0, settings=client_settings or default)
    other = MicroMsgServer(now=0.0, settings=server_settings or default)
    talk(one, other)
    return one, other


def bodies(events: Iterable[Event]) -> list[bytes]:
    """Return the bodies of all messages among events."""
    runs = [event for event in events if isinstance(event, MicroMessageRun)]
    return [shape.body(content) for run in runs for shape, content in run.messages()]


def flat(events: Iterable[Event]) -> list[object]:
    """Return events with messages one by one, however they came in runs."""
    found: list[object] = []
    for event in events:
        if isinstance(event, MicroMessageRun):
            pairs = enumerate(event.messages(), event.first)
            found += [(number, shape.destination, dict(shape.values), content) for number, (shape, content) in pairs]
        else:
            found.append(event)
    return found
