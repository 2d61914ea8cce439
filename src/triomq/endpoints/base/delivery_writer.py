"""The writing half of a connection on a wire: what is on its way to the socket, and how much of it may be."""

from collections import deque
from typing import Generic, Protocol, TypeVar

from triomq.core import Batch, Outcome, Window, settle
from triomq.transports import Transport

P = TypeVar("P")

OUTLET_BYTES = 512 * 1024
"""Octets of deliveries on the way to one connection: without it a prefetch of 0 on a backlog of a million would be
encoded at once, 1.7 s of work."""

WRITE_BYTES = 128 * 1024
"""Octets encoded before they are written: they are joined, and more in one piece costs page faults."""

LARGE_WRITE_BYTES = 512 * 1024
"""The same where messages are large and so not joined: a write and the turn around it are then paid for once."""

LARGE = 16 * 1024
"""Octets per message from which messages are large."""


class Encoder(Protocol):
    """What an outlet asks of every engine."""

    def data_to_send(self) -> list[bytes | memoryview]:
        """Give what is to be written."""


class DeliveryWriter(Generic[P]):
    """Base of outlets; what is encoded, and when, is up to the protocols.

    Args:
        engine: Encodes.
        transport: Takes what is encoded.
    """

    __slots__ = ("_encoded", "_encoder", "_outgoing", "_progress", "_stuck_since", "_transport", "may_write", "window")

    def __init__(self, engine: Encoder, transport: Transport) -> None:
        self.window = Window(bytes=OUTLET_BYTES)
        self.may_write = True  # the transport has taken everything so far
        self._encoder = engine
        self._transport = transport
        self._outgoing: deque[P] = deque()
        self._encoded = (0, 0)  # messages and octets that the window counts and the transport has been given
        self._progress = -1  # the transport's, when it was looked at last
        self._stuck_since = 0.0  # when that was not what it had been before

    def stuck_for(self, now: float) -> float:
        """Tell for how many seconds the client has read nothing of what waits for it; to be asked now and then."""
        progress = -1 if self.may_write else self._transport.progress
        if progress != self._progress or progress < 0:
            self._progress, self._stuck_since = progress, now
        return now - self._stuck_since

    def put(self, parcel: P) -> None:
        """Take what is to go out; ``flush`` encodes it."""
        self._outgoing.append(parcel)

    def flush(self) -> None:
        """Encode what one write takes and offer it to the transport; nothing if that has not taken the last yet."""
        raise NotImplementedError

    def _write(self) -> None:
        """Offer everything encoded to the transport; if anything is left, or feeds wait for room, go on later."""
        buffers = self._encoder.data_to_send()
        taken = self._transport.send_nowait(buffers) if buffers else True
        if taken and not self._outgoing and not self.window.waiting:
            self._give_back()
        else:
            self.may_write = False
            if taken:
                self._transport.notify_drained()

    def _give_back(self) -> None:
        """Give the window back what the transport has taken."""
        count, size = self._encoded
        if size:
            self._encoded = 0, 0
            self.window.give(count, size)

    def drained(self) -> None:
        """Wake the feeds that waited for the transport; what they deliver is due for the next ``flush``."""
        self.may_write = True
        self._progress = -1
        self._give_back()

    def put_back(self, batch: Batch) -> None:
        """Return messages that are not encoded to their places, unmarked: nobody has seen them."""
        count, size = batch.left, batch.size
        settle(batch, Outcome.RETURN)
        self.window.give(count, size)
