"""Consumers of streams: where they begin, what they must ask for, and what their acks do."""

import re
import struct
import time

from pamqp import commands

from ...answers import bare
from ..question import Asking, Group, Lines
from ..session import Session
from ..steps import message
from ..streams import append, consume, declare, filled, until

Basic, Channel, Confirm, Queue = commands.Basic, commands.Channel, commands.Confirm, commands.Queue

GROUP = Group("stream consumer")


# Records, and where consumers begin


def begun(offset: object) -> Asking:
    def ask(session: Session) -> Lines:
        peer = filled(session)
        answer = peer.ask(consume(session.q, offset))
        yield answer
        if "close" not in answer:
            append(session, b"more")
            yield from until(peer, b"more")
        session.open().ask(Queue.Delete(queue=session.q))

    return ask


OFFSETS: list[object] = [
    None,
    "first",
    "next",
    0,
    1,
    2,
    3,
    -1,
    -(2**62),
    "1h",
    "1Y",
    "5m",
    "30s",
    "0s",
    "1x",
    "1",
    "h",
    "",
    "-1h",
    "bogus",
    "First",
    True,
    1.5,
    [],
    {},
]
for _offset in OFFSETS:
    GROUP.add(f"from {'nowhere' if _offset is None else repr(_offset)}", begun(_offset))


for _offset in (1000, 2**62):

    @GROUP(f"from {_offset}, where nothing is yet")
    def beyond(session: Session, offset: int = _offset) -> Lines:
        peer = filled(session)
        yield peer.ask(consume(session.q, offset))
        append(session, b"more")
        yield from peer.receive_for()


@GROUP("from 'last' gets the last at least")
def last(session: Session) -> Lines:
    peer = filled(session)
    peer.do(consume(session.q, "last"))
    # RabbitMQ begins with the last chunk, and how many records are in that is its own choice.
    *_, found = until(peer, b"2")
    yield re.sub(r"delivery_tag=\d ", "", found)


@GROUP("of an empty stream")
def empty(session: Session) -> Lines:
    peer = filled(session, 0)
    for number, offset in enumerate(("first", "last", "next", 0, "1h")):
        yield peer.ask(consume(session.q, offset, tag=str(number)))
    yield from peer.receive_for()
    append(session, b"0")
    # Whom of several it serves first is the broker's own choice.
    yield from sorted(re.sub(r"delivery_tag=\d ", "", line) for line in peer.receive(5))


def at_moment(seconds: float, kind: bytes = b"T") -> Asking:
    def ask(session: Session) -> Lines:
        peer = filled(session)
        item = b"\x0fx-stream-offset" + kind + struct.pack(">q", int(time.time() + seconds))
        name = session.q.encode()
        table = struct.pack(">I", len(item)) + item
        yield peer.ask(bare(60, 20, b"\0\0" + bytes([len(name)]) + name + b"\x01t\0" + table))
        append(session, b"more")
        yield from until(peer, b"more")
        session.open().ask(Queue.Delete(queue=session.q))

    return ask


GROUP.add("from a moment an hour ago", at_moment(-3600))
GROUP.add("from a moment to come", at_moment(3600))
GROUP.add("from the moment 0", at_moment(-time.time()))

WIDTHS = {
    "b": struct.pack(">b", 1),
    "B": struct.pack(">B", 1),
    "s": struct.pack(">h", 1),
    "u": struct.pack(">H", 1),
    "I": struct.pack(">i", 1),
    "i": struct.pack(">I", 1),
    "l": struct.pack(">q", 1),
    "d": struct.pack(">d", 1.0),
    "f": struct.pack(">f", 1.0),
    "D": struct.pack(">BI", 0, 1),
    "V": b"",
    "x": struct.pack(">I", 5) + b"first",
    "A": struct.pack(">I", 0),
    "F": struct.pack(">I", 0),
}


def from_typed(kind: str) -> Asking:
    def ask(session: Session) -> Lines:
        peer = filled(session)
        item = b"\x0fx-stream-offset" + kind.encode() + WIDTHS[kind]
        name = session.q.encode()
        table = struct.pack(">I", len(item)) + item
        answer = peer.ask(bare(60, 20, b"\0\0" + bytes([len(name)]) + name + b"\x01t\0" + table))
        yield answer
        if "close" not in answer:
            yield from until(peer, b"2")
        session.open().ask(Queue.Delete(queue=session.q))

    return ask


for _kind in WIDTHS:
    GROUP.add(f"from an offset of type {_kind}", from_typed(_kind))


