"""Transports: the bytes of one connection, as turns need them. Nothing here makes a turn wait.

    driver.received(data) ◀── transport ◀── socket        one call for each chunk; b"" is the end of the stream
    driver.drained()      ◀── transport                   all has left that could not be sent at once
    driver ── send_nowait(buffers) ──▶ transport          tries the socket, holds what it does not take

- Sending never waits. The driver learns from ``send_nowait`` that something was left, and then stops producing until
  ``drained``; so what a transport holds is bounded by what one turn produces.
- ``progress`` grows whenever a part of it leaves. While it stands still, the other side reads nothing.
- ``RawSocket`` has a poller, one task for all sockets. ``StreamTransport`` takes any Trio stream and has two tasks of
  its own: 15 to 20 µs more for each wake-up, for streams that have no descriptor.
"""

import os
import select
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar, Protocol

import trio

from triomq.transports.poller import Poller

RECEIVE_SIZE = 64 * 1024
"""Bytes read at once: with 128 KiB quiet connections wait longer behind busy ones, 16 KiB cost a quarter more CPU."""

LARGE_RECEIVE_SIZE = 384 * 1024
"""Bytes read at once where bodies are large: they have few messages, so other connections do not wait long.

A message of 64 KiB costs 8 to 20 % less CPU than with 256 KiB. With 512 KiB it costs no less again, and a body frame
of 128 KiB would not be a quarter of its chunk any more, which is what an unfinished message may hold on to. A larger
receive buffer in the kernel (``SO_RCVBUF``) does not help either: its bytes are colder when they are read.
"""

WRITE_SIZE = 128 * 1024
"""Bytes that a stream is given at once, so that ``progress`` grows also where the other side reads slowly."""

JOINED_SIZE = 128 * 1024
"""Bytes up to which several buffers are joined for one write: beyond that the kernel pays in page faults.

Large buffers count like small ones: without the copy a write of 64 KiB takes 5 % less, but one of 20 KiB 8 % more, for
a write of several buffers is itself dearer than one of a single buffer.
"""

_VECTOR = 512
"""Buffers in one write; the kernel takes 1,024."""

_CAN_LEND = hasattr(socket, "SCM_RIGHTS")
"""Whether a descriptor can be sent to another process."""

Buffer = bytes | memoryview


class Driver(Protocol):
    """The user of a transport, such as a connection."""

    def received(self, data: bytes) -> None:
        """Process bytes that have arrived; ``b""`` is the end of the stream, also after an error."""

    def drained(self) -> None:
        """Continue: all bytes so far have left. Called after ``send_nowait`` returned False, or ``notify_drained``."""


class Transport(Protocol):
    """The interface of a transport, over whatever it runs."""

    peer: str
    """The other side's address, for texts."""
    receive_size: int
    """Bytes to read at once; the driver may change it."""
    progress: int
    """Grows whenever some of what could not be sent at once has left: else the other side reads nothing."""

    @property
    def bottom(self) -> "Transport":
        """The transport that stands on no other one: this, or what is below it."""

    @property
    def is_encrypted(self) -> bool:
        """Whether it goes through TLS."""

    def client_name(self, kind: str) -> str:
        """Return the name in the client's certificate, which an authority has signed; empty if there is none.

        Args:
            kind: ``"common_name"`` or ``"subject_alternative_name"``.
        """

    def start(self, driver: Driver) -> None:
        """Start reading, and call the driver."""

    def send_nowait(self, buffers: Sequence[Buffer]) -> bool:
        """Send buffers, in order; return whether all bytes so far have left."""

    def notify_drained(self) -> None:
        """Call ``drained`` soon, in a turn of its own, even if nothing is left to send."""

    def pause_reading(self) -> None:
        """Read nothing until ``resume_reading``."""

    def resume_reading(self) -> None:
        """Read again."""

    def end_sending(self) -> None:
        """End the stream, after all bytes so far."""

    def lend(self) -> int | None:
        """Return a duplicate of the socket's descriptor, for another process to write to; None if that cannot be.

        Until that process has ended nothing may be sent here. The caller closes the duplicate.
        """

    def close(self) -> None:
        """Close both directions at once; the driver is not called any more."""


class _NoDriver:
    """The driver of a closed transport: to leave the old one there would be a cycle with its transport."""

    def received(self, data: bytes) -> None:
        """Ignore it."""

    def drained(self) -> None:
        """Ignore it."""


