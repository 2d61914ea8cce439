"""The writing half of one AMQP connection: deliveries on their way to the socket, and how many of them may be.

Replies are encoded by whoever makes them. Deliveries wait here until the end of the turn and are encoded as far as one
write goes; the rest waits until the transport has taken that, so that a long backlog never holds the loop.
"""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from triomq.core import Batch, Numbered, Outcome, Window, settle
from triomq.endpoints.amqp_answers import Answer
from triomq.endpoints.amqp_channel import Channel, Consumer
from triomq.errors import LocalProtocolError
from triomq.protocols.amqp import AMQPEngine
from triomq.transports import Transport

__all__ = ["LARGE_WRITE_BYTES", "OUTLET_BYTES", "UNREAD_BYTES", "WRITE_BYTES", "Outlet"]

OUTLET_BYTES = 512 * 1024
"""Octets of deliveries on the way to one connection: without it a prefetch of 0 on a backlog of a million would be
encoded at once, 1.7 s of work."""

WRITE_BYTES = 128 * 1024
"""Octets encoded before they are written: they are joined, and more in one piece costs page faults."""

LARGE_WRITE_BYTES = 512 * 1024
"""The same where messages are large and so not joined: a write and the turn around it are then paid for once."""

_LARGE = 16 * 1024  # octets per message

UNREAD_BYTES = 1024 * 1024
"""Octets of replies that a client may leave unread before its requests have to wait."""


class Again(msgspec.Struct, frozen=True):
    """Deliveries that are to go out once more, to the channel that has them."""

    channel: Channel
    numbered: Numbered
    tags: Sequence[int]
    size: int

    @property
    def left(self) -> int:
        """How many messages."""
        return len(self.tags)


class Outlet:
    """What a connection sends; made by the connection, ends with it.

    Args:
        engine: Encodes.
        transport: Takes what is encoded.
        refuse: Called with a channel and an answer when a delivery cannot be encoded for this client.
    """

    __slots__ = (
        "_encoded",
        "_engine",
        "_held_for",
        "_outgoing",
        "_progress",
        "_refuse",
        "_stuck_since",
        "_transport",
        "may_write",
        "window",
    )

    def __init__(self, engine: AMQPEngine, transport: Transport, refuse: Callable[[Channel, Answer], None]) -> None:
        """Start with nothing on the way."""
        self.window = Window(bytes=OUTLET_BYTES)
        self.may_write = True  # the transport has taken everything so far
        self._held_for = 0  # the batch that must be on disk before what is said may be heard; 0 if there is none
        self._engine = engine
        self._transport = transport
        self._refuse = refuse
        self._outgoing: deque[Batch | Again] = deque()
        self._encoded = (0, 0)  # messages and octets that the window counts and the transport has been given
        self._progress = -1  # the transport's, when it was looked at last
        self._stuck_since = 0.0  # when that was not what it had been before

    @property
    def is_choked(self) -> bool:
        """Whether the client leaves so much unread that its requests have to wait."""
        return not self.may_write and self._engine.unsent > UNREAD_BYTES

    def stuck_for(self, now: float) -> float:
        """Tell for how many seconds the client has read nothing of what waits for it; to be asked now and then."""
        progress = -1 if self.may_write else self._transport.progress
        if progress != self._progress or progress < 0:
            self._progress, self._stuck_since = progress, now
        return now - self._stuck_since

    @property
    def is_held(self) -> bool:
        """Whether something is said that must not be heard yet."""
        return self._held_for > 0

    def hold(self, number: int) -> None:
        """Write nothing until a batch is on disk; numbers never fall."""
        self._held_for = number

    def release(self, number: int) -> None:
        """Write again, if no later batch is waited for."""
        if number >= self._held_for:
            self._held_for = 0

    def put(self, batch: Batch) -> None:
        """Take a batch for a consumer; ``flush`` encodes it."""
        self._outgoing.append(batch)

    def put_again(self, channel: Channel, numbered: Numbered, tags: Sequence[int]) -> None:
        """Let a channel deliver again what is out under some tags, when its time has come."""
        size = sum(map(len, numbered.contents))
        self.window.take(len(tags), size)
        self._outgoing.append(Again(channel, numbered, tags, size))

    def flush(self) -> None:
        """Encode what one write takes and offer it to the transport; nothing if that has not taken the last yet."""
        if not self.may_write or self._held_for:
            return
        if self._outgoing:
            self._encode()
        if self._engine.unsent or self.window.waiting:
            self._write()

    def _encode(self) -> None:
        """Encode deliveries, as many octets as one write takes."""
        engine = self._engine
        count, size = self._encoded
        room = WRITE_BYTES
        while self._outgoing and engine.unsent < room:
            parcel = self._outgoing.popleft()
            size += parcel.size
            room = LARGE_WRITE_BYTES if parcel.size >= _LARGE * parcel.left else WRITE_BYTES
            count += parcel.left
            if isinstance(parcel, Again):
                parcel.channel.encode_again(parcel.numbered, parcel.tags)
                continue
            consumer = parcel.feed.key  # type: ignore[union-attr]  # see consumer_of; this is the hot path
            assert isinstance(consumer, Consumer)
            try:
                consumer.channel.encode(consumer, parcel)
            except LocalProtocolError as error:
                # Properties that do not fit into a frame of this client: its own limit, so its own trouble.
                self._refuse(consumer.channel, Answer(506, str(error)))
        self._encoded = count, size

    def _write(self) -> None:
        """Offer everything encoded to the transport; if anything is left, or feeds wait for room, go on later."""
        buffers = self._engine.data_to_send()
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

    def drop(self, feeds_of: Channel | Consumer) -> None:
        """Return deliveries that are not encoded yet to their places, unmarked: nobody has seen them."""
        kept: deque[Batch | Again] = deque()
        for parcel in self._outgoing:
            if isinstance(parcel, Batch) and feeds_of in (consumer := consumer_of(parcel), consumer.channel):
                self.put_back(parcel)
            else:
                kept.append(parcel)
        self._outgoing = kept

    def put_back(self, batch: Batch) -> None:
        """Return one delivery that is not encoded."""
        count, size = batch.left, batch.size
        settle(batch, Outcome.RETURN)
        self.window.give(count, size)


def consumer_of(batch: Batch) -> Consumer:
    """Find the consumer that a batch goes to."""
    assert batch.feed is not None
    consumer = batch.feed.key
    assert isinstance(consumer, Consumer)
    return consumer
