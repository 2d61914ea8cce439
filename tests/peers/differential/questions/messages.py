"""What a message says of itself, and what a broker makes of it."""

import datetime
import struct

from pamqp import commands

from ...raw import content, encode, publish
from ..question import Asking, Group, Lines
from ..session import Session
from ..steps import message

Basic, Channel, Queue = commands.Basic, commands.Channel, commands.Queue

GROUP = Group("message")

FIELDS: dict[str, bytes] = {
    "t true": b"t\x01",
    "b": b"b\xff",
    "B": b"B\xff",
    "s": b"s\xff\xfe",
    "u": b"u\xff\xfe",
    "I": b"I\xff\xff\xff\xfe",
    "i": b"i\xff\xff\xff\xfe",
    "l": b"l" + b"\xff" * 8,
    "L": b"L" + b"\xff" * 8,
    "f": b"f" + struct.pack(">f", 0.1),
    "d": b"d" + struct.pack(">d", 0.1),
    "D": b"D\x02\x00\x00\x01\x00",
    "S": b"S\x00\x00\x00\x02\xc3\xb8",
    "S not UTF-8": b"S\x00\x00\x00\x01\xff",
    "x": b"x\x00\x00\x00\x02\x00\xff",
    "T": b"T" + struct.pack(">Q", 1_600_000_000),
    "V": b"V",
    "A in A": b"A\x00\x00\x00\x06A\x00\x00\x00\x01V",
    "F in F": b"F\x00\x00\x00\x09\x01aF\x00\x00\x00\x02\x00V",
    "an empty name": b"V",
}


def field(octets: bytes, name: bytes = b"n") -> Asking:
    """Whether a header's octets come out as they went in."""

    def ask(session: Session) -> Lines:
        peer = session.open()
        queue = peer.declare_queue()
        item = bytes([len(name)]) + name + octets
        table = struct.pack(">I", len(item)) + item
        peer.send_steps(publish(1, "", queue, b"x", b"\x20\x00" + table))
        peer.send_steps(Basic.Get(queue=queue, no_ack=True))
        found = peer.read()
        if found is None:
            yield "reset"
            return
        method = found.decode()
        yield method.name
        if not isinstance(method, Basic.GetOk):
            return  # whether it waits for a close-ok longer than this session does is its own choice
        same = peer.read_content()[0] == b"\x20\x00" + table
        yield f"as it was: {same}"

    return ask


for _title, _octets in FIELDS.items():
    GROUP.add(f"a header of type {_title}", field(_octets, b"" if _title == "an empty name" else b"n"))
GROUP.add("a header of a type that is not known", field(b"?"))

PROPERTIES: dict[str, dict[str, object]] = {
    "all": {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "headers": {"a": 1},
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "60000",
        "message_id": "m",
        "timestamp": datetime.datetime.fromtimestamp(1_600_000_000, datetime.UTC),
        "message_type": "t",
        "user_id": "guest",
        "app_id": "a",
    },
    "cluster-id": {"cluster_id": "c"},
    "delivery-mode 0": {"delivery_mode": 0},
    "delivery-mode 3": {"delivery_mode": 3},
    "priority 255": {"priority": 255},
    "an empty user-id": {"user_id": ""},
    "an empty expiration": {"expiration": ""},
    "an expiration of 0": {"expiration": "0"},
    "an expiration with a sign": {"expiration": "+1000"},
    "an expiration with a blank": {"expiration": " 1000"},
    "an expiration with a fraction": {"expiration": "1000.5"},
    "an expiration with letters behind": {"expiration": "1000ms"},
    "an expiration in hexadecimal": {"expiration": "0x10"},
    "an expiration that is no number": {"expiration": "abc"},
    "an expiration below 0": {"expiration": "-1"},
    "the longest expiration": {"expiration": str(2**32 - 1)},
    "an expiration too long": {"expiration": str(2**32)},
    "an expiration with digits of another script": {"expiration": "١٢٣"},
    "a user-id of someone else": {"user_id": "other"},
}


def properties(values: dict[str, object]) -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open()
        queue = peer.declare_queue()
        # Pamqp refuses some of these itself, so they are made by hand.
        peer.send_steps(encode(1, Basic.Publish(routing_key=queue)), content(1, b"x", encoded(values)))
        yield peer.get(queue)

    return ask


