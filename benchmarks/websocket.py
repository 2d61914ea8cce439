"""Measure AMQP over WebSocket, with AMQP over TCP beside it: messages of 1 KiB in, and out.

    python benchmarks/websocket.py
    python benchmarks/websocket.py --only publishes --rounds 1 --messages 5000

The broker is a process of its own and is driven by plain sockets over loopback, by both transports in turn. Published
is one message of WebSocket for each message of AMQP, as a browser would; the frames are masked before the clock starts.
The broker's processor time is that of its process.
"""

import argparse
import os
import socket
import statistics
import struct
import time
from collections.abc import Callable, Sequence

import msgspec

from loadgen import frames
from loadgen.brokers import Broker, free_port, open_triomq
from loadgen.connection import CHANNEL, Address, Connection
from loadgen.processes import exact_seconds

QUEUE = "websocket"
BODY = b"x" * 1024
BATCH = 200  # messages in one prepared buffer
READ_SIZE = 1 << 18
SHORT_QUEUE = b"\x0cx-max-lengthI\x00\x00\x03\xe8"  # a queue of 1,000 messages, as a table of arguments


class Options(msgspec.Struct, frozen=True):
    """The command line, typed."""

    only: list[str]
    rounds: int
    messages: int


class Found(msgspec.Struct, frozen=True):
    """Messages in a second, and microseconds of the broker's processor for one."""

    rate: float
    microseconds: float


class TCPConnection(Connection):
    """AMQP over TCP: what is sent is what is given."""

    def send_all(self, prepared: memoryview) -> None:
        """Send what ``prepare`` has made."""
        self.socket.sendall(prepared)

    @staticmethod
    def prepare(message: bytes) -> bytes:
        """Return a message as it is sent."""
        return message

    def skip(self, count: int) -> None:
        """Read so many octets of AMQP and drop them."""
        count -= len(self.take_unread())
        buffer = memoryview(bytearray(READ_SIZE))
        while count > 0:
            count -= read_into(self.socket, buffer)


