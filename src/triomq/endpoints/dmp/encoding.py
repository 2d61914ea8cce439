"""How a direct feed encodes messages that come from any wire.

What is encoded is accepted: there are no acknowledgements (6/DMP, receiving messages).
"""

import logging
from collections.abc import Callable

from triomq.core import Batch, Codecs, Outcome, Subscription, settle
from triomq.endpoints.content import AMQP_CODEC, to_amqp
from triomq.endpoints.dmp.sink import WHOLE
from triomq.errors import LocalProtocolError
from triomq.protocols.dmp import DMPEngine

Note = Callable[..., None]


class FeedEncoder:
    """Encodes the messages of a direct feed; made by its connection, ends with it.

    Args:
        engine: Encodes.
        codecs: Know how to read properties from any wire.
        note: Logs an event: its level, its name, its fields.
    """

    __slots__ = ("_codecs", "_engine", "_note", "taken")

    def __init__(self, engine: DMPEngine, codecs: Codecs, note: Note) -> None:
        self._engine = engine
        self._codecs = codecs
        self._note = note
        self.taken = 0
        """Bytes that were encoded so far."""

    def encode(self, batch: Batch) -> None:
        """Encode a batch; one whose consumer has gone, or gets its messages elsewhere now, goes back to its place."""
        if not _is_open(batch):
            settle(batch, Outcome.RETURN)
            return
        self.taken += batch.size
        try:
            self._encode(batch)
        except LocalProtocolError:
            self._encode_singly(batch)
        else:
            settle(batch, Outcome.ACCEPT)

    def _encode(self, batch: Batch) -> None:
        """Encode a batch; nothing of it if any of its messages cannot be encoded."""
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
        """Convert what came over another wire, or from this process."""
        head, contents = batch.head, []
        for position in range(len(batch.contents)):
            message = batch.message(position)
            properties = to_amqp(self._codecs.decode(message))
            contents.append((len(properties), properties + message.body))
        for start, content in contents:
            self._engine.send_framed(head.exchange, head.routing_key, 0, start, start, 0, [content])

    def _encode_singly(self, batch: Batch) -> None:
        """Encode what can be encoded of a batch; what cannot becomes a dead letter: a body too large for 24 bits."""
        for position, content in enumerate(batch.contents):
            assert content is not None
            alone = Batch(batch.head, [content], [batch.ids[position]], batch.redelivered, len(content), 1)
            try:
                self._encode(alone)
            except LocalProtocolError as error:
                self._note(logging.WARNING, "message dropped", reason=str(error))
                settle(batch, Outcome.REJECT, [position])
            else:
                settle(batch, Outcome.ACCEPT, [position])


def _is_open(batch: Batch) -> bool:
    """Return whether the consumer that messages are for is still one, and wants them here."""
    assert batch.feed is not None
    subscription = batch.feed.key
    assert isinstance(subscription, Subscription)
    return subscription.open and subscription.feed is batch.feed
