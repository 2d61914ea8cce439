"""Arguments of declarations: every type and edge that a client may come with."""

import struct

from pamqp import commands

from ...answers import bare
from ..question import Asking, Group, Lines
from ..session import Session

Basic, Exchange, Queue = commands.Basic, commands.Exchange, commands.Queue

GROUP = Group("argument")


def declare(**options: object) -> Asking:
    def ask(session: Session) -> Lines:
        yield session.open().ask(Queue.Declare(**{"exclusive": True, **options}))  # type: ignore[arg-type]

    return ask


REFUSED: list[dict[str, object]] = [
    {"x-message-ttl": 2**32 - 1},
    {"x-message-ttl": 2**32},
    {"x-message-ttl": 0},
    {"x-message-ttl": True},
    {"x-message-ttl": 1.5},
    {"x-message-ttl": None},
    {"x-expires": 2**32 - 1},
    {"x-expires": 2**32},
    {"x-expires": 60000},
    {"x-max-length": 0},
    {"x-max-length": 2**62},
    {"x-max-length": 1.5},
    {"x-max-length-bytes": 0},
    {"x-max-length-bytes": "10"},
    {"x-max-priority": 0},
    {"x-max-priority": 255},
    {"x-overflow": "drop-head"},
    {"x-overflow": "reject-publish"},
    {"x-overflow": "reject-publish-dlx"},
    {"x-overflow": 5},
    {"x-dead-letter-exchange": 5},
    {"x-dead-letter-exchange": ""},
    {"x-dead-letter-exchange": "no.such.exchange", "x-dead-letter-routing-key": 5},
    {"x-dead-letter-exchange": "no.such.exchange", "x-dead-letter-routing-key": "k"},
    {"x-queue-mode": "lazy"},
    {"x-queue-mode": "default"},
    {"x-queue-mode": 5},
    {"x-queue-version": 1},
    {"x-queue-version": 2},
    {"x-queue-version": 3},
    {"x-queue-version": "a"},
    {"x-queue-master-locator": "client-local"},
    {"x-queue-type": "classic"},
    {"x-queue-type": "nope"},
    {"x-queue-type": 5},
    {"x-single-active-consumer": True},
    {"x-single-active-consumer": False},
    {"x-single-active-consumer": 1},
    {"x-delivery-limit": 3},
    {"x-delivery-limit": -1},
    {"x-delivery-limit": "a"},
    {"x-cancel-on-ha-failover": True},
    {"x-anything": {"of": ["any", "type"]}},
    {"no x at all": 1},
]
for _arguments in REFUSED:
    GROUP.add(", ".join(f"{name}={value!r}" for name, value in _arguments.items()), declare(arguments=_arguments))

LASTING: dict[str, dict[str, object]] = {
    "x-queue-type=quorum, exclusive": {"arguments": {"x-queue-type": "quorum"}},
    "x-queue-type=quorum, durable": {"exclusive": False, "durable": True, "arguments": {"x-queue-type": "quorum"}},
    "x-queue-type=quorum, not durable": {"exclusive": False, "arguments": {"x-queue-type": "quorum"}},
    "x-queue-type=quorum, auto-delete": {
        "exclusive": False,
        "durable": True,
        "auto_delete": True,
        "arguments": {"x-queue-type": "quorum"},
    },
    "x-queue-type=quorum, x-max-priority": {
        "exclusive": False,
        "durable": True,
        "arguments": {"x-queue-type": "quorum", "x-max-priority": 5},
    },
    "x-queue-type=quorum, x-delivery-limit": {
        "exclusive": False,
        "durable": True,
        "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 3},
    },
    "x-queue-type=quorum, x-overflow=reject-publish-dlx": {
        "exclusive": False,
        "durable": True,
        "arguments": {"x-queue-type": "quorum", "x-overflow": "reject-publish-dlx"},
    },
    "x-queue-type=quorum, x-queue-mode": {
        "exclusive": False,
        "durable": True,
        "arguments": {"x-queue-type": "quorum", "x-queue-mode": "lazy"},
    },
    "x-queue-type=stream": {"exclusive": False, "durable": True, "arguments": {"x-queue-type": "stream"}},
}


def lasting(options: dict[str, object]) -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open()
        yield peer.ask(Queue.Declare(queue=session.q, **options))  # type: ignore[arg-type]
        session.open().ask(Queue.Delete(queue=session.q))

    return ask


for _title, _options in LASTING.items():
    GROUP.add(_title, lasting(_options))

WIDTHS = {
    "b": struct.pack(">b", 100),
    "B": struct.pack(">B", 100),
    "s": struct.pack(">h", 10000),
    "u": struct.pack(">H", 10000),
    "I": struct.pack(">i", 10000),
    "i": struct.pack(">I", 10000),
    "l": struct.pack(">q", 10000),
    "L": struct.pack(">q", 10000),
    "d": struct.pack(">d", 10000.0),
    "f": struct.pack(">f", 10000.0),
    "D": struct.pack(">BI", 0, 10000),
    "T": struct.pack(">Q", 10000),
    "t": b"\x01",
    "V": b"",
    "S": struct.pack(">I", 5) + b"10000",
    "x": struct.pack(">I", 5) + b"10000",
    "A": struct.pack(">I", 0),
    "F": struct.pack(">I", 0),
}


