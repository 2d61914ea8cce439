"""Dispatch: which feed gets which message next. Here are the round robin and what all strategies have in common.

A strategy is a class with no task and no queue: it keeps the order of the feeds, and moves batches from a backlog to
feeds with room. A queue calls it once at the end of a turn. See ``strategies`` for which one a queue takes.

Each feed with room gets one message in turn: that is the round robin, and the order that clients see. To give messages
out one by one would cost a batch, a window account and an encoding for each, so two short cuts give the same result for
less:

- One feed in the ready list takes as many as its windows and ``BATCH_BYTES`` allow, as one batch.
- Several feeds that all have room are given several rounds at once, as one batch each: the first of three feeds gets
  messages 1, 4, 7, the second 2, 5, 8. No window may be exceeded by it, so the largest of the messages in question is
  assumed for all of them.

A feed whose window is full leaves the ready list until something of it is settled. A dispatch looks at no more feeds
than there are messages, so that a thousand idle feeds cost nothing.
"""

from collections import deque
from itertools import islice
from typing import Protocol

from triomq.core.batch import Batch
from triomq.core.dispatch.feed import Feed, Window
from triomq.core.message import Head

BATCH_BYTES = 128 * 1024
"""Largest total of a batch, one message excepted: what a connection writes at once (more costs page faults)."""

_DEAL = 64  # messages handed out at once to several feeds: the longest of them is looked for first


class ReadyMessages(Protocol):
    """What a strategy sees of a backlog: the messages that are ready, from the first; see ``MemoryBacklog``."""

    @property
    def resident(self) -> int:
        """How many messages may be taken; only whether there are any is looked at."""

    @property
    def run_length(self) -> int:
        """How many messages ``take_turns`` can hand out."""

    def next_head(self) -> Head:
        """Return the head of the first message."""

    def next_size(self) -> int:
        """Return the bytes of the first message."""

    def longest(self, count: int) -> int:
        """Return the bytes of the largest of the first ``count`` messages of the first run."""

    def take(self, most: int, most_bytes: int) -> Batch:
        """Hand out the first messages."""

    def take_turns(self, feeds: int, rounds: int) -> list[Batch]:
        """Hand out messages in turns."""


class PartOfReady:
    """The base of views that show a strategy a backlog up to a message that must not go.

    A subclass says with ``resident`` whether the first message may go. Those of one run share all that decides about
    it, and leave together, so nothing else has to be looked at.

    Args:
        backlog: The backlog, or another view of it.
    """

    __slots__ = ("_backlog", "longest", "next_head", "next_size", "take", "take_turns")

    def __init__(self, backlog: ReadyMessages) -> None:
        self._backlog = backlog
        self.next_head = backlog.next_head
        self.next_size = backlog.next_size
        self.longest = backlog.longest
        self.take = backlog.take
        self.take_turns = backlog.take_turns

    @property
    def run_length(self) -> int:
        """How many messages ``take_turns`` can hand out."""
        return self._backlog.run_length


class Dispatch(Protocol):
    """What a queue asks of a strategy.

    ``add`` is called when a feed is opened, and again whenever something of it was settled or a window has called it,
    unless it is in the ready list or waits in a line: the feed goes to the ready list, if the strategy takes it.
    ``remove`` is called when the feed is closed, and only then. ``dispatch`` is called at the end of each turn in which
    something is ready.
    """

    def add(self, feed: Feed) -> None:
        """Add a feed to the ready list, for the first time or again."""

    def remove(self, feed: Feed) -> None:
        """Remove a feed."""

    def dispatch(self, backlog: ReadyMessages) -> list[Batch]:
        """Hand out ready messages, as far as feeds have room; each batch names its feed."""


class RoundRobin:
    """Each feed with room gets one message in turn.

    A feed whose own window is full leaves the ready list until something of it is settled; one that a shared window
    blocks waits in that window's line, and is added again when it is called. A dispatch looks at no more feeds than
    there are messages ready, so that a thousand idle feeds cost nothing.
    """

    __slots__ = ("_ready",)

    def __init__(self) -> None:
        self._ready: deque[Feed] = deque()

    def add(self, feed: Feed) -> None:
        """Add a feed to the end of the ready list."""
        if not feed.listed:
            feed.listed = True
            self._ready.append(feed)

    def remove(self, feed: Feed) -> None:
        """Remove a feed from the ready list."""
        if feed.listed:
            feed.listed = False
            self._ready.remove(feed)

    @property
    def has_ready(self) -> bool:
        """Whether any feed takes part just now."""
        return bool(self._ready)

    def dispatch(self, backlog: ReadyMessages) -> list[Batch]:
        """Hand out messages until none is ready or no feed has room."""
        batches: list[Batch] = []
        listed = self._ready
        while backlog.resident and listed:
            size = backlog.next_size()
            feed = listed.popleft()
            window = feed.blocked_by(size)
            if window is not None:
                feed.listed = False
                if window is not feed.window:
                    window.wait(feed, size)
            elif listed:
                listed.appendleft(feed)
                self._deal(backlog, batches)
            else:
                messages, byte_room = feed.room() if backlog.resident > 1 else (1, size)
                batches.append(self._assign(backlog.take(messages, min(byte_room, BATCH_BYTES)), feed))
        return batches

    def _assign(self, batch: Batch, feed: Feed) -> Batch:
        """Assign a batch to a feed, and put the feed at the end of the ready list unless its window is full."""
        batch.feed = feed
        if feed.take(batch):
            feed.listed = False
        else:
            self._ready.append(feed)
        return batch

    def _deal(self, backlog: ReadyMessages, batches: list[Batch]) -> None:
        """Serve the next feeds: several rounds if all have room, one round to those that do, or one message."""
        feeds, rounds = self._plan(backlog)
        chosen = [self._ready.popleft() for _ in range(feeds)]
        found = [backlog.take(1, 1)] if feeds == 1 else backlog.take_turns(feeds, rounds)
        batches += map(self._assign, found, chosen)

    def _plan(self, backlog: ReadyMessages) -> tuple[int, int]:
        """Choose how many of the next feeds can be served together, and how often, with no window exceeded.

        A window that several of them share must have room for each of them, whichever of the messages it gets.
        """
        most = min(len(self._ready), backlog.run_length, _DEAL)
        if most < 2:
            return 1, 1
        longest = backlog.longest(_DEAL)
        uses: dict[Window, int] = {}
        feeds = 0
        for feed in islice(self._ready, most):
            if feed.blocked_by(longest) is not None:
                break
            for window in feed.limits:
                uses[window] = uses.get(window, 0) + 1
            if not all(window.rounds(uses[window], longest) for window in feed.limits):
                break
            feeds += 1
        if feeds < len(self._ready):
            return max(1, feeds), 1
        rounds = min([window.rounds(count, longest) for window, count in uses.items()])
        return feeds, min(rounds, _DEAL // feeds)
