"""How the cost of one message grows with what else a broker holds: bindings, queues, a backlog, octets, connections."""

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from loadgen import frames, processes, topology
from loadgen.batch import Batch
from loadgen.brokers import Broker
from loadgen.connection import CHANNEL, Address, Connection
from loadgen.flow import FlowResult
from loadgen.memory import declare_queues
from loadgen.topology import Route
from loadgen.work import Work

AT_ONCE = 500
"""Requests without an answer that are sent before one with an answer."""

COUNTED = 50_000
"""Messages by which the cost at a backlog is measured."""

FILL_DEADLINE = 300.0
"""Seconds for a backlog to be in its queue."""


class Point(msgspec.Struct, frozen=True):
    """What one message cost while there were `count` of something, in microseconds of the broker's processor time."""

    count: int
    microseconds: float


class Series(msgspec.Struct, frozen=True):
    """One line of a plot."""

    broker: str
    label: str
    points: list[Point]


Measure = Callable[[Broker, int, float], float]


class Growth(msgspec.Struct, frozen=True):
    """One plot.

    Args:
        name: what `--only` selects it by, and its files are called.
        title: above the plot.
        axis: what grows.
        counts: how far.
        lines: what is measured, by label; a function of broker, count and length of a window in seconds.
        most: how far for a broker, by its name, where it takes too long to get further.
    """

    name: str
    title: str
    axis: str
    counts: list[int]
    lines: dict[str, Measure]
    most: dict[str, int]


def cost(result: FlowResult) -> float:
    """Microseconds per delivery.

    Raises:
        RuntimeError: the broker's process is not known.
    """
    if result.processor_microseconds is None:
        raise RuntimeError("the broker's processor time cannot be read; let the benchmark start the broker")
    return result.processor_microseconds


# Bindings


@contextlib.contextmanager
def bound(address: Address, exchange: str, count: int) -> Iterator[None]:
    """Further bindings of an exchange, to a queue that nothing reaches, for the length of the block."""
    control, queue = Connection(address), f"load.{os.urandom(4).hex()}.idle"
    control.socket.settimeout(FILL_DEADLINE)
    control.call(frames.queue_declare(CHANNEL, queue), frames.QUEUE_DECLARE_OK)
    patterns = ("other.{}.#", "*.other.{}", "load.{}.old")
    keys = [patterns[number % 3].format(number) for number in range(count)]
    for start in range(0, count, AT_ONCE):
        *quiet, last = keys[start : start + AT_ONCE]
        octets = b"".join(frames.queue_bind(CHANNEL, queue, exchange, key, no_wait=True) for key in quiet)
        control.call(octets + frames.queue_bind(CHANNEL, queue, exchange, last), frames.QUEUE_BIND_OK)
    try:
        yield
    finally:
        control.call(frames.queue_delete(CHANNEL, queue), frames.QUEUE_DELETE_OK)
        control.close()


def measure_bindings(keys: int, broker: Broker, count: int, seconds: float) -> float:
    """Publish by one key or many, equally long, through a topic exchange beside `count` bindings that match nothing."""
    work = Work(name="", title="", shape="topic")
    plan = topology.plan(work)
    routes = [[Route(plan.exchange, f"load.0.{number:04}") for number in range(keys)]]
    plan = msgspec.structs.replace(plan, routes=routes)
    with topology.open_assembly(broker.address, work, plan) as flow, bound(broker.address, plan.exchange, count):
        return cost(flow.measure(seconds, broker.processes()))


# Queues, octets, connections


def measure_queues(broker: Broker, count: int, seconds: float) -> float:
    """Publish and consume on one queue beside others."""
    delete = declare_queues(broker.address, count - 1)
    try:
        return cost(topology.measure(Work(name="", title=""), seconds, broker))
    finally:
        delete()


