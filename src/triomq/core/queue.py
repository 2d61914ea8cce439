"""A queue: ordered messages, and the feeds that they leave by.

A queue never waits and never makes anyone wait. What arrives is stored by its handler; at the end of the turn it
dispatches once to the feeds that have room. Being full is an answer: the oldest give way, or the newest are refused.

Its messages live in an ``Index`` that the domain owns, so that they outlive a crash: the domain puts what was out with
consumers back in its place, marked, tells the consumers that their feeds are closed, and starts the next incarnation.
"""

from collections.abc import Sequence

from triomq.actors import InPlaceActor, Request
from triomq.actors import Message as ActorMessage
from triomq.core.batch import Batch
from triomq.core.confirms import Receipt
from triomq.core.delivery import CloseFeed, Deliver, Get, OpenFeed, Outcome, Settle
from triomq.core.dispatch import Dispatch, RoundRobin
from triomq.core.feed import Feed, Wake
from triomq.core.message import Head
from triomq.core.options import Overflow
from triomq.core.queue_store import QueueStatistics, QueueStore
from triomq.core.refusals import InExclusiveUse
from triomq.core.requests import QueueUnused
from triomq.core.window import UNLIMITED, Window

__all__ = ["Enlist", "Publish", "Purge", "Queue"]


class Publish(ActorMessage, frozen=True):
    """To a queue: store the messages of a run.

    Args:
        head: What they share.
        contents: Their octets.
        size: Total of the octets.
        receipt: Where to report that they are placed; None when nobody asks.
        position: Where in the receipt's run these messages begin.
    """

    head: Head
    contents: Sequence[bytes]
    size: int
    receipt: Receipt | None = None
    position: int = 0

    def split(self) -> Sequence["Publish"]:
        """Give each message alone, so that the one that crashes a queue takes no other with it."""
        return [
            Publish(self.head, [content], len(content), self.receipt, self.position + offset)
            for offset, content in enumerate(self.contents)
        ]

    def abandoned(self, error: BaseException) -> None:
        """Refuse what no queue will ever store."""
        if self.receipt is not None:
            self.receipt.refused(self.position, len(self.contents))


class Purge(Request[int], frozen=True):
    """To a queue: forget all ready messages; answers how many they were."""


class Enlist(Request[QueueStatistics], frozen=True):
    """To a queue: what is in you, now that everything before this has been dealt with?"""