def typed(argument: str, kind: str) -> Asking:
    def ask(session: Session) -> Lines:
        item = bytes([len(argument)]) + argument.encode() + kind.encode() + WIDTHS[kind]
        table = struct.pack(">I", len(item)) + item
        yield session.open().ask(bare(50, 10, b"\0\0\0\x04" + table))

    return ask


for _kind in WIDTHS:
    for _argument in ("x-message-ttl", "x-expires", "x-dead-letter-exchange", "x-overflow"):
        GROUP.add(f"{_argument} of type {_kind}", typed(_argument, _kind))


def redeclared(first: dict[str, object], second: dict[str, object]) -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open()
        peer.declare_queue(name=session.q, arguments=first)
        yield peer.ask(Queue.Declare(queue=session.q, exclusive=True, arguments=second))

    return ask


PAIRS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "the same x-message-ttl in another width": ({"x-message-ttl": 100}, {"x-message-ttl": 2**31}),
    "x-expires": ({"x-expires": 60000}, {"x-expires": 61000}),
    "x-max-priority": ({"x-max-priority": 5}, {"x-max-priority": 6}),
    "x-max-priority left out": ({"x-max-priority": 5}, {}),
    "x-max-length-bytes": ({"x-max-length-bytes": 5}, {"x-max-length-bytes": 6}),
    "x-overflow": ({"x-overflow": "drop-head"}, {"x-overflow": "reject-publish"}),
    "x-overflow left out": ({"x-overflow": "reject-publish"}, {}),
    "x-overflow=drop-head added": ({}, {"x-overflow": "drop-head"}),
    "x-dead-letter-exchange": ({"x-dead-letter-exchange": "a"}, {"x-dead-letter-exchange": "b"}),
    "x-dead-letter-exchange added": ({}, {"x-dead-letter-exchange": "b"}),
    "x-dead-letter-routing-key": (
        {"x-dead-letter-exchange": "a", "x-dead-letter-routing-key": "k"},
        {"x-dead-letter-exchange": "a", "x-dead-letter-routing-key": "l"},
    ),
    "x-single-active-consumer": ({"x-single-active-consumer": True}, {}),
    "x-single-active-consumer=false added": ({}, {"x-single-active-consumer": False}),
    "x-queue-mode": ({"x-queue-mode": "lazy"}, {}),
    "x-queue-type=classic added": ({}, {"x-queue-type": "classic"}),
    "x-queue-type=classic left out": ({"x-queue-type": "classic"}, {}),
    "an argument that is not known": ({"x-mine": 1}, {"x-mine": 2}),
    "an argument that is not known, left out": ({"x-mine": 1}, {}),
    "two that differ": ({"x-max-length": 1, "x-message-ttl": 1000}, {"x-max-length": 2, "x-message-ttl": 2000}),
}
for _title, (_first, _second) in PAIRS.items():
    GROUP.add(f"redeclare, {_title}", redeclared(_first, _second))


@GROUP("x-message-ttl in two widths is the same")
def same_in_two_widths(session: Session) -> Lines:
    peer = session.open()
    name = session.q.encode()
    for octets in (b"s" + struct.pack(">h", 1000), b"l" + struct.pack(">q", 1000), b"I" + struct.pack(">i", 1000)):
        item = b"\x0dx-message-ttl" + octets
        table = struct.pack(">I", len(item)) + item
        yield peer.ask(bare(50, 10, b"\0\0" + bytes([len(name)]) + name + b"\x04" + table))


CONSUMER: list[dict[str, object]] = [
    {"x-priority": 10},
    {"x-priority": -10},
    {"x-priority": "a"},
    {"x-priority": 2**40},
    {"x-priority": 1.5},
    {"x-priority": True},
    {"x-cancel-on-ha-failover": True},
    {"x-stream-offset": "first"},
    {"x-mine": 1},
]


def consume(arguments: dict[str, object]) -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open()
        peer.declare_queue(name=session.q)
        yield peer.ask(Basic.Consume(queue=session.q, consumer_tag="t", arguments=arguments))

    return ask


for _arguments in CONSUMER:
    _text = ", ".join(f"{name}={value!r}" for name, value in _arguments.items())
    GROUP.add(f"basic.consume with {_text}", consume(_arguments))


def exchange(kind: str, arguments: dict[str, object]) -> Asking:
    def ask(session: Session) -> Lines:
        peer = session.open()
        yield peer.ask(Exchange.Declare(exchange=session.e, exchange_type=kind, auto_delete=True, arguments=arguments))
        session.open().ask(Exchange.Delete(exchange=session.e))

    return ask


for _kind, _arguments in (
    ("direct", {"x-mine": 1}),
    ("direct", {"alternate-exchange": "amq.fanout"}),
    ("direct", {"alternate-exchange": "no.such.exchange"}),
    ("direct", {"alternate-exchange": 5}),
    ("direct", {"alternate-exchange": ""}),
    ("x-consistent-hash", {}),
    ("x-consistent-hash", {"hash-header": "h"}),
    ("x-consistent-hash", {"hash-property": "message_id"}),
    ("x-consistent-hash", {"hash-property": "nope"}),
    ("x-consistent-hash", {"hash-header": "h", "hash-property": "message_id"}),
    ("x-delayed-message", {}),
    ("", {}),
    ("Direct", {}),
):
    _text = ", ".join(f"{name}={value!r}" for name, value in _arguments.items())
    GROUP.add(f"exchange.declare of type {_kind!r} with {_text or 'nothing'}", exchange(_kind, _arguments))
