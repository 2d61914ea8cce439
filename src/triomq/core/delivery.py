"""The messages that queues and consumers send each other about deliveries."""

from collections.abc import Sequence
from enum import Enum

from triomq.actors import Message, Request
from triomq.core.batch import Batch
from triomq.core.dispatch.feed import Feed
from triomq.core.streams.start import Place
from triomq.errors import ActorStopped


class Outcome(Enum):
    """How a delivery is settled."""

    ACCEPT = "accept"
    """The consumer has it; the queue forgets it."""
    REJECT = "reject"
    """The consumer refuses it; it becomes a dead letter, or is dropped."""
    REQUEUE = "requeue"
    """It goes back to its place, marked as delivered before."""
    RETURN = "return"
    """It was never sent; it goes back to its place, unmarked."""


class Deliver(Message, frozen=True):
    """To a consumer: here are messages."""

    feed: Feed
    batch: Batch

    def abandoned(self, error: BaseException) -> None:
        """Close the feed and requeue the batch, which its consumer has crashed over or cannot settle any more."""
        unseen = isinstance(error, ActorStopped) and error.__cause__ is None  # it was stopped, and did not crash
        self.feed.queue.tell_nowait(CloseFeed(self.feed))
        self.feed.queue.tell_nowait(Settle(self.batch, Outcome.RETURN if unseen else Outcome.REQUEUE))


class FeedClosed(Message, frozen=True):
    """To a consumer: your feed is closed from the queue's side, because of ``reason``."""

    feed: Feed
    reason: str


class OpenFeed(Request[None], frozen=True):
    """To a queue: start to deliver to a feed.

    Raises (in the asker):
        InExclusiveUse: The queue is in exclusive use, or the feed wants exclusive use and is not the first.

    Args:
        feed: The feed.
        start: Where in a stream it begins; None is with the next record. A queue does not look at it.
    """

    feed: Feed
    start: Place | None = None


class CloseFeed(Request[None], frozen=True):
    """To a queue: deliver no more to a feed; what it has not settled stays with its consumer."""

    feed: Feed


class MoveFeed(Message, frozen=True):
    """To a queue: from now on deliver to another feed what would go to this one, which ends without a word.

    For a consumer that goes on elsewhere; the queue is not without a feed in between. What the old one has not settled
    stays with its consumer. If it is not open any more, nothing happens.
    """

    feed: Feed
    successor: Feed


class Settle(Message, frozen=True):
    """To a queue: deliveries of a batch are settled; all that are left, or those at some positions.

    A batch that an earlier incarnation of the queue handed out is ignored: its messages are back in their places.

    Args:
        batch: The batch.
        outcome: How.
        positions: Where in it; None for all that are left.
        in_transaction: Whether it counts only together with all else that the turn does, once that is on disk.
    """

    batch: Batch
    outcome: Outcome
    positions: Sequence[int] | None = None
    in_transaction: bool = False


class Postpone(Message, frozen=True):
    """To a queue: a consumer failed over a delivery; it goes back to its place after a while, marked.

    Args:
        batch: The batch that it came in.
        position: Where in it.
        reason: What the consumer failed of.
    """

    batch: Batch
    position: int
    reason: str


class Get(Request[Batch | None], frozen=True):
    """To a queue: hand out the first message alone, outside any feed; None when nothing is ready."""
