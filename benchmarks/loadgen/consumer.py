"""A consumer that counts octets and acknowledges; it decodes nothing but its first delivery."""

import socket
import struct
import time
from collections.abc import Callable

from loadgen import frames
from loadgen.batch import STAMP

READ_SIZE = 1 << 18  # larger than any socket gives at once on loopback: one call takes all that is there
ACK = struct.Struct(">BHIHHQBB")
ACK_ARGUMENTS = 13  # class, method, delivery-tag, bits


class Consumer:
    """Counts deliveries of constant size on one socket, without waiting.

    Created by a flow, which calls `read` whenever the socket is readable.

    Args:
        sock: the socket, past its consume-ok.
        unread: octets that came behind consume-ok.
        channel: channel number, for acknowledgements.
        ack_every: 0 for no-ack; 1 acknowledges each delivery; n acknowledges the last n at once.
        on_progress: called after each read, so that publishers can go on.
        size_of: measures the first delivery of a stream; None while it is not whole.
        stamped_size: octets of the bodies, where each begins with the moment of its sending; 0 where none does.
    """

    def __init__(
        self,
        sock: socket.socket,
        unread: bytes,
        *,
        channel: int,
        ack_every: int,
        on_progress: Callable[[], None],
        size_of: Callable[[bytes | bytearray], int | None] = frames.delivery_size,
        stamped_size: int = 0,
    ) -> None:
        self.socket = sock
        self.received = 0
        self.ages: list[float] = []
        """Milliseconds that stamped messages were under way; those whose stamp was cut by a read are left out."""
        self._stamped_size = stamped_size
        self._flags = socket.MSG_DONTWAIT
        """With MSG_TRUNC, too, once only a count is wanted: the kernel drops what it would copy (tcp(7))."""
        self._octets = 0
        self._size: int | None = None
        self._head = bytearray()
        self._acked = 0
        self._channel = channel
        self._ack_every = ack_every
        self._on_progress = on_progress
        self._size_of = size_of
        self._buffer = memoryview(bytearray(READ_SIZE))
        if unread:
            self._count(memoryview(unread))

    def read(self) -> None:
        """Take what is there, count it, acknowledge it."""
        try:
            count = self.socket.recv_into(self._buffer, READ_SIZE, self._flags)
        except BlockingIOError:
            return
        if not count:
            raise ConnectionError("the broker closed a consumer's connection")
        self._count(self._buffer[:count])
        self._on_progress()

    def _count(self, chunk: memoryview) -> None:
        """Add a chunk to the count; the first delivery is measured, the others are taken to be of its size."""
        self._octets += len(chunk)
        if self._size is None:
            self._head += chunk
            self._size = self._size_of(self._head)
            if self._size is None:
                return
            self._head.clear()
            if not self._stamped_size:
                self._flags |= socket.MSG_TRUNC
        if self._stamped_size:
            self._read_stamps(chunk, self._octets - len(chunk), self._size)
        self.received = self._octets // self._size
        if self._ack_every and self.received - self._acked >= self._ack_every:
            self._acknowledge()

    def _read_stamps(self, chunk: memoryview, before: int, size: int) -> None:
        """Read the stamps in a chunk that begins so many octets behind the first delivery's begin."""
        now, place = time.monotonic_ns(), size - 1 - self._stamped_size
        first = (place - before) % size if before > place else place - before
        for start in range(first, len(chunk) - STAMP.size + 1, size):
            self.ages.append((now - STAMP.unpack_from(chunk, start)[0]) / 1e6)

    def _acknowledge(self) -> None:
        """Acknowledge all whole groups of `ack_every` deliveries."""
        if self._ack_every == 1:
            tags = range(self._acked + 1, self.received + 1)
            self.socket.sendall(b"".join([self._ack(tag, multiple=False) for tag in tags]))
            self._acked = self.received
        else:
            self._acked = self.received // self._ack_every * self._ack_every
            self.socket.sendall(self._ack(self._acked, multiple=True))

    def _ack(self, tag: int, *, multiple: bool) -> bytes:
        return ACK.pack(frames.METHOD, self._channel, ACK_ARGUMENTS, 60, 80, tag, multiple, frames.FRAME_END[0])
