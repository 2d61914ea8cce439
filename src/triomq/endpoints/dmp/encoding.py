"""How a direct feed encodes messages that come from any wire.

What is encoded is accepted: there are no acknowledgements (6/DMP, receiving messages).
"""

import logging
from collections.abc import Callable

from triomq.core import Batch, Codecs, Outcome, Stretch, Subscription, settle
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
        rejected: list[int] = []
        position = 0
        for part in batch.stretch().alike():  # nothing is settled before it is encoded
            try:
                self._encode(part)
            except LocalProtocolError:
                rejected += [position + number for number in self._encode_singly(part)]
            position += len(part.contents)
        if rejected:
            settle(batch, Outcome.REJECT, rejected)
        settle(batch, Outcome.ACCEPT)

    def _encode(self, part: Stretch) -> None:
        """Encode messages that share a head; nothing of it if any of them cannot be encoded."""
        engine, head = self._engine, part.head
        if head.frame == WHOLE:
            engine.send_whole(part.contents, sum(map(len, part.contents)))
        elif head.traits.codec == AMQP_CODEC:
            engine.send_framed(
                head.exchange,
                head.routing_key,
                head.properties_start,
                head.properties_stop,
                head.body_start,
                head.body_trailer,
                part.contents,
            )
        else:
            self._translate(part)

    def _translate(self, part: Stretch) -> None:
        """Convert what came over another wire, or from this process."""
        head, contents = part.head, []
        for message in part.messages():
            properties = to_amqp(self._codecs.decode(message))
            contents.append((len(properties), properties + message.body))
        for start, content in contents:
            self._engine.send_framed(head.exchange, head.routing_key, 0, start, start, 0, [content])

    def _encode_singly(self, part: Stretch) -> list[int]:
        """Encode what can be encoded, and return the places of what cannot and becomes dead letters.

        A body may be too large for 24 bits.
        """
        rejected = []
        for number, content in enumerate(part.contents):
            try:
                self._encode(Stretch(part.head, [content]))
            except LocalProtocolError as error:
                self._note(logging.WARNING, "message dropped", reason=str(error))
                rejected.append(number)
        return rejected


def _is_open(batch: Batch) -> bool:
    """Return whether the consumer that messages are for is still one, and wants them here."""
    assert batch.feed is not None
    subscription = batch.feed.key
    assert isinstance(subscription, Subscription)
    return subscription.open and subscription.feed is batch.feed
