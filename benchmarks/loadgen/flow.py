"""A flow: publishers and consumers in one loop of one process, and a window in which they are counted.

One process serves all sockets, since the machine has few cores and the broker shall have one for itself. It does little
per chunk of 64 KiB and nothing per message; `FlowResult.generator_share` and the relay of `floor.py` show how far it is
from being what is measured.
"""

import functools
import select
import time
from collections.abc import Callable, Sequence

import msgspec

from loadgen import processes
from loadgen.consumer import Consumer
from loadgen.publisher import Publisher

WARM_UP = 1.0  # seconds before the window: caches, adaptive buffers, RabbitMQ's flow control
DRAIN_DEADLINE = 60.0  # seconds for the rest to arrive after the window


class FlowResult(msgspec.Struct, frozen=True):
    """What one window showed.

    rate is deliveries per second that consumers received; processor_microseconds the broker's user and system time for
    each of them, None when the broker's process is not known; own_microseconds the same without the processes that it
    has started, such as its store's; generator_share the part of one core the generator used; p50 and p99 the
    milliseconds from before a message's sending to its arrival, None where messages are not stamped.
    """

    deliveries: int
    seconds: float
    rate: float
    processor_microseconds: float | None
    generator_share: float
    own_microseconds: float | None = None
    p50: float | None = None
    p99: float | None = None


def percentile(ages: Sequence[float], part: float) -> float:
    """The value below which a part of all values lies."""
    return sorted(ages)[min(len(ages) - 1, int(len(ages) * part))]


class Flow:
    """Drives publishers and consumers; created for one window, owns none of the sockets."""

    def __init__(self) -> None:
        self.publishers: list[Publisher] = []
        self.consumers: list[Consumer] = []
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}

    def add_publisher(self, publisher: Publisher) -> None:
        """Serve a publisher; its confirms are read whether it waits for them or not."""
        self.publishers.append(publisher)
        self._handlers[publisher.socket.fileno()] = functools.partial(self._serve, publisher)
        self._poll.register(publisher.socket, select.EPOLLIN)

    def add_consumer(self, consumer: Consumer) -> None:
        """Serve a consumer."""
        self.consumers.append(consumer)
        self._handlers[consumer.socket.fileno()] = consumer.read
        self._poll.register(consumer.socket, select.EPOLLIN)

    def wait_for_room(self, publisher: Publisher, blocked: bool) -> None:
        """Watch a full socket for room, or cease to."""
        self._poll.modify(publisher.socket, select.EPOLLIN | (select.EPOLLOUT if blocked else 0))

    def _serve(self, publisher: Publisher) -> None:
        try:
            publisher.read()
        except BlockingIOError:
            publisher.fill()  # not readable, so it was the room that was waited for

    def run_until(self, deadline: float) -> None:
        """Serve all sockets up to a moment of the monotonic clock."""
        handlers = self._handlers
        while time.monotonic() < deadline:
            for descriptor, _ in self._poll.poll(0.02):
                handlers[descriptor]()

    def _received(self) -> int:
        return sum(consumer.received for consumer in self.consumers)

    def measure(self, seconds: float, broker_processes: Sequence[int]) -> FlowResult:
        """Warm up, count for a window, stop publishing and see that everything arrives.

        Raises:
            RuntimeError: fewer or more messages came out than went in.
        """
        for publisher in self.publishers:
            publisher.fill()
        self.run_until(time.monotonic() + WARM_UP)
        pids = list(broker_processes)
        for consumer in self.consumers:
            consumer.ages.clear()
        begin, received = time.monotonic(), self._received()
        used, own = processes.processor_seconds(pids), time.process_time()
        first = processes.processor_seconds(pids[:1])
        self.run_until(begin + seconds)
        self._await_delivery(received)
        first = processes.processor_seconds(pids[:1]) - first
        used, own = processes.processor_seconds(pids) - used, time.process_time() - own
        elapsed, received = time.monotonic() - begin, self._received() - received
        ages = [age for consumer in self.consumers for age in consumer.ages]
        self.drain()
        return FlowResult(
            deliveries=received,
            seconds=elapsed,
            rate=received / elapsed,
            processor_microseconds=used / received * 1e6 if pids else None,
            generator_share=own / elapsed,
            own_microseconds=first / received * 1e6 if pids else None,
            p50=percentile(ages, 0.5) if ages else None,
            p99=percentile(ages, 0.99) if ages else None,
        )

    def _await_delivery(self, before: int) -> None:
        """Lengthen the window until there is a delivery in it: a shared disk was seen to hold all up for a second."""
        deadline = time.monotonic() + DRAIN_DEADLINE
        while self._received() == before:
            if time.monotonic() > deadline:
                raise RuntimeError(f"nothing was delivered within {DRAIN_DEADLINE:.0f} s: {self._describe()}")
            self.run_until(time.monotonic() + 0.02)

    def drain(self) -> None:
        """Stop publishing and wait for what is under way."""
        for publisher in self.publishers:
            publisher.stop()
            publisher.fill()
        deadline = time.monotonic() + DRAIN_DEADLINE
        while not self._all_arrived():
            if time.monotonic() > deadline:
                raise RuntimeError(f"messages are missing: {self._describe()}")
            self.run_until(time.monotonic() + 0.02)
        if any(consumer.received > self._expected(consumer) for consumer in self.consumers):
            raise RuntimeError(f"more messages arrived than were published: {self._describe()}")
        self._poll.close()

    def _expected(self, consumer: Consumer) -> int:
        """How many messages a consumer must have had when all have arrived."""
        feeders = [publisher for publisher in self.publishers if consumer in publisher.consumers]
        return round(sum(publisher.sent * publisher.share for publisher in feeders))

    def _all_arrived(self) -> bool:
        return all(consumer.received >= self._expected(consumer) for consumer in self.consumers)

    def _describe(self) -> str:
        return ", ".join(f"{consumer.received} of {self._expected(consumer)}" for consumer in self.consumers)
