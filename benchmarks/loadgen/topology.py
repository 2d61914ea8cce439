"""Exchanges, queues, connections: what a work item needs in a broker, made before the window and removed after it."""

import contextlib
import os
from collections.abc import Iterator, Sequence

import msgspec

from loadgen import frames, heads
from loadgen.batch import Batch
from loadgen.brokers import Broker
from loadgen.connection import CHANNEL, Address, Connection
from loadgen.consumer import Consumer
from loadgen.flow import Flow, FlowResult
from loadgen.publisher import Publisher
from loadgen.work import Work

FANOUT_KEYS = 16
"""Keys that a fanout's publisher uses in turn where heads differ: its exchange ignores them, its consumers get them."""


class Route(msgspec.Struct, frozen=True):
    """Where one publish goes."""

    exchange: str
    routing_key: str


class Topology(msgspec.Struct, frozen=True):
    """Names in the broker: the queues, the exchange if there is one, and the routes of each publisher."""

    queues: list[str]
    exchange: str
    routes: list[list[Route]]


def plan(work: Work) -> Topology:
    """Choose names; all of a kind are equally long, so that all deliveries are."""
    stem = os.urandom(4).hex()
    digits = len(str(work.width - 1))
    queues = [f"load.{stem}.{number:0{digits}}" for number in range(work.width)]
    if work.shape == "queues":
        return Topology(queues, "", [[Route("", queue)] for queue in queues])
    exchange = f"load.{stem}"
    if work.shape == "fanout":
        keys = ["key"] if work.heads == "same" else [f"key.{number:02}" for number in range(FANOUT_KEYS)]
    else:
        keys = [f"load.{number:0{digits}}.new" for number in range(work.width)]
    return Topology(queues, exchange, [[Route(exchange, key) for key in keys]])


@contextlib.contextmanager
def declared(control: Connection, work: Work, topology: Topology) -> Iterator[None]:
    """Exchanges, queues and bindings exist for the length of the block."""
    if topology.exchange:
        declare = frames.exchange_declare(CHANNEL, topology.exchange, work.shape)
        control.call(declare, frames.EXCHANGE_DECLARE_OK)
    idle = f"{topology.queues[0]}.idle"
    for queue in [*topology.queues, idle]:
        control.call(frames.queue_declare(CHANNEL, queue, durable=work.durable), frames.QUEUE_DECLARE_OK)
    for queue, key in _bindings(work, topology, idle):
        control.call(frames.queue_bind(CHANNEL, queue, topology.exchange, key), frames.QUEUE_BIND_OK)
    try:
        yield
    finally:
        for queue in [*topology.queues, idle]:
            control.call(frames.queue_delete(CHANNEL, queue), frames.QUEUE_DELETE_OK)
        if topology.exchange:
            control.call(frames.exchange_delete(CHANNEL, topology.exchange), frames.EXCHANGE_DELETE_OK)


def _bindings(work: Work, topology: Topology, idle: str) -> list[tuple[str, str]]:
    """Pairs of queue and binding key; the other bindings mix plain words and both wildcards."""
    if work.shape == "queues":
        return []
    digits = len(str(work.width - 1))
    keys = [f"load.{number:0{digits}}.*" if work.shape == "topic" else "" for number in range(work.width)]
    patterns = ("other.{}.#", "*.other.{}", "load.{}.old")
    others = [(idle, patterns[number % 3].format(number)) for number in range(work.other_bindings)]
    return [*zip(topology.queues, keys, strict=True), *others]


def batch_of(work: Work, routes: Sequence[Route], frame_max: int) -> Batch:
    """Encode what a publisher sends at once."""
    body, target = b"x" * work.size, 1 if work.confirms else work.batch_octets
    if work.heads == "differ":

        def encode(index: int) -> bytes:
            route, found = routes[index % len(routes)], heads.properties(index, persistent=work.durable)
            return frames.publish(
                CHANNEL, route.exchange, route.routing_key, body, frame_max=frame_max, properties=found
            )

        stamped = work.size if work.stamped else None
        return Batch.numbered(encode, target, multiple=len(routes), body_size=stamped)
    publishes = [
        frames.publish(CHANNEL, route.exchange, route.routing_key, body, frame_max=frame_max, persistent=work.durable)
        for route in routes
    ]
    return Batch.of(publishes, target)


class Assembly:
    """The connections of one work item, wired into a flow; created for one window and closed after it."""

    def __init__(self, address: Address, work: Work, topology: Topology) -> None:
        self.flow = Flow()
        self._connections: list[Connection] = []
        self._address = address
        self._work = work
        for routes in topology.routes:
            self._add_publisher(routes)
        for number, queue in enumerate(topology.queues):
            publisher = self.flow.publishers[number if work.shape == "queues" else 0]
            self._add_consumer(queue, publisher)

    def _connect(self, channel: int = CHANNEL) -> Connection:
        connection = Connection(self._address, channel=channel)
        self._connections.append(connection)
        return connection

    def _add_publisher(self, routes: Sequence[Route]) -> None:
        connection, work = self._connect(), self._work
        if work.confirms or work.confirm_select or work.pipelined:
            connection.call(frames.confirm_select(CHANNEL), frames.CONFIRM_SELECT_OK)
        connection.socket.setblocking(True)
        publisher = Publisher(
            connection.socket,
            batch_of(work, routes, connection.frame_max),
            limit=work.limit,
            share=1 / work.width if work.shape == "topic" else 1,
            confirms=work.confirms,
            pipelined=work.pipelined,
            on_blocked=self.flow.wait_for_room,
        )
        self.flow.add_publisher(publisher)

    def _add_consumer(self, queue: str, publisher: Publisher) -> None:
        work, channel = self._work, self._work.consumer_channel
        connection = self._connect(channel)
        if work.prefetch:
            connection.call(frames.basic_qos(channel, work.prefetch), frames.BASIC_QOS_OK)
        consume = frames.basic_consume(channel, queue, "load", no_ack=not work.ack_every)
        connection.call(consume, frames.BASIC_CONSUME_OK)
        connection.socket.setblocking(True)
        consumer = Consumer(
            connection.socket,
            connection.take_unread(),
            channel=channel,
            ack_every=work.ack_every,
            on_progress=publisher.fill,
            stamped_size=work.size if work.stamped else 0,
        )
        publisher.consumers.append(consumer)
        self.flow.add_consumer(consumer)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()


@contextlib.contextmanager
def open_assembly(address: Address, work: Work, planned: Topology | None = None) -> Iterator[Flow]:
    """A flow that is ready to run, for the length of the block; `planned` stands for what `plan` would give."""
    control = Connection(address)
    topology = planned or plan(work)
    try:
        with declared(control, work, topology), contextlib.closing(Assembly(address, work, topology)) as assembly:
            yield assembly.flow
    finally:
        control.close()


def measure(work: Work, seconds: float, broker: Broker) -> FlowResult:
    """Set a work item up, measure one window, and clear up."""
    with open_assembly(broker.address, work) as flow:
        return flow.measure(seconds, broker.processes())
