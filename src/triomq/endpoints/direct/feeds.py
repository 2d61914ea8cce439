"""Direct feeds: a direct connection takes what the consumers of a queue would get over their own connection.

Each consumer has a feed of the core for itself: at home it ends at the principal connection; while there is a direct
feed another one stands in its place, which ends there. Its windows are another matter, but whatever holds the consumer
back, its priority and its end mean what they meant.
"""

from typing import Protocol

from triomq.actors import Ref
from triomq.core import Feed, QueueState, Window


class DirectFeed(Protocol):
    """A direct connection that takes the messages of a queue."""

    @property
    def ref(self) -> Ref:
        """Its actor, which is told of them."""

    @property
    def window(self) -> Window:
        """How many octets may be on their way to its client."""


class DirectFeeds(Protocol):
    """The queues whose messages direct connections take, in place of the consumers of one principal connection."""

    def __contains__(self, queue: object, /) -> bool:
        """Tell whether a direct connection takes the messages of a queue."""

    def attach(self, queue: QueueState, direct: DirectFeed) -> None:
        """Let all consumers of a queue, and those to come, get their messages on a direct connection."""

    def detach(self, queue: QueueState, direct: DirectFeed) -> None:
        """Let consumers to come get their messages at home again, if this one is attached."""


def direct_feed(home: Feed, direct: DirectFeed) -> Feed:
    """Make the feed that takes a consumer's messages to a direct connection, in place of its own."""
    return Feed(
        home.queue,
        direct.ref,
        key=home.key,
        socket_window=direct.window,
        gate=home.gate,
        settles=False,
        exclusive=home.exclusive,
        priority=home.priority,
        no_local=home.no_local,
    )
