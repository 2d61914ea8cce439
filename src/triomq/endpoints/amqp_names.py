"""Names of queues as a channel's client gives them: its own, ours, or none for the last one."""

import base64
import os

from triomq.core import QueueStore
from triomq.endpoints.amqp_channel import Channel
from triomq.errors import NotFound

__all__ = ["generated_name", "named", "queue_named"]


def generated_name(prefix: str) -> str:
    """Make a name that nobody has: 128 random bits (section 1.7.2.1, server-named queues)."""
    return f"{prefix}{base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip('=')}"


def named(channel: Channel, name: str) -> str:
    """Let the empty name mean the queue declared last on this channel (section 1.7.2.3).

    Raises:
        NotFound: None was.
    """
    if name:
        return name
    if not channel.last_queue:
        raise NotFound("no previously declared queue")
    return channel.last_queue


def queue_named(channel: Channel, name: str) -> QueueStore:
    """Find the queue that a client means, which its session may use.

    Raises:
        NotFound: There is no such queue.
        QueueLocked: It belongs exclusively to another session.
    """
    return channel.connection.directory.queue(named(channel, name), channel.connection.session)
