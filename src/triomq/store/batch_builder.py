"""The open batch: everything that the next batch will do, as long as it can still change.

    append 1-3, append 4-5, settle 1-3, delivered 5          what turns add, run by run
        │
        ▼
    segment of queue q: runs [1-3] [4-5]                     one segment for each queue, however many publishes
    settled of q: [(1, 3)]   delivered of (q, level): 5
        │  batch(number)
        ▼
    MessagesAppended(first=4, count=2), MessagesDelivered(5) what is written: 1 to 3 never were on disk

- A segment costs a row and a body on disk, so messages of a queue share one until its contents reach ``_SEGMENT``.
- What is settled before the batch is sent is left out, whole runs at a time: a queue whose consumers keep up writes
  little. A run that is settled in part is written whole, with the settled ids named in the segment.
- Marks (``delivered``) are written once per batch and level, with their highest value.
- Everything is counted and merged by run or range, never by message.
- Order matters between operations of one queue and is preserved: a segment stands where its first message was appended.
  Settling and marks come last, since they only concern messages that were appended before them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec

from triomq.store.body import BodyRun, gaps_of, gather_body
from triomq.store.operations import (
    AttemptsCounted,
    MessagesAppended,
    MessagesDelivered,
    MessagesSettled,
    Operation,
    OperationBatch,
    QueueDeleted,
    Range,
)

_SEGMENT = 1 << 18
"""Bytes of contents from which on a queue gets another segment: a body is read as a whole; smaller ones cost more."""


class _Run(msgspec.Struct, gc=False):
    first: int
    stop: int
    head: bytes
    contents: Sequence[bytes]
    size: int

    def is_within(self, ranges: Sequence[Range]) -> bool:
        """Return whether one of the ranges has all of the run; ranges are sorted and do not touch each other."""
        found = _touching(ranges, self.first, self.stop)
        return bool(found) and found[0][0] <= self.first and self.stop <= found[0][0] + found[0][1]


class _Segment(msgspec.Struct):
    """A segment that may still grow: runs whose ids ascend, perhaps with gaps."""

    queue: int
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


class BatchBuilder:
    """The open batch; created by the journal, ends when it is sent. ``size`` is about its size in bytes."""

    __slots__ = ("_delivered", "_open", "_operations", "_settled", "size")

    def __init__(self) -> None:
        self._operations: list[Operation | _Segment] = []
        self._open: dict[int, _Segment] = {}
        self._settled: dict[int, list[Range]] = {}
        self._delivered: dict[tuple[int, int], int] = {}
        self.size = 0

    def __bool__(self) -> bool:
        """Return whether there is anything to send."""
        return bool(self._operations or self._settled or self._delivered)

    def append(self, queue: int, first: int, head: bytes, contents: Sequence[bytes], size: int) -> None:
        """Add messages with ids in a row, above all of the queue so far; ``contents`` must not change any more."""
        run = _Run(first, first + len(contents), head, contents, size)
        content_size = sum(map(len, contents))
        self.size += content_size
        segment = self._open.get(queue)
        if segment is None or segment.content_size >= _SEGMENT:
            segment = self._open[queue] = _Segment(queue, [run], content_size)
            self._operations.append(segment)
        else:
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

    def delivered(self, queue: int, level: int, up_to: int) -> None:
        """Mark messages of a level up to an id as delivered."""
        if up_to > self._delivered.get((queue, level), 0):
            self._delivered[queue, level] = up_to

    def add(self, operation: Operation) -> None:
        """Add any other operation; operations are done in the order in which they were added."""
        if isinstance(operation, QueueDeleted):
            self._drop(operation.queue)
        self.size += len(getattr(operation, "body", b""))
        self._operations.append(operation)

    def _drop(self, queue: int) -> None:
        """Drop what was to be done to a queue that is being deleted."""
        if self._open.pop(queue, None) is not None:
            self._operations = [
                each for each in self._operations if not (isinstance(each, _Segment) and each.queue == queue)
            ]
        self._settled.pop(queue, None)
        for key in [key for key in self._delivered if key[0] == queue]:
            del self._delivered[key]

    def settles(self) -> list[MessagesSettled]:
        """Return what is settled; nothing if other operations are there, which it may belong to."""
        if self._operations:
            return []
        return [MessagesSettled(queue, _merged(ranges)) for queue, ranges in self._settled.items()]

    def batch(self, number: int) -> OperationBatch:
        """Return the batch."""
        settled = {queue: _merged(ranges) for queue, ranges in self._settled.items()}
        segments = [each for each in self._operations if isinstance(each, _Segment)]
        operations: list[Operation] = []
        for each in self._operations:
            if not isinstance(each, _Segment):
                if not (
                    isinstance(each, AttemptsCounted) and _touching(settled.get(each.queue, ()), each.id, each.id + 1)
                ):
                    operations.append(each)
            elif (append := each.finish(settled.get(each.queue, ()))) is not None:
                operations.append(append)
        operations += [MessagesDelivered(queue, level, up_to) for (queue, level), up_to in self._delivered.items()]
        for segment in segments:
            if ranges := settled.get(segment.queue):
                first, stop = segment.runs[0].first, segment.runs[-1].stop
                settled[segment.queue] = [each for each in ranges if each[0] < first or each[0] + each[1] > stop]
        operations += [MessagesSettled(queue, ranges) for queue, ranges in settled.items() if ranges]
        return OperationBatch(number, operations)


def _touching(ranges: Sequence[Range], first: int, stop: int) -> list[Range]:
    """Return the ranges with an id from ``first`` up to ``stop``; ``ranges`` are sorted and do not touch each other."""
    low = bisect_left(ranges, (first,))
    if low and ranges[low - 1][0] + ranges[low - 1][1] > first:
        low -= 1
    return list(ranges[low : bisect_left(ranges, (stop,))])


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
