"""Which feeds a direct sink waits for: nothing on a direct connection is acknowledged, so its socket is held back.

After each turn a sink's connection looks at the feeds that it has published to. While the backlog of one is above its
mark nothing is read from the sink, until the backlog is a step below; so a publisher at full rate gets the rate of its
slowest reader, and nothing is lost. The queues never wait, and neither do other publishers.

A feed may hold a sink back as long as it takes at least a tenth of what the fastest feed of that sink takes, and
anything at all within five seconds. Amounts do not tell that, since a sink that is held back gives all feeds the same.
Time does: the fastest feed has caught up while slower ones are still behind. If it is done after a second, ten may
pass. So each feed has five seconds of patience. A second in which another one has caught up and it has not costs one; a
second in which both are busy gives nine back. Amounts count as a weight, so that a feed which has caught up because
little is routed to it is not taken for a fast one.

A feed that is out of patience is left behind: the sink goes on, and the feed's queue drops what does not fit below its
ceiling. It is waited for again as soon as it takes a tenth of what others take, from the backlog that it has then.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from triomq.actors import Ref
from triomq.core import QueueState, bytes_ready

MARK = 4 * 1024 * 1024
"""Bytes of backlog above which sinks wait for a feed: what half a tenth of a second brings, so that the feed has work
while the sink's client is woken; and less than a queue has in memory before it pages."""

STEP = MARK // 2
"""Bytes by which the backlog has to fall before sinks go on: with less they would stop and go for every write."""

STALL = 5.0
"""Seconds for which one feed may hold up all others: more than a collection of garbage or a swapped page takes."""

_TENTH = 10
"""A feed is waited for that takes at least this part of what the fastest one takes: more would punish one of two honest
readers, less would let a broken one set the pace of all."""

_DONE = 128 * 1024
"""Bytes of backlog up to which a feed has caught up: one write's worth."""

_LESS = STEP // 8
"""Bytes by which a mark comes down that was high, each time its feed has caught up: what the feed has to take beyond
what it is given costs it patience."""

_OFTEN = 0.005
"""Seconds between two looks at all feeds of a sink that waits: each takes a third of a microsecond, for each write."""

_FADES = 1 / 8
"""The part of a share that fades with each wait: some waits make a mean."""

_WINDOW = 1.0
"""Seconds over which a feed that was left behind is compared with others: long enough for some writes of each."""


class FeedTaker(Protocol):
    """What a pace asks of the connection of a feed."""

    @property
    def taken(self) -> int:
        """Bytes of messages that its transport was given."""

    @property
    def progress(self) -> int:
        """Grows with every octet that the client reads."""


class Pace(Protocol):
    """What a sink asks of a feed."""

    name: str
    followers: "set[SinkFlow]"
    """The sinks that publish to it."""
    waiting: "set[SinkFlow]"
    """Those of them that it holds back now."""

    @property
    def backlog(self) -> int:
        """Bytes that its queue has for it; 0 while it has no consumer."""

    @property
    def taken(self) -> int:
        """Bytes that it has taken so far."""

    @property
    def progress(self) -> int:
        """Grows with every octet that its client reads."""


class FeedPace:
    """How fast a direct feed takes what its queue has; made by the feed's connection, ends with it.

    Args:
        queue: The queue.
        taker: The feed's connection.
    """

    __slots__ = ("_queue", "_quiet_until", "_reported", "_taker", "followers", "name", "waiting")

    def __init__(self, queue: QueueState, taker: FeedTaker) -> None:
        self.name = queue.name
        self.followers: set[SinkFlow] = set()
        self.waiting: set[SinkFlow] = set()
        self._queue = queue
        self._taker = taker
        self._reported = queue.lost  # how many lost messages the client knows of, or has never wanted
        self._quiet_until = 0.0

    @property
    def backlog(self) -> int:
        """Bytes that its queue has for it; 0 while it has no consumer."""
        queue = self._queue
        return bytes_ready(queue) if queue.feeds else 0

    @property
    def taken(self) -> int:
        """Bytes that it has taken so far."""
        return self._taker.taken

    @property
    def progress(self) -> int:
        """Grows with every octet that its client reads."""
        return self._taker.progress

    def has_lost(self, now: float) -> bool:
        """Return whether the client should be informed of lost messages."""
        return self._queue.lost > self._reported and now >= self._quiet_until

    def take_lost(self, now: float) -> int:
        """Return how many messages were lost since the last call, and be quiet about more for a while."""
        lost, self._reported = self._queue.lost - self._reported, self._queue.lost
        self._quiet_until = now + STALL
        return lost

    def look(self) -> None:
        """Ask the sinks that wait for this feed to check whether they still have to."""
        for sink in list(self.waiting):
            sink.look_after(self)

    def close(self) -> None:
        """End: no sink waits for this feed any more."""
        for sink in list(self.followers):
            sink.forget(self)


