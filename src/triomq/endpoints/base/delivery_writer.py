"""The writing half of a client on a stream: deliveries on their way to the socket, and how many of them may be.

    queue ── Deliver ──> outgoing ── encode ──> engine ── data_to_send ──> transport
              window:    └──────────── counts all of this ────────────────────┘

Rules:

- Replies are encoded when they are made. Deliveries wait here until the end of the turn, and are encoded as far as one
  write goes; the rest waits until the transport has taken that. So a long backlog never holds the loop, and what is not
  encoded has no delivery number yet and can go back unmarked.
- The window counts from the queue's hand-out until the transport has sent: at most ``WINDOW_BYTES`` of a backlog of any
  length are outside of their queue. It is given back for a whole write at once.
- Where something of a reply is still to be recorded, nothing is written until the store has it (``hold``): nothing may
  overtake that reply, and a client may take any reply for a promise.

Tried and dropped: encoding as deliveries come (a prefetch of 0 on a million messages was 1.7 s of one turn); a class of
its own for each protocol, which then forgot one of the rules.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from triomq.core import Batch, Window
from triomq.endpoints.base.domain_work import return_unseen
from triomq.protocols import Engine
from triomq.transports import Transport

WINDOW_BYTES = 512 * 1024
"""Bytes of deliveries on the way to one client: without it a prefetch of 0 on a backlog of a million would be encoded
at once, 1.7 s of work."""

WRITE_BYTES = 128 * 1024
"""Bytes encoded before they are written: they are joined, and more in one piece costs page faults."""

LARGE_WRITE_BYTES = 512 * 1024
"""The same where messages are large and so not joined: a write and the turn around it are then paid for once."""

LARGE = 16 * 1024
"""Bytes per message from which messages are large."""

UNREAD_BYTES = 1024 * 1024
"""Bytes of replies that a client may leave unread before its requests have to wait."""


class Parcel(Protocol):
    """What is to be encoded: a batch, or what a protocol delivers once more."""

    @property
    def left(self) -> int:
        """How many messages."""

    @property
    def size(self) -> int:
        """Bytes of these, as the window counts them."""


class DeliveryWriter:
    """What one client on a stream is sent; made by the client, ends with it.

    Args:
        engine: Encodes.
        transport: Takes what is encoded.
    """

    __slots__ = (
        "_count",
        "_engine",
        "_given",
        "_held_for",
        "_progress",
        "_size",
        "_stuck_since",
        "_transport",
        "may_write",
        "outgoing",
        "window",
    )

    def __init__(self, engine: Engine[object], transport: Transport) -> None:
        self.window = Window(bytes=WINDOW_BYTES)
        self.may_write = True
        """Whether the transport has taken everything so far."""
        self.outgoing: deque[Any] = deque()
        """Parcels for the next ``flush``, appended to directly: a call for each would cost more."""
        self._engine = engine
        self._transport = transport
        self._count = 0  # messages that the window counts and the transport has been given
        self._size = 0  # bytes of these
        self._given = 0  # bytes that the transport has been given and has not taken all of
        self._held_for = 0  # the batch that must be on disk before anything is written; 0 if there is none
        self._progress = -1  # the transport's, when it was looked at last
        self._stuck_since = 0.0  # when that was not what it had been before

    def flush(self, encode: Callable[[Any], None]) -> None:
        """Encode what one write takes, and offer it to the transport; nothing if that has not taken the last yet."""
        if not self.may_write or self._held_for:
            return
        outbox, outgoing = self._engine.outbox, self.outgoing
        if outgoing:
            room = WRITE_BYTES
            while outgoing and outbox.unsent < room:
                parcel = outgoing.popleft()
                count, size = parcel.left, parcel.size  # before a protocol without acks settles them
                self._count += count
                self._size += size
                room = LARGE_WRITE_BYTES if size >= LARGE * count else WRITE_BYTES
                encode(parcel)
        if outbox.unsent or self._count or self.window.waiting:
            given = outbox.unsent
            buffers = self._engine.data_to_send()
            taken = self._transport.send_nowait(buffers) if buffers else True
            if taken and not outgoing and not self.window.waiting:
                self._give_back()
            else:
                self.may_write = False
                self._given = 0 if taken else given
                if taken:
                    self._transport.notify_drained()  # the rest, and feeds that wait for room, in a turn of their own

    def _give_back(self) -> None:
        """Return to the window what the transport has taken."""
        if self._count:
            count, size, self._count, self._size = self._count, self._size, 0, 0
            self.window.give(count, size)

    def drained(self) -> None:
        """Wake the feeds that waited for the transport; what they deliver is due for the next ``flush``."""
        self.may_write = True
        self._given = 0
        self._progress = -1
        self._give_back()

    # What goes back

    def drop(self, dropped: Callable[[Batch], bool]) -> None:
        """Return some deliveries that are not encoded yet to their places, unmarked: the client has not seen them."""
        rest: deque[Any] = deque()
        for parcel in self.outgoing:
            if isinstance(parcel, Batch) and dropped(parcel):
                return_unseen(parcel, self.window)
            else:
                rest.append(parcel)
        self.outgoing = rest

    def drop_all(self) -> None:
        """Return all deliveries that are not encoded yet to their places, unmarked, and forget what goes out again."""
        outgoing, self.outgoing = self.outgoing, deque()
        for parcel in outgoing:
            if isinstance(parcel, Batch):
                return_unseen(parcel, self.window)

    # A client that does not read, and a store that takes its time

    @property
    def is_choked(self) -> bool:
        """Whether the client leaves so much unread that its requests have to wait."""
        return not self.may_write and self._engine.outbox.unsent > UNREAD_BYTES

    @property
    def unread(self) -> int:
        """Bytes that are encoded and that the transport has not been seen to have sent."""
        return self._given + self._engine.outbox.unsent

    def stuck_for(self, now: float) -> float:
        """Return for how many seconds the client has read nothing of what waits for it; to be asked now and then."""
        progress = -1 if self.may_write else self._transport.progress
        if progress != self._progress or progress < 0:
            self._progress, self._stuck_since = progress, now
        return now - self._stuck_since

    @property
    def is_held(self) -> bool:
        """Whether something is encoded that must not be written yet."""
        return self._held_for > 0

    def hold(self, number: int) -> None:
        """Write nothing until a batch of the store is on disk; numbers never fall."""
        self._held_for = number

    def release(self, number: int) -> None:
        """Write again, if no later batch is waited for."""
        if number >= self._held_for:
            self._held_for = 0
