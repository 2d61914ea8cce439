"""A message as the core carries it: opaque bytes, and a head with the offsets of properties and body in them.

Messages that one publisher sends in a row to one place share one ``Head``; they travel as runs (a head and a list of
contents), so that a run costs the core the same as a single message. A content is what an endpoint received, often with
its wire framing still around it: the head's offsets find properties and body inside, so that a consumer behind the same
kind of endpoint can be handed the very same bytes.
"""

import msgspec

CORE_CODEC = 0
"""The codec tag of properties in the core's own form."""


class Head(msgspec.Struct, frozen=True, gc=False):
    """What all messages of a run have in common; created by the endpoint that received them, shared and never changed.

    Args:
        codec: Small integer that names how properties are encoded; written to disk, so never reused.
        exchange: The name that the publisher gave, which consumers are shown, whichever sink routed it in the end.
        routing_key: The key that the publisher gave.
        properties_start: Offset in bytes of the encoded properties in each content.
        properties_stop: Offset of the first byte behind the properties.
        body_start: Offset of the body's first byte.
        body_trailer: Number of bytes that follow the body.
        frame: An endpoint's own mark for the framing around the content; 0 means none. The core never looks at it.
        flags: An endpoint's own mark for which properties are present. The core never looks at it.
        publisher: Number of the session that published; 0 if unknown.
        has_expiration: Whether the properties have an expiration; the core decodes them only then.
        has_priority: Whether they have a priority.
        persistent: Whether the message survives a restart in a durable queue.
        expendable: Whether no confirm is ever sent for the message, so that it may be the first to give way.
        repeated: Whether the message may have been here before, from a peer that delivers again what it has no ack for.
    """

    codec: int = CORE_CODEC
    exchange: str = ""
    routing_key: str = ""
    properties_start: int = 0
    properties_stop: int = 0
    body_start: int = 0
    body_trailer: int = 0
    frame: int = 0
    flags: int = 0
    publisher: int = 0
    has_expiration: bool = False
    has_priority: bool = False
    persistent: bool = False
    expendable: bool = False
    repeated: bool = False

    @property
    def overhead(self) -> int:
        """Bytes of a content that are not body."""
        return self.body_start + self.body_trailer


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
        """The properties as encoded by ``head.codec``."""
        return properties_of(self.head, self.content)

    @property
    def body(self) -> bytes:
        """The body's bytes."""
        return body_of(self.head, self.content)
