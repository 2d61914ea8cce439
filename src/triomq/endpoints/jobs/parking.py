"""Jobs of a key: how many may run, how many may begin, and which wait for that, out of their queues.

    admit ── no place ──> park ── in the line of its key
    leave, the time of a rate ──> call ── the first in line goes back to its place in its queue (settled as RETURN)
         └── from where it is handed out first, and admitted again

Rules:

- What is parked stays unsettled: it is in its queue's account, and after a crash it is ready again. Its worker gets its
  credit back, so that jobs of other keys pass by.
- A line is in the order in which jobs came to it. One that was called and finds the place taken, by a job of another
  queue, goes to where it stood. What has not been in the line does not pass it.
- Nothing is reserved for a job that was called: its queue may have been purged meanwhile. Instead each line is looked
  at once a second, and calls as many as there are places.
- Of one queue so many may be parked, and of all queues so many bytes of one user's jobs (``PARKED``). Then its feeds
  wait at a gate, and what else comes out goes back to its place. The gate opens for each job that is called. Otherwise
  one key would take all of a long queue into memory.

Rates are token buckets that hold a second's worth, one at least. A bucket counts as empty at the moment when the book
was opened: nothing of it is on disk, and after a restart too few may begin rather than too many. So one that was
forgotten, since it was full, is the same as one that never was.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Final

import msgspec

from triomq.core import PARKED, Batch, Clock, Outcome, Shares, Window, body_of, settle
from triomq.endpoints.jobs.job import BookedJob

MOST_PARKED: Final = 10_000
"""Jobs of one queue."""

MOST_PARKED_BYTES: Final = 32 * 1024 * 1024
"""Bytes of those of one queue: they are in memory, wherever their queue's other messages are."""

WHOLE: Final = 1.0 - 1e-6
"""What counts as a job of a rate: Unix time is no finer than a quarter of a microsecond."""

LOOK: Final = 1.0
"""Seconds after which a line is looked at, whatever has happened."""


class Parked(msgspec.Struct, eq=False):
    """A parked job: where its message is, and which turn it has in its line; no two have the same."""

    job: BookedJob
    batch: Batch
    position: int
    turn: int
    size: int

    @property
    def is_out(self) -> bool:
        """Whether it still is where it was: a queue that has ended or crashed has taken back all that was out."""
        return self.batch.left > 0 and self.batch.contents[self.position] is not None


class _Line:
    """The jobs of one key."""

    __slots__ = ("running", "waiting")

    def __init__(self) -> None:
        self.running = 0
        self.waiting: list[tuple[int, bytes]] = []  # a heap of turns and ids; what is not parked any more is passed


class _JobTokens(msgspec.Struct, gc=False):
    """What is left of a rate, in jobs, at a time."""

    tokens: float
    at: float

    def fill(self, rate: float, now: float) -> None:
        """Add what has come in since the last time."""
        self.tokens = min(max(1.0, rate), self.tokens + max(0.0, now - self.at) * rate)
        self.at = now

    def until(self, tokens: float, rate: float) -> float:
        """Return after how many seconds it has so many; a thousandth at least, so that the clock has moved on."""
        return max(0.001, (tokens - self.tokens) / rate)


class _Room:
    """What is parked of one queue, and the gate before its feeds."""

    __slots__ = ("gate", "jobs", "size")

    def __init__(self) -> None:
        self.jobs = 0
        self.size = 0
        self.gate = Window()

    @property
    def is_full(self) -> bool:
        return self.jobs >= MOST_PARKED or self.size >= MOST_PARKED_BYTES

    def add(self, size: int) -> None:
        self.jobs += 1
        self.size += size

    def remove(self, size: int) -> None:
        self.jobs -= 1
        self.size -= size
        self.open()

    def open(self) -> None:
        """Let a job go, if the gate is closed: the one that was called, or another."""
        if self.gate.held:
            self.gate.release()