def encoded(values: dict[str, object]) -> bytes:
    """Flags and values; strings that pamqp does not like are put in afterwards."""
    strange = {name: value for name, value in values.items() if name in ("expiration", "cluster_id", "delivery_mode")}
    if len(values) == 1 and strange:
        (name, value), *_ = strange.items()
        flag = {"expiration": 0x0100, "cluster_id": 0x0004, "delivery_mode": 0x1000}[name]
        octets = value.encode() if isinstance(value, str) else b""
        return struct.pack(">H", flag) + (
            bytes([len(octets)]) + octets if octets or value == "" else bytes([int(str(value))])
        )
    return Basic.Properties(**values).marshal()


for _title, _values in PROPERTIES.items():
    GROUP.add(f"properties: {_title}", properties(_values))


@GROUP("get says how many remain")
def remain(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue()
    peer.send_steps(publish(1, "", queue, b"x") * 3)
    yield from [peer.get(queue) for _ in range(4)]


@GROUP("gets that are sent at once are answered in order")
def pipelined(session: Session) -> Lines:
    peer = session.open()
    queue, other = peer.declare_queue(), peer.declare_queue()
    peer.send_steps(publish(1, "", queue, b"1"), publish(1, "", other, b"2"))
    gets = [Basic.Get(queue=name, no_ack=True) for name in (queue, other, queue, other)]
    peer.send_steps(*gets)
    yield from peer.receive(4)


@GROUP("exchange and key of a message stay what they were")
def origin(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue()
    peer.do(Queue.Bind(queue=queue, exchange="amq.fanout"))
    peer.send_steps(publish(1, "amq.fanout", session.e, b"x"))
    yield peer.get(queue)


@GROUP("a return without confirms comes before any later answer")
def returned(session: Session) -> Lines:
    peer = session.open()
    yield peer.ask(message("nowhere", b"x", mandatory=True, message_id="m"), Basic.Qos())
    yield peer.receive()[0]


@GROUP("headers of 50 kB")
def long_headers(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue()
    peer.send_steps(message(queue, b"x", headers={"long": "y" * 50_000}))
    yield str(len(peer.get(queue)) > 50_000)


@GROUP("a body of a mebibyte")
def long_body(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue()
    peer.send_steps(publish(1, "", queue, b"x" * 2**20))
    yield peer.get(queue)


@GROUP("a body beyond 128 MiB is announced")
def too_long_body(session: Session) -> Lines:
    peer = session.open()
    head = struct.pack(">HHQH", 60, 0, 2**27 + 1, 0)
    peer.send_steps(
        Basic.Publish(routing_key="nowhere"), b"\x02\x00\x01" + struct.pack(">I", len(head)) + head + b"\xce"
    )
    yield peer.receive_for()[0]


@GROUP("a delivery tag is unknown after its channel was opened again")
def reopened(session: Session) -> Lines:
    peer = session.open()
    queue = peer.declare_queue()
    peer.send_steps(publish(1, "", queue, b"x"))
    yield peer.get(queue, no_ack=False)
    peer.do(Channel.Close(200, "", 0, 0), Channel.Open())
    yield peer.ask(Basic.Ack(1))


for _method, _twice in {
    "ack": [Basic.Ack(1), Basic.Ack(1)],
    "ack, then reject": [Basic.Ack(1), Basic.Reject(1)],
    "ack multiple beyond what is out": [Basic.Ack(5, multiple=True)],
    "ack multiple, nothing left": [Basic.Ack(1, multiple=True), Basic.Ack(1, multiple=True)],
    "nack 0 multiple twice": [Basic.Nack(0, multiple=True), Basic.Nack(0, multiple=True)],
    "nack 0 single": [Basic.Nack(0)],
    "reject 0": [Basic.Reject(0)],
}.items():

    def _settle(session: Session, steps: list[object] = _twice) -> Lines:
        peer = session.open()
        queue = peer.declare_queue()
        peer.send_steps(publish(1, "", queue, b"x"))
        yield peer.get(queue, no_ack=False)
        yield peer.ask(*steps, Basic.Qos())

    GROUP.add(f"settle: {_method}", _settle)
