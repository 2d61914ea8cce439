"""What a peer may say, as frames: whole conversations in order, and single methods with any fields at all."""

import struct
from collections.abc import Callable
from random import Random

from triomq.protocols.amqp import AMQP_METHODS, METHODS, Method, Row
from triomq.protocols.amqp import methods as m

HEADER = b"AMQP\x00\x00\x09\x01"
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
FRAME_MAX = 4096


def frame(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def method(channel: int, what: Method) -> bytes:
    return frame(1, channel, AMQP_METHODS.encode(what))


def header(channel: int, size: int, properties: bytes = b"\0\0", class_id: int = 60, weight: int = 0) -> bytes:
    return frame(2, channel, struct.pack(">HHQ", class_id, weight, size) + properties)


def content(channel: int, what: Method, octets: bytes, properties: bytes = b"\0\0", step: int = 4088) -> list[bytes]:
    parts = [frame(3, channel, octets[start : start + step]) for start in range(0, len(octets), step)]
    return [method(channel, what), header(channel, len(octets), properties), *parts]


# Openings, one step per item: what the engine's other side says, in the order of the handshake.

CLIENT_OPENING: list[bytes] = [
    HEADER,
    method(0, m.ConnectionStartOk({"product": "fuzz"}, "PLAIN", b"\0guest\0guest", "en_US")),
    method(0, m.ConnectionTuneOk(5, FRAME_MAX, 0)),
    method(0, m.ConnectionOpen("/")),
    method(1, m.ChannelOpen()),
    method(2, m.ChannelOpen()),
]
SERVER_OPENING: list[bytes] = [
    method(0, m.ConnectionStart(0, 9, {"product": "fuzz"}, b"PLAIN", b"en_US")),
    method(0, m.ConnectionTune(5, FRAME_MAX, 0)),
    method(0, m.ConnectionOpenOk()),
    method(1, m.ChannelOpenOk()),
    method(2, m.ChannelOpenOk()),
]
SECURE_OK = method(0, m.ConnectionSecureOk(b"proof"))
SECURE = method(0, m.ConnectionSecure(b"prove it"))

TEXT = b"\x80\x10\x0atext/plain\x0512345"
HEADERS = b"\x30\x00\x00\x00\x00\x11\x01aI\x00\x00\x00\x01\x01bS\x00\x00\x00\x01x\x02"

CLIENT_WORDS: list[list[bytes]] = [
    content(1, m.BasicPublish("e", "k"), b"hello") * 3,
    content(1, m.BasicPublish("e", "k"), b"hello", TEXT) + content(1, m.BasicPublish("e", "k"), b"hell", TEXT),
    content(2, m.BasicPublish("", "q", mandatory=True), b"", HEADERS),
    content(1, m.BasicPublish("e", "other"), b"a long one", step=3),
    content(1, m.BasicPublish("e", "too large"), b"x" * 5000),
    [method(2, m.BasicAck(tag)) for tag in range(1, 4)],
    [method(2, m.BasicAck(9, multiple=True)), method(2, m.BasicReject(10)), method(1, m.BasicNack(11))],
    [method(1, m.QueueDeclare("q", arguments={"x-max-length": 5})), method(1, m.QueueBind("q", "e", "k"))],
    [method(1, m.BasicConsume("q", "c")), method(1, m.BasicQos(0, 10)), method(1, m.BasicGet("q"))],
    [method(1, m.BasicPublish("e", "k")), method(2, m.ConfirmSelect()), header(1, 2), HEARTBEAT, frame(3, 1, b"ab")],
    [method(1, m.TxSelect()), *content(1, m.BasicPublish("", "q"), b"tx"), method(1, m.TxCommit())],
    [method(2, m.ChannelFlow(False)), method(2, m.ChannelFlow(True)), method(1, m.BasicRecover(True))],
    [method(2, m.ChannelClose(200, "bye")), method(2, m.ChannelOpen())],
    [method(0, m.ConnectionUpdateSecret(b"new", "old"))],
    [method(0, m.ConnectionClose(200, "bye"))],
    [method(0, m.ConnectionCloseOk())],
    [method(1, m.ChannelCloseOk())],
]
SERVER_WORDS: list[list[bytes]] = [
    [octets for tag in range(1, 4) for octets in content(1, m.BasicDeliver("c", tag, False, "e", "k"), b"body")],
    content(1, m.BasicDeliver("c", 5, True, "e", "k"), b"body", TEXT),
    content(1, m.BasicDeliver("c", 6, True, "e", "k"), b"a long one", step=4),
    content(2, m.BasicReturn(312, "NO_ROUTE", "e", "k"), b"back", HEADERS),
    [*content(1, m.BasicGetOk(1, False, "e", "k", 3), b"got"), method(1, m.BasicGetEmpty())],
    content(1, m.BasicDeliver("c", 7, True, "e", "too large"), b"x" * 5000),
    [method(1, m.BasicConsumeOk("c")), method(1, m.BasicAck(1)), method(1, m.BasicAck(2)), method(1, m.BasicNack(3))],
    [method(1, m.QueueDeclareOk("q", 1, 2)), method(1, m.BasicCancel("c"))],
    [method(2, m.ChannelFlow(False)), method(1, m.ChannelFlowOk(True)), HEARTBEAT],
    [method(2, m.ChannelClose(404, "NOT_FOUND"))],
    [method(1, m.ChannelCloseOk())],
    [method(0, m.ConnectionBlocked("memory")), method(0, m.ConnectionUnblocked())],
    [method(0, m.ConnectionClose(320, "going"))],
    [method(0, m.ConnectionCloseOk())],
]


# Any fields


def _short_string(random: Random) -> bytes:
    octets = random.choice((b"", b"q", b"e", b"\xff\xfe", b"a\0b", "\u00fc".encode(), b"x" * 255, random.randbytes(9)))
    lie = random.random() < 0.1
    return bytes((random.randrange(256) if lie else len(octets),)) + octets


def _long_string(random: Random) -> bytes:
    octets = random.choice((b"", b"\0guest\0guest", random.randbytes(30)))
    size = random.choice((0, 1, 2**31, 2**32 - 1)) if random.random() < 0.1 else len(octets)
    return struct.pack(">I", size) + octets


def _value(random: Random, depth: int) -> bytes:
    """One field of a table: its type octet and its value, which may lie."""
    code = random.choice(
        b"tbBsuUIilLfdDSATFVx" + (b"FA" * 4 if depth else b"") + (b"Q\0" if random.random() < 0.1 else b"")
    )
    fixed = {
        "t": 1,
        "b": 1,
        "B": 1,
        "s": 2,
        "u": 2,
        "U": 2,
        "I": 4,
        "i": 4,
        "l": 8,
        "L": 8,
        "f": 4,
        "d": 8,
        "D": 5,
        "T": 8,
    }
    kind = chr(code)
    if kind in "FA":
        return bytes((code,)) + table(random, depth - 1, named=kind == "F")
    if kind in "Sx":
        return bytes((code,)) + _long_string(random)
    return bytes((code,)) + random.randbytes(fixed.get(kind, 0))


def table(random: Random, depth: int = 3, *, named: bool = True) -> bytes:
    """A table or an array, its length first, which is a lie at times."""
    count = random.randrange(4) if depth > 0 else 0
    octets = b"".join((_short_string(random) if named else b"") + _value(random, depth) for _ in range(count))
    size = (
        random.choice((0, len(octets) + 1, max(len(octets) - 1, 0), 2**32 - 1))
        if random.random() < 0.1
        else len(octets)
    )
    return struct.pack(">I", size) + octets


def deep_table(levels: int, kind: bytes = b"F") -> bytes:
    """A table in a table in a table, all lengths true."""
    octets = b""
    step = b"\x01a" if kind == b"F" else b""
    for _ in range(levels):
        octets = step + kind + struct.pack(">I", len(octets)) + octets
    if kind == b"A":
        octets = b"\x01a" + octets
    return struct.pack(">I", len(octets)) + octets


_FIELDS: dict[str, Callable[[Random], bytes]] = {
    "bit": lambda random: random.randbytes(1),
    "octet": lambda random: random.randbytes(1),
    "short": lambda random: random.choice((b"\0\0", b"\0\1", b"\xff\xff", random.randbytes(2))),
    "long": lambda random: random.choice((b"\0\0\0\0", b"\0\0\x10\0", b"\xff\xff\xff\xff", random.randbytes(4))),
    "longlong": lambda random: random.choice((bytes(8), bytes(7) + b"\1", b"\xff" * 8, random.randbytes(8))),
    "shortstr": _short_string,
    "longstr": _long_string,
    "table": lambda random: deep_table(random.randrange(300)) if random.random() < 0.1 else table(random),
}


def any_method(random: Random, rows: tuple[Row, ...] = METHODS) -> bytes:
    """The payload of a method frame whose fields are anything."""
    layout = AMQP_METHODS.by_type[random.choice(rows).method]
    return layout.prefix + b"".join(_FIELDS[group[0].domain](random) for group in layout.groups)


def any_properties(random: Random) -> bytes:
    """Property flags and fields that belong to them, mostly."""
    flags = random.choice((0, 0x8000, 0x2000, 0x3000, 0xFFFC, random.randrange(0x10000)))
    sizes = {0x2000: "table", 0x1000: "octet", 0x0800: "octet", 0x0040: "longlong"}
    fields = [_FIELDS[sizes.get(0x8000 >> bit, "shortstr")](random) for bit in range(14) if flags & 0x8000 >> bit]
    return struct.pack(">H", flags) + b"".join(fields)