class Parking:
    """The keys of one domain's jobs; made by its book.

    Args:
        now: Gives the Unix time.
        shares: Counts what users have parked.
    """

    def __init__(self, now: Callable[[], float], shares: Shares) -> None:
        self._shares = shares
        self._waiting: dict[str, dict[_Room, None]] = {}  # before which a user's jobs wait for its share, by user
        self.clock: Clock[str] = Clock(now)
        """When the line of each key is to be looked at."""
        self._opened = now()
        self._lines: dict[str, _Line] = {}
        self._buckets: dict[str, tuple[_JobTokens, float]] = {}
        self._rooms: dict[str, _Room] = {}
        self._parked: dict[bytes, Parked] = {}
        self._called: dict[bytes, int] = {}  # jobs that have gone back to their queues, with their turns
        self._turns = count(1)

    def __len__(self) -> int:
        """Count the jobs that are parked."""
        return len(self._parked)

    def __iter__(self) -> Iterator[BookedJob]:
        """Yield the jobs that are parked."""
        for parked in self._parked.values():
            yield parked.job

    def payloads(self) -> Iterator[tuple[BookedJob, bytes]]:
        """Yield the jobs that are parked, each with what is to be called."""
        for parked in self._parked.values():
            content = parked.batch.contents[parked.position]
            if content is not None:
                yield parked.job, body_of(parked.batch.head_at(parked.position), content)

    @property
    def is_idle(self) -> bool:
        """Whether no job runs or waits that has a key."""
        return not (self._lines or self._parked or self._called)

    def gate(self, queue: str) -> Window:
        """Return the gate before the feeds of a queue."""
        return self._room(queue).gate

    def _room(self, queue: str) -> _Room:
        room = self._rooms.get(queue)
        if room is None:
            room = self._rooms[queue] = _Room()
        return room

    # Places

    def enter(self, job: BookedJob) -> bool:
        """Give a job a place of its key, and return whether there was one; who has got it must ``leave``."""
        line = self._lines.get(job.key)
        if line is None:
            line = self._lines[job.key] = _Line()
        if job.id in self._parked:  # its queue has taken it back, and hands it out again
            self._called[job.id] = self._unpark(job.id).turn
        if job.id not in self._called and self._first(line) is not None:
            return False
        if not self._has_place(line, job) or not self._take_token(job):
            return False
        self._called.pop(job.id, None)
        line.running += 1
        return True

    @staticmethod
    def _has_place(line: _Line, job: BookedJob) -> bool:
        limit = job.terms.limit
        return not limit or line.running < limit

    def _take_token(self, job: BookedJob) -> bool:
        if not job.terms.rate:
            return True
        bucket = self._bucket(job)
        if bucket.tokens < WHOLE:
            return False
        bucket.tokens -= 1.0
        return True

    def _bucket(self, job: BookedJob) -> _JobTokens:
        """Return the bucket of a job's key, filled."""
        key, rate, now = job.key, job.terms.rate, self.clock.now()
        found = self._buckets.get(key)
        bucket = _JobTokens(0.0, self._opened) if found is None else found[0]
        bucket.fill(rate, now)
        self._buckets[key] = (bucket, rate)
        self.clock.set(key, now + bucket.until(max(1.0, rate), rate))
        return bucket

    def occupy(self, job: BookedJob) -> None:
        """Give a job a place of its key, be there one or not: it runs already. It must ``leave``."""
        line = self._lines.get(job.key)
        if line is None:
            line = self._lines[job.key] = _Line()
        line.running += 1

    def leave(self, job: BookedJob) -> None:
        """Take the place of a job back, and call the next one."""
        key = job.key
        line = self._lines.get(key)
        if line is not None:
            line.running -= 1
            self._call(key, line)

    # Lines

    def park(self, job: BookedJob, batch: Batch, position: int) -> None:
        """Let a job wait that has got no place: in its line, or in its queue if too many are out of that."""
        content = batch.contents[position]
        assert content is not None, "it is settled"
        room = self._room(job.queue)
        key = job.key
        line = self._lines[key]
        is_over_share = self._is_over_share(job, len(content))
        if room.is_full or is_over_share:
            room.gate.hold()
            if is_over_share:
                self._waiting.setdefault(job.user, {})[room] = None
            settle(batch, Outcome.RETURN, (position,))
        else:
            turn = self._called.pop(job.id, 0) or next(self._turns)
            self._parked[job.id] = Parked(job, batch, position, turn, len(content))
            heappush(line.waiting, (turn, job.id))
            room.add(len(content))
            self._shares.take(PARKED, job.user, len(content))
            job.stage = "parked"
        self._look_again(key, line)

    def take(self, job: BookedJob) -> Parked | None:
        """Let a job wait no longer, and return it if it is out, for its message to be settled."""
        if self._called.pop(job.id, 0):
            line = self._lines.get(job.key)
            if line is not None:  # the next one may go in its place
                self._call(job.key, line)
        if job.id not in self._parked:
            return None
        parked = self._unpark(job.id)
        return parked if parked.is_out else None

    def _unpark(self, job: bytes) -> Parked:
        parked = self._parked.pop(job)
        user = parked.job.user
        self._room(parked.job.queue).remove(parked.size)
        self._shares.give(PARKED, user, parked.size)
        for room in self._waiting.pop(user, ()):
            room.open()
        return parked

    def _is_over_share(self, job: BookedJob, size: int) -> bool:
        """Return whether a job would be more than what its user may have parked, of all queues; one may be."""
        has_some = self._shares.count(PARKED, job.user) > 0
        return has_some and not self._shares.has_room(PARKED, job.user, size)

    def is_out(self, job: BookedJob) -> bool:
        """Return whether a job is parked, and its queue has not taken it back."""
        parked = self._parked.get(job.id)
        return parked is not None and parked.is_out

    def _first(self, line: _Line) -> Parked | None:
        """Return the first in line."""
        waiting = line.waiting
        while waiting:
            turn, job = waiting[0]
            parked = self._parked.get(job)
            if parked is not None and parked.turn == turn:
                if parked.is_out:
                    return parked
                self._called[job] = self._unpark(job).turn
                parked.job.stage, parked.job.since = "queued", self.clock.now()
            heappop(waiting)
        return None

    def _call(self, key: str, line: _Line) -> None:
        """Call as many as there are places and tokens."""
        called = 0
        while (parked := self._first(line)) is not None:
            terms = parked.job.terms
            if terms.limit and line.running + called >= terms.limit:
                break
            if terms.rate and self._bucket(parked.job).tokens < called + WHOLE:
                break
            self._called[parked.job.id] = parked.turn
            parked.job.stage, parked.job.since = "queued", self.clock.now()
            settle(parked.batch, Outcome.RETURN, (parked.position,))
            self._unpark(parked.job.id)
            called += 1
        self._look_again(key, line)

    def _look_again(self, key: str, line: _Line) -> None:
        """Set when a line is looked at; forget it if there is nothing to know of it."""
        first = self._first(line)
        if first is None:
            if not line.running:
                del self._lines[key]
            return
        now, pause = self.clock.now(), LOOK
        if first.job.terms.rate and (bucket := self._bucket(first.job)).tokens < WHOLE:
            pause = min(LOOK, bucket.until(1.0, first.job.terms.rate))
        self.clock.set(key, now + pause)

    def look(self) -> None:
        """Call whom there is room for by now; to be called when ``clock`` says so."""
        for key in self.clock.take_due(self.clock.now()):
            self._forget_if_full(key)
            line = self._lines.get(key)
            if line is not None:
                self._call(key, line)

    def _forget_if_full(self, key: str) -> None:
        found = self._buckets.get(key)
        if found is None:
            return
        bucket, rate = found
        now = self.clock.now()
        bucket.fill(rate, now)
        if bucket.tokens >= max(1.0, rate):
            del self._buckets[key]
        else:
            self.clock.set(key, now + bucket.until(max(1.0, rate), rate))
