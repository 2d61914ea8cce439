"""The tail of a backlog that is paged out: not resident in memory, but in the store, or on the way there.

Rules:

- The tail is every message from some id on, so one integer says where it begins, and settling needs no search.
- The latest messages are still in memory (*pending*), since they are not written yet. A queue that is emptied as fast
  as it fills is never read back from disk: ``get`` hands out pending messages when nothing older is left.
- Pending messages leave memory when the commit of their batch is reported, in order: one callback at a time.
- Messages that are not durable are *spilled*: put into another file of the store, ``_SPILL`` bytes at a time, only to
  have them out of memory. The store is told when they come back (``Unspill``), so a restart finds none.
- What cannot be decoded is set aside and counted as damaged; it stays in the store for ``triomq store salvage``.
- One read at a time for the consumers and one for browsers; a purge forgets both.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import msgspec

from triomq.core.backlog.backlog import ReadDone
from triomq.core.message import Head, QueueMessage, Stretch, overhead_of
from triomq.core.persistence.persistence import Persistence
from triomq.errors import StoreError
from triomq.store import BodyRun, Damaged, Fetch, Range, Reading, SegmentRead, SpilledDropped, decode_body

_log = logging.getLogger("triomq.core")

_SPILL = 256 * 1024
"""Bytes of transient messages that are put out of memory at once."""

_READ = 2 * 1024 * 1024
"""Bytes that are read at once: some milliseconds of work."""

_PEEK = 256 * 1024
"""Bytes that are read at once for a browser: they stay in memory until the next page, for each queue."""


class PagedRun(msgspec.Struct, gc=False):
    """Messages with ids in a row, on their way into the tail or out of it; the fields are those of ``Run``."""

    head: Head
    contents: Sequence[bytes]
    first: int
    size: int
    deadline: float
    level: int
    heads: Sequence[Head] | None = None

    @property
    def bodies(self) -> int:
        """Bytes of the bodies."""
        return self.size - overhead_of(self.head, self.heads, len(self.contents))

    def messages(self) -> Iterator[QueueMessage]:
        """Go through the messages singly."""
        return Stretch(self.head, self.contents, self.heads).messages()

    def part(self, start: int, stop: int | None = None) -> "PagedRun":
        """Return the messages from a position on, or up to another; at least one."""
        contents, heads = self.contents[start:stop], self.heads
        if heads is not None:
            heads = heads[start:stop]
        head = self.head if heads is None else heads[0]
        size = sum(map(len, contents))
        return PagedRun(head, contents, self.first + start, size, self.deadline, self.level, heads)


class PendingRun(msgspec.Struct, gc=False):
    """Messages of the tail that are still in memory.

    Args:
        run: The messages.
        encoded: What they share, as the store has it.
        bodies: Bytes of their bodies.
        number: The batch that has them; 0 while the store does not have them.
        is_spilled: Whether they were written only to have them out of memory.
    """

    run: PagedRun
    encoded: bytes
    bodies: int
    number: int
    is_spilled: bool = False


class PagedTail:
    """The paged out messages of one queue; made with its backlog, outlives the queue's incarnations.

    ``first`` is the id from which on all messages that are not settled are paged out, ``count`` how many they are,
    ``size`` the bytes of their bodies, ``held`` how many of these bytes are in memory until they are written.
    ``damaged`` counts messages that the disk has changed: they are left where they are, and count no more in ``count``.

    Args:
        persistence: The broker's.
        queue: The queue's number in the store.
        name: The queue's name, for the log.
        now: Gives the time of the domain's clock, in seconds.
    """

    __slots__ = (
        "_damaged_ranges",
        "_expects",
        "_fetch",
        "_journal",
        "_name",
        "_now",
        "_peek_fetch",
        "_peeked",
        "_pending",
        "_persistence",
        "_queue",
        "broken",
        "count",
        "damaged",
        "first",
        "held",
        "loose",
        "size",
        "spilled",
    )

    def __init__(self, persistence: Persistence, queue: int, name: str, now: Callable[[], float]) -> None:
        self._persistence = persistence
        self._journal = persistence.journal
        self._queue = queue
        self._name = name
        self._now = now
        self._pending: deque[PendingRun] = deque()
        self.loose = 0  # bytes of the last pending runs that the store does not have
        self._expects = False  # whether a callback is set for the next commit
        self.spilled = False  # whether anything was put into the store only to have it out of memory
        self._fetch: Fetch | None = None
        self._peeked: _Peeked | None = None
        self._peek_fetch: tuple[int, Fetch] | None = None  # from which id on a read for a browser is under way
        self.broken = False  # whether the store could not give back what it has
        self.first = 1
        self.count = 0
        self.size = 0
        self.held = 0
        self.damaged = 0
        self._damaged_ranges: list[Range] = []

    def recover(self, first: int, count: int, size: int) -> None:
        """Start with what the store has from before a restart of the broker."""
        self.first, self.count, self.size = first, count, size

    # Paging out

    def put(self, run: PagedRun, encoded: bytes, bodies: int, number: int) -> None:
        """Page messages out, behind all that are there.

        Args:
            run: The messages.
            encoded: What they share, as the store has it.
            bodies: Bytes of their bodies.
            number: The batch that has them, 0 if they are not durable.
        """
        if not self.count:
            self.first = run.first
        self._pending.append(PendingRun(run, encoded, bodies, number))
        self.count += len(run.contents)
        self.size += bodies
        self.held += run.size
        if not number:
            self.loose += run.size
            if self.loose >= _SPILL:
                self.spill()
        self._expect()

    def spill(self) -> None:
        """Write the last pending runs that the store does not have; their ids are in a row.

        Whatever is appended to the store behind them comes after this call: segments must not overlap. Callers on the
        way of every run look at ``loose`` first, and save the call.
        """
        if not self.loose:
            return
        loose = []
        for pending in reversed(self._pending):
            if pending.number:
                break
            loose.append(pending)
        loose.reverse()
        self.loose = 0
        first = loose[0].run.first
        runs = [BodyRun(each.run.first - first, each.encoded, each.run.contents) for each in loose]
        self._journal.cut(self._queue)
        self._journal.spill(self._queue, first, runs, sum(len(each.run.contents) for each in loose))
        self.spilled = True
        for each in loose:
            each.number, each.is_spilled = self._journal.open_batch, True

    def _expect(self) -> None:
        """Ask for a callback when the store has the first pending run, to give its memory back."""
        if not self._expects and self._pending and self._pending[0].number:
            self._expects = True
            self._journal.when_committed(self._pending[0].number, self._committed)

    def _committed(self) -> None:
        self._expects = False
        committed = self._journal.committed
        while self._pending and 0 < self._pending[0].number <= committed:
            self.held -= self._pending.popleft().run.size
        self._expect()

    # Getting back

    def get(self, stop: int, done: ReadDone) -> list[PagedRun]:
        """Return the next messages that are in memory; start to read them if the next ones are on disk.

        Args:
            stop: One more than the highest id of the queue.
            done: Called with what was read, outside of any turn.
        """
        if self._fetch is not None or not self.count or self.broken:
            return []
        written = self._pending[0].run.first if self._pending else stop
        if self.first < written:
            self._fetch = self._journal.fetch(self._queue, self.first, written, _READ, done)
            return []
        if not self._pending:
            missing = {"queue": self._name, "messages": self.count}
            _log.error("the store has fewer messages than it had; see `triomq store check`", extra={"fields": missing})
            self.count = self.size = 0
        return self._take_pending()

    def _take_pending(self) -> list[PagedRun]:
        found: list[PagedRun] = []
        spilled: list[Range] = []
        bytes_used = 0
        while self._pending and bytes_used < _READ:
            pending = self._pending.popleft()
            run, count = pending.run, len(pending.run.contents)
            bytes_used += run.size
            self._count_back(run, pending.bodies)
            self.held -= run.size
            if not pending.number:
                self.loose -= run.size
            if pending.is_spilled:
                _add_range(spilled, run.first, count)
            found.append(run)
            self.first = run.first + count
        if spilled:
            self._journal.add(SpilledDropped(self._queue, spilled))
        return found

    def _count_back(self, run: PagedRun, bodies: int) -> None:
        self.count -= len(run.contents)
        self.size = max(0, self.size - bodies) if self.count else 0  # after a restart the sizes are rounded

    @property
    def is_reading(self) -> bool:
        """Whether messages are being read from the store."""
        return self._fetch is not None or self._peek_fetch is not None

    def forget_reading(self) -> None:
        """Drop what is being read: its reader has ended. ``get`` reads it again."""
        if self._fetch is not None:
            self._journal.cancel_fetch(self._fetch)
            self._fetch = None
        if self._peek_fetch is not None:
            self._journal.cancel_fetch(self._peek_fetch[1])
            self._peek_fetch = None

    def read(self, reading: Reading | StoreError) -> list[PagedRun]:
        """Return what was read."""
        if self._fetch is None:
            return []  # purged meanwhile
        self._fetch = None
        if isinstance(reading, StoreError):
            self._fail(reading)
            return []
        damaged = list(reading.damaged)
        found = self._runs_of(reading.segments, self.first, damaged)
        for segment in reading.segments:
            if segment.spilled:
                self._journal.add(SpilledDropped(self._queue, [(segment.first, segment.count)]))
        for each in damaged:
            self._set_aside(each)
        self.first = max(self.first, reading.up_to)
        for run in found:
            self._count_back(run, run.bodies)
        return found

    def _set_aside(self, damaged: Damaged) -> None:
        """Count messages that cannot be decoded as damaged; they stay in the store."""
        bits = int.from_bytes(damaged.settled, "little")
        left = _unsettled(bits, damaged.count, self.first - damaged.first)
        count = min(self.count, sum(stop - start for start, stop in left))
        self.size = self.size * (self.count - count) // self.count if self.count else 0
        self.count -= count
        self.damaged += count
        if damaged.count:
            self._damaged_ranges.append((damaged.first, damaged.count))
        fields = {
            "queue": self._name,
            "messages": count if damaged.count else "unknown",
            "first": damaged.first,
            "reason": damaged.reason,
        }
        _log.error("messages are damaged and set aside; see `triomq store salvage`", extra={"fields": fields})

    def _runs_of(self, segments: Sequence[SegmentRead], first: int, damaged: list[Damaged]) -> list[PagedRun]:
        """Return the messages of segments, from an id on, without those that are settled; add damaged segments to a
        list.
        """
        found: list[PagedRun] = []
        now = self._now()
        for segment in segments:
            try:
                found += self._decoded(segment, first, now)
            except msgspec.DecodeError as error:
                reason = f"they cannot be decoded ({error})"
                damaged.append(Damaged(segment.first, segment.count, segment.settled, reason))
        return found

    def _decoded(self, segment: SegmentRead, first: int, now: float) -> list[PagedRun]:
        bits = int.from_bytes(segment.settled, "little")
        found: list[PagedRun] = []
        for stored in decode_body(segment.body):
            head, heads, level, deadline = self._persistence.heads.decode_run(stored.head, len(stored.contents), now)
            run = PagedRun(head, stored.contents, segment.first + stored.offset, 0, deadline, level, heads)
            skip = first - run.first
            for start, stop in _unsettled(bits >> stored.offset, len(stored.contents), skip):
                found.append(run.part(start, stop))
        return found

    # Looking without paging in

    @property
    def peeked_bytes(self) -> int:
        """Bytes that are in memory for a browser."""
        return 0 if self._peeked is None else self._peeked.size

    def peek(self, first: int, stop: int, done: ReadDone) -> Iterator[PagedRun] | None:
        """Return messages from an id on, in order, as far as they are in memory; at least one unless there is none.

        What was read for the last call stays in memory, for the next page is mostly behind it.

        Args:
            first: The id.
            stop: One more than the highest id of the queue.
            done: Called if messages had to be read; it is for ``peeked``.

        Returns:
            The messages; None if they are being read, or cannot be.
        """
        first = max(first, self.first)
        while (peeked := self._peeked) is not None and peeked.first <= first < peeked.stop:
            if self.count and (found := list(_from(peeked.runs, first))):
                return iter(found)
            first = peeked.stop  # there is none left in this part
        written = self._pending[0].run.first if self._pending else stop
        if first >= written or not self.count:
            self._peeked = None
            return _from([pending.run for pending in self._pending], first)
        if self._peek_fetch is None and not self.broken:
            self._peek_fetch = first, self._journal.fetch(self._queue, first, written, _PEEK, done)
        return None

    def peeked(self, reading: Reading | StoreError) -> None:
        """Hold what was read for ``peek``."""
        if self._peek_fetch is None:
            return  # purged meanwhile
        first, _ = self._peek_fetch
        self._peek_fetch = None
        if isinstance(reading, StoreError):
            self._fail(reading)
            return
        runs = self._runs_of(reading.segments, first, [])  # damaged ones are reported when they are paged in
        self._peeked = _Peeked(runs, first, reading.up_to, sum(run.size for run in runs))

    def _fail(self, error: StoreError) -> None:
        self.broken = True
        _log.error("messages cannot be read", extra={"fields": {"queue": self._name, "reason": str(error)}})

    # Forgetting

    def contents(self) -> list[Sequence[bytes]]:
        """Return the contents that are in memory."""
        return [pending.run.contents for pending in self._pending]

    def purge(self, stop: int) -> int:
        """Remove everything and return how many messages that was."""
        count = self.count
        self.forget_reading()
        self._peeked = None
        self.broken = False  # what could not be read is removed
        if count and self.spilled:
            self._journal.add(SpilledDropped(self._queue, [(self.first, stop - self.first)]))
        for first, damaged in self._damaged_ranges:
            self._journal.settle(self._queue, first, damaged)
        self._damaged_ranges.clear()
        self.damaged = 0
        self._pending.clear()
        self.loose = 0
        self.first = stop
        self.count = self.size = self.held = 0
        return count


class _Peeked(msgspec.Struct, gc=False):
    """What was read for a browser: all messages from an id up to another, and the total of their bytes."""

    runs: list[PagedRun]
    first: int
    stop: int
    size: int


def _from(runs: Sequence[PagedRun], first: int) -> Iterator[PagedRun]:
    """Yield the messages of runs from an id on."""
    for run in runs:
        skip = first - run.first
        if skip <= 0:
            yield run
        elif skip < len(run.contents):
            yield run.part(skip)


def _add_range(ranges: list[Range], first: int, count: int) -> None:
    """Add ids to ranges, behind all of them."""
    if ranges and sum(ranges[-1]) == first:
        first, count = ranges[-1][0], ranges.pop()[1] + count
    ranges.append((first, count))


def _unsettled(bits: int, count: int, skip: int) -> list[tuple[int, int]]:
    """Return the stretches of positions whose bits are not set, from ``skip`` on, as start and stop."""
    start = max(0, skip)
    if start >= count:
        return []
    if not bits & ((1 << count) - 1):
        return [(start, count)]
    found: list[tuple[int, int]] = []
    begin = -1
    for position in range(start, count):
        if bits >> position & 1:
            if begin >= 0:
                found.append((begin, position))
                begin = -1
        elif begin < 0:
            begin = position
    if begin >= 0:
        found.append((begin, count))
    return found
