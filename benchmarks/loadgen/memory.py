"""Memory: what an idle connection, an idle queue and a waiting message add to a broker's resident set."""

import contextlib
import os
import time
from collections.abc import Callable

import msgspec

from loadgen import frames, processes
from loadgen.batch import Batch
from loadgen.brokers import Broker
from loadgen.connection import CHANNEL, Address, Connection

SETTLE = 5.0  # seconds in which buffers shrink and collectors of garbage finish
SETTLE_MESSAGES = 60.0  # the same after a million messages: RabbitMQ gives memory back in steps, up to the 35th
FILL_DEADLINE = 300.0  # seconds for all messages to be in the queue


class MemoryResult(msgspec.Struct, frozen=True):
    """What `count` things added: octets for each once memory has settled, the resident set then and before."""

    count: int
    octets_each: float
    resident: int
    resident_at_once: int


class MemoryWork(msgspec.Struct, frozen=True):
    """One kind of thing to fill a broker with.

    `fill` opens `count` of them and gives what removes them again; memory is read `settle` seconds after it.
    """

    name: str
    title: str
    count: int
    settle: float
    fill: Callable[[Address, int], Callable[[], None]]


def open_connections(address: Address, count: int) -> Callable[[], None]:
    """Open connections with one channel each."""
    connections = [Connection(address) for _ in range(count)]

    def close() -> None:
        for connection in connections:
            connection.close()

    return close


def declare_queues(address: Address, count: int) -> Callable[[], None]:
    """Declare empty transient queues."""
    control, stem = Connection(address), os.urandom(4).hex()
    names = [f"load.{stem}.{number}" for number in range(count)]
    for name in names:
        control.call(frames.queue_declare(CHANNEL, name), frames.QUEUE_DECLARE_OK)

    def delete() -> None:
        for name in names:
            control.call(frames.queue_delete(CHANNEL, name), frames.QUEUE_DELETE_OK)
        control.close()

    return delete


def queue_messages(address: Address, count: int) -> Callable[[], None]:
    """Publish transient messages of 100 octets into one queue and wait until all are in it."""
    control, queue = Connection(address), f"load.{os.urandom(4).hex()}"
    control.call(frames.queue_declare(CHANNEL, queue), frames.QUEUE_DECLARE_OK)
    publish = frames.publish(CHANNEL, "", queue, b"x" * 100, frame_max=control.frame_max)
    control.socket.settimeout(FILL_DEADLINE)
    whole, rest = divmod(count, 400)
    batch = Batch.of([publish] * 400, 1)
    for _ in range(whole):
        control.socket.sendall(batch.octets)
    control.socket.sendall(publish * rest)
    deadline = time.monotonic() + FILL_DEADLINE
    while (found := control.count_messages(queue)) < count:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{found} of {count} messages are in the queue after {FILL_DEADLINE:.0f} s")
        time.sleep(0.1)

    def delete() -> None:
        with contextlib.closing(control):
            control.call(frames.queue_delete(CHANNEL, queue), frames.QUEUE_DELETE_OK)

    return delete


MEMORIES: list[MemoryWork] = [
    MemoryWork("connections", "idle connection with a channel", 500, SETTLE, open_connections),
    MemoryWork("queues", "idle queue", 5000, SETTLE, declare_queues),
    MemoryWork("messages", "queued message of 100 B", 1_000_000, SETTLE_MESSAGES, queue_messages),
]


def settled_octets(broker: Broker, seconds: float) -> int:
    """The resident set after a broker was left in peace for a while."""
    time.sleep(seconds)
    return processes.resident_octets(broker.processes())


def measure(work: MemoryWork, broker: Broker) -> MemoryResult:
    """Fill a broker that has just been started, and compare its resident set before and after."""
    open_connections(broker.address, 1)()  # what the first connection loads stays loaded
    before = settled_octets(broker, SETTLE)
    empty = work.fill(broker.address, work.count)
    at_once = settled_octets(broker, 0)
    after = settled_octets(broker, work.settle)
    empty()
    return MemoryResult(work.count, (after - before) / work.count, after, at_once)
