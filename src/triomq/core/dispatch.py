"""Round robin: which feed gets what next, as one deals cards.

A strategy is a class with no task and no queue: it keeps the order of the feeds and moves batches from an index to
feeds with room. A queue calls it at the end of a turn.
"""

from collections import deque
from typing import Protocol

from triomq.core.batch import Batch
from triomq.core.feed import Feed
from triomq.core.index import Index

__all__ = ["BATCH_BYTES", "Dispatch", "RoundRobin"]

BATCH_BYTES = 128 * 1024
"""Largest total of a batch, one message excepted: what a connection writes at once (more costs page faults)."""

_DEAL = 64  # messages dealt at once to several feeds: looked at for the longest before they are dealt


class Dispatch(Protocol):
    """What a queue asks of a strategy."""

    def add(self, feed: Feed) -> None:
        """Take part from now on."""

    def remove(self, feed: Feed) -> None:
        """Take part no longer."""

    def dispatch(self, index: Index) -> list[Batch]:
        """Take ready messages out of the index, as far as feeds have room; each batch names its feed."""


class RoundRobin:
    """Each feed with room gets one message in turn.

    A feed whose own window is full loses its seat until the queue hears that something is settled; one that a shared
    window blocks waits in that window's line, and is added again when it is woken. A dispatch looks at no more feeds
    than there are messages ready, so that a thousand idle feeds cost nothing.
    """

    __slots__ = ("_seated",)

    def __init__(self) -> None:
        """Start without feeds."""
        self._seated: deque[Feed] = deque()

    def add(self, feed: Feed) -> None:
        """Give a feed a seat at the end of the round."""
        if not feed.seated:
            feed.seated = True
            self._seated.append(feed)

    def remove(self, feed: Feed) -> None:
        """Take a feed's seat away."""
        if feed.seated:
            feed.seated = False
            self._seated.remove(feed)

    def dispatch(self, index: Index) -> list[Batch]:
        """Deal until nothing is ready or no feed has room."""
        batches: list[Batch] = []
        while index.ready and self._seated:
            players = self._players(min(index.ready, _DEAL), index.longest(1))
            if len(players) == 1 and not self._seated:
                batches.append(_serve(index, players[0]))
                self._seat_again(players[0])
            elif players:
                self._deal(index, players, batches)
        return batches

    def _players(self, most: int, size: int) -> list[Feed]:
        """Call the next feeds with room for a message of this size; the others go to wait for room."""
        players: list[Feed] = []
        while self._seated and len(players) < most:
            feed = self._seated.popleft()
            window = feed.blocked_by(size)
            if window is None:
                players.append(feed)
            else:
                feed.seated = False
                if window is not feed.window:
                    window.wait(feed, size)
        return players

    def _seat_again(self, feed: Feed) -> None:
        """Give a feed that was served a seat at the end of the round, unless it can take no more."""
        if feed.is_full():
            feed.seated = False
        else:
            self._seated.append(feed)

    def _deal(self, index: Index, players: list[Feed], batches: list[Batch]) -> None:
        """Deal as many full rounds as every player has room for, or the part of a round that is there."""
        longest = max(index.longest(_DEAL), 1)
        rounds = min(min(feed.room(), feed.byte_room() // longest) for feed in players)
        dealt = index.take_turns(len(players), max(1, min(rounds, _DEAL // len(players))))
        for batch, feed in zip(dealt, players, strict=False):
            batch.feed = feed
            feed.take(batch)
        self._seated.extendleft(reversed(players[len(dealt) :]))
        for feed in players[: len(dealt)]:
            self._seat_again(feed)
        batches += dealt


def _serve(index: Index, feed: Feed) -> Batch:
    """Give the only feed with room as much as it may have."""
    batch = index.take(feed.room(), min(feed.byte_room(), BATCH_BYTES))
    batch.feed = feed
    feed.take(batch)
    return batch