@GROUP("without acks")
def no_ack(session: Session) -> Lines:
    yield filled(session).ask(consume(session.q, "first", no_ack=True))


@GROUP("without a limit")
def no_limit(session: Session) -> Lines:
    filled(session)
    yield session.open().ask(consume(session.q, "first"))


@GROUP("with a limit for the channel alone")
def global_limit(session: Session) -> Lines:
    filled(session)
    peer = session.open()
    peer.do(Basic.Qos(prefetch_count=10, global_=True))
    yield peer.ask(consume(session.q, "first"))


@GROUP("with both limits")
def both_limits(session: Session) -> Lines:
    filled(session)
    peer = session.open()
    peer.do(Basic.Qos(prefetch_count=10, global_=True), Basic.Qos(prefetch_count=2))
    yield peer.ask(consume(session.q, "first"))


@GROUP("a limit for the channel once there is a consumer")
def late_global_limit(session: Session) -> Lines:
    peer = filled(session)
    peer.do(consume(session.q, "next"))
    yield peer.ask(Basic.Qos(prefetch_count=10, global_=True))


@GROUP("without acks and without a limit")
def nothing_at_all(session: Session) -> Lines:
    filled(session)
    yield session.open().ask(consume(session.q, "bogus", no_ack=True))


@GROUP("without acks, without a limit and from a good offset")
def neither(session: Session) -> Lines:
    filled(session)
    yield session.open().ask(consume(session.q, "first", no_ack=True))


@GROUP("with x-priority and from a bad offset")
def priority_and_bad(session: Session) -> Lines:
    yield filled(session).ask(consume(session.q, arguments={"x-stream-offset": "1x", "x-priority": 5}))


@GROUP("with x-priority and without a limit")
def priority_unlimited(session: Session) -> Lines:
    filled(session)
    yield session.open().ask(consume(session.q, arguments={"x-stream-offset": "next", "x-priority": 5}))


@GROUP("with a bad offset and without acks")
def bad_without_acks(session: Session) -> Lines:
    yield filled(session).ask(consume(session.q, "1x", no_ack=True))


@GROUP("with a bad offset and without a limit")
def bad_unlimited(session: Session) -> Lines:
    filled(session)
    yield session.open().ask(consume(session.q, "1x"))


@GROUP("an exclusive consumer, and another")
def exclusive(session: Session) -> Lines:
    peer = filled(session)
    yield peer.ask(consume(session.q, "next", exclusive=True))
    yield peer.ask(consume(session.q, "next", tag="u"))


@GROUP("a consumer, and another that wants to be exclusive")
def exclusive_later(session: Session) -> Lines:
    peer = filled(session)
    yield peer.ask(consume(session.q, "next"))
    yield peer.ask(consume(session.q, "next", tag="u", exclusive=True))


for _value in (5, -5, 0, "a", True):

    @GROUP(f"with x-priority={_value!r}")
    def with_priority(session: Session, value: object = _value) -> Lines:
        yield filled(session).ask(consume(session.q, arguments={"x-stream-offset": "next", "x-priority": value}))


@GROUP("with an argument that is not known")
def unknown_argument(session: Session) -> Lines:
    yield filled(session).ask(consume(session.q, arguments={"x-stream-offset": "next", "x-mine": 1}))


@GROUP("no-local is not looked at")
def no_local(session: Session) -> Lines:
    peer = filled(session)
    peer.do(consume(session.q, "next", no_local=True), Confirm.Select())
    peer.send_steps(message(session.q, b"mine"))
    yield from sorted(peer.receive(2))


@GROUP("a consume that waits for no answer")
def no_wait(session: Session) -> Lines:
    peer = filled(session)
    peer.send_steps(consume(session.q, "first", nowait=True))
    yield from until(peer, b"2")


@GROUP("a consume of an exchange's name")
def no_queue(session: Session) -> Lines:
    yield filled(session).ask(consume("amq.direct", "first"))


@GROUP("consumers at several offsets each get all")
def several(session: Session) -> Lines:
    first, second, third = filled(session), session.open(), session.open()
    for peer in (second, third):
        peer.do(Basic.Qos(prefetch_count=10))
    for peer, offset in ((first, "first"), (second, 1), (third, 2)):
        peer.do(consume(session.q, offset))
    for peer in (first, second, third):
        yield from until(peer, b"2")


@GROUP("two consumers of one channel")
def two_of_one(session: Session) -> Lines:
    peer = filled(session)
    peer.do(consume(session.q, "first"))
    yield from peer.receive(3)
    yield peer.ask(consume(session.q, 1, tag="u"))
    yield from peer.receive(2)


