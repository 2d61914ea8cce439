"""The writing half of one AMQP connection: deliveries on their way to the socket, and how many of them may be.

Replies are encoded by whoever makes them. Deliveries wait here until the end of the turn and are encoded as far as one
write goes; the rest waits until the transport has taken that, so that a long backlog never holds the loop.
"""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from triomq.core import Batch, Numbered
from triomq.endpoints.amqp.answers import Answer
from triomq.endpoints.amqp.channel import Channel, Consumer
from triomq.endpoints.base.delivery_writer import LARGE, LARGE_WRITE_BYTES, WRITE_BYTES, DeliveryWriter
from triomq.errors import LocalProtocolError
from triomq.protocols.amqp import AMQPEngine
from triomq.transports import Transport

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


class Outlet(DeliveryWriter[Batch | Again]):
    """What a connection sends; made by the connection, ends with it.

    Args:
        engine: Encodes.
        transport: Takes what is encoded.
        refuse: Called with a channel and an answer when a delivery cannot be encoded for this client.
    """

    __slots__ = ("_engine", "_held_for", "_refuse")

    def __init__(self, engine: AMQPEngine, transport: Transport, refuse: Callable[[Channel, Answer], None]) -> None:
        super().__init__(engine, transport)
        self._engine = engine
        self._refuse = refuse
        self._held_for = 0  # the batch that must be on disk before what is said may be heard; 0 if there is none

    @property
    def is_choked(self) -> bool:
        """Whether the client leaves so much unread that its requests have to wait."""
        return not self.may_write and self._engine.outbox.unsent > UNREAD_BYTES

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
        if self._engine.outbox.unsent or self.window.waiting:
            self._write()

    def _encode(self) -> None:
        """Encode deliveries, as many octets as one write takes."""
        engine = self._engine
        count, size = self._encoded
        room = WRITE_BYTES
        while self._outgoing and engine.outbox.unsent < room:
            parcel = self._outgoing.popleft()
            size += parcel.size
            room = LARGE_WRITE_BYTES if parcel.size >= LARGE * parcel.left else WRITE_BYTES
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

    def drop_all(self) -> None:
        """Return all deliveries that are not encoded yet to their places, unmarked: nobody will see them."""
        outgoing, self._outgoing = self._outgoing, deque()
        for parcel in outgoing:
            if isinstance(parcel, Batch):
                self.put_back(parcel)

    def drop(self, feeds_of: Channel | Consumer) -> None:
        """Return deliveries that are not encoded yet to their places, unmarked: nobody has seen them."""
        kept: deque[Batch | Again] = deque()
        for parcel in self._outgoing:
            if isinstance(parcel, Batch) and feeds_of in (consumer := consumer_of(parcel), consumer.channel):
                self.put_back(parcel)
            else:
                kept.append(parcel)
        self._outgoing = kept


def consumer_of(batch: Batch) -> Consumer:
    """Find the consumer that a batch goes to."""
    assert batch.feed is not None
    consumer = batch.feed.key
    assert isinstance(consumer, Consumer)
    return consumer
