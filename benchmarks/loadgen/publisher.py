"""A publisher that sends one prepared buffer (`batch.py`) over and over, as far as its credit goes."""

import socket
import struct
from collections.abc import Callable

from loadgen import frames
from loadgen.batch import Batch
from loadgen.consumer import Consumer


class Publisher:
    """Sends batches while fewer than `limit` messages are on their way to any of its consumers.

    Created by a flow, which calls `fill` when the socket is writable again and `read` when confirms have come;
    consumers call `fill` as they progress.

    Args:
        sock: the socket of an open connection.
        batch: what is sent at once.
        limit: messages that may be under way.
        share: the part of the published messages that each consumer gets: 1 for a queue or a fanout.
        confirms: wait for confirms instead of deliveries, `limit` being the number of unconfirmed publishes.
        pipelined: wait for both.
        on_blocked: told whether the socket is full, so that the flow waits for room.
    """

    def __init__(
        self,
        sock: socket.socket,
        batch: Batch,
        *,
        limit: int,
        share: float,
        confirms: bool,
        pipelined: bool = False,
        on_blocked: Callable[["Publisher", bool], None],
    ) -> None:
        self.socket = sock
        self.sent = 0
        self.consumers: list[Consumer] = []
        self.share = share
        self.most = 1 << 62
        """How many messages are sent at most, up to whole batches."""
        self._batch = batch
        self._rest = memoryview(b"")
        self._limit = limit
        self._confirms = confirms
        self._pipelined = pipelined
        self.confirmed = 0
        self._unread = b""
        self._blocked = False
        self._on_blocked = on_blocked
        self._stopping = False

    def _under_way(self) -> float:
        """Messages sent and not yet seen by the slowest consumer, or not yet confirmed."""
        if self._confirms:
            return self.sent - self.confirmed
        undelivered = self.sent * self.share - min([consumer.received for consumer in self.consumers])
        return max(undelivered, self.sent - self.confirmed) if self._pipelined else undelivered

    def fill(self) -> None:
        """Send as much as credit and socket allow."""
        while self._rest or (not self._stopping and self.sent < self.most and self._under_way() < self._limit):
            if not self._rest:
                self._rest = self._batch.renew()
                self.sent += self._batch.count
            if not self._send():
                return
        if self._blocked:
            self._set_blocked(False)

    def _send(self) -> bool:
        """Send what is left of the batch; False when the socket is full."""
        try:
            self._rest = self._rest[self.socket.send(self._rest, socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            if not self._blocked:
                self._set_blocked(True)
            return False
        return True

    def _set_blocked(self, blocked: bool) -> None:
        self._blocked = blocked
        self._on_blocked(self, blocked)

    def read(self) -> None:
        """Take confirms: the tag of the last one stands for all before it."""
        octets = self._unread + self.socket.recv(1 << 16, socket.MSG_DONTWAIT)
        if not octets:
            raise ConnectionError("the broker closed a publisher's connection")
        whole = len(octets) // frames.ACK_SIZE * frames.ACK_SIZE
        self._unread = octets[whole:]
        if whole:
            class_id, method_id, tag = struct.unpack_from(">HHQ", octets, whole - frames.ACK_SIZE + 7)
            if (class_id, method_id) != (60, 80):
                raise RuntimeError(f"expected basic.ack, found {octets[:200]!r}")
            self.confirmed = tag
            self.fill()

    def stop(self) -> None:
        """Begin no further batch; what was begun is still sent to its end."""
        self._stopping = True