class _Account(msgspec.Struct):
    """What one sink remembers of one feed.

    Args:
        at: When patience was counted last, in seconds.
        taken: What the feed had taken when shares were counted last, in bytes.
        progress: How far its client had read when that was looked at last.
        moved_at: When that was last seen to grow.
        share: Bytes that it has taken of late, older ones counting less.
        patience: Seconds for which it may still hold up others.
        mark: Bytes of backlog above which the sink waits.
    """

    at: float
    taken: int
    progress: int
    moved_at: float
    share: float
    patience: float = STALL
    mark: int = MARK

    def count(self, taken: int) -> None:
        """Count what the feed has taken since the last time, and what it took before for a part."""
        self.share += taken - self.taken - self.share * _FADES
        self.taken = taken

    def pass_time(self, now: float, fastest: float, *, held: bool) -> None:
        """Subtract the time since the last look from the feed's patience, or add some.

        Args:
            now: The time in seconds.
            fastest: The share of the fastest other feed; 0 if there is none.
            held: Whether that one had caught up; else both were busy.
        """
        seconds, self.at = now - self.at, now
        if not fastest:
            self.patience = STALL
            return
        weight = min(_TENTH, fastest / max(1.0, self.share))
        self.patience += seconds * (-min(1, weight) if held else (_TENTH - weight) / max(1, weight))
        self.patience = min(STALL, self.patience)

    def has_stalled(self, now: float, progress: int) -> bool:
        """Return whether the feed's client has read nothing for long."""
        if progress != self.progress:
            self.progress, self.moved_at = progress, now
        return now - self.moved_at >= STALL


