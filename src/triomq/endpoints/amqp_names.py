"""Names: of exchanges that are always there; of queues as a channel's client gives them, its own, ours, or none."""

import base64
import os
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from triomq.core import NoSuchQueue, QueueStore, SinkKind
from triomq.errors import NotFound

if TYPE_CHECKING:
    from triomq.endpoints.amqp_channel import Channel

__all__ = [
    "REPLY_TO",
    "STANDARD_EXCHANGES",
    "generated_name",
    "is_reply_queue",
    "named",
    "queue_named",
    "without_secret",
]

STANDARD_EXCHANGES: Final = {
    "amq.direct": SinkKind.DIRECT,
    "amq.fanout": SinkKind.FANOUT,
    "amq.topic": SinkKind.TOPIC,
    "amq.headers": SinkKind.HEADERS,
    "amq.match": SinkKind.HEADERS,
}
"""The exchanges that every virtual host has from the start (section 3.1.3)."""

REPLY_TO = "amq.rabbitmq.reply-to"
"""The queue that is none: who consumes from it gets direct replies (RabbitMQ's direct reply-to)."""


def is_reply_queue(name: str) -> bool:
    """Tell whether a name belongs to direct replies: the one that clients write, or one that the broker makes of it."""
    return name.startswith(REPLY_TO) and (name == REPLY_TO or name[len(REPLY_TO)] == ".")


def without_secret(text: str) -> str:
    """Return a text without the secret part of a name for direct replies, in whose place there is a hash of it.

    Whoever knows the name can send replies that the asker takes for answers, so nobody is shown it who was not sent it.
    """
    start, name, secret = text.partition(f"{REPLY_TO}.")
    if not secret:
        return text
    shown = blake2b(secret.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
    return f"{start}{name}{shown}"


def generated_name(prefix: str) -> str:
    """Make a name that nobody has: 128 random bits (section 1.7.2.1, server-named queues)."""
    return f"{prefix}{base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip('=')}"


def named(channel: "Channel", name: str) -> str:
    """Let the empty name mean the queue declared last on this channel (section 1.7.2.3).

    Raises:
        NotFound: None was.
    """
    if name:
        return name
    if not channel.last_queue:
        raise NotFound("no previously declared queue")
    return channel.last_queue


def queue_named(channel: "Channel", name: str) -> QueueStore:
    """Find the queue that a client means, which its session may use.

    Raises:
        NotFound: There is no such queue, or it is one for direct replies, which nobody uses by its name.
        QueueLocked: It belongs exclusively to another session.
    """
    meant = named(channel, name)
    if is_reply_queue(meant):
        raise NoSuchQueue(meant)
    return channel.connection.directory.queue(meant, channel.connection.session)
