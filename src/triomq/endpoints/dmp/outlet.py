"""The writing half of a direct feed: messages on their way to the socket, and how many of them may be.

They wait here until the end of the turn and are encoded as far as one write goes; the rest waits until the transport
has taken that, so that a long backlog never holds the loop. What was given to the transport is accepted: there are no
acknowledgements (6/DMP, receiving messages).
"""

import logging
from collections.abc import Callable

from triomq.core import Batch, Outcome, Subscription, settle
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.delivery_writer import LARGE, LARGE_WRITE_BYTES, WRITE_BYTES, DeliveryWriter
from triomq.endpoints.content import AMQP_CODEC, to_amqp
from triomq.endpoints.dmp.sink import WHOLE
from triomq.errors import LocalProtocolError
from triomq.protocols.dmp import DMPEngine
from triomq.transports import Transport

Note = Callable[..., None]


class DirectOutlet(DeliveryWriter[Batch]):
    """What a direct connection sends; made by the connection, ends with it.

    Args:
        engine: Encodes.
        transport: Takes what is encoded.
        broker: Knows how to read properties from any wire.
        note: Logs an event: its level, its name, its fields.
    """

    __slots__ = ("_broker", "_engine", "_note", "taken")

    def __init__(self, engine: DMPEngine, transport: Transport, broker: BrokerContext, note: Note) -> None:
        super().__init__(engine, transport)
        self._engine = engine
        self._broker = broker
        self._note = note
        self.taken = 0
        """Octets that the transport was given."""

    @property
    def progress(self) -> int:
        """Grows whenever the client has read something, and the transport was given more or sent some of the rest."""
        return self.taken + self._transport.progress

    def flush(self) -> None:
        """Encode what one write takes and offer it to the transport; nothing if that has not taken the last yet."""
        if not self.may_write:
            return
        self._encode()
        if self._engine.outbox.unsent or self._outgoing or self.window.used or self.window.waiting:
            self._write()

    def _encode(self) -> None:
        """Encode messages, as many octets as one write takes."""
        engine, (count, size), room = self._engine, self._encoded, WRITE_BYTES
        while self._outgoing and engine.outbox.unsent < room:
            batch = self._outgoing.popleft()
            if not _is_open(batch):
                self.put_back(batch)
                continue
            count += batch.left
            size += batch.size
            self.taken += batch.size
            room = LARGE_WRITE_BYTES if batch.size >= LARGE * batch.left else WRITE_BYTES
            try:
                self._say(batch)
            except LocalProtocolError:
                self._say_singly(batch)
            else:
                settle(batch, Outcome.ACCEPT)
        self._encoded = count, size

    def _say(self, batch: Batch) -> None:
        """Encode a batch; nothing of it if any of its messages cannot be said."""
        engine, head = self._engine, batch.head
        contents: list[bytes] = batch.contents  # type: ignore[assignment]  # nothing is settled before it is encoded
        if head.frame == WHOLE:
            engine.send_whole(contents, batch.size)
        elif head.codec == AMQP_CODEC:
            engine.send_framed(
                head.exchange,
                head.routing_key,
                head.properties_start,
                head.properties_stop,
                head.body_start,
                head.body_trailer,
                contents,
            )
        else:
            self._translate(batch)

    def _translate(self, batch: Batch) -> None:
        """Put what came over another wire, or from this process, into AMQP's form."""
        head, contents = batch.head, []
        for position in range(len(batch.contents)):
            message = batch.message(position)
            properties = to_amqp(self._broker.codecs.decode(message))
            contents.append((len(properties), properties + message.body))
        for start, content in contents:
            self._engine.send_framed(head.exchange, head.routing_key, 0, start, start, 0, [content])

    def _say_singly(self, batch: Batch) -> None:
        """Encode what can be said of a batch; what cannot becomes a dead letter: a body too large for 24 bits."""
        for position, content in enumerate(batch.contents):
            assert content is not None
            alone = Batch(batch.head, [content], [batch.ids[position]], batch.redelivered, len(content), 1)
            try:
                self._say(alone)
            except LocalProtocolError as error:
                self._note(logging.WARNING, "message dropped", reason=str(error))
                settle(batch, Outcome.REJECT, [position])
            else:
                settle(batch, Outcome.ACCEPT, [position])

    def put_all_back(self) -> None:
        """Return all that is not encoded."""
        while self._outgoing:
            self.put_back(self._outgoing.popleft())


def _is_open(batch: Batch) -> bool:
    """Tell whether the consumer that messages are for is still one, and wants them here."""
    assert batch.feed is not None
    subscription = batch.feed.key
    assert isinstance(subscription, Subscription)
    return subscription.open and subscription.feed is batch.feed
