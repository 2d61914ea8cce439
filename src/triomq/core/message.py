"""A message as the core carries it: opaque bytes, and a head with the offsets of properties and body in them.

Messages travel as runs, so that a run costs the core the same as a single message. A content is what an endpoint
received, often with its wire framing still around it: the head's offsets find properties and body inside, so that a
consumer behind the same kind of endpoint can be handed the very same bytes.

What messages of a run have in common comes in two steps:

    Head ───▶ Traits        traits: what queues look at, so a run has one, and queueing looks at it once
    exchange, key, offsets  the rest of a head: for routing, consumers and encoders alone

- Messages with the same *head* are a run with that head, and no more is said of each.
- Messages with the same *traits* are one run as well: ``heads`` beside ``contents`` then has the head of each, and
  ``head`` is the first one's. Most publishers give each message another key or properties of another length, and all of
  them the same traits.

Traits and heads are compared by identity, which costs nothing; two that are equal and not the same object only make two
runs of what could be one. So traits come from ``traits_of``, and adapters remember heads.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import msgspec

from triomq.properties import CORE_CODEC

_TRAITS = 4096  # that are remembered: a few for each publisher


class Traits(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """What queues look at in a message; the same object for all messages of a run. Made by ``traits_of``.

    Args:
        codec: Small integer that names how properties are encoded; written to disk, so never reused.
        publisher: Number of the session that published; 0 if unknown.
        has_expiration: Whether the properties have an expiration; the core decodes them only then.
        has_priority: Whether they have a priority.
        persistent: Whether the message survives a restart in a durable queue.
        expendable: Whether no confirm is ever sent for the message, so that it may be the first to give way.
        repeated: Whether the message may have been here before, from a peer that delivers again what it has no ack for.
    """

    codec: int = CORE_CODEC
    publisher: int = 0
    has_expiration: bool = False
    has_priority: bool = False
    persistent: bool = False
    expendable: bool = False
    repeated: bool = False


def traits_of(
    *,
    codec: int = CORE_CODEC,
    publisher: int = 0,
    has_expiration: bool = False,
    has_priority: bool = False,
    persistent: bool = False,
    expendable: bool = False,
    repeated: bool = False,
) -> Traits:
    """Return traits, the same object for equal ones; the arguments are those of ``Traits``."""
    return _same(Traits(codec, publisher, has_expiration, has_priority, persistent, expendable, repeated))


@lru_cache(maxsize=_TRAITS)
def _same(traits: Traits) -> Traits:
    return traits


PLAIN = traits_of()
"""Of messages of which nothing is known."""


class Head(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """What is known of a message without looking into it; created by the endpoint that received it, never changed.

    Messages that are alike share one head.

    Args:
        exchange: The name that the publisher gave, which consumers are shown, whichever sink routed it in the end.
        routing_key: The key that the publisher gave.
        properties_start: Offset in bytes of the encoded properties in each content.
        properties_stop: Offset of the first byte behind the properties.
        body_start: Offset of the body's first byte.
        body_trailer: Number of bytes that follow the body.
        frame: An endpoint's own mark for the framing around the content; 0 means none. The core never looks at it.
        flags: An endpoint's own mark for which properties are present. The core never looks at it.
        traits: What queues look at.
    """

    exchange: str = ""
    routing_key: str = ""
    properties_start: int = 0
    properties_stop: int = 0
    body_start: int = 0
    body_trailer: int = 0
    frame: int = 0
    flags: int = 0
    traits: Traits = PLAIN

    @property
    def overhead(self) -> int:
        """Bytes of a content that are not body."""
        return self.body_start + self.body_trailer


def overhead_of(head: Head, heads: Sequence[Head] | None, count: int) -> int:
    """Return how many bytes of the contents of some messages are not bodies.

    Args:
        head: Of all of them.
        heads: Of each of them; None if they have the same one.
        count: How many they are.
    """
    if heads is None:
        return count * (head.body_start + head.body_trailer)
    return sum([each.body_start + each.body_trailer for each in heads])


def properties_of(head: Head, content: bytes) -> bytes:
    """Cut the encoded properties out of a content."""
    return content[head.properties_start : head.properties_stop]


def body_of(head: Head, content: bytes) -> bytes:
    """Cut the body out of a content."""
    return content[head.body_start : len(content) - head.body_trailer]


class QueueMessage(msgspec.Struct, frozen=True, gc=False):
    """One message taken out of its run, for code that looks at messages singly."""

    head: Head
    content: bytes

    @property
    def properties(self) -> bytes:
        """The properties as encoded by the codec of the head's traits."""
        return properties_of(self.head, self.content)

    @property
    def body(self) -> bytes:
        """The body's bytes."""
        return body_of(self.head, self.content)


class Stretch(NamedTuple):
    """Neighbours of one run.

    Args:
        head: The first one's.
        contents: Their bytes.
        heads: The head of each; None if they have the same one.
    """

    head: Head
    contents: Sequence[bytes]
    heads: Sequence[Head] | None = None

    def up_to(self, count: int) -> "Stretch":
        """Return the first messages."""
        return Stretch(self.head, self.contents[:count], None if self.heads is None else self.heads[:count])

    def alike(self) -> Iterator["Stretch"]:
        """Cut it where the head changes; each part has one head for all."""
        if self.heads is None:
            yield self
            return
        start = 0
        for _, group in groupby(self.heads, key=id):
            stop = start + len(list(group))
            yield Stretch(self.heads[start], self.contents[start:stop])
            start = stop

    def body_sizes(self) -> Iterator[int]:
        """Go through the bytes of the bodies."""
        if self.heads is None:
            overhead = self.head.overhead
            return (len(content) - overhead for content in self.contents)
        return (len(content) - head.overhead for head, content in zip(self.heads, self.contents, strict=True))

    def messages(self) -> Iterator[QueueMessage]:
        """Go through the messages singly."""
        if self.heads is None:
            return (QueueMessage(self.head, content) for content in self.contents)
        return map(QueueMessage, self.heads, self.contents)