@GROUP("what was read and acked is there for the next")
def read_again(session: Session) -> Lines:
    peer = filled(session)
    for tag in ("t", "u"):
        peer.do(consume(session.q, "first", tag=tag))
        yield from peer.receive(3)
        peer.send_steps(Basic.Ack(0, multiple=True))
        yield peer.ask(Basic.Cancel(tag))


@GROUP("a declare counts consumers, and no records")
def counts(session: Session) -> Lines:
    peer = filled(session)
    yield peer.ask(declare(session.q))
    yield peer.ask(Queue.Declare(queue=session.q, passive=True))
    peer.do(consume(session.q, "first"))
    yield from peer.receive(3)
    yield peer.ask(Queue.Declare(queue=session.q, passive=True))
    peer.do(Basic.Cancel("t"))
    yield peer.ask(Queue.Declare(queue=session.q, passive=True))


# Acks, and what else a consumer may say


@GROUP("a limit holds until something is acked")
def limit(session: Session) -> Lines:
    filled(session, 6)
    peer = session.open()
    peer.do(Basic.Qos(prefetch_count=2), consume(session.q, "first"))
    yield from peer.receive(2)
    yield from peer.receive_for()
    peer.send_steps(Basic.Ack(1))
    yield from peer.receive()
    yield from peer.receive_for()
    peer.send_steps(Basic.Ack(3, multiple=True))
    yield from peer.receive(2)
    yield from peer.receive_for()
    peer.send_steps(Basic.Ack(0, multiple=True))
    yield from peer.receive()


@GROUP("an ack out of order gives room")
def out_of_order(session: Session) -> Lines:
    filled(session, 4)
    peer = session.open()
    peer.do(Basic.Qos(prefetch_count=2), consume(session.q, "first"))
    yield from peer.receive(2)
    peer.send_steps(Basic.Ack(2))
    yield from peer.receive()
    yield from peer.receive_for()


@GROUP("an ack twice")
def twice(session: Session) -> Lines:
    peer = filled(session)
    peer.do(consume(session.q, "first"))
    yield from peer.receive(3)
    yield peer.ask(Basic.Ack(1), Basic.Ack(1))


SAID: dict[str, commands.Basic.Nack | commands.Basic.Reject | commands.Basic.Recover] = {
    "nack": Basic.Nack(1, requeue=False),
    "nack and requeue": Basic.Nack(1, requeue=True),
    "nack of several": Basic.Nack(2, multiple=True, requeue=False),
    "reject": Basic.Reject(1, requeue=False),
    "reject and requeue": Basic.Reject(1, requeue=True),
    "recover": Basic.Recover(requeue=True),
    "nack of a tag that is not known": Basic.Nack(99, requeue=False),
}


def says(method: commands.Basic.Nack | commands.Basic.Reject | commands.Basic.Recover) -> Asking:
    def ask(session: Session) -> Lines:
        peer = filled(session)
        peer.do(consume(session.q, "first"))
        yield from peer.receive(3)
        peer.send_steps(method)
        yield from peer.receive_for(0.3)

    return ask


for _title, _method in SAID.items():
    GROUP.add(f"{_title}", says(_method))


@GROUP("a nack after its consumer is cancelled")
def nack_cancelled(session: Session) -> Lines:
    peer = filled(session)
    peer.do(consume(session.q, "first"))
    yield from peer.receive(3)
    yield peer.ask(Basic.Cancel("t"))
    peer.send_steps(Basic.Nack(1, requeue=True))
    yield from peer.receive_for(0.3)


@GROUP("an ack after its consumer is cancelled")
def ack_cancelled(session: Session) -> Lines:
    peer = filled(session)
    peer.do(consume(session.q, "first"))
    yield from peer.receive(3)
    yield peer.ask(Basic.Cancel("t"))
    yield peer.ask(Basic.Ack(0, multiple=True), Basic.Qos(prefetch_count=1))


@GROUP("a cancelled tag is free for another offset")
def cancelled(session: Session) -> Lines:
    peer = filled(session)
    peer.do(consume(session.q, "first"))
    yield from peer.receive(3)
    yield peer.ask(Basic.Cancel("t"))
    yield peer.ask(consume(session.q, 2))
    yield from peer.receive()


@GROUP("what is out when a channel ends comes again as if never seen")
def channel_ends(session: Session) -> Lines:
    peer = filled(session)
    peer.do(consume(session.q, "first"))
    yield from peer.receive(3)
    peer.do(Channel.Close(200, "", 0, 0), Channel.Open(), Basic.Qos(prefetch_count=100), consume(session.q, 1))
    yield from peer.receive(2)
