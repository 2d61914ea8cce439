"""How a direct feed encodes messages that come from any wire.

What is encoded is accepted: there are no acknowledgements (6/DMP, receiving messages).
"""

import logging
from collections.abc import Callable
from itertools import repeat

from triomq.core import Batch, Codecs, Head, Outcome, Stretch, Subscription, settle
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
        contents: list[bytes] = batch.contents  # type: ignore[assignment]  # nothing is settled before it is encoded
        stretch, rejected = Stretch(batch.head, contents, batch.heads), []
        try:
            self._encode(stretch, batch.size)
        except LocalProtocolError:
            rejected = self._encode_singly(stretch)
        if rejected:
            settle(batch, Outcome.REJECT, rejected)
        settle(batch, Outcome.ACCEPT)

    def _encode(self, stretch: Stretch, size: int) -> None:
        """Encode messages of a total size; none of them if any cannot be encoded."""
        engine, (head, contents, heads) = self._engine, stretch
        if head.frame == WHOLE and (heads is None or all(each.frame == WHOLE for each in heads)):
            engine.send_whole(contents, size)
        elif head.traits.codec == AMQP_CODEC:
            # What came over a direct connection is framed anew if a neighbour came over AMQP.
            engine.send_framed(repeat(head) if heads is None else heads, contents)
        else:
            self._translate(stretch)

    def _translate(self, stretch: Stretch) -> None:
        """Convert what came over another wire, or from this process."""
        forms, contents = [], []
        for message in stretch.messages():
            head, properties = message.head, to_amqp(self._codecs.decode(message))
            stop = len(properties)
            forms.append(Head(head.exchange, head.routing_key, 0, stop, stop))
            contents.append(properties + message.body)
        self._engine.send_framed(forms, contents)

    def _encode_singly(self, stretch: Stretch) -> list[int]:
        """Encode what can be encoded, and return the positions of what cannot: of a body too large for 24 bits."""
        rejected = []
        for position, message in enumerate(stretch.messages()):
            try:
                self._encode(Stretch(message.head, [message.content]), len(message.content))
            except LocalProtocolError as error:
                self._note(logging.WARNING, "message dropped", reason=str(error))
                rejected.append(position)
        return rejected


def _is_open(batch: Batch) -> bool:
    """Return whether the consumer that messages are for is still one, and wants them here."""
    assert batch.feed is not None
    subscription = batch.feed.key
    assert isinstance(subscription, Subscription)
    return subscription.open and subscription.feed is batch.feed
