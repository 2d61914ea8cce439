"""Least recently used: round robin that remembers how long each feed has waited, also while it had no seat."""

from bisect import bisect_right
from collections.abc import Iterator

from triomq.core.batch import Batch
from triomq.core.dispatch.dispatch import RoundRobin
from triomq.core.dispatch.feed import Feed


class LeastRecentlyUsed(RoundRobin):
    """The feed whose last message is the longest ago is next; one that never had any goes first.

    As long as nobody is blocked this is round robin. A feed that was blocked does not start at the end of the round
    again, but stands where it would have stood.

    Args:
        clock: Counts what is given; several strategies of one queue share it.
    """

    __slots__ = ("_clock",)

    def __init__(self, clock: Iterator[int]) -> None:
        super().__init__()
        self._clock = clock

    def add(self, feed: Feed) -> None:
        """Give a feed its seat; seats are always in the order of last use, the longest ago first."""
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
