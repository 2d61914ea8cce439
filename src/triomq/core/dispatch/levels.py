"""Priority and weight: lower feeds get messages only while all higher ones are blocked."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import count

from triomq.core.batch import Batch
from triomq.core.dispatch.dispatch import ReadyMessages, RoundRobin
from triomq.core.dispatch.feed import Feed

_Level = tuple[int, int]  # a feed's priority and weight


class LeastRecentlyUsed(RoundRobin):
    """The feed whose last message is the longest ago is next; one that never had any goes first.

    As long as no feed is blocked this is round robin. A feed that was blocked does not start at the end of the round
    again, but stands where it would have stood.

    Args:
        clock: Counts what is given; several strategies of one queue share it.
    """

    __slots__ = ("_clock",)

    def __init__(self, clock: Iterator[int]) -> None:
        super().__init__()
        self._clock = clock

    def add(self, feed: Feed) -> None:
        """Add a feed to the ready list, which is always in the order of last use, the longest ago first."""
        if feed.listed:
            return
        feed.listed = True
        listed = self._ready
        if not listed or listed[-1].used <= feed.used:
            listed.append(feed)
        else:
            listed.insert(bisect_right(listed, feed.used, key=_last_use), feed)

    def _assign(self, batch: Batch, feed: Feed) -> Batch:
        feed.used = next(self._clock)
        return super()._assign(batch, feed)


def _last_use(feed: Feed) -> int:
    return feed.used


class Levels:
    """The highest level with room gets everything; within a level the least recently used feed is next.

    A level is a priority, and within a priority a weight. Only levels with feeds in their ready lists are held here: a
    level whose feeds are all blocked is left out until one of them is added again.
    """

    __slots__ = ("_clock", "_levels", "_order")

    def __init__(self) -> None:
        self._clock = count(1)
        self._levels: dict[_Level, LeastRecentlyUsed] = {}
        self._order: list[_Level] = []  # ascending: the highest is the last

    def add(self, feed: Feed) -> None:
        """Add a feed to the ready list of its level."""
        if feed.listed:
            return
        level = (feed.priority, feed.weight)
        strategy = self._levels.get(level)
        if strategy is None:
            strategy = self._levels[level] = LeastRecentlyUsed(self._clock)
            self._order.insert(bisect_left(self._order, level), level)
        strategy.add(feed)

    def remove(self, feed: Feed) -> None:
        """Remove a feed from the ready list of its level."""
        level = (feed.priority, feed.weight)
        strategy = self._levels.get(level)
        if strategy is not None:
            strategy.remove(feed)
            if not strategy.has_ready:
                del self._levels[level]
                del self._order[bisect_left(self._order, level)]

    def dispatch(self, backlog: ReadyMessages) -> list[Batch]:
        """Dispatch level by level, from the highest."""
        batches: list[Batch] = []
        while backlog.resident and self._order:
            highest = self._order[-1]
            strategy = self._levels[highest]
            batches += strategy.dispatch(backlog)
            if not strategy.has_ready:
                del self._levels[highest]
                self._order.pop()
        return batches