def measure_body(broker: Broker, count: int, seconds: float) -> float:
    """Publish and consume bodies of `count` octets."""
    work = Work(name="", title="", size=count, under_way=min(20_000, max(8, (16 << 20) // max(count, 1))))
    return cost(topology.measure(work, seconds, broker))


def measure_connections(broker: Broker, count: int, seconds: float) -> float:
    """Publish and consume by `count` connections: as many publishers as consumers, each pair on a queue of its own."""
    pairs = max(1, count // 2)
    work = Work(name="", title="", width=pairs, under_way=max(40, 20_000 // pairs), batch_octets=(1 << 16) // pairs)
    return cost(topology.measure(work, seconds, broker))


# A backlog


class Backlog:
    """A queue that is filled, and then used at its length.

    Args:
        broker: the broker.
        count: messages that wait in it.
    """

    def __init__(self, broker: Broker, count: int) -> None:
        self._broker = broker
        self._queue = f"load.{os.urandom(4).hex()}"
        self._control = Connection(broker.address)
        self._control.socket.settimeout(FILL_DEADLINE)
        self._control.call(frames.queue_declare(CHANNEL, self._queue), frames.QUEUE_DECLARE_OK)
        self._count = 0
        self._publish(count)

    def _publish(self, count: int) -> None:
        """Publish, and wait until all is in the queue."""
        publish = frames.publish(CHANNEL, "", self._queue, b"x" * 100, frame_max=self._control.frame_max)
        batch = Batch.of([publish] * AT_ONCE, 1)
        for _ in range(count // AT_ONCE):
            self._control.socket.sendall(batch.octets)
        self._control.socket.sendall(publish * (count % AT_ONCE))
        self._count += count
        deadline = time.monotonic() + FILL_DEADLINE
        while (found := self._control.count_messages(self._queue)) < self._count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{found} of {self._count} messages are in the queue after {FILL_DEADLINE:.0f} s")
            time.sleep(0.02)

    def _used(self) -> float:
        return processes.processor_seconds(self._broker.processes())

    def cost_of_publishing(self) -> float:
        """Microseconds that one more message costs."""
        used = self._used()
        self._publish(COUNTED)
        return (self._used() - used) / COUNTED * 1e6

    def cost_of_delivering(self) -> float:
        """Microseconds that it costs to deliver one of them and take its ack, a hundred at a time."""
        consumer = Connection(self._broker.address)
        consumer.call(frames.basic_qos(CHANNEL, 1000), frames.BASIC_QOS_OK)
        used = self._used()
        consumer.call(frames.basic_consume(CHANNEL, self._queue, "load", no_ack=False), frames.BASIC_CONSUME_OK)
        octets, size, acked = len(unread := consumer.take_unread()), None, 0
        head = bytearray(unread)
        while acked < COUNTED:
            chunk = consumer.socket.recv(1 << 18)
            octets += len(chunk)
            if size is None:
                head += chunk
                size = frames.delivery_size(head)
                continue
            if octets // size - acked >= 100:
                acked = octets // size // 100 * 100
                consumer.socket.sendall(frames.basic_ack(CHANNEL, acked, multiple=True))
        spent = (self._used() - used) / acked * 1e6
        consumer.close()
        return spent

    def close(self) -> None:
        """Delete the queue with all that is left in it."""
        self._control.call(frames.queue_delete(CHANNEL, self._queue), frames.QUEUE_DELETE_OK)
        self._control.close()


def measure_publishing(broker: Broker, count: int, seconds: float) -> float:
    """Publish into a queue of `count` messages."""
    with contextlib.closing(Backlog(broker, count)) as backlog:
        return backlog.cost_of_publishing()


def measure_delivering(broker: Broker, count: int, seconds: float) -> float:
    """Deliver from a queue of `count` messages, and a few more so that there are enough."""
    with contextlib.closing(Backlog(broker, count + 2 * COUNTED)) as backlog:
        return backlog.cost_of_delivering()


def powers(most: int) -> list[int]:
    """1, 10, 100 … up to a number."""
    return [10**power for power in range(len(str(most)))]


GROWTHS: list[Growth] = [
    Growth(
        "bindings",
        "A message through a topic exchange, beside bindings that match nothing",
        "bindings",
        powers(100_000),
        {
            "one key": functools.partial(measure_bindings, 1),
            "400 keys": functools.partial(measure_bindings, 400),
        },
        {"RabbitMQ": 10_000},
    ),
    Growth("queues", "A message through one queue, beside others", "queues", powers(10_000), {"": measure_queues}, {}),
    Growth(
        "backlog",
        "A message in and out of a queue in which others wait",
        "messages that wait",
        [0, 1_000, 10_000, 100_000, 1_000_000],
        {"publish": measure_publishing, "deliver, ack 100": measure_delivering},
        {},
    ),
    Growth(
        "body",
        "A message, by the length of its body",
        "bytes",
        [0, 100, 1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24],
        {"": measure_body},
        {},
    ),
    Growth(
        "connections",
        "A message, by the number of connections that publish and consume",
        "connections",
        [2, 10, 100, 1_000],
        {"": measure_connections},
        {},
    ),
]


def measure(growth: Growth, brokers: Sequence[Broker], seconds: float, note: Callable[[str], None]) -> list[Series]:
    """Measure all lines of a plot, the brokers in turn at each point.

    Args:
        growth: what.
        brokers: of whom.
        seconds: length of a window.
        note: told what is measured next.
    """
    found: dict[tuple[str, str], list[Point]] = {}
    for label, line in growth.lines.items():
        for count in growth.counts:
            for broker in brokers:
                if count > growth.most.get(broker.name, count):
                    continue
                note(f"{growth.name}, {label or 'a message'}: {broker.name}, {count}")
                found.setdefault((broker.name, label), []).append(Point(count, line(broker, count, seconds)))
    return [Series(broker, label, points) for (broker, label), points in found.items()]
