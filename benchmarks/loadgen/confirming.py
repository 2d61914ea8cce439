"""From publish to confirm at a fixed rate, with a consumer that acknowledges, so that the queue stays short.

One process sends and reads. When it is late the schedule is kept, and a message's time counts from the moment at which
it was due, so that a broker that holds everything up is not asked less often for that. For the same reason the window
ends when all that was published in it is confirmed: what a slow disk holds up longest is measured as well.
"""

import contextlib
import os
import select
import struct
import time
from collections import deque

import msgspec

from loadgen import frames
from loadgen.brokers import Broker
from loadgen.connection import CHANNEL, Connection
from loadgen.consumer import Consumer
from loadgen.flow import WARM_UP, percentile
from loadgen.latency import run_floods, running
from loadgen.work import ConfirmWork

_ACK = (60, 80)
_PATIENCE = 30.0  # seconds for the confirms that are out at the end: a shared disk was seen to hold a sync up for one


class ConfirmResult(msgspec.Struct, frozen=True):
    """What one window showed: messages confirmed, a second until the last one was, and percentiles in milliseconds."""

    confirms: int
    rate: float
    p50: float
    p99: float


class _Confirmer:
    """Publishes on one connection and takes the confirms."""

    def __init__(self, connection: Connection, octets: bytes) -> None:
        self.socket = connection.socket
        self.ages: list[float] = []
        self._octets = octets
        self._unread = b""
        self._due: deque[float] = deque()  # of the messages that are not confirmed, in order
        self._confirmed = 0

    @property
    def unconfirmed(self) -> int:
        return len(self._due)

    def publish(self, due: float) -> None:
        """Publish one message, which was to leave at a moment of the monotonic clock."""
        self._due.append(due)
        self.socket.sendall(self._octets)

    def read(self) -> None:
        """Take what has come; every confirm stands for all before it."""
        self._unread += self.socket.recv(1 << 16)
        now = time.monotonic()
        whole = len(self._unread) // frames.ACK_SIZE * frames.ACK_SIZE
        for place in range(0, whole, frames.ACK_SIZE):
            class_id, method_id, tag = struct.unpack_from(">HHQ", self._unread, place + 7)
            if (class_id, method_id) != _ACK:
                raise RuntimeError(f"expected basic.ack, found {self._unread[place : place + 200]!r}")
            while self._confirmed < tag:
                self._confirmed += 1
                self.ages.append((now - self._due.popleft()) * 1e3)
        self._unread = self._unread[whole:]


def measure(work: ConfirmWork, seconds: float, broker: Broker) -> ConfirmResult:
    """Measure one window."""
    address, queue = broker.address, f"load.{os.urandom(4).hex()}"
    with contextlib.ExitStack() as stack:
        if work.floods:
            stack.enter_context(running(run_floods, address, work.floods))
        publishing, consuming = Connection(address), Connection(address)
        stack.callback(consuming.close)
        stack.callback(publishing.close)
        publishing.call(frames.queue_declare(CHANNEL, queue, durable=True), frames.QUEUE_DECLARE_OK)
        stack.callback(lambda: _delete(broker, queue))
        publishing.call(frames.confirm_select(CHANNEL), frames.CONFIRM_SELECT_OK)
        consuming.call(frames.basic_consume(CHANNEL, queue, "load", no_ack=False), frames.BASIC_CONSUME_OK)
        consumer = Consumer(
            consuming.socket, consuming.take_unread(), channel=CHANNEL, ack_every=10, on_progress=lambda: None
        )
        octets = frames.publish(CHANNEL, "", queue, b"x" * work.size, frame_max=publishing.frame_max, persistent=True)
        confirmer = _Confirmer(publishing, octets)
        _run(confirmer, consumer, work.rate, WARM_UP)
        _await_confirms(confirmer, consumer)
        confirmer.ages.clear()
        began = time.monotonic()
        _run(confirmer, consumer, work.rate, seconds)
        _await_confirms(confirmer, consumer)
        ages, taken = confirmer.ages, time.monotonic() - began
    return ConfirmResult(len(ages), len(ages) / taken, percentile(ages, 0.5), percentile(ages, 0.99))


def _run(confirmer: _Confirmer, consumer: Consumer, rate: float, seconds: float) -> None:
    """Publish at a rate and serve both sockets, for a while; once at least, however slow the machine is."""
    due = began = time.monotonic()
    end = began + seconds
    while (now := time.monotonic()) < end or due == began:
        if now >= due:
            confirmer.publish(due)
            due += 1 / rate
        else:
            _serve(confirmer, consumer, due - now)


def _await_confirms(confirmer: _Confirmer, consumer: Consumer) -> None:
    """Serve both sockets until nothing is unconfirmed."""
    end = time.monotonic() + _PATIENCE
    while confirmer.unconfirmed:
        if (left := end - time.monotonic()) <= 0:
            raise RuntimeError(f"{confirmer.unconfirmed} messages were not confirmed within {_PATIENCE:.0f} s")
        _serve(confirmer, consumer, left)


def _serve(confirmer: _Confirmer, consumer: Consumer, seconds: float) -> None:
    """Read what has come on either socket, or wait that long for it."""
    poll = select.poll()
    poll.register(confirmer.socket, select.POLLIN)
    poll.register(consumer.socket, select.POLLIN)
    for descriptor, _ in poll.poll(seconds * 1e3):
        if descriptor == confirmer.socket.fileno():
            confirmer.read()
        else:
            consumer.read()


def _delete(broker: Broker, queue: str) -> None:
    control = Connection(broker.address)
    control.call(frames.queue_delete(CHANNEL, queue), frames.QUEUE_DELETE_OK)
    control.close()