class WebSocketConnection(TCPConnection):
    """AMQP over WebSocket, by the means of this program alone."""

    def _connect(self, address: Address) -> socket.socket:
        """Connect, and shake hands."""
        connected = super()._connect(address)
        connected.sendall(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + b"A" * 22 + b"==\r\n\r\n"
        )
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += connected.recv(1)
        if not answer.startswith(b"HTTP/1.1 101 "):
            raise RuntimeError(f"expected 101, found {answer!r}")
        self._left = 0  # octets of the present frame that have not been read
        return connected

    def _send(self, data: bytes) -> None:
        self.socket.sendall(self.prepare(data))

    def _receive(self) -> bytes:
        self._begin_frame()
        data = self.socket.recv(min(self._left, READ_SIZE))
        self._left -= len(data)
        return data

    @staticmethod
    def prepare(message: bytes) -> bytes:
        """Return a binary message in one masked frame (RFC 6455 section 5.2)."""
        size, mask = len(message), os.urandom(4)
        length = bytes([0x80 | size]) if size < 126 else struct.pack(">BH", 0x80 | 126, size)
        pad = (mask * (size // 4 + 1))[:size]
        masked = int.from_bytes(message) ^ int.from_bytes(pad)
        return b"\x82" + length + mask + masked.to_bytes(size)

    def _begin_frame(self) -> None:
        """Read the head of a frame, unless one has begun."""
        while not self._left:
            _, length = self._exactly(2)
            size = {126: 2, 127: 8}.get(length, 0)
            self._left = int.from_bytes(self._exactly(size)) if size else length

    def _exactly(self, count: int) -> bytes:
        data = self.socket.recv(count, socket.MSG_WAITALL)
        if len(data) < count:
            raise ConnectionError("the broker closed the connection")
        return data

    def skip(self, count: int) -> None:
        """Read so many octets of AMQP and drop them, and the heads of the frames that they are in."""
        count -= len(self.take_unread())
        buffer = memoryview(bytearray(READ_SIZE))
        while count > 0:
            self._begin_frame()
            read = read_into(self.socket, buffer[: min(self._left, READ_SIZE)])
            self._left -= read
            count -= read


def read_into(connection: socket.socket, buffer: memoryview) -> int:
    """Read once."""
    if not (read := connection.recv_into(buffer)):
        raise ConnectionError("the broker closed the connection")
    return read


def measure(broker: Broker, count: int, work: Callable[[], None]) -> Found:
    """Time one piece of work, and the broker's processor in it."""
    pids = broker.processes()[:1]
    used, began = exact_seconds(pids), time.perf_counter()
    work()
    seconds, used = time.perf_counter() - began, exact_seconds(pids) - used
    return Found(count / seconds, used / count * 1e6)


def declare(connection: Connection, arguments: bytes = b"") -> None:
    """Make the queue anew."""
    connection.call(frames.queue_delete(CHANNEL, QUEUE), frames.QUEUE_DELETE_OK)
    connection.call(frames.queue_declare(CHANNEL, QUEUE, arguments=arguments), frames.QUEUE_DECLARE_OK)


def measure_publishes(kind: type[TCPConnection], broker: Broker, address: Address, count: int) -> Found:
    """Publish to a queue that keeps the last thousand; the reply to a request behind it all is the end."""
    connection = kind(address)
    declare(connection, SHORT_QUEUE)
    message = frames.publish(CHANNEL, "", QUEUE, BODY, frame_max=connection.frame_max)
    batch = memoryview(b"".join(kind.prepare(message) for _ in range(BATCH)))

    def publish() -> None:
        for _ in range(count // BATCH):
            connection.send_all(batch)
        assert connection.count_messages(QUEUE) == min(1000, count)

    try:
        return measure(broker, count, publish)
    finally:
        connection.close()


def measure_deliveries(kind: type[TCPConnection], broker: Broker, address: Address, count: int) -> Found:
    """Consume a backlog without acks."""
    filler = TCPConnection(broker.address)
    declare(filler)
    batch = frames.publish(CHANNEL, "", QUEUE, BODY, frame_max=filler.frame_max) * BATCH
    for _ in range(count // BATCH):
        filler.send_all(memoryview(batch))
    assert filler.count_messages(QUEUE) == count
    connection = kind(address)
    size = len(delivery())

    def consume() -> None:
        connection.call(frames.basic_consume(CHANNEL, QUEUE, "c", no_ack=True), frames.BASIC_CONSUME_OK)
        connection.skip(count * size)

    try:
        return measure(broker, count, consume)
    finally:
        connection.close()
        filler.close()


def delivery() -> bytes:
    """Return a delivery as large as each of the measured ones."""
    names = frames.short_string("c") + bytes(9) + frames.short_string("") + frames.short_string(QUEUE)
    publish = frames.publish(CHANNEL, "", QUEUE, BODY, frame_max=131072)
    head = frames.method(CHANNEL, 60, 40, b"\0\0" + frames.short_string("") + frames.short_string(QUEUE) + b"\0")
    return frames.method(CHANNEL, 60, 60, names) + publish[len(head) :]


MEASURES = {"deliveries": measure_deliveries, "publishes": measure_publishes}


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(MEASURES), default=list(MEASURES), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (5)")
    parser.add_argument("--messages", type=int, default=50_000, help="messages in a round (50,000)")
    found = msgspec.convert(vars(parser.parse_args(arguments)), Options)
    return msgspec.structs.replace(found, messages=max(1, found.messages // BATCH) * BATCH)


def main() -> None:
    """Measure both in turn, and print medians."""
    options = parse_options()
    port = free_port()
    with open_triomq(options=["--websocket", str(port)]) as broker:
        kinds = {
            "TCP": (TCPConnection, broker.address),
            "WebSocket": (WebSocketConnection, msgspec.structs.replace(broker.address, port=port)),
        }
        for name in options.only:
            found: dict[str, list[Found]] = {label: [] for label in kinds}
            for _ in range(options.rounds):
                for label, (kind, address) in kinds.items():
                    found[label].append(MEASURES[name](kind, broker, address, options.messages))
            rates = {label: statistics.median(each.rate for each in rounds) for label, rounds in found.items()}
            print(f"{name} of {len(BODY):,} bytes, medians of {options.rounds} rounds of {options.messages:,}")
            for label, rounds in found.items():
                microseconds = statistics.median(each.microseconds for each in rounds)
                print(
                    f"  {label:<10} {rates[label]:>9,.0f}/s  {microseconds:6.1f} µs of the broker's processor for one"
                )
            print(f"  ratio      {rates['WebSocket'] / rates['TCP']:9.2f}")


if __name__ == "__main__":
    main()