class Queue(InPlaceActor):
    """The actor of one queue; started by its domain, lives until deleted."""

    __slots__ = ("_called", "_dispatch", "_index", "_rejects", "_sheds", "_store")

    def __init__(self, store: QueueStore) -> None:
        """Take over what an earlier incarnation left."""
        self._store = store
        self._index = store.index
        bounded, overflow = store.options.is_bounded, store.options.overflow
        self._rejects = bounded and overflow is Overflow.REJECT_PUBLISH
        self._sheds = bounded and overflow is Overflow.DROP_HEAD
        self._dispatch: Dispatch | None = None
        self._called: list[tuple[Window, Feed]] | None = None  # feeds whose turn it is in a window

    def on_stop(self) -> None:
        """Close all feeds: the queue is deleted, or its domain ends."""
        self._store.take_back("the queue is deleted")

    def publish(self, message: Publish) -> None:
        """Store a run, or as much of it as there is room for."""
        placed = len(message.contents)
        if self._rejects:
            placed = self._push_fitting(message)
        else:
            self._index.push(message.head, message.contents, message.size)
        self._store.published += placed
        self._store.dropped += len(message.contents) - placed
        if message.receipt is not None:
            self._report(message.receipt, message, placed)

    def _report(self, receipt: Receipt, message: Publish, placed: int) -> None:
        refused = len(message.contents) - placed
        if refused:
            receipt.refused(message.position + placed, refused)
        if placed:
            receipt.placed(placed)

    def _push_fitting(self, run: Publish) -> int:
        """Store as much as fits, letting feeds make room as long as they can; tell how many messages were stored."""
        contents, placed = run.contents, 0
        while placed < len(contents):
            self._deliver()
            fitting = self._fitting(run.head, contents[placed:])
            if not fitting:
                break
            part = contents[placed : placed + fitting]
            self._index.push(run.head, part, sum(map(len, part)))
            placed += fitting
        return placed

    def _fitting(self, head: Head, contents: Sequence[bytes]) -> int:
        """Count how many of the contents there is room for."""
        options, index = self._store.options, self._index
        count = len(contents)
        if options.max_length is not None:
            count = min(count, max(0, options.max_length - index.ready))
        if options.max_bytes is not None:
            room = options.max_bytes - index.ready_bytes
            for number, content in enumerate(contents[:count]):
                room -= len(content) - head.overhead
                if room < 0:
                    return number
        return count

    def settle(self, message: Settle) -> None:
        """Settle deliveries, and give their room back to the windows of their feed."""
        batch = message.batch
        if not self._index.holds(batch):
            return
        if message.outcome is Outcome.ACCEPT or message.outcome is Outcome.REJECT:
            count, size = self._index.accept(batch, message.positions)
        else:
            marked = message.outcome is Outcome.REQUEUE
            count, size = self._index.requeue(batch, message.positions, marked=marked)
        feed = batch.feed
        if feed is not None:
            feed.give(count, size)
            if not feed.seated and not feed.waiting:
                self._seat(feed)

    def _seat(self, feed: Feed) -> None:
        """Let a feed take part in the dispatch again, if it is still open."""
        if self._dispatch is not None and self._store.feeds and feed in self._store.feeds:
            self._dispatch.add(feed)

    def open_feed(self, message: OpenFeed) -> None:
        """Let a feed take part in the dispatch."""
        feeds = self._store.feeds
        if feeds and (message.feed.exclusive or any(feed.exclusive for feed in feeds)):
            raise InExclusiveUse(self._store.name)
        if feeds is None:
            feeds = self._store.feeds = {}
        if self._dispatch is None:
            self._dispatch = RoundRobin()
        self._dispatch.add(message.feed)
        feeds[message.feed] = None

    def close_feed(self, message: CloseFeed) -> None:
        """Deliver no more to a feed; tell the domain when the last one leaves an auto-delete queue."""
        feeds, feed = self._store.feeds, message.feed
        if not feeds or feed not in feeds:
            return
        del feeds[feed]
        feed.forget()
        if self._dispatch is not None:
            self._dispatch.remove(feed)
        if not feeds and self._store.options.auto_delete:
            assert self.ref.parent is not None
            self.ref.parent.tell_nowait(QueueUnused(self._store.name))

    def get(self, message: Get) -> Batch | None:
        """Hand out one message, after feeds have taken what they can."""
        self._deliver()
        if not self._index.ready:
            return None
        self._store.delivered += 1
        batch = self._index.take(1, UNLIMITED)
        batch.queue = self.ref
        return batch

    def purge(self, message: Purge) -> int:
        """Forget all ready messages, after feeds have taken what they can."""
        self._deliver()
        return self._index.purge()

    def enlist(self, message: Enlist) -> QueueStatistics:
        """Take a snapshot, after feeds have taken what they can."""
        self._deliver()
        return self._store.statistics()

    def wake(self, message: Wake) -> None:
        """Let a feed take part again that waited for a window."""
        self._wake(message.feed, message.window)

    def _wake(self, feed: Feed, window: Window) -> None:
        self._seat(feed)
        if self._called is None:
            self._called = []
        self._called.append((window, feed))

    def after_batch(self) -> None:
        """Dispatch once per turn."""
        self._deliver()

    def _deliver(self) -> None:
        """Hand out what feeds have room for, then let the oldest give way if there is still too much."""
        self._hand_out()
        while self._called:
            self._pass_on()
            self._hand_out()
        if self._sheds:
            self._shed()

    def _hand_out(self) -> None:
        if self._dispatch is None or not self._index.ready:
            return
        for batch in self._dispatch.dispatch(self._index):
            assert batch.feed is not None
            batch.queue = self.ref
            self._store.delivered += batch.left
            batch.feed.consumer.tell_nowait(Deliver(batch.feed, batch))

    def _pass_on(self) -> None:
        """End the turns of feeds that windows had called; whoever is called next may be one of this queue's too."""
        called, self._called = self._called, None
        for window, feed in called or ():
            following = window.pass_on(feed)
            if following is None:
                continue
            if following.queue is self.ref:
                self._wake(following, window)
            else:
                following.wake(window)

    def _shed(self) -> None:
        """Let the oldest ready messages give way until the limits hold."""
        options, index = self._store.options, self._index
        most = UNLIMITED if options.max_length is None else options.max_length
        most_bytes = UNLIMITED if options.max_bytes is None else options.max_bytes
        while index.ready > most or index.ready_bytes > most_bytes:
            index.drop_first()
            self._store.dropped += 1
