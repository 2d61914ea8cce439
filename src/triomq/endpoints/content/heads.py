"""Heads of messages whose properties are in AMQP's form, and the flags by which one knows what those say."""

from typing import NamedTuple, Protocol

from triomq.core import Head, traits_of
from triomq.endpoints.content.properties import AMQP_CODEC

HAS_HEADERS, HAS_DELIVERY_MODE, HAS_PRIORITY = 0x2000, 0x1000, 0x0800
HAS_REPLY_TO, HAS_EXPIRATION, HAS_USER_ID = 0x0200, 0x0100, 0x0010
"""Property flags (section 4.2.6.1, and the order of properties in section 1.8.2)."""


class PropertiesShape(Protocol):
    """Where the properties stand in contents that are alike, and which properties they have."""

    @property
    def flags(self) -> int:
        """The property flags."""

    @property
    def properties_start(self) -> int:
        """Where the properties begin, with their flags."""

    @property
    def properties_stop(self) -> int:
        """Where they end."""


class ContentShape(PropertiesShape, Protocol):
    """Where everything stands in contents that are alike; AMQP's ``Framing`` is one."""

    @property
    def channel(self) -> int:
        """The ``frame`` of a head: the channel whose frames the contents are, 0 if they are none."""

    @property
    def body_start(self) -> int:
        """Where the body begins."""

    @property
    def body_trailer(self) -> int:
        """How many bytes stand behind it."""


class UnframedShape(NamedTuple):
    """The shape of contents that came in no frames of AMQP; the fields are those of ``ContentShape``."""

    channel: int
    properties_start: int
    properties_stop: int
    body_start: int
    body_trailer: int
    flags: int


def head_of(
    exchange: str,
    routing_key: str,
    shape: ContentShape,
    *,
    publisher: int = 0,
    persistent: bool = False,
    expendable: bool = False,
    repeated: bool = False,
) -> Head:
    """Return the head of messages that came in one shape.

    Args:
        exchange: Where they were published.
        routing_key: With which key.
        shape: Where properties and body stand in their contents.
        publisher: The number of the session that published them; 0 if that is not known.
        persistent: Whether durable queues are to keep them.
        expendable: Whether their publisher never gets a confirm, so that they may be dropped.
        repeated: Whether they may have been here before.
    """
    return Head(
        exchange,
        routing_key,
        shape.properties_start,
        shape.properties_stop,
        shape.body_start,
        shape.body_trailer,
        shape.channel,
        shape.flags,
        traits_of(
            codec=AMQP_CODEC,
            publisher=publisher,
            has_expiration=bool(shape.flags & HAS_EXPIRATION),
            has_priority=bool(shape.flags & HAS_PRIORITY),
            persistent=persistent,
            expendable=expendable,
            repeated=repeated,
        ),
    )
