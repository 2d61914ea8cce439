"""How large things may be, at the limit and one beyond it: frames, names, tables, numbers."""

import struct

from pamqp import commands

from ...answers import bare
from ...raw import PROTOCOL_HEADER, publish, raw_frame
from ..question import Asking, Group, Lines
from ..session import RESET, Peer, Session

Basic, Channel, Queue = commands.Basic, commands.Channel, commands.Queue

GROUP = Group("limit")

FRAME_MAX = 131072


def head(size: int, properties: bytes = b"\0\0") -> bytes:
    return raw_frame(2, 1, struct.pack(">HHQ", 60, 0, size) + properties)


def short(octets: bytes) -> bytes:
    return bytes([len(octets)]) + octets


def long(octets: bytes) -> bytes:
    return struct.pack(">I", len(octets)) + octets


def raw_answer(peer: Peer) -> str:
    """The next answer; its octets where its names may not be readable."""
    found = peer.read()
    if found is None:
        return RESET
    is_close = found.payload[:4] in (struct.pack(">HH", 10, 50), struct.pack(">HH", 20, 40))
    return peer.describe(found) if is_close else found.payload.hex()


# Frames


def body_of(size: int, frame_max: int) -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open(frame_max=frame_max)
        queue = peer.declare_queue()
        peer.send_steps(Basic.Publish(routing_key=queue), head(size), raw_frame(3, 1, b"x" * size))
        found = peer.get(queue)
        yield found
        if not found.startswith("connection.close"):
            peer.send_steps(publish(1, "", queue, b"behind it"))
            yield peer.get_soon(queue)

    return ask


def bodies_of(parts: list[int]) -> Asking:
    """A message in several frames, and a small one behind it."""

    def ask(session: Session) -> Lines:
        peer = session.open()
        queue = peer.declare_queue()
        frames = b"".join(raw_frame(3, 1, b"x" * part) for part in parts)
        for _ in range(3):
            peer.send_steps(Basic.Publish(routing_key=queue), head(sum(parts)), frames)
            peer.send_steps(publish(1, "", queue, b"small"))
        for _ in range(6):
            yield peer.get_soon(queue)

    return ask


def header_of(size: int) -> Asking:
    """A content header whose payload has a size."""

    def ask(session: Session) -> Lines:
        peer = session.open(frame_max=4096)
        queue = peer.declare_queue()
        value = size - 12 - 2 - 4 - 2 - 1 - 4
        headers = long(short(b"h") + b"S" + long(b"v" * value))
        peer.send_steps(Basic.Publish(routing_key=queue), head(0, b"\x20\x00" + headers))
        yield peer.get_soon(queue)[:60]

    return ask


def method_of(size: int) -> Asking:
    """A method whose payload has a size."""

    def ask(session: Session) -> Lines:
        peer = session.open(frame_max=4096)
        table = long(short(b"a") + b"S" + long(b"v" * (size - 19)))
        peer.send_steps(bare(50, 10, b"\0\0" + short(b"") + b"\x04" + table))
        yield peer.receive()[0]

    return ask


for _more in (-8, -7, 0, 1):
    _size = FRAME_MAX + _more
    GROUP.add(f"a body frame of {_size} octets", body_of(_size, FRAME_MAX))
    GROUP.add(f"a body frame of {4096 + _more} octets, agreed are 4096", body_of(4096 + _more, 4096))
    GROUP.add(f"a content header of {4096 + _more} octets, agreed are 4096", header_of(4096 + _more))
    GROUP.add(f"a method of {4096 + _more} octets, agreed are 4096", method_of(4096 + _more))
GROUP.add("bodies cut at frame-max without its own octets", bodies_of([FRAME_MAX, FRAME_MAX, 500]))
GROUP.add("a body whose last frame is full", bodies_of([FRAME_MAX, FRAME_MAX]))


def response_of(size: int) -> Asking:
    """A start-ok whose payload has a size."""

    def ask(session: Session) -> Lines:
        peer = session.open(handshake=False, channel=False)
        peer.send_steps(PROTOCOL_HEADER)
        peer.receive()
        fixed = 4 + len(short(b"PLAIN")) + len(long(b"\0guest\0guest")) + len(short(b"en_US"))
        filler = size - fixed - 4 - len(short(b"a")) - 1 - 4
        properties = long(short(b"a") + b"S" + long(b"v" * filler))
        arguments = properties + short(b"PLAIN") + long(b"\0guest\0guest") + short(b"en_US")
        peer.send_steps(raw_frame(1, 0, struct.pack(">HH", 10, 11) + arguments))
        yield peer.receive()[0].split()[0]

    return ask


