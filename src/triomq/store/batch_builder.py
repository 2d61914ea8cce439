"""What is to be in the next batch, as long as it can still change.

Messages of a queue become one segment, however many publishes they came with, unless it grows too large; what is
settled before the batch is sent is never written; marks are written once. All of it costs by run, not by message.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec

from triomq.store.body import BodyRun, encode_body, gaps_of
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
"""Octets from which on a queue gets another segment: a body is read as a whole, and smaller ones cost more."""


class _Run(msgspec.Struct, gc=False):
    first: int
    head: bytes
    contents: Sequence[bytes]
    size: int

    @property
    def stop(self) -> int:
        return self.first + len(self.contents)

    def is_within(self, ranges: Sequence[Range]) -> bool:
        """Tell whether one of some ranges has all of it; they are sorted and apart."""
        found = _touching(ranges, self.first, self.stop)
        return bool(found) and found[0][0] <= self.first and self.stop <= found[0][0] + found[0][1]


class _Segment(msgspec.Struct):
    """A segment in the making: runs whose ids ascend, perhaps with gaps."""

    queue: int
    runs: list[_Run]
    octets: int

    @property
    def first(self) -> int:
        return self.runs[0].first

    @property
    def stop(self) -> int:
        return self.runs[-1].stop

    def spans(self, each: Range) -> bool:
        return self.first <= each[0] and each[0] + each[1] <= self.stop

    def finish(self, ranges: Sequence[Range]) -> MessagesAppended | None:
        """Make the operation, of what is not settled by now; None if that is nothing.

        Args:
            ranges: What is settled, sorted and apart.
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
            body=encode_body(body),
            settled=gaps_of(body, first, count) + _touching(ranges, first, stop),
        )


class BatchBuilder:
    """The next batch in the making; made by the journal, ends when the batch is sent. ``octets`` is about its size."""

    __slots__ = ("_delivered", "_open", "_operations", "_settled", "octets")

    def __init__(self) -> None:
        self._operations: list[Operation | _Segment] = []
        self._open: dict[int, _Segment] = {}
        self._settled: dict[int, list[Range]] = {}
        self._delivered: dict[tuple[int, int], int] = {}
        self.octets = 0

    def __bool__(self) -> bool:
        """Tell whether there is anything to send."""
        return bool(self._operations or self._settled or self._delivered)

    def append(self, queue: int, first: int, head: bytes, contents: Sequence[bytes], size: int) -> None:
        """Keep messages with ids in a row, above all of the queue so far; ``contents`` must not change any more."""
        run = _Run(first, head, contents, size)
        octets = sum(map(len, contents))
        self.octets += octets
        segment = self._open.get(queue)
        if segment is None or segment.octets >= _SEGMENT:
            segment = self._open[queue] = _Segment(queue, [run], octets)
            self._operations.append(segment)
        else:
            segment.runs.append(run)
            segment.octets += octets

    def cut(self, queue: int) -> None:
        """Let messages that are appended from now on begin another segment."""
        self._open.pop(queue, None)

    def settle(self, queue: int, first: int, count: int) -> None:
        """Forget messages with ids in a row."""
        ranges = self._settled.setdefault(queue, [])
        if ranges and ranges[-1][0] + ranges[-1][1] == first:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + count)
        else:
            ranges.append((first, count))

    def delivered(self, queue: int, level: int, up_to: int) -> None:
        """Mark messages of a level as delivered."""
        if up_to > self._delivered.get((queue, level), 0):
            self._delivered[queue, level] = up_to

    def add(self, operation: Operation) -> None:
        """Do anything else, in the order in which it is added."""
        if isinstance(operation, QueueDeleted):
            self._forget(operation.queue)
        self.octets += len(getattr(operation, "body", b""))
        self._operations.append(operation)

    def _forget(self, queue: int) -> None:
        """Leave out what was to be done to a queue that is going."""
        if self._open.pop(queue, None) is not None:
            self._operations = [
                each for each in self._operations if not (isinstance(each, _Segment) and each.queue == queue)
            ]
        self._settled.pop(queue, None)
        for key in [key for key in self._delivered if key[0] == queue]:
            del self._delivered[key]

    def settles(self) -> list[MessagesSettled]:
        """Give what is settled, if nothing else is to be done that it may belong to."""
        if self._operations:
            return []
        return [MessagesSettled(queue, _merged(ranges)) for queue, ranges in self._settled.items()]

    def batch(self, number: int) -> OperationBatch:
        """Make the batch."""
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
            if segment.queue in settled:
                settled[segment.queue] = [each for each in settled[segment.queue] if not segment.spans(each)]
        operations += [MessagesSettled(queue, ranges) for queue, ranges in settled.items() if ranges]
        return OperationBatch(number, operations)


def _touching(ranges: Sequence[Range], first: int, stop: int) -> list[Range]:
    """Give those of some ranges, sorted and apart, that have an id in common with others in a row."""
    low = bisect_left(ranges, (first,))
    if low and ranges[low - 1][0] + ranges[low - 1][1] > first:
        low -= 1
    return list(ranges[low : bisect_left(ranges, (stop,))])


def _merged(ranges: Iterable[Range]) -> list[Range]:
    """Sort ranges, and make one of those that touch."""
    merged: list[Range] = []
    for first, count in sorted(ranges):
        if merged and first <= merged[-1][0] + merged[-1][1]:
            start, length = merged[-1]
            merged[-1] = (start, max(length, first + count - start))
        else:
            merged.append((first, count))
    return merged