_NO_DRIVER = _NoDriver()


class RawSocket:
    """A non-blocking stream socket, used without any layer in between.

    It tries to send at once, and holds what the kernel does not take. Trio's own stream calls would cost 5 to 10 µs
    more per round trip, a task for each socket another 15.

    Args:
        connection: A connected stream socket; this object owns it from now on.
        peer: The other side's address, for texts.
        poller: Watches it.
    """

    __slots__ = (
        "_asked",
        "_at_end",
        "_driver",
        "_ending",
        "_events",
        "_is_lent",
        "_poller",
        "_rest",
        "_socket",
        "has_broken",
        "peer",
        "progress",
        "receive_size",
    )

    _driver: Driver
    is_encrypted: ClassVar = False

    def __init__(self, connection: socket.socket, peer: str, poller: Poller) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._poller = poller
        self._rest: Sequence[Buffer] = ()
        self._asked = False  # whether notify_drained was called
        self._events = 0
        self._ending = False
        self._at_end = False
        self.has_broken = False
        """Whether the stream has ended by an error, and not because the other side has ended it."""
        self._is_lent = False
        self.receive_size = RECEIVE_SIZE
        self.peer = peer
        self.progress = 0

    @property
    def bottom(self) -> Transport:
        """Return itself."""
        return self

    def client_name(self, kind: str) -> str:
        """Return an empty string: there is no certificate."""
        return ""

    def start(self, driver: Driver) -> None:
        """Start reading, and call the driver."""
        self._driver = driver
        self._watch(select.EPOLLIN)

    def _watch(self, events: int) -> None:
        """Register for events of the socket; not for reading once the stream has ended."""
        if self._at_end:
            events &= ~select.EPOLLIN
        if events == self._events or self._socket.fileno() < 0:
            return
        if not self._events:
            self._poller.add(self._socket.fileno(), events, self._ready)
        elif not events:
            self._poller.remove(self._socket.fileno())
        else:
            self._poller.change(self._socket.fileno(), events)
        self._events = events

    def _ready(self, events: int) -> None:
        """Send and receive what the socket is ready for; errors show in doing so."""
        if self._events & select.EPOLLOUT and events & ~select.EPOLLIN:
            self._push()
        if self._events & select.EPOLLIN and events & ~select.EPOLLOUT:
            self._receive()

    def _receive(self) -> None:
        try:
            data = self._socket.recv(self.receive_size)
        except BlockingIOError:
            return
        except OSError:
            data = b""
            self.has_broken = True
        if not data:
            self._at_end = True
            self._watch(self._events)
        self._driver.received(data)

    def send_nowait(self, buffers: Sequence[Buffer]) -> bool:
        """Send what the socket takes, hold the rest; return whether nothing is left."""
        if self._rest:
            self._rest = [*self._rest, *buffers]
            return False
        self._rest, _ = self._write_once(buffers)
        if not self._rest:
            return True
        self._watch(self._events | select.EPOLLOUT)
        return False

    def _write_once(self, buffers: Sequence[Buffer]) -> tuple[list[Buffer], int]:
        """Write once; return what is left, and how many bytes have left.

        Many small buffers are joined; large ones are not worth the copy.
        """
        if len(buffers) > 1 and sum(map(len, buffers)) <= JOINED_SIZE:
            buffers = (b"".join(buffers),)
        try:
            sent = self._socket.send(buffers[0]) if len(buffers) == 1 else self._socket.sendmsg(buffers[:_VECTOR])
        except BlockingIOError:
            sent = 0
        except OSError:
            self.has_broken = True  # the next read would find out why, and may be told now that the stream has ended
            return [], 0
        if len(buffers) == 1 and sent == len(buffers[0]):  # mostly
            return [], sent
        return _without(buffers, sent), sent

    def _push(self) -> None:
        """Send what is left; after the last of it call ``drained``, and stop watching unless there is more."""
        if self._rest:
            self._rest, sent = self._write_once(self._rest)
            self.progress += sent
        if not self._rest:
            self._asked = False
            if self._ending:
                self._shut_down()
            self._driver.drained()
            if not self._rest and not self._asked:
                self._watch(self._events & ~select.EPOLLOUT)

    def notify_drained(self) -> None:
        """Call ``drained`` as soon as the socket would take more."""
        self._asked = True
        self._watch(self._events | select.EPOLLOUT)

    def pause_reading(self) -> None:
        """Leave what comes in the kernel's buffers, so that the other side waits when they are full."""
        self._watch(self._events & ~select.EPOLLIN)

    def resume_reading(self) -> None:
        """Read again."""
        self._watch(self._events | select.EPOLLIN)

    def end_sending(self) -> None:
        """Half-close the socket once everything has left."""
        self._ending = True
        if not self._rest:
            self._shut_down()

    def _shut_down(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the other side is gone already

    def lend(self) -> int | None:
        """Return a duplicate of the descriptor, unless something is left to send here; see ``Transport.lend``."""
        if self._rest or self._ending or not _CAN_LEND:
            return None
        try:
            descriptor = os.dup(self._socket.fileno())
        except OSError:  # closed, or too many are open
            return None
        self._is_lent = True
        return descriptor

    def close(self) -> None:
        """Close the socket, and the connection too if another process has a duplicate."""
        if self._socket.fileno() >= 0:
            self._watch(0)
            if self._is_lent:
                with suppress(OSError):  # the other side is gone already
                    self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
        self._rest = ()
        self._driver = _NO_DRIVER


def _without(buffers: Sequence[Buffer], sent: int) -> list[Buffer]:
    """Return what is left of buffers after so many bytes have been sent."""
    for number, buffer in enumerate(buffers):
        if sent < len(buffer):
            return [memoryview(buffer)[sent:], *buffers[number + 1 :]]
        sent -= len(buffer)
    return []


class StreamTransport:
    """Any Trio stream: TLS of a client, or a memory stream in a test.

    Args:
        stream: A connected stream; this object owns it from now on.
        peer: The other side's address, for texts.
    """

    is_encrypted: ClassVar = False  # as far as a server can tell: of a client nobody asks

    def __init__(self, stream: trio.abc.Stream, peer: str) -> None:
        self._stream = stream
        self._rest: deque[Buffer] = deque()
        self._scope = trio.CancelScope()
        self._may_read = trio.Event()
        self._to_do = trio.Event()  # something to send, to end, or to call back
        self._ending = False
        self._driver: Driver | None = None
        self.receive_size = RECEIVE_SIZE
        self.peer = peer
        self.progress = 0

    @property
    def bottom(self) -> Transport:
        """Return itself."""
        return self

    def client_name(self, kind: str) -> str:
        """Return an empty string: nobody has looked at a certificate."""
        return ""

    def start(self, driver: Driver) -> None:
        """Start reading, and call the driver."""
        self._driver = driver
        self._may_read.set()

    async def run(self) -> None:
        """Read and write until the stream is closed."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read)
                    nursery.start_soon(self._write)
        finally:
            await trio.aclose_forcefully(self._stream)

    async def _read(self) -> None:
        data = b"?"
        while data:
            await self._may_read.wait()
            try:
                data = bytes(await self._stream.receive_some(self.receive_size))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                data = b""
            if self._driver is not None:
                self._driver.received(data)

    async def _write(self) -> None:
        while True:
            await self._to_do.wait()
            self._to_do = trio.Event()
            try:
                while self._rest:
                    data = b"".join(self._rest)
                    self._rest.clear()
                    await self._send(data)
                if self._ending and isinstance(self._stream, trio.abc.HalfCloseableStream):
                    await self._stream.send_eof()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._rest.clear()
            if self._driver is not None:
                self._driver.drained()

    async def _send(self, data: bytes) -> None:
        """Send in parts, so that ``progress`` shows a slow reader."""
        for start in range(0, len(data), WRITE_SIZE):
            await self._stream.send_all(data[start : start + WRITE_SIZE])
            self.progress += WRITE_SIZE

    def send_nowait(self, buffers: Sequence[Buffer]) -> bool:
        """Hold buffers for the writer task."""
        self._rest.extend(buffers)
        self._to_do.set()
        return False

    def notify_drained(self) -> None:
        """Call ``drained`` from the writer task."""
        self._to_do.set()

    def pause_reading(self) -> None:
        """Read nothing after the present chunk."""
        self._may_read = trio.Event()

    def resume_reading(self) -> None:
        """Read again."""
        self._may_read.set()

    def end_sending(self) -> None:
        """End the stream where that is possible, once everything has left."""
        self._ending = True
        self._to_do.set()

    def lend(self) -> int | None:
        """Return None: what is sent here goes through the stream."""
        return None

    def close(self) -> None:
        """End the tasks, which close the stream."""
        self._driver = None
        self._rest.clear()
        self._scope.cancel()