for _size in (4088, 4089, 4096):
    GROUP.add(f"a start-ok of {_size} octets", response_of(_size))


@GROUP("heartbeat of 65535 seconds")
def longest_heartbeat(session: Session) -> Lines:
    yield session.open(heartbeat=65535).ask(Basic.Qos())


# Names


NAMES = {"255 octets": b"n" * 255, "what is not UTF-8": b"\xff\xfe", "a zero octet": b"a\0b", "a blank": b" "}


def declared(class_id: int, name: bytes) -> Asking:
    """A queue or an exchange of a name."""

    def ask(session: Session) -> Lines:
        peer = session.open()
        kind = short(b"fanout") + b"\x04" if class_id == 40 else b"\x0c"
        arguments = b"\0\0" + short(name) + kind + b"\0\0\0\0"
        peer.send_steps(bare(class_id, 10, arguments))
        yield raw_answer(peer)

    return ask


def routed(key: bytes) -> Asking:
    """A key by which a message goes through an exchange, and what is delivered."""

    def ask(session: Session) -> Lines:
        peer = session.open()
        queue = peer.declare_queue()
        bind = b"\0\0" + short(queue.encode()) + short(b"amq.topic") + short(key) + b"\0\0\0\0\0"
        peer.send_steps(bare(50, 20, bind))
        answer = raw_answer(peer)
        yield answer
        if "close" not in answer:
            peer.send_steps(bare(60, 40, b"\0\0" + short(b"amq.topic") + short(key) + b"\0"), head(0))
            peer.send_steps(Basic.Get(queue=queue, no_ack=True))
            yield raw_answer(peer)

    return ask


def consumed(tag: bytes) -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open()
        queue = peer.declare_queue()
        consume = b"\0\0" + short(queue.encode()) + short(tag) + b"\0\0\0\0\0"
        peer.send_steps(bare(60, 20, consume))
        yield raw_answer(peer)

    return ask


for _title, _name in NAMES.items():
    GROUP.add(f"a queue called {_title}", declared(50, _name))
    GROUP.add(f"an exchange called {_title}", declared(40, _name))
    GROUP.add(f"a routing key of {_title}", routed(_name))
    GROUP.add(f"a consumer tag of {_title}", consumed(_name))


# Properties and tables


PROPERTIES = {
    "a correlation-id that is not UTF-8": b"\x04\x00" + short(b"\xff"),
    "a correlation-id of 255 octets": b"\x04\x00" + short(b"c" * 255),
    "a content-type that is not UTF-8": b"\x80\x00" + short(b"\xff"),
    "a message-id that is not UTF-8": b"\x00\x80" + short(b"\xff"),
    "a type and an app-id that are not UTF-8": b"\x00\x28" + short(b"\xff") + short(b"\xfe"),
    "a header whose name has 255 octets": b"\x20\x00" + long(short(b"h" * 255) + b"V"),
    "a header whose name is not UTF-8": b"\x20\x00" + long(short(b"\xff") + b"V"),
    "a header whose name begins with a digit": b"\x20\x00" + long(short(b"1 &") + b"V"),
    "a header twice": b"\x20\x00" + long((short(b"h") + b"V") * 2),
    "a timestamp beyond all years": b"\x00\x40" + b"\xff" * 8,
    "a priority of 255": b"\x08\x00\xff",
}


def nested(depth: int) -> bytes:
    table = long(b"")
    for _ in range(depth):
        table = long(short(b"t") + b"F" + table)
    return table


for _depth in (64, 100, 400):
    PROPERTIES[f"headers nested {_depth} deep"] = b"\x20\x00" + nested(_depth)


