"""Names of queues as a channel's client gives them: its own, ours, or none."""

from typing import TYPE_CHECKING

from triomq.core import NoSuchQueue, QueueState
from triomq.endpoints.content import is_reply_queue
from triomq.errors import NotFound

if TYPE_CHECKING:
    from triomq.endpoints.amqp.channel import ServerChannel


def named(channel: "ServerChannel", name: str) -> str:
    """Return a queue's name; the empty one means the queue declared last on this channel (section 1.7.2.3).

    Raises:
        NotFound: None was.
    """
    if name:
        return name
    if not channel.last_queue:
        raise NotFound("no previously declared queue")
    return channel.last_queue


def queue_named(channel: "ServerChannel", name: str) -> QueueState:
    """Return the queue that a client means, which its session may use.

    Raises:
        NotFound: There is no such queue, or it is one for direct replies, which has no use by its name.
        QueueLocked: It belongs exclusively to another session.
    """
    meant = named(channel, name)
    if is_reply_queue(meant):
        raise NoSuchQueue(meant)
    return channel.connection.directory.queue(meant, channel.connection.session)
