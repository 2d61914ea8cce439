"""The open batch: everything that the next batch will do, as long as it can still change.

    append 1-3, append 4-5, settle 1-3, delivered 5          what turns add, run by run
        │
        ▼
    segment of queue q: runs [1-3] [4-5]                     one segment for each queue, however many publishes
    settled of q: [(1, 3)]   delivered of (q, level): 5
        │  batch(number)
        ▼
    MessagesAppended(first=4, count=2), MessagesDelivered(5) what is written: 1 to 3 never were on disk

    owe 1-5 to a publisher; consumed 1-3: told at once       4 and 5 wait for the batch

- A segment costs a row and a body on disk, so messages of a queue share one until its contents reach ``_SEGMENT``.
- What is settled before the batch is sent is left out, whole runs at a time: a queue whose consumers keep up writes
  little. A run that is settled in part is written whole, with the settled ids named in the segment.
- While a disk is slow much may be settled before the batch is sent: it is dropped now and then (``_thin``), so that
  memory and ``size`` count only what is left.
- Marks (``delivered``) are written once per batch and level, with their highest value; and not at all if every id that
  one would newly mark is settled in the same batch. Ids that this batch does not settle may be of messages on disk, or
  of transient ones: then it is written.
- An *open operation* grows by itself until the batch is taken (``OpenOperation``), and is made only then.
- Everything is counted and merged by run or range, never by message.
- What is done to records of one key is one operation at most (``record_changes``); they have no order with the rest.
- Order matters between operations of one queue and is preserved: a segment stands where its first message was appended.
  Settling and marks come last, since they only concern messages that were appended before them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from triomq.store.body import BodyRun, gaps_of, gather_body
from triomq.store.debts import Debt, Debts
from triomq.store.operations import (
    AttemptsCounted,
    MessagesAppended,
    MessagesDelivered,
    MessagesSettled,
    MessagesSpilled,
    Operation,
    OperationBatch,
    QueueDeleted,
    Range,
    RecordPut,
    RecordRangeRemoved,
    RecordRemoved,
)
from triomq.store.record_changes import RecordChanges

_SEGMENT = 1 << 18
"""Bytes of contents from which on a queue gets another segment: a body is read as a whole; smaller ones cost more."""


_THIN = 4 << 20
"""Bytes of contents from which on what is settled is dropped now and then, not only when the batch is sent: a quarter
of what publishers wait for."""


_LOOKED_AT = 8
"""Queues that are looked at each time: of a batch with more it is not known whether all of it is with consumers."""


class _Run(msgspec.Struct, gc=False):
    first: int
    stop: int
    head: bytes
    contents: Sequence[bytes]
    size: int

    def is_within(self, ranges: Sequence[Range]) -> bool:
        """Return whether one of the ranges has all of the run; ranges are sorted and do not touch each other."""
        return _has_all(ranges, self.first, self.stop)


class _GrowingSegment(msgspec.Struct):
    """A segment that may still grow: runs whose ids ascend, perhaps with gaps.

    ``first`` and ``stop`` are of all ids that it ever had, those too whose runs were dropped since.
    """

    queue: int
    first: int
    stop: int
    runs: list[_Run]
    content_size: int

    def finish(self, ranges: Sequence[Range]) -> MessagesAppended | None:
        """Return the operation that appends the runs that are not settled; None if all are.

        Args:
            ranges: The settled ids of the queue; sorted, and not touching each other.
        """
        runs = [run for run in self.runs if not run.is_within(ranges)]
        if not runs:
            return None
        first, stop = runs[0].first, runs[-1].stop
        count, body = stop - first, [BodyRun(run.first - first, run.head, run.contents) for run in runs]
        return MessagesAppended(
            queue=self.queue,
            first=first,
            count=count,
            size=sum(run.size for run in runs),
            body=gather_body(body),
            settled=gaps_of(body, first, count) + _touching(ranges, first, stop),
        )


class OpenOperation(Protocol):
    """An operation that may still grow: the next chunk of a stream, which gathers all runs of the open batch."""

    @property
    def queue(self) -> int:
        """The number of the queue that it is about."""

    def finish(self) -> Operation | None:
        """Return it as it is now, None if nothing is left; called once, when the batch is taken."""


class BatchBuilder:
    """The open batch; created by the journal, ends when it is sent.

    ``size`` is about its size in bytes. ``unpaid`` is how many copies are in it that publishers wait for, and consumers
    do not have; ``paid`` counts those that consumers have.
    """

    __slots__ = (
        "_debts",
        "_delivered",
        "_open",
        "_open_operations",
        "_operations",
        "_records",
        "_settled",
        "_thins_at",
        "paid",
        "size",
        "unpaid",
    )

    def __init__(self) -> None:
        self._operations: list[Operation | _GrowingSegment] = []
        self._records = RecordChanges()
        self._open_operations: list[OpenOperation] = []
        self._open: dict[int, _GrowingSegment] = {}
        self._settled: dict[int, list[Range]] = {}
        self._delivered: dict[tuple[int, int], Range] = {}  # after which ids, and up to which
        self._debts: dict[int, Debts] = {}
        self._thins_at = _THIN
        self.size = 0
        self.unpaid = 0
        self.paid = 0

    def __bool__(self) -> bool:
        """Return whether there is anything to send."""
        return bool(self._operations or self._open_operations or self._records or self._settled or self._delivered)

    def append(self, queue: int, first: int, head: bytes, contents: Sequence[bytes], size: int) -> None:
        """Add messages with ids in a row, above all of the queue so far; ``contents`` must not change any more."""
        run = _Run(first, first + len(contents), head, contents, size)
        content_size = sum(map(len, contents))
        self.size += content_size
        if self.size > self._thins_at:
            self._thin()
        segment = self._open.get(queue)
        if segment is None or segment.content_size >= _SEGMENT:
            segment = self._open[queue] = _GrowingSegment(queue, first, run.stop, [run], content_size)
            self._operations.append(segment)
        else:
            segment.stop = run.stop
            segment.runs.append(run)
            segment.content_size += content_size

    def cut(self, queue: int) -> None:
        """Start another segment with the next messages that are appended to a queue."""
        self._open.pop(queue, None)

    def settle(self, queue: int, first: int, count: int) -> None:
        """Settle messages with ids in a row."""
        ranges = self._settled.setdefault(queue, [])
        if ranges and ranges[-1][0] + ranges[-1][1] == first:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + count)
        else:
            ranges.append((first, count))

    def owe(self, queue: int, first: int, count: int, debt: Debt) -> None:
        """Report to ``debt`` when consumers have what was appended just now; see ``Journal.owe``."""
        debts = self._debts.get(queue)
        if debts is None:
            debts = self._debts[queue] = Debts()
        debts.add(first, count, debt)
        self.unpaid += count

    def consumed(self, queue: int, first: int, count: int) -> None:
        """Report to publishers that consumers have messages with ids in a row, those of them that are owed."""
        debts = self._debts.get(queue)
        if debts is not None:
            paid = debts.pay(first, count)
            self.unpaid -= paid
            self.paid += paid

    @property
    def owes(self) -> bool:
        """Whether a publisher waits for this batch."""
        return any(debts.is_awaited for debts in self._debts.values())

    @property
    def does_more(self) -> bool:
        """Whether it has operations other than on messages that were published, delivered or settled."""
        return bool(self._records or self._open_operations) or any(
            not isinstance(each, _GrowingSegment) for each in self._operations
        )

    @property
    def is_with_consumers(self) -> bool:
        """Whether consumers have been sent all that publishers wait for; false if it takes long to find out."""
        return len(self._debts) <= _LOOKED_AT and all(
            debts.stop - 1 <= self._delivered.get((queue, 0), (0, 0))[1] for queue, debts in self._debts.items()
        )

    def drop_paid(self) -> bool:
        """Forget debts that are paid; return whether one is left that was there the last time."""
        overdue = [debts.drop_paid() for debts in self._debts.values()]
        return any(overdue)

    def delivered(self, queue: int, level: int, after: int, up_to: int) -> None:
        """Mark messages of a level up to an id as delivered; up to ``after`` they were before."""
        before = self._delivered.get((queue, level))
        if before is None:
            self._delivered[queue, level] = (after, up_to)
        elif up_to > before[1]:
            self._delivered[queue, level] = (before[0], up_to)

    def add(self, operation: Operation) -> None:
        """Add any other operation; those on queues are done in the order in which they were added."""
        if isinstance(operation, RecordPut | RecordRemoved | RecordRangeRemoved):
            self.size += self._records.add(operation)
            return
        if isinstance(operation, QueueDeleted):
            self._drop(operation.queue)
        self.size += len(getattr(operation, "body", b""))
        self._operations.append(operation)

    def add_open(self, source: OpenOperation) -> None:
        """Add an operation that may still grow."""
        self._open_operations.append(source)

    def add_new(self, record: RecordPut) -> None:
        """Add a record whose key the store does not have."""
        self.size += self._records.add(record, is_new=True)

    def _drop(self, queue: int) -> None:
        """Drop what was to be done to a queue that is being deleted."""
        if self._open.pop(queue, None) is not None:
            self._operations = [
                each for each in self._operations if not (isinstance(each, _GrowingSegment) and each.queue == queue)
            ]
        self._open_operations = [each for each in self._open_operations if each.queue != queue]
        self._settled.pop(queue, None)
        for key in [key for key in self._delivered if key[0] == queue]:
            del self._delivered[key]

    def _thin(self) -> None:
        """Drop runs that are settled, and count again: else a slow disk would have us store what nobody waits for."""
        self._settled = {queue: _merged(ranges) for queue, ranges in self._settled.items()}
        for each in self._operations:
            if isinstance(each, _GrowingSegment) and (ranges := self._settled.get(each.queue)):
                before = each.content_size
                each.runs = [run for run in each.runs if not run.is_within(ranges)]
                each.content_size = sum(sum(map(len, run.contents)) for run in each.runs)
                self.size -= before - each.content_size
        self._thins_at = max(_THIN, 2 * self.size)

    def settles(self) -> list[MessagesSettled]:
        """Return what is settled; nothing if other operations are there, which it may belong to."""
        if self._operations or self._open_operations or self._records:
            return []
        return [MessagesSettled(queue, _merged(ranges)) for queue, ranges in self._settled.items()]

    def batch(self, number: int) -> OperationBatch:
        """Return the batch."""
        settled = {queue: _merged(ranges) for queue, ranges in self._settled.items()}
        operations: list[Operation] = self._records.operations()
        for each in self._operations:
            if not isinstance(each, _GrowingSegment):
                if not (
                    isinstance(each, AttemptsCounted) and _touching(settled.get(each.queue, ()), each.id, each.id + 1)
                ):
                    operations.append(each)
            elif (append := each.finish(settled.get(each.queue, ()))) is not None:
                operations.append(append)
        operations += [
            MessagesDelivered(queue, level, up_to)
            for (queue, level), (after, up_to) in self._delivered.items()
            if not _has_all(settled.get(queue, ()), after + 1, up_to + 1)
        ]
        for queue, own in self._own_from().items():
            if ranges := settled.get(queue):
                settled[queue] = [(first, min(count, own - first)) for first, count in ranges if first < own]
        operations += [MessagesSettled(queue, ranges) for queue, ranges in settled.items() if ranges]
        operations += [found for source in self._open_operations if (found := source.finish()) is not None]
        return OperationBatch(number, operations)

    def _own_from(self) -> dict[int, int]:
        """Return from which ids on all messages of a queue are this batch's own, where that is so.

        What this batch appends says itself what of it is settled; what lies between is of messages in memory alone.
        """
        spilled = {each.queue for each in self._operations if isinstance(each, MessagesSpilled)}
        own: dict[int, int] = {}
        for each in self._operations:
            if isinstance(each, _GrowingSegment) and each.queue not in spilled:
                own.setdefault(each.queue, each.first)
        return own


def _touching(ranges: Sequence[Range], first: int, stop: int) -> list[Range]:
    """Return the ranges with an id from ``first`` up to ``stop``; ``ranges`` are sorted and do not touch each other."""
    low = bisect_left(ranges, (first,))
    if low and ranges[low - 1][0] + ranges[low - 1][1] > first:
        low -= 1
    return list(ranges[low : bisect_left(ranges, (stop,))])


def _has_all(ranges: Sequence[Range], first: int, stop: int) -> bool:
    """Return whether one of the ranges has all ids from ``first`` up to ``stop``; ranges are sorted, none touch."""
    low = bisect_right(ranges, first, key=_first_of) - 1
    return low >= 0 and stop <= ranges[low][0] + ranges[low][1]


def _first_of(found: Range) -> int:
    return found[0]


def _merged(ranges: Iterable[Range]) -> list[Range]:
    """Return the ranges sorted, with one range for those that touch."""
    merged: list[Range] = []
    for first, count in sorted(ranges):
        if merged and first <= merged[-1][0] + merged[-1][1]:
            start, length = merged[-1]
            merged[-1] = (start, max(length, first + count - start))
        else:
            merged.append((first, count))
    return merged
