"""Octets of direct connections for tests: those of the original implementation, and those we make."""

from collections.abc import Iterable

from triomq.protocols.dmp import PROTOCOL_HEADER, DMPEngine, Event, LeasePresented, MessageRun, Settings, Target

# What OpenAMQ and its clients say, octet for octet.
PLAIN = bytes.fromhex("0000001c0a616d712e646972656374076e6f7768657265000002000003726574")
"""To amq.direct with the key "nowhere", mandatory, "ret"."""

FULL = (
    bytes.fromhex("0000005c0a")
    + b"amq.direct\x06auto.8"
    + bytes.fromhex("bec4")
    + b"\x0atext/plain"
    + bytes.fromhex("0000000f016e49000000070173530000000176")
    + b"\x02\x05\x04corr\x07reply.q\x05mid-1"
    + bytes.fromhex("00000000499602d2")
    + b"\x03snd\x00\x00\x00\x05hello"
)
"""With nine of fourteen properties."""

EMPTY = bytes.fromhex("00000008") + bytes(8)
"""The shortest there is."""


def short(text: bytes) -> bytes:
    return bytes((len(text),)) + text


def message(
    body: bytes = b"hello",
    *,
    exchange: bytes = b"amq.direct",
    key: bytes = b"key",
    properties: bytes = b"\0\0",
    options: int = 0,
    length: int | None = None,
    behind: bytes = b"",
    size: int | None = None,
) -> bytes:
    """Make a message, wrong where asked for."""
    stated = len(body) if length is None else length
    rest = short(exchange) + short(key) + properties + bytes((options,)) + stated.to_bytes(3, "big") + body + behind
    return (len(rest) if size is None else size).to_bytes(4, "big") + rest


def sent(engine: DMPEngine) -> bytes:
    """Return what an engine sends."""
    return b"".join(engine.data_to_send())


def serving(target: Target = "sink", settings: Settings | None = None) -> DMPEngine:
    """Make a server whose client's lease is accepted."""
    engine = DMPEngine("server", now=0.0, settings=settings)
    engine.receive_data(PROTOCOL_HEADER + short(b"lease"))
    assert engine.events() == [LeasePresented("lease")]
    if target == "sink":
        engine.accept_sink("amq.direct")
    else:
        engine.accept_feed("auto.8")
    sent(engine)
    return engine


def client(target: Target, settings: Settings | None = None) -> DMPEngine:
    """Make a client that is ready."""
    engine = DMPEngine("client", now=0.0, settings=settings, lease="lease", target=target)
    assert sent(engine) == PROTOCOL_HEADER
    engine.receive_data(short(b"200 OK DMP/0.1"))
    assert sent(engine) == short(b"lease")
    engine.receive_data(short(b"200 OK ready"))
    engine.events()
    return engine


def messages_in(events: Iterable[Event]) -> list[tuple[str, str, bytes, int, bytes]]:
    """Take runs apart: exchange, key, properties, options, body."""
    found = []
    for event in events:
        assert isinstance(event, MessageRun), event
        assert event.size == sum(map(len, event.contents))
        assert event.envelopes is None or len(event.envelopes) == len(event.contents)
        assert sum(len(part.contents) for part in event.alike()) == len(event.contents)
        found += [
            (shape.exchange, shape.routing_key, shape.properties(content), shape.options, shape.body(content))
            for shape, content in event.messages()
        ]
    return found
