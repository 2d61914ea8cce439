"""Latency: every body begins with the moment at which it was sent. At a fixed rate, or behind a backlog.

At a fixed rate publisher and consumer are two processes with blocking sockets; both read the same monotonic clock of
the machine. The stamp is taken just before the send, so what is measured is socket → broker → socket and the consumer's
wake-up.
"""

import contextlib
import multiprocessing
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event

import msgspec

from loadgen import frames, processes, topology
from loadgen.batch import STAMP
from loadgen.brokers import Broker
from loadgen.connection import CHANNEL, Address, Connection
from loadgen.flow import WARM_UP, percentile
from loadgen.work import LatencyWork, Work

FORK = multiprocessing.get_context("fork")


class LatencyResult(msgspec.Struct, frozen=True):
    """What one window showed: rate per second, percentiles in milliseconds, broker time per delivery.

    processor_microseconds is None beside floods, whose deliveries are not counted but use the broker's time.
    """

    deliveries: int
    rate: float
    p50: float
    p99: float
    processor_microseconds: float | None


def publish_paced(address: Address, queue: str, work: LatencyWork, stopped: Event) -> None:
    """Publish at a fixed rate until told to stop; when late, the schedule is kept and the gap made up."""
    connection = Connection(address)
    connection.socket.setblocking(True)
    head = frames.publish_head(CHANNEL, "", queue, work.size) + struct.pack(">BHI", frames.BODY, CHANNEL, work.size)
    tail = b"x" * (work.size - STAMP.size) + frames.FRAME_END
    due = time.monotonic()
    while not stopped.is_set():
        due += 1 / work.rate
        delay = due - time.monotonic()
        if delay > 0:
            time.sleep(delay)
        connection.socket.sendall(head + STAMP.pack(time.monotonic_ns()) + tail)
    connection.close()


def run_floods(address: Address, count: int, stopped: Event) -> None:
    """Run pairs of publisher and consumer at full speed until told to stop."""
    work = Work(name="flood", title="flood", width=count)
    with topology.open_assembly(address, work) as flow:
        for publisher in flow.publishers:
            publisher.fill()
        while not stopped.is_set():
            flow.run_until(time.monotonic() + 0.1)
        flow.drain()


@contextlib.contextmanager
def running(target: Callable[..., None], *arguments: object) -> Iterator[None]:
    """Run a function in a process of its own for the length of the block; its last argument tells it to stop."""
    stopped = FORK.Event()
    process = FORK.Process(target=target, args=(*arguments, stopped), daemon=True)
    process.start()
    try:
        yield
    finally:
        stopped.set()
        process.join(60)
        process.kill()


class StampReader:
    """Takes the stamps out of a stream of deliveries of constant size."""

    def __init__(self, sock: socket.socket, unread: bytes, body_size: int) -> None:
        self._socket = sock
        self._unread = unread
        self._body_size = body_size
        self._size: int | None = None

    def read(self) -> list[float]:
        """Wait for deliveries and give the age of each, in milliseconds."""
        self._unread += self._socket.recv(1 << 18)
        now = time.monotonic_ns()
        self._size = self._size or frames.delivery_size(self._unread)
        if self._size is None:
            return []
        whole = len(self._unread) // self._size * self._size
        offset = self._size - 1 - self._body_size
        starts = range(offset, whole, self._size)
        ages = [(now - STAMP.unpack_from(self._unread, start)[0]) / 1e6 for start in starts]
        self._unread = self._unread[whole:]
        return ages


def _collect(reader: StampReader, seconds: float) -> list[float]:
    """Read ages for a while, and until there is one."""
    ages: list[float] = []
    deadline = time.monotonic() + seconds
    while not ages or time.monotonic() < deadline:
        ages += reader.read()
    return ages


def measure(work: LatencyWork, seconds: float, broker: Broker) -> LatencyResult:
    """Measure one window of a latency item."""
    address = broker.address
    queue = f"load.{os.urandom(4).hex()}"
    with contextlib.ExitStack() as stack:
        if work.floods:
            stack.enter_context(running(run_floods, address, work.floods))
        consumer = Connection(address)
        stack.callback(consumer.close)
        consumer.call(frames.queue_declare(CHANNEL, queue), frames.QUEUE_DECLARE_OK)
        consumer.call(frames.basic_consume(CHANNEL, queue, "load", no_ack=True), frames.BASIC_CONSUME_OK)
        stack.enter_context(running(publish_paced, address, queue, work))
        reader = StampReader(consumer.socket, consumer.take_unread(), work.size)
        _collect(reader, WARM_UP)
        result = _window(reader, seconds, [] if work.floods else broker.processes())
    _delete(address, queue)
    return result


def measure_ahead(work: Work, seconds: float, broker: Broker) -> LatencyResult:
    """Measure one window of a publisher that runs ahead of its consumer, so that a backlog is part of the latency.

    Publisher and consumer are one process here, as in every flow.
    """
    found = topology.measure(work, seconds, broker)
    if found.p50 is None or found.p99 is None:
        raise RuntimeError(f"no stamp was found in {found.deliveries} deliveries; is the work stamped?")
    return LatencyResult(found.deliveries, found.rate, found.p50, found.p99, found.processor_microseconds)


def _window(reader: StampReader, seconds: float, pids: list[int]) -> LatencyResult:
    """Collect one window and sum it up."""
    begin, used = time.monotonic(), processes.processor_seconds(pids)
    ages = _collect(reader, seconds)
    used, elapsed = processes.processor_seconds(pids) - used, time.monotonic() - begin
    return LatencyResult(
        deliveries=len(ages),
        rate=len(ages) / elapsed,
        p50=percentile(ages, 0.5),
        p99=percentile(ages, 0.99),
        processor_microseconds=used / len(ages) * 1e6 if pids else None,
    )


def _delete(address: Address, queue: str) -> None:
    """Remove the queue again."""
    control = Connection(address)
    control.call(frames.queue_delete(CHANNEL, queue), frames.QUEUE_DELETE_OK)
    control.close()
