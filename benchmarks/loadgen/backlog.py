"""A backlog: a durable queue is filled with persistent messages while nobody reads, and then read to its end."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

import msgspec

from loadgen import frames, processes
from loadgen.batch import Batch
from loadgen.brokers import Broker
from loadgen.connection import CHANNEL, Connection
from loadgen.consumer import Consumer
from loadgen.flow import Flow
from loadgen.publisher import Publisher

DEADLINE = 900.0
"""Seconds for either half."""
WINDOW = 5_000
"""Messages that may be unconfirmed."""


class BacklogResult(msgspec.Struct, frozen=True):
    """What filling and draining showed.

    Args:
        count: how many messages there were.
        fill_rate: confirms per second.
        drain_rate: deliveries per second.
        fill_microseconds: processor time of all the broker's processes for each message that came.
        fill_own_microseconds: the same without the processes that the broker has started, such as its store's.
        drain_microseconds: processor time of all processes for each message that went.
        resident_before: octets of all processes before.
        resident_full: the same when the queue was full.
        resident_most: the most that was seen.
    """

    count: int
    fill_rate: float
    drain_rate: float
    fill_microseconds: float
    fill_own_microseconds: float
    drain_microseconds: float
    resident_before: int
    resident_full: int
    resident_most: int


class BacklogWork(msgspec.Struct, frozen=True, kw_only=True):
    """A queue to be filled and drained: `name` selects it, `title` stands in the table, `size` is a body's octets."""

    name: str
    title: str
    size: int


BACKLOGS = [
    BacklogWork(name="backlog-100", title="100 B", size=100),
    BacklogWork(name="backlog-1024", title="1 KiB", size=1024),
]


class Used:
    """Processor time from now on: of all a broker's processes, and of the first one."""

    def __init__(self, broker: Broker) -> None:
        self._pids = broker.processes()
        self._begin = self._now()

    def _now(self) -> tuple[float, float]:
        return processes.processor_seconds(self._pids), processes.processor_seconds(self._pids[:1])

    def each(self, count: int) -> tuple[float, float]:
        """Give the microseconds for each of so many messages."""
        now = self._now()
        return (now[0] - self._begin[0]) / count * 1e6, (now[1] - self._begin[1]) / count * 1e6


class _Watch:
    """Looks at the resident set ten times a second."""

    def __init__(self, broker: Broker) -> None:
        self.most = 0
        self._broker = broker
        self._ended = threading.Event()

    def look(self) -> int:
        resident = processes.resident_octets(self._broker.processes())
        self.most = max(self.most, resident)
        return resident

    def run(self) -> None:
        while not self._ended.wait(0.1):
            self.look()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self.run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()


def measure(work: BacklogWork, count: int, broker: Broker) -> BacklogResult:
    """Fill and drain once."""
    control, queue = Connection(broker.address), f"load.{os.urandom(4).hex()}"
    control.call(frames.queue_declare(CHANNEL, queue, durable=True), frames.QUEUE_DECLARE_OK)
    watch = _Watch(broker)
    before = watch.look()
    with watch.running():
        used = Used(broker)
        filled = _fill(broker, queue, count, work.size)
        in_all, own = used.each(count)
        if (found := control.count_messages(queue)) != count:
            raise RuntimeError(f"{found} of {count} messages are in the queue, though all are confirmed")
        full = watch.look()
        used = Used(broker)
        drained = _drain(broker, queue, count)
        out_all, _ = used.each(count)
    control.call(frames.queue_delete(CHANNEL, queue), frames.QUEUE_DELETE_OK)
    control.close()
    return BacklogResult(count, count / filled, count / drained, in_all, own, out_all, before, full, watch.most)


def wait(flow: Flow, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not done():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not done after {DEADLINE:.0f} s")
        flow.run_until(time.monotonic() + 0.02)


def _fill(broker: Broker, queue: str, count: int, size: int) -> float:
    """Publish with confirms; give the seconds until the last one."""
    connection = Connection(broker.address)
    connection.call(frames.confirm_select(CHANNEL), frames.CONFIRM_SELECT_OK)
    publish = frames.publish(CHANNEL, "", queue, b"x" * size, frame_max=connection.frame_max, persistent=True)
    flow = Flow()
    publisher = Publisher(
        connection.socket,
        Batch.of([publish] * 50, 1),
        limit=WINDOW,
        share=1,
        confirms=True,
        on_blocked=flow.wait_for_room,
    )
    publisher.most = count
    flow.add_publisher(publisher)
    begin = time.monotonic()
    publisher.fill()
    wait(flow, lambda: publisher.confirmed >= count)
    taken = time.monotonic() - begin
    connection.close()
    return taken


def _drain(broker: Broker, queue: str, count: int) -> float:
    """Consume with acks; give the seconds until the last message."""
    connection = Connection(broker.address)
    connection.call(frames.basic_qos(CHANNEL, 300), frames.BASIC_QOS_OK)
    begin = time.monotonic()
    connection.call(frames.basic_consume(CHANNEL, queue, "load", no_ack=False), frames.BASIC_CONSUME_OK)
    flow = Flow()
    unread = connection.take_unread()
    consumer = Consumer(connection.socket, unread, channel=CHANNEL, ack_every=100, on_progress=lambda: None)
    flow.add_consumer(consumer)
    wait(flow, lambda: consumer.received >= count)
    taken = time.monotonic() - begin
    connection.close()
    return taken
