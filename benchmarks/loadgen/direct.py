"""Direct connections (6/DMP) as a load: the same generator, its sockets forked off AMQP connections."""

import contextlib
import multiprocessing
import os
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
import trio

from loadgen import frames, heads
from loadgen.batch import NUMBER, Batch
from loadgen.brokers import Broker
from loadgen.connection import CHANNEL, Address, Connection
from loadgen.consumer import Consumer
from loadgen.flow import Flow, FlowResult
from loadgen.processes import processor_seconds
from loadgen.publisher import Publisher
from loadgen.work import BATCH_OCTETS, UNDER_WAY_MESSAGES, UNDER_WAY_OCTETS

HEADER = b"AMQP\x0a\x01\x00\x01"
PUT_OK, GET_OK = (61500, 11), (61500, 21)
TOPICS = 50
FORK = multiprocessing.get_context("fork")


class DirectWork(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of load.

    Args:
        name: what `--only` selects it by.
        title: what the table calls it.
        size: octets of the body.
        width: feeds, each of which gets all messages.
        heads: `same` for all messages; `ids` with a message-id of its own for each; `topics` with one of fifty keys in
            turn through a topic exchange, `keys` with a key of its own for each.
    """

    name: str
    title: str
    size: int = 100
    width: int = 1
    heads: Literal["same", "ids", "topics", "keys"] = "same"

    @property
    def exchange_type(self) -> str:
        """What the messages go through; each feed's queue is bound to all of them."""
        return "topic" if self.heads in ("topics", "keys") else "fanout"

    @property
    def limit(self) -> int:
        """Messages that the publisher may be ahead of the slowest feed."""
        return min(UNDER_WAY_MESSAGES, max(64, UNDER_WAY_OCTETS // self.size))


def batch_of(work: DirectWork) -> Batch:
    """Encode what the publisher sends at once."""
    body, number = b"x" * work.size, NUMBER.decode()

    def encode(index: int) -> bytes:
        key, properties = "key", b"\0\0"
        if work.heads == "topics":
            key = f"key.{index % TOPICS:02}"
        elif work.heads == "keys":
            key = f"key.{number}{index:04x}"
        elif work.heads == "ids":
            properties = struct.pack(">H", heads.MESSAGE_ID) + frames.short_string(heads.message_id(index))
        return frames.direct_message("load", key, properties, body)

    return Batch.numbered(encode, BATCH_OCTETS, multiple=TOPICS if work.heads == "topics" else 1)


def read_word(sock: socket.socket) -> str:
    """Read one response."""
    (length,) = sock.recv(1)
    octets = b""
    while len(octets) < length:
        octets += sock.recv(length - len(octets))
    return octets.decode()


def fork(address: Address, lease: bytes) -> socket.socket:
    """Open a direct connection with a lease, which is a short string."""
    sock = socket.create_connection((address.host, address.port), timeout=30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(HEADER + lease)
    for _ in range(2):
        if not (word := read_word(sock)).startswith("200"):
            raise RuntimeError(f"the broker refused: {word}")
    sock.setblocking(True)
    return sock


class Assembly:
    """The connections of one work item, wired into a flow; created for one window and closed after it."""

    def __init__(self, address: Address, work: DirectWork) -> None:
        self.flow = Flow()
        self._address = address
        self._principals: list[Connection] = []
        self._sockets: list[socket.socket] = []
        self._exchange = f"load.{os.urandom(4).hex()}"
        principal = self._connect()
        principal.call(frames.exchange_declare(CHANNEL, self._exchange, work.exchange_type), frames.EXCHANGE_DECLARE_OK)
        sink = self._fork(principal.call(frames.direct_put(CHANNEL, self._exchange), PUT_OK))
        publisher = Publisher(
            sink, batch_of(work), limit=work.limit, share=1, confirms=False, on_blocked=self.flow.wait_for_room
        )
        self.flow.add_publisher(publisher)
        for _ in range(work.width):
            self._add_feed(publisher)

    def _connect(self) -> Connection:
        principal = Connection(self._address)
        self._principals.append(principal)
        return principal

    def _fork(self, lease: bytes) -> socket.socket:
        sock = fork(self._address, lease)
        self._sockets.append(sock)
        return sock

    def _add_feed(self, publisher: Publisher) -> None:
        principal, name = self._connect(), f"{self._exchange}.{len(self._sockets)}"
        declare = frames.queue_declare(CHANNEL, name, exclusive=True)
        principal.call(declare, frames.QUEUE_DECLARE_OK)
        principal.call(frames.queue_bind(CHANNEL, name, self._exchange, "key.*"), frames.QUEUE_BIND_OK)
        feed = self._fork(principal.call(frames.direct_get(CHANNEL, name), GET_OK))
        principal.call(frames.basic_consume(CHANNEL, name, "load", no_ack=True), frames.BASIC_CONSUME_OK)
        consumer = Consumer(
            feed, b"", channel=CHANNEL, ack_every=0, on_progress=publisher.fill, size_of=frames.direct_size
        )
        publisher.consumers.append(consumer)
        self.flow.add_consumer(consumer)

    def close(self) -> None:
        """Close all connections, and forget the exchange."""
        for sock in self._sockets:
            sock.close()
        with contextlib.suppress(RuntimeError, OSError):
            self._principals[0].call(frames.exchange_delete(CHANNEL, self._exchange), frames.EXCHANGE_DELETE_OK)
        for principal in self._principals:
            principal.close()


def measure(work: DirectWork, seconds: float, broker: Broker) -> FlowResult:
    """Set a work item up, measure one window, and clear up."""
    with contextlib.closing(Assembly(broker.address, work)) as assembly:
        return assembly.flow.measure(seconds, broker.processes())


# The floor: a Trio relay that copies octets from one socket to all others, and knows nothing of them


async def _relay(listening: socket.socket, width: int) -> None:
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
    source = await listener.accept()
    targets = [await listener.accept() for _ in range(width)]
    while data := await source.receive_some(65536):
        for target in targets:
            await target.send_all(data)


def _run_relay(listening: socket.socket, width: int) -> None:
    with contextlib.suppress(trio.BrokenResourceError):
        trio.run(_relay, listening, width)


@contextlib.contextmanager
def _relaying(width: int) -> Iterator[tuple[tuple[str, int], int]]:
    """Run a relay in a process of its own; give its address and its process."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        process = FORK.Process(target=_run_relay, args=(listening, width), daemon=True)
        process.start()
        assert process.pid is not None
        try:
            yield listening.getsockname(), process.pid
        finally:
            process.kill()
            process.join()


def measure_floor(work: DirectWork, seconds: float) -> FlowResult:
    """Measure what the generator and a relay reach with the same messages."""
    flow = Flow()
    with _relaying(work.width) as (address, pid), contextlib.ExitStack() as stack:

        def connect() -> socket.socket:
            sock = stack.enter_context(socket.create_connection(address))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock

        batch = batch_of(work)
        publisher = Publisher(
            connect(), batch, limit=work.limit, share=1, confirms=False, on_blocked=flow.wait_for_room
        )
        flow.add_publisher(publisher)
        for _ in range(work.width):
            consumer = Consumer(
                connect(), b"", channel=CHANNEL, ack_every=0, on_progress=publisher.fill, size_of=frames.direct_size
            )
            publisher.consumers.append(consumer)
            flow.add_consumer(consumer)
        return flow.measure(seconds, [pid])


# Round trips


class RoundTrip(msgspec.Struct, frozen=True):
    """What one window of single messages showed: microseconds at the median, and of broker time for each."""

    microseconds: float
    processor_microseconds: float | None


def _round_trips(out: socket.socket, back: socket.socket, octets: bytes, size: int, seconds: float) -> Sequence[float]:
    """Send one message, wait until it is back, again and again, once at least; return the seconds that each took."""
    found: list[float] = []
    end = time.monotonic() + seconds
    while not found or time.monotonic() < end:
        begin = time.perf_counter()
        out.sendall(octets)
        missing = size
        while missing:
            missing -= len(back.recv(missing))
        found.append(time.perf_counter() - begin)
    return found


def measure_round_trips(seconds: float, broker: Broker, *, direct: bool) -> RoundTrip:
    """Measure single messages of 100 octets there and back, over direct connections or over AMQP."""
    principal, name = Connection(broker.address), f"load.{os.urandom(4).hex()}"
    principal.call(frames.queue_declare(CHANNEL, name, exclusive=True), frames.QUEUE_DECLARE_OK)
    out = back = principal.socket
    if direct:
        out = fork(broker.address, principal.call(frames.direct_put(CHANNEL, ""), PUT_OK))
        back = fork(broker.address, principal.call(frames.direct_get(CHANNEL, name), GET_OK))
    principal.call(frames.basic_consume(CHANNEL, name, "load", no_ack=True), frames.BASIC_CONSUME_OK)
    body = b"x" * 100
    octets = frames.direct_message("", name, b"\0\0", body)
    if not direct:
        octets = frames.publish(CHANNEL, "", name, body, frame_max=principal.frame_max)
    # The first one says how much comes back.
    out.sendall(octets)
    first = b""
    while (size := (frames.direct_size if direct else frames.delivery_size)(first)) is None or len(first) < size:
        first += back.recv(65536)
    _round_trips(out, back, octets, size, seconds / 4)
    used = processor_seconds(broker.processes())
    found = _round_trips(out, back, octets, size, seconds)
    used = processor_seconds(broker.processes()) - used
    if direct:
        out.close()
        back.close()
    principal.close()
    median = sorted(found)[len(found) // 2] * 1e6
    return RoundTrip(median, used / len(found) * 1e6 if broker.processes() else None)
