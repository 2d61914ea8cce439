"""Priority and weight: lower feeds get messages only while all higher ones are blocked."""

from bisect import bisect_left
from itertools import count

from triomq.core.batch import Batch
from triomq.core.dispatch.dispatch import ReadyMessages
from triomq.core.dispatch.feed import Feed
from triomq.core.dispatch.least_recent import LeastRecentlyUsed

_Level = tuple[int, int]  # a feed's priority and weight


class Levels:
    """The highest level with room gets everything; within a level the least recently used feed is next.

    A level is a priority, and within a priority a weight. A level whose feeds are all blocked, by their own windows or
    shared ones, is left out until one of them has its seat back: only levels with seats are kept and looked at.
    """

    __slots__ = ("_clock", "_levels", "_order")

    def __init__(self) -> None:
        self._clock = count(1)
        self._levels: dict[_Level, LeastRecentlyUsed] = {}
        self._order: list[_Level] = []  # ascending: the highest is the last

    def add(self, feed: Feed) -> None:
        """Give a feed a seat in its level."""
        if feed.listed:
            return
        level = (feed.priority, feed.weight)
        seats = self._levels.get(level)
        if seats is None:
            seats = self._levels[level] = LeastRecentlyUsed(self._clock)
            self._order.insert(bisect_left(self._order, level), level)
        seats.add(feed)

    def remove(self, feed: Feed) -> None:
        """Take a feed's seat away."""
        level = (feed.priority, feed.weight)
        seats = self._levels.get(level)
        if seats is not None:
            seats.remove(feed)
            if not seats.has_ready:
                del self._levels[level]
                del self._order[bisect_left(self._order, level)]

    def dispatch(self, backlog: ReadyMessages) -> list[Batch]:
        """Let the levels take what they have room for, from the highest."""
        batches: list[Batch] = []
        while backlog.resident and self._order:
            highest = self._order[-1]
            seats = self._levels[highest]
            batches += seats.dispatch(backlog)
            if not seats.has_ready:
                del self._levels[highest]
                self._order.pop()
        return batches
