"""Octets in and out of one connection, in the way that turns need them: nothing here makes a turn wait.

A transport calls its driver when octets have come, and when what it could not send at once has left. Raw sockets are
watched by a ``Poller``, one task for all of them; any other Trio stream has tasks of its own.
"""

import select
import socket
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import trio

from triomq.transports.poller import Poller

RECEIVE_SIZE = 64 * 1024
"""Octets read at once: with 128 KiB quiet connections wait longer behind busy ones, 16 KiB cost a quarter more CPU."""

LARGE_RECEIVE_SIZE = 256 * 1024
"""Octets read at once where bodies are large: few messages come of them, so nobody waits long."""

WRITE_SIZE = 128 * 1024
"""Octets that a stream is given at once, so that one that reads slowly can be told from one that does not read."""

JOINED_SIZE = 128 * 1024
"""Octets up to which several buffers are joined for one write: beyond that the kernel pays in page faults."""

_VECTOR = 512
"""Buffers in one write; the kernel takes 1,024."""

Buffer = bytes | memoryview


class Driver(Protocol):
    """Who a transport works for."""

    def received(self, data: bytes) -> None:
        """Take octets that have come; ``b""`` is the end of the stream, also after an error."""

    def drained(self) -> None:
        """Hear that all octets so far have left; only after ``send_nowait`` said no or ``notify_drained`` asked."""


class Transport(Protocol):
    """What a connection asks of its transport, whatever it runs over."""

    peer: str
    """Who is on the other side, for texts."""
    receive_size: int
    """Octets to read at once; the driver may change it."""
    progress: int
    """Grows whenever some of what could not be sent at once has left: while it stands still, nobody reads."""

    def start(self, driver: Driver) -> None:
        """Read from now on."""

    def send_nowait(self, buffers: Sequence[Buffer]) -> bool:
        """Take buffers to be sent, in order, and tell whether all octets so far have left."""

    def notify_drained(self) -> None:
        """Ask for ``drained`` soon, in a turn of its own, although nothing may be left to send."""

    def pause_reading(self) -> None:
        """Take nothing from the other side until further notice."""

    def resume_reading(self) -> None:
        """Take octets again."""

    def end_sending(self) -> None:
        """Say, after all octets so far, that nothing more will come."""

    def close(self) -> None:
        """Close both directions at once; the driver hears nothing more."""


class _Nobody:
    """The driver of a transport that is closed: one that was left there would be a cycle with its transport."""

    def received(self, data: bytes) -> None:
        """Hear nothing."""

    def drained(self) -> None:
        """Hear nothing."""


_NOBODY = _Nobody()


