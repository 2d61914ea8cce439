"""Sockets of connections that their clients have closed in order: closing the socket, too, is the client's to do.

Once connection.close is answered nothing is left of a connection but its socket. To end that at once looks simple, but
some clients (Go's among them) read the end of the stream before they have worked off close-ok, and report a connection
that was lost. So the socket stays for a while, further closes are answered, and it counts nowhere: in no limit, in no
user's connections, in no drain.
"""

from collections.abc import Callable

from triomq.endpoints.base.wheel import Wheel
from triomq.protocols.amqp import AMQPEngine
from triomq.transports import Transport

_SECONDS = 5.0
"""How long a client has to close its socket: as long as it gets to answer a close."""

_MOST = 1000
"""Sockets that wait at once; then the oldest one goes. A thousand clients may well restart together, and what waits
here takes file descriptors from those that work."""

_MOST_BYTES = 1024 * 1024
"""Bytes that may come after a close: some were on their way already, and a client that goes on sends in vain."""


class ClosedSockets:
    """The sockets that one listener leaves to their clients; made by it, ends with it.

    Args:
        wheel: The listener's timers.
    """

    def __init__(self, wheel: Wheel) -> None:
        self._wheel = wheel
        self._sockets: dict[_ClosedSocket, None] = {}

    def __len__(self) -> int:
        """Count the sockets."""
        return len(self._sockets)

    def add(self, transport: Transport, engine: AMQPEngine, now: float) -> None:
        """Take over the transport of a connection that its client has closed, and what is still to be sent on it."""
        if len(self._sockets) >= _MOST:
            self._end(next(iter(self._sockets)))
        closed = _ClosedSocket(transport, engine, self._end)
        self._sockets[closed] = None
        self._wheel.set(closed, now + _SECONDS, lambda _: self._end(closed))
        closed.start()

    def _end(self, closed: "_ClosedSocket") -> None:
        del self._sockets[closed]
        self._wheel.discard(closed)
        closed.close()

    def close(self) -> None:
        """Close them all."""
        for closed in list(self._sockets):
            self._end(closed)


class _ClosedSocket:
    """One socket, and its engine, which answers closes; a driver of the transport."""

    __slots__ = ("_end", "_engine", "_received", "_transport")

    def __init__(self, transport: Transport, engine: AMQPEngine, end: Callable[["_ClosedSocket"], None]) -> None:
        self._transport = transport
        self._engine = engine
        self._end = end
        self._received = 0

    def start(self) -> None:
        """Read, and write what the connection has left to write."""
        self._transport.start(self)
        self._transport.resume_reading()
        self._transport.notify_drained()

    def received(self, data: bytes) -> None:
        """ReplyCode closes; end when the client does."""
        self._received += len(data)
        if not data or self._received > _MOST_BYTES:
            self._end(self)
            return
        self._engine.receive_data(data)
        self._write()

    def drained(self) -> None:
        """Write what the transport had no room for."""
        self._write()

    def _write(self) -> None:
        data = self._engine.data_to_send()
        if data:
            self._transport.send_nowait(data)

    def close(self) -> None:
        """Close the socket, after the transport's own last words, where it has some."""
        self._transport.end_sending()
        self._transport.close()
