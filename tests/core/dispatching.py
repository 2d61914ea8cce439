"""A harness at which a strategy deals: what a queue does around one, with no task, no actor and no domain."""

from collections.abc import Callable, Sequence
from typing import cast

from hypothesis import strategies as st

from triomq.actors import Ref
from triomq.core import Batch, Feed, Head, Window, traits_of
from triomq.core.backlog import MemoryBacklog
from triomq.core.dispatch.dispatch import Dispatch

NO_ACTOR = cast("Ref", None)
HEADS = [Head(), Head(traits=traits_of(publisher=1)), Head(traits=traits_of(publisher=2))]


class HarnessFeed(Feed):
    """A feed whose queue is a harness."""

    __slots__ = ("harness",)

    harness: "DispatchHarness"

    def wake(self, window: Window) -> None:
        self.harness.wake(self, window)


def make_feed(
    limit: int = 0, *, shared: tuple[Window, ...] = (), priority: int = 0, weight: int = 0, no_local: int = 0
) -> HarnessFeed:
    return HarnessFeed(
        NO_ACTOR,
        NO_ACTOR,
        window=Window(limit),
        shared=shared,
        priority=priority,
        weight=weight,
        no_local=no_local,
    )


class DispatchHarness:
    """Keeps a strategy's backlog and feeds, and tells it what a queue would tell it."""

    def __init__(self, make: Callable[[Callable[[], None]], Dispatch]) -> None:
        self.backlog = MemoryBacklog()
        self.strategy = make(self.discard)
        self.feeds: dict[Feed, None] = {}
        self.out: list[Batch] = []
        self.heads: dict[int, Head] = {}  # by message id
        self.settled = 0
        self.discarded: list[Head] = []
        self._called: list[tuple[Window, Feed]] = []

    def discard(self) -> None:
        self.discarded.append(self.backlog.next_head())
        self.backlog.drop(1)

    def open(self, *feeds: HarnessFeed) -> None:
        for one in feeds:
            one.harness = self
            self.strategy.add(one)
            self.feeds[one] = None

    def close(self, feed: Feed) -> None:
        del self.feeds[feed]
        feed.forget()
        self.strategy.remove(feed)

    def publish(self, count: int, head: Head = HEADS[0]) -> None:
        for number in range(count):
            self.heads[len(self.heads) + 1] = head
            assert len(self.heads) == sum(self.counts()) + number + 1
        self.backlog.push(head, [b"x"] * count, count)

    def counts(self) -> tuple[int, int, int, int]:
        """Where all messages are: ready, out, settled, discarded."""
        return self.backlog.ready, sum(batch.left for batch in self.out), self.settled, len(self.discarded)

    def settle(self, batch: Batch, positions: Sequence[int] | None = None, *, requeue: bool = False) -> None:
        backlog, feed = self.backlog, batch.feed
        assert feed is not None
        count, size = backlog.requeue(batch, positions) if requeue else backlog.accept(batch, positions)
        if not requeue:
            self.settled += count
        if not batch.left:
            self.out.remove(batch)
        feed.give(count, size)
        if not feed.listed and not feed.waiting:
            self._relist(feed)

    def wake(self, feed: Feed, window: Window) -> None:
        self._relist(feed)
        self._called.append((window, feed))

    def _relist(self, feed: Feed) -> None:
        if feed in self.feeds:
            self.strategy.add(feed)

    def turn(self) -> list[tuple[int, Feed]]:
        """Dispatch; return the ids of the messages that went, in order, each with its feed."""
        batches = self.strategy.dispatch(self.backlog)
        while self._called:
            called, self._called = self._called, []
            for window, feed in called:
                following = window.pass_on(feed)
                if following is not None:
                    following.wake(window)
            batches += self.strategy.dispatch(self.backlog)
        self.out += batches
        dealt = [(number, batch.feed) for batch in batches for number in batch.ids if batch.feed is not None]
        for feed in {feed for _, feed in dealt}:
            mine = [number for number, other in dealt if other is feed]
            assert mine == sorted(mine)
        return sorted(dealt, key=lambda one: one[0])


def deal(harness: DispatchHarness, count: int, head: Head = HEADS[0]) -> list[Feed]:
    """Publish messages of one publisher in one turn; return the feeds that they went to, in order."""
    harness.publish(count, head)
    return [feed for _, feed in harness.turn()]


def check_counts(harness: DispatchHarness) -> None:
    """Check that nothing is lost or doubled, and no window exceeded."""
    assert sum(harness.counts()) == len(harness.heads)
    assert harness.backlog.unsettled == harness.counts()[1]
    for feed in harness.feeds:
        for window in feed.limits:
            assert not window.limit or window.used <= window.limit
        assert feed.unsettled == sum(batch.left for batch in harness.out if batch.feed is feed)


def do_something(
    harness: DispatchHarness, data: st.DataObject, feeds: st.SearchStrategy[HarnessFeed]
) -> list[tuple[int, Feed]]:
    """Do one drawn step, and return what was dispatched thereupon."""
    what = data.draw(st.sampled_from(["open", "publish", "publish", "settle", "settle", "close"]))
    if what == "open":
        harness.open(data.draw(feeds))
    elif what == "publish":
        harness.publish(data.draw(st.integers(1, 5)), data.draw(st.sampled_from(HEADS)))
    elif what == "settle" and harness.out:
        batch = data.draw(st.sampled_from(harness.out))
        some = data.draw(st.none() | st.just([batch.unsettled()[-1]]))
        harness.settle(batch, some, requeue=data.draw(st.booleans()))
    elif what == "close" and harness.feeds:
        harness.close(data.draw(st.sampled_from(list(harness.feeds))))
    dealt = harness.turn()
    check_counts(harness)
    return dealt