class RawSocket:
    """A non-blocking stream socket, used without any layer in between.

    It tries to send at once, and keeps what the kernel does not take. Trio's own stream calls would cost 5 to 10 µs
    more per round trip, a task for each socket another 15.

    Args:
        connection: A connected stream socket; this object owns it from now on.
        peer: Who is on the other side, for texts.
        poller: Who watches it.
    """

    __slots__ = (
        "_asked",
        "_at_end",
        "_driver",
        "_ending",
        "_events",
        "_poller",
        "_rest",
        "_socket",
        "peer",
        "progress",
        "receive_size",
    )

    _driver: Driver

    def __init__(self, connection: socket.socket, peer: str, poller: Poller) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._poller = poller
        self._rest: Sequence[Buffer] = ()
        self._asked = False  # whether the driver wants to be called when the socket would take more
        self._events = 0
        self._ending = False
        self._at_end = False
        self.receive_size = RECEIVE_SIZE
        self.peer = peer
        self.progress = 0

    def start(self, driver: Driver) -> None:
        """Read from now on."""
        self._driver = driver
        self._watch(select.EPOLLIN)

    def _watch(self, events: int) -> None:
        """Be called when the socket is ready for these; for nothing at all once it has ended."""
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
        """Do what the socket is ready for; errors show when one reads or writes."""
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
        if not data:
            self._at_end = True
            self._watch(self._events)
        self._driver.received(data)

    def send_nowait(self, buffers: Sequence[Buffer]) -> bool:
        """Offer buffers to the socket, keep what it does not take."""
        if self._rest:
            self._rest = [*self._rest, *buffers]
            return False
        self._rest, _ = self._offer(buffers)
        if not self._rest:
            return True
        self._watch(self._events | select.EPOLLOUT)
        return False

    def _offer(self, buffers: Sequence[Buffer]) -> tuple[list[Buffer], int]:
        """Offer one write's worth to the socket; give what is left, and how many octets went.

        Many small buffers are joined; large ones are not worth the copy.
        """
        if len(buffers) > 1 and sum(map(len, buffers)) <= JOINED_SIZE:
            buffers = (b"".join(buffers),)
        try:
            sent = self._socket.send(buffers[0]) if len(buffers) == 1 else self._socket.sendmsg(buffers[:_VECTOR])
        except BlockingIOError:
            sent = 0
        except OSError:
            return [], 0  # nobody will ever read it; the reader is about to hear why
        return _without(buffers, sent), sent

    def _push(self) -> None:
        """Offer what is left; when that was all, ask the driver for more, and watch the socket as long as there is."""
        if self._rest:
            self._rest, sent = self._offer(self._rest)
            self.progress += sent
        if not self._rest:
            self._asked = False
            if self._ending:
                self._shut_down()
            self._driver.drained()
            if not self._rest and not self._asked:
                self._watch(self._events & ~select.EPOLLOUT)

    def notify_drained(self) -> None:
        """Be called back as soon as the socket would take more."""
        self._asked = True
        self._watch(self._events | select.EPOLLOUT)

    def pause_reading(self) -> None:
        """Let the kernel keep what comes, and the other side wait when its buffers are full."""
        self._watch(self._events & ~select.EPOLLIN)

    def resume_reading(self) -> None:
        """Take octets again."""
        self._watch(self._events | select.EPOLLIN)

    def end_sending(self) -> None:
        """Half-close once everything has left."""
        self._ending = True
        if not self._rest:
            self._shut_down()

    def _shut_down(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the other side is gone already

    def close(self) -> None:
        """Close the socket."""
        if self._socket.fileno() >= 0:
            self._watch(0)
            self._socket.close()
        self._rest = ()
        self._driver = _NOBODY


def _without(buffers: Sequence[Buffer], sent: int) -> list[Buffer]:
    """Give what is left of buffers when so many octets have gone."""
    for number, buffer in enumerate(buffers):
        if sent < len(buffer):
            return [memoryview(buffer)[sent:], *buffers[number + 1 :]]
        sent -= len(buffer)
    return []


class StreamTransport:
    """Any Trio stream: TLS, WebSocket, or a memory stream in a test.

    Args:
        stream: A connected stream; this object owns it from now on.
        peer: Who is on the other side, for texts.
    """

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

    def start(self, driver: Driver) -> None:
        """Read from now on."""
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
        """Send as much at a time as a slow reader takes before it would count as one that does not read."""
        for start in range(0, len(data), WRITE_SIZE):
            await self._stream.send_all(data[start : start + WRITE_SIZE])
            self.progress += WRITE_SIZE

    def send_nowait(self, buffers: Sequence[Buffer]) -> bool:
        """Keep buffers for the writer task."""
        self._rest.extend(buffers)
        self._to_do.set()
        return False

    def notify_drained(self) -> None:
        """Be called back by the writer task."""
        self._to_do.set()

    def pause_reading(self) -> None:
        """Read nothing after what is being read."""
        self._may_read = trio.Event()

    def resume_reading(self) -> None:
        """Read again."""
        self._may_read.set()

    def end_sending(self) -> None:
        """End the stream where that is possible, once everything has left."""
        self._ending = True
        self._to_do.set()

    def close(self) -> None:
        """End the tasks, which close the stream."""
        self._driver = None
        self._rest.clear()
        self._scope.cancel()
