"""What of a queue outlives its incarnations: its options, its messages, the list of its feeds."""

from typing import TYPE_CHECKING

import msgspec

from triomq.actors import Ref
from triomq.core.bindings import Binding
from triomq.core.delivery import FeedClosed
from triomq.core.feed import Feed
from triomq.core.index import Index
from triomq.core.options import QueueOptions

if TYPE_CHECKING:
    from triomq.core.session import Session

__all__ = ["QueueStatistics", "QueueStore"]


class QueueStatistics(msgspec.Struct, frozen=True, gc=False):
    """A snapshot of a queue.

    Args:
        ready: Messages that no consumer has.
        ready_bytes: Octets of their bodies.
        unsettled: Messages that are out with consumers.
        feeds: Open feeds.
        published: Messages stored since the queue was declared.
        delivered: Messages handed out since then, again and again counted again.
        dropped: Messages that gave way or were refused because the queue was full.
    """

    ready: int
    ready_bytes: int
    unsettled: int
    feeds: int
    published: int
    delivered: int
    dropped: int


class QueueStore:
    """What of a queue outlives its incarnations; made and kept by the domain."""

    __slots__ = ("bound", "delivered", "dropped", "feeds", "index", "name", "options", "owner", "published", "ref")

    ref: Ref

    def __init__(self, name: str, options: QueueOptions, owner: "Session | None" = None) -> None:
        """Start empty; ``owner`` is the session that has the queue for itself."""
        self.name = name
        self.options = options
        self.owner = owner
        self.index = Index()
        self.bound: dict[Binding, None] | None = None
        self.feeds: dict[Feed, None] | None = None
        self.published = 0
        self.delivered = 0
        self.dropped = 0

    def statistics(self) -> QueueStatistics:
        """Take a snapshot."""
        index = self.index
        feeds = len(self.feeds) if self.feeds else 0
        return QueueStatistics(
            index.ready, index.ready_bytes, index.unsettled, feeds, self.published, self.delivered, self.dropped
        )

    def take_back(self, reason: str) -> None:
        """Close every feed, and put what is out back in its place, marked; for when an incarnation of the queue ends.

        What its consumers settle from now on is ignored, so the room that it took in windows is given back here.
        """
        feeds, self.feeds = self.feeds, None
        for feed in feeds or ():
            feed.forget()
            feed.consumer.tell_nowait(FeedClosed(feed, reason))
        for batch in self.index.outstanding():
            count, size = self.index.requeue(batch)
            if batch.feed is not None:
                batch.feed.give(count, size)
