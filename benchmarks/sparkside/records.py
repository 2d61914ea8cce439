"""Records that differ, appended over AMQP as services send them, and sinks for what comes of them.

A record's value is an order in JSON, filled up to its size; each has a number of its own, so that no two are alike and
Parquet has something to do.
"""

import contextlib
import os
import random
import time
from collections.abc import Iterator, Sequence

import msgspec

from loadgen import frames, heads
from loadgen.backlog import wait
from loadgen.batch import NUMBER, Batch
from loadgen.brokers import Broker
from loadgen.connection import CHANNEL, Connection
from loadgen.flow import Flow
from loadgen.publisher import Publisher
from loadgen.streaming import STREAM
from triomq.clients import open_tap

WINDOW = 20_000
"""Records of a publisher that may be unconfirmed."""

TARGET = 128 * 1024
"""Bytes that a publisher sends at once: what a busy service's socket has for the broker."""


class Kind(msgspec.Struct, frozen=True):
    """What records are like: `name` selects them, `title` stands in the table.

    Args:
        size: bytes of a value.
        properties: whether each has a message id, a trace header and a time of its own, 130 bytes in all.
    """

    name: str
    title: str
    size: int
    properties: bool = False


KINDS = {
    kind.name: kind
    for kind in [
        Kind("100", "100 B", 100),
        Kind("1024", "1 KiB", 1024),
        Kind("properties", "100 B and properties", 100, properties=True),
    ]
}


class Records(msgspec.Struct, frozen=True):
    """Records that stand in streams: their kind, the streams, how many there are in all."""

    kind: Kind
    streams: list[str]
    count: int


def value(kind: Kind, index: int) -> bytes:
    """Return the value of the record of that number in its batch."""
    some = random.Random(index)
    order = b'{"order":"%b%04x","customer":%6d,"product":"p-%02d","quantity":%d,"note":"' % (
        NUMBER,
        index,
        some.randrange(1_000_000),
        some.randrange(100),
        some.randrange(1, 10),
    )
    rest = kind.size - len(order) - 2
    return order + some.randbytes(rest // 2 + 1).hex().encode()[:rest] + b'"}'


def tap_url(broker: Broker) -> str:
    """Return where tap is."""
    address = broker.address
    return f"tap://{address.user}:{address.password}@{address.host}:{broker.tap}/"


@contextlib.contextmanager
def open_streams(broker: Broker, count: int) -> Iterator[list[str]]:
    """Declare so many streams with names of their own, and delete them behind the block."""
    control = Connection(broker.address)
    names = [f"load.{os.urandom(4).hex()}" for _ in range(count)]
    for name in names:
        control.call(frames.queue_declare(CHANNEL, name, durable=True, arguments=STREAM), frames.QUEUE_DECLARE_OK)
    control.close()
    try:
        yield names
    finally:
        control = Connection(broker.address)  # without heartbeats, a connection of minutes would be lost
        for name in names:
            control.call(frames.queue_delete(CHANNEL, name), frames.QUEUE_DELETE_OK)
        control.close()


def fill(broker: Broker, streams: Sequence[str], kind: Kind, count: int) -> Records:
    """Append so many records, in whole batches, a publisher for each stream."""
    flow, connections, publishers = Flow(), [], []
    for name in streams:
        connection = Connection(broker.address)
        connections.append(connection)
        connection.call(frames.confirm_select(CHANNEL), frames.CONFIRM_SELECT_OK)
        batch = _batch(kind, name, connection.frame_max)
        publisher = Publisher(
            connection.socket, batch, limit=WINDOW, share=1, confirms=True, on_blocked=flow.wait_for_room
        )
        publisher.most = count // len(streams)
        flow.add_publisher(publisher)
        publishers.append(publisher)
    for publisher in publishers:
        publisher.fill()
    wait(flow, lambda: all(publisher.confirmed >= publisher.most for publisher in publishers))
    wait(flow, lambda: all(publisher.confirmed >= publisher.sent for publisher in publishers))
    for connection in connections:
        connection.close()
    return Records(kind, list(streams), sum(publisher.sent for publisher in publishers))


def _batch(kind: Kind, stream: str, frame_max: int) -> Batch:
    def encode(index: int) -> bytes:
        properties = heads.properties(index, persistent=True) if kind.properties else None
        return frames.publish(
            CHANNEL, "", stream, value(kind, index), frame_max=frame_max, persistent=True, properties=properties
        )

    return Batch.numbered(encode, TARGET)


def count_of(broker: Broker, streams: Sequence[str]) -> int:
    """Return how many records there are in all."""
    with open_tap(tap_url(broker)) as tap:
        return sum(bounds.next for name in streams for bounds in tap.offsets(name))


class Drip:
    """A few small records again and again, each with its number; made for one stream, closed by its maker."""

    def __init__(self, broker: Broker, stream: str) -> None:
        self._connection = Connection(broker.address)
        self._stream = stream
        self.sent: list[float] = []
        """When each was sent, by its number."""

    def send(self, count: int) -> None:
        """Send so many."""
        now, first = time.monotonic(), len(self.sent)
        self.sent += [now] * count
        bodies = [b"%012d" % number for number in range(first, first + count)]
        frame_max = self._connection.frame_max
        publishes = [frames.publish(CHANNEL, "", self._stream, body, frame_max=frame_max) for body in bodies]
        self._connection.socket.sendall(b"".join(publishes))

    def close(self) -> None:
        """Close its connection."""
        self._connection.close()
