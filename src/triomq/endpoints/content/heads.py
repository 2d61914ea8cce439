"""Heads of messages whose properties are in AMQP's form, and the flags by which one knows what those say."""

from triomq.core import Head
from triomq.endpoints.content.properties import AMQP_CODEC
from triomq.protocols.amqp import Framing

HAS_HEADERS, HAS_DELIVERY_MODE, HAS_PRIORITY = 0x2000, 0x1000, 0x0800
HAS_REPLY_TO, HAS_EXPIRATION, HAS_USER_ID = 0x0200, 0x0100, 0x0010
"""Property flags (section 4.2.6.1, and the order of properties in section 1.8.2)."""


def head_of(
    exchange: str,
    routing_key: str,
    framing: Framing,
    *,
    publisher: int = 0,
    persistent: bool = False,
    expendable: bool = False,
    repeated: bool = False,
) -> Head:
    """Say what messages share that came with one framing.

    Args:
        exchange: Where they were published.
        routing_key: With which key.
        framing: Where properties and body stand in their contents.
        publisher: The number of the session that published them; 0 if nobody knows.
        persistent: Whether durable queues are to keep them.
        expendable: Whether nobody is ever told that they are safe.
        repeated: Whether they may have been here before.
    """
    return Head(
        AMQP_CODEC,
        exchange,
        routing_key,
        framing.properties_start,
        framing.properties_stop,
        framing.body_start,
        framing.body_trailer,
        framing.channel,
        framing.flags,
        publisher,
        bool(framing.flags & HAS_EXPIRATION),
        bool(framing.flags & HAS_PRIORITY),
        persistent,
        expendable,
        repeated,
    )
