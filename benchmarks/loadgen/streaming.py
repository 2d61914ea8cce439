"""Streams: records appended with confirms by several publishers, and read from the first one by several consumers."""

import os
import time
from collections.abc import Sequence

import msgspec

from loadgen import frames
from loadgen.backlog import Used, wait
from loadgen.batch import Batch
from loadgen.brokers import Broker
from loadgen.connection import CHANNEL, Connection
from loadgen.consumer import Consumer
from loadgen.flow import Flow
from loadgen.publisher import Publisher
from triomq.clients import open_tap

WINDOW = 5_000
"""Records of a publisher that may be unconfirmed."""

PREFETCH = 2_000
"""Records of a consumer that may be unacked; it acks each half of them at once."""

STREAM = frames.short_string("x-queue-type") + b"S" + frames.long_string(b"stream")
OFFSET = frames.short_string("x-stream-offset")


class StreamResult(msgspec.Struct, frozen=True):
    """What one round showed: records per second, and processor time for each, of all processes and of the broker's."""

    rate: float
    microseconds: float
    own_microseconds: float


class StreamWork(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured.

    Args:
        name: selects it.
        title: stands in the table.
        size: octets of a record's body.
        publishers: how many append, each on a connection of its own.
        streams: how many streams they append to, each publisher to one.
        batch: publishes that are sent at once.
        readers: consumers that read all of it from different offsets; with none, appending is measured.
        fetches: whether one client reads it over tap instead, as often as this says.
        newest: how many of the newest records it reads; 0 for all, most of which are on disk only.
    """

    name: str
    title: str
    size: int = 100
    publishers: int = 1
    streams: int = 1
    batch: int = 50
    readers: int = 0
    fetches: int = 0
    newest: int = 0


STREAMS = [
    StreamWork(name="append-100-1", title="append, 100 B, 1 publisher"),
    StreamWork(name="append-100-4", title="append, 100 B, 4 publishers", publishers=4),
    StreamWork(name="append-1024", title="append, 1 KiB in batches of 500", size=1024, batch=500),
    StreamWork(name="append-16", title="append, 100 B, 16 publishers, a stream each", publishers=16, streams=16),
    StreamWork(name="read-100", title="read over AMQP, 100 B, 1 reader", readers=1),
    StreamWork(name="read-10", title="read over AMQP, 100 B, 10 readers at different offsets", readers=10),
    StreamWork(name="fetch-100", title="FETCH over tap, 100 B, from disk", fetches=5),
    StreamWork(name="fetch-1024", title="FETCH over tap, 1 KiB, from disk", fetches=5, size=1024),
    StreamWork(name="fetch-100-new", title="FETCH over tap, 100 B, from memory", fetches=50, newest=40_000),
    StreamWork(name="fetch-1024-new", title="FETCH over tap, 1 KiB, from memory", fetches=50, newest=4_000, size=1024),
]


def measure(work: StreamWork, count: int, broker: Broker) -> StreamResult:
    """Append so many records, or read them, once."""
    control = Connection(broker.address)
    names = [f"load.{os.urandom(4).hex()}" for _ in range(work.streams)]
    for name in names:
        control.call(frames.queue_declare(CHANNEL, name, durable=True, arguments=STREAM), frames.QUEUE_DECLARE_OK)
    try:
        found = _append(broker, names, count, work)
        if work.fetches:
            first = max(0, count - work.newest) if work.newest else 0
            return _fetch(broker, names[0], first, count, work.fetches)
        return _read(broker, names[0], count, work.readers) if work.readers else found
    finally:
        for name in names:
            control.call(frames.queue_delete(CHANNEL, name), frames.QUEUE_DELETE_OK)
        control.close()


def _append(broker: Broker, names: Sequence[str], count: int, work: StreamWork) -> StreamResult:
    """Publish with confirms, up to the last one."""
    flow, connections, publishers = Flow(), [], []
    for number in range(work.publishers):
        connection = Connection(broker.address)
        connections.append(connection)
        connection.call(frames.confirm_select(CHANNEL), frames.CONFIRM_SELECT_OK)
        name, body = names[number % len(names)], b"x" * work.size
        publish = frames.publish(CHANNEL, "", name, body, frame_max=connection.frame_max, persistent=True)
        batch = Batch.of([publish] * work.batch, 1)
        publisher = Publisher(
            connection.socket, batch, limit=WINDOW, share=1, confirms=True, on_blocked=flow.wait_for_room
        )
        publisher.most = count // work.publishers
        flow.add_publisher(publisher)
        publishers.append(publisher)
    used, begin = Used(broker), time.monotonic()
    for publisher in publishers:
        publisher.fill()
    wait(flow, lambda: all(publisher.confirmed >= publisher.most for publisher in publishers))
    found = _result(used, begin, sum(publisher.confirmed for publisher in publishers))
    for connection in connections:
        connection.close()
    return found


def _read(broker: Broker, name: str, count: int, readers: int) -> StreamResult:
    """Read from different offsets to the end."""
    flow, connections, consumers = Flow(), [], []
    wanted: list[int] = []
    used, begin = Used(broker), time.monotonic()
    for number in range(readers):
        first = count // 2 * number // readers
        connection = Connection(broker.address)
        connections.append(connection)
        connection.call(frames.basic_qos(CHANNEL, PREFETCH), frames.BASIC_QOS_OK)
        offset = OFFSET + b"l" + first.to_bytes(8, "big")
        consume = frames.basic_consume(CHANNEL, name, "load", no_ack=False, arguments=offset)
        connection.call(consume, frames.BASIC_CONSUME_OK)
        unread = connection.take_unread()
        consumer = Consumer(
            connection.socket, unread, channel=CHANNEL, ack_every=PREFETCH // 2, on_progress=lambda: None
        )
        flow.add_consumer(consumer)
        consumers.append(consumer)
        wanted.append(count - first)
    wait(flow, lambda: all(found.received >= most for found, most in zip(consumers, wanted, strict=True)))
    found = _result(used, begin, sum(consumer.received for consumer in consumers))
    for connection in connections:
        connection.socket.close()
    return found


def _fetch(broker: Broker, name: str, first: int, stop: int, times: int) -> StreamResult:
    """Read a range over tap, again and again, without looking at single records."""
    address = broker.address
    with open_tap(f"tap://{address.user}:{address.password}@{address.host}:{broker.tap}/") as tap:
        found, used, begin = 0, Used(broker), time.monotonic()
        for _ in range(times):
            for columns in tap.fetch(name, 0, first, stop):
                found += columns.head.count
        return _result(used, begin, found)


def _result(used: Used, begin: float, count: int) -> StreamResult:
    seconds = time.monotonic() - begin
    return StreamResult(count / seconds, *used.each(count))