class SinkFlow:
    """Which feeds one sink waits for; made by the sink's connection, which asks it after each turn.

    Args:
        feeds: All direct feeds of the broker, by their queues.
        now: Gives the time in seconds.
        go_on: Called when there is no feed to wait for any more, in the turn of another actor.
        log: Called with a level, an event and fields when a feed is left behind or waited for again.
    """

    __slots__ = (
        "_accounts",
        "_behind",
        "_fastest",
        "_feeds",
        "_go_on",
        "_held",
        "_left",
        "_log",
        "_looked_at",
        "_now",
        "_window",
        "_window_at",
        "published",
    )

    def __init__(
        self, feeds: Mapping[Ref, Pace], now: Callable[[], float], go_on: Callable[[], None], log: Callable[..., None]
    ) -> None:
        self._feeds = feeds
        self._now = now
        self._go_on = go_on
        self._log = log
        self.published: list[Sequence[Ref]] = []
        """The queues of each run of this turn, which the publisher adds itself: a call for each would cost more."""
        self._accounts: dict[Pace, _Account] = {}
        self._behind: dict[Pace, _Account] = {}  # those that are waited for
        self._left: dict[Pace, _Account] = {}  # those that are left behind
        self._fastest = 0.0  # the largest share of a feed that has caught up
        self._held = False  # whether there is one
        self._looked_at = 0.0
        self._window: dict[Pace, int] = {}  # what each feed had taken when the window began
        self._window_at = 0.0

    # In the sink's turns

    def must_wait(self) -> bool:
        """Tell, after a turn, whether nothing more may be read until ``go_on`` is called."""
        if self.published:
            if self._feeds:
                queues = set[Ref]().union(*self.published)
                self._look_at([self._feeds[queue] for queue in queues & self._feeds.keys()])
            self.published.clear()
        return bool(self._behind)

    def _look_at(self, feeds: list[Pace]) -> None:
        """Wait for those feeds whose backlog is above their mark, and which are not left behind."""
        now = self._now()
        if self._left and now >= self._window_at + _WINDOW:
            self._review_left(now)
        fresh = []
        for feed in feeds:
            account = self._accounts.get(feed) or self._follow(feed, now)
            if feed.backlog > account.mark and feed not in self._behind and feed not in self._left:
                fresh.append((feed, account))
        if not fresh:
            return
        for feed, account in self._accounts.items():
            account.count(feed.taken)
        for feed, account in fresh:
            self._behind[feed] = account
            feed.waiting.add(self)
            account.pass_time(now, self._fastest, held=False)
            account.progress, account.moved_at = feed.progress, now
        self._find_fastest()

    def _follow(self, feed: Pace, now: float) -> _Account:
        """Begin to look at a feed; until it has shown what it takes it counts as a fast one."""
        feed.followers.add(self)
        account = _Account(now, feed.taken, feed.progress, now, self._fastest)
        self._accounts[feed] = account
        return account

    def _find_fastest(self) -> None:
        """Find the feed that takes most among those that have caught up."""
        counted = self._accounts.keys() - self._left.keys()
        done = [self._accounts[feed].share for feed in counted - self._behind.keys() if feed.backlog <= _DONE]
        self._held = bool(done)
        if done:
            self._fastest = max(done)
        elif len(counted) < 2:
            self._fastest = 0.0

    # While it waits

    def look_after(self, feed: Pace) -> None:
        """Check, as a feed that is waited for has taken something: if it has caught up, or not every time."""
        if feed.backlog <= self._accounts[feed].mark - STEP or self._now() >= self._looked_at + _OFTEN:
            self.look()

    def look(self) -> None:
        """Check whether the feeds that are waited for have caught up, or have used up their patience."""
        if not self._behind:
            return
        now = self._looked_at = self._now()
        for feed, account in list(self._behind.items()):
            account.pass_time(now, self._fastest, held=self._held)
            if feed.backlog <= account.mark - STEP:
                self._end_wait(feed)
                account.mark = max(MARK, account.mark - _LESS)
            elif account.has_stalled(now, feed.progress) or account.patience <= 0:
                self._end_wait(feed)
                self._leave(feed, account, now)
        self._find_fastest()
        if not self._behind:
            self._go_on()

    def _end_wait(self, feed: Pace) -> None:
        del self._behind[feed]
        feed.waiting.discard(self)

    def forget(self, feed: Pace) -> None:
        """Remove a feed that has ended."""
        del self._accounts[feed]
        self._left.pop(feed, None)
        self._window.pop(feed, None)
        if feed in self._behind:
            self._end_wait(feed)
            if not self._behind:
                self._go_on()
        self._find_fastest()  # the others are not compared with one that has gone

    def close(self) -> None:
        """Leave all feeds."""
        for feed in self._accounts:
            feed.followers.discard(self)
            feed.waiting.discard(self)

    # Who is left behind

    def _leave(self, feed: Pace, account: _Account, now: float) -> None:
        """Leave a feed behind."""
        if not self._left:
            self._begin_window(now)
        self._left[feed] = account
        self._log(logging.WARNING, "direct feed is left behind", queue=feed.name, backlog=feed.backlog)

    def _begin_window(self, now: float) -> None:
        """Compare what feeds take from now on."""
        self._window_at = now
        self._window = {feed: feed.taken for feed in self._accounts}

    def _review_left(self, now: float) -> None:
        """Wait again, from the backlog that they have now, for those that took what they should in the last window."""
        taken = {feed: feed.taken - self._window.get(feed, feed.taken) for feed in self._accounts}
        fastest = max((size for feed, size in taken.items() if feed not in self._left), default=0)
        for feed, account in list(self._left.items()):
            if feed.backlog <= MARK or (taken[feed] and taken[feed] * _TENTH >= fastest):
                del self._left[feed]
                account.at, account.patience, account.share = now, STALL, max(account.share, self._fastest)
                account.mark = max(MARK, feed.backlog - STEP)
                self._log(logging.INFO, "direct feed is waited for again", queue=feed.name, backlog=feed.backlog)
        self._begin_window(now)