def carried(properties: bytes) -> Asking:
    """Whether properties come out as they went in."""

    def ask(session: Session) -> Lines:
        peer = session.open()
        queue = peer.declare_queue()
        peer.send_steps(publish(1, "", queue, b"x", properties))
        peer.send_steps(Basic.Get(queue=queue, no_ack=True))
        found = peer.read()
        if found is None or not isinstance(found.decode(), Basic.GetOk):
            yield "reset" if found is None else peer.describe(found)
            return
        yield f"as they were: {peer.read_content()[0] == properties}"

    return ask


for _title, _properties in PROPERTIES.items():
    GROUP.add(_title, carried(_properties))


def with_table(table: bytes) -> Asking:
    """Arguments of a queue, declared twice."""

    def ask(session: Session) -> Lines:
        peer = session.open()
        arguments = b"\0\0" + short(session.q.encode()) + b"\x0c" + table
        for _ in range(2):
            peer.send_steps(bare(50, 10, arguments))
            yield peer.receive()[0]

    return ask


GROUP.add("arguments nested 60 deep", with_table(nested(60)))
GROUP.add("an argument twice", with_table(long((short(b"a") + b"V") * 2)))
GROUP.add("an argument whose name is not UTF-8", with_table(long(short(b"\xff") + b"V")))
GROUP.add("an argument that is not UTF-8", with_table(long(short(b"a") + b"S" + long(b"\xff"))))
GROUP.add("an argument without a name", with_table(long(short(b"") + b"V")))
GROUP.add("an array of several types", with_table(long(short(b"a") + b"A" + long(b"Vt\x01I\0\0\0\x01S\0\0\0\0"))))


# Numbers


def with_arguments(arguments: dict[str, object], *, durable: bool = False) -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open()
        declare = Queue.Declare(queue=session.q, durable=durable, exclusive=not durable, arguments=arguments)
        yield peer.ask(declare)
        if not peer.closed and durable:
            peer.send_steps(Queue.Delete(queue=session.q))

    return ask


QUORUM = {"x-queue-type": "quorum"}

for _arguments in (
    {"x-max-length": 2**63 - 1},
    {"x-max-length-bytes": 2**63 - 1},
    {"x-message-ttl": 315_360_000_000},
    {"x-message-ttl": 315_360_000_001},
    {"x-expires": 315_360_000_000},
    {"x-expires": 1},
    {"x-consumer-timeout": 0},
    {"x-queue-master-locator": "nope"},
    {"x-quorum-target-group-size": 3},
    {"x-stream-filter-size-bytes": 20},
):
    _shown = ", ".join(f"{name}={value}" for name, value in _arguments.items())
    GROUP.add(f"a queue with {_shown}", with_arguments(_arguments))
for _name, _value in (
    ("x-delivery-limit", 0),
    ("x-delivery-limit", 2**63 - 1),
    ("x-quorum-initial-group-size", 1000),
    ("x-quorum-initial-group-size", 0),
    ("x-quorum-initial-group-size", -1),
    ("x-max-in-memory-length", 0),
    ("x-dead-letter-strategy", "at-least-once"),
):
    GROUP.add(f"a quorum queue with {_name}={_value}", with_arguments({**QUORUM, _name: _value}, durable=True))


def prefetch(count: int, *, shared: bool) -> Asking:
    return lambda session: iter([session.open().ask(Basic.Qos(prefetch_count=count, global_=shared))])


GROUP.add("a prefetch of 65535", prefetch(65535, shared=False))
GROUP.add("a prefetch of 65535 for the channel", prefetch(65535, shared=True))


@GROUP("the last channel that may be open")
def last_channel(session: Session) -> Lines:
    peer = session.open(channel=False)
    yield peer.ask(Channel.Open(), channel=2047)
    yield peer.ask(Channel.Open(), channel=2048)


@GROUP("an ack beyond all that can be")
def largest_tag(session: Session) -> Lines:
    yield session.open().ask(bare(60, 80, b"\xff" * 8 + b"\x01"), Basic.Qos())


@GROUP("an empty frame behind a message without a body")
def empty_frame(session: Session) -> Lines:
    peer = session.open()
    peer.send_steps(Basic.Publish(routing_key="nowhere"), head(0), raw_frame(3, 1, b""))
    yield peer.ask(Basic.Qos())


@GROUP("channel.open with a reserved text")
def reserved(session: Session) -> Lines:
    yield session.open(channel=False).ask(Channel.Open(out_of_band="0"))
