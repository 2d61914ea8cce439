"""A store in memory, the model that the real one is held against."""

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter

import msgspec

from triomq.store.gathered import joined
from triomq.store.interface import StoreStatistics
from triomq.store.operations import (
    READ_SINGLY,
    AttemptsCounted,
    ChunkAppended,
    ChunksDropped,
    ChunksMerged,
    DelayedDropped,
    MessagesAppended,
    MessagesDelayed,
    MessagesDelivered,
    MessagesSettled,
    MessagesSpilled,
    Operation,
    OperationBatch,
    QueueDeclared,
    QueueDeleted,
    Range,
    RecordPut,
    RecordRangeRemoved,
    RecordRemoved,
    SpilledDropped,
)
from triomq.store.reading import ChunksRead, Reading, SegmentRead, collect
from triomq.store.recovered import (
    AttemptsFound,
    ChunkFound,
    DelayedFound,
    DeliveredFound,
    Piece,
    QueueFound,
    RecordFound,
    RecordKeyFound,
    SegmentFound,
    TotalsFound,
)
from triomq.store.tables import bitmap_of, bits_of


class _Segment(msgspec.Struct):
    count: int
    size: int
    body: bytes
    settled: int = 0

    @property
    def left(self) -> int:
        return self.count - self.settled.bit_count()


class _Queue(msgspec.Struct):
    key: bytes
    value: bytes
    next_id: int = 1
    segments: dict[int, _Segment] = {}
    chunks: dict[int, ChunkAppended] = {}
    delayed: dict[int, MessagesDelayed] = {}
    delivered: dict[int, int] = {}
    attempts: dict[int, int] = {}


_NONE = _Queue(b"", b"")


class MemoryStore:
    """A store in memory; made by whoever needs one, ends with its last reference."""

    def __init__(self) -> None:
        """Start empty."""
        self.committed = 0
        self._records: dict[tuple[int, bytes], bytes] = {}
        self._queues: dict[int, _Queue] = {}
        self._spilled: dict[int, dict[int, _Segment]] = {}  # by queue, declared or not

    def commit(self, batches: Sequence[OperationBatch]) -> int:
        """Keep batches; the base says more."""
        for batch in batches:
            if batch.number > self.committed:
                for operation in batch.operations:
                    _APPLY[type(operation)](self, operation)
                self.committed = batch.number
        return self.committed

    def _queue(self, number: int) -> _Queue:
        if number not in self._queues:
            raise ValueError(f"queue {number} is not declared")
        return self._queues[number]

    def _put(self, operation: RecordPut) -> None:
        self._records[operation.kind, operation.key] = operation.value

    def _remove(self, operation: RecordRemoved) -> None:
        self._records.pop((operation.kind, operation.key), None)

    def _remove_range(self, operation: RecordRangeRemoved) -> None:
        for kind, key in list(self._records):
            if kind == operation.kind and operation.first <= key < operation.stop:
                del self._records[kind, key]

    def _declare_queue(self, operation: QueueDeclared) -> None:
        existing = self._queues.get(operation.queue)
        if existing is None:
            self._queues[operation.queue] = _Queue(operation.key, operation.value)
        else:
            existing.key, existing.value = operation.key, operation.value

    def _delete_queue(self, operation: QueueDeleted) -> None:
        self._queues.pop(operation.queue, None)
        self._spilled.pop(operation.queue, None)

    def _append(self, operation: MessagesAppended) -> None:
        queue, first, count = self._queue(operation.queue), operation.first, operation.count
        if first < queue.next_id:
            raise ValueError(f"queue {operation.queue} has had the id {first} already; the next is {queue.next_id}")
        queue.next_id = first + count
        _insert(queue.segments, operation, operation.size)

    def _spill(self, operation: MessagesSpilled) -> None:
        _insert(self._spilled.setdefault(operation.queue, {}), operation, len(operation.body))

    def _settle(self, operation: MessagesSettled) -> None:
        queue = self._queues.get(operation.queue)
        if queue is None:
            return
        _settle_in(queue.segments, operation.ranges)
        for start, length in operation.ranges:
            for number in [number for number in queue.attempts if start <= number < start + length]:
                del queue.attempts[number]

    def _unspill(self, operation: SpilledDropped) -> None:
        _settle_in(self._spilled.get(operation.queue, {}), operation.ranges)

    def _delivered(self, operation: MessagesDelivered) -> None:
        if operation.queue in self._queues:
            marks = self._queues[operation.queue].delivered
            marks[operation.level] = max(marks.get(operation.level, 0), operation.up_to)

    def _attempts(self, operation: AttemptsCounted) -> None:
        if operation.queue in self._queues:
            self._queues[operation.queue].attempts[operation.id] = operation.count

    def _delay(self, operation: MessagesDelayed) -> None:
        delayed = self._queue(operation.queue).delayed
        if operation.number in delayed:
            raise ValueError(f"queue {operation.queue} has delayed messages with number {operation.number} already")
        delayed[operation.number] = operation

    def _drop(self, operation: DelayedDropped) -> None:
        if operation.queue in self._queues:
            for number in operation.numbers:
                self._queues[operation.queue].delayed.pop(number, None)

    def _append_chunk(self, operation: ChunkAppended) -> None:
        queue = self._queue(operation.queue)
        if operation.first + 1 < queue.next_id:
            raise ValueError(f"stream {operation.queue} has had the offset {operation.first} already")
        queue.next_id = operation.first + 1 + operation.count
        queue.chunks[operation.first] = operation

    def _drop_chunks(self, operation: ChunksDropped) -> None:
        if operation.queue in self._queues:
            chunks = self._queues[operation.queue].chunks
            for first in [first for first, each in chunks.items() if first + each.count <= operation.stop]:
                del chunks[first]

    def _merge_chunks(self, operation: ChunksMerged) -> None:
        """Change nothing: it cannot be seen but in the number of chunks."""

    def read_chunks(self, queue: int, first: int, stop: int, max_bytes: int, since: int = 0) -> ChunksRead:
        """Give whole chunks of a stream; the base says more."""
        found, size = [], 0
        for start, each in sorted(self._queues.get(queue, _NONE).chunks.items()):
            if start < stop and first < start + each.count and each.time >= since:
                found.append(bytes(joined(each.body)))
                size += len(each.body)
                if size >= max_bytes:
                    return ChunksRead(found, min(stop, start + each.count))
        return ChunksRead(found, stop)

    def read(self, queue: int, first: int, stop: int, max_bytes: int) -> Reading:
        """Give the segments that hold ids of a range; the base says more."""
        kept, put_out = self._queues.get(queue, _NONE).segments, self._spilled.get(queue, {})
        segments = [
            SegmentRead(start, segment.count, bitmap_of(segment.settled), segment.body, spilled)
            for spilled, place in ((False, kept), (True, put_out))
            for start, segment in place.items()
            if start < stop and first < start + segment.count
        ]
        return collect(sorted(segments, key=attrgetter("first")), stop, max_bytes)

    def read_delayed(self, queue: int, numbers: Sequence[int]) -> list[bytes | None]:
        """Give the bodies of delayed messages."""
        delayed = self._queues.get(queue, _NONE).delayed
        return [bytes(joined(delayed[number].body)) if number in delayed else None for number in numbers]

    def read_record(self, kind: int, key: bytes) -> bytes | None:
        """Give the value of a record."""
        return self._records.get((kind, key))

    def forget_spilled(self) -> None:
        """Forget what was only out of memory, as a store does that a broker opens."""
        self._spilled.clear()

    def recover(self, *, segments: bool = True) -> Iterator[Piece]:
        """Go through all that is kept, bodies apart; the base says more."""
        records = sorted(self._records.items())
        yield from (RecordFound(kind, key, value) for (kind, key), value in records if kind not in READ_SINGLY)
        yield from (RecordKeyFound(kind, key, len(value)) for (kind, key), value in records if kind in READ_SINGLY)
        for number, queue in sorted(self._queues.items()):
            yield QueueFound(number, queue.key, queue.value, queue.next_id)
            if segments:
                for first, segment in sorted(queue.segments.items()):
                    settled = bitmap_of(segment.settled)
                    yield SegmentFound(number, first, segment.count, segment.left, segment.size, settled)
            elif queue.segments:
                held = queue.segments.values()
                size = sum(segment.size * segment.left // segment.count for segment in held)
                yield TotalsFound(number, sum(segment.left for segment in held), size)
            for first, chunk in sorted(queue.chunks.items()):
                yield ChunkFound(number, first, chunk.count, len(chunk.body), chunk.time)
            for delay in sorted(queue.delayed.values(), key=lambda delay: delay.number):
                yield DelayedFound(number, delay.number, delay.due, delay.count, delay.size)
            for level, up_to in sorted(queue.delivered.items()):
                yield DeliveredFound(number, level, up_to)
            for identity, count in sorted(queue.attempts.items()):
                yield AttemptsFound(number, identity, count)

    def statistics(self) -> StoreStatistics:
        """Take a snapshot."""
        messages = sum(
            sum(segment.left for segment in queue.segments.values())
            + sum(chunk.count for chunk in queue.chunks.values())
            + sum(delay.count for delay in queue.delayed.values())
            for queue in self._queues.values()
        )
        return StoreStatistics(self.committed, len(self._queues), messages, len(self._records), 0)

    def close(self) -> None:
        """End; what is in it stays until it is forgotten."""


def _insert(segments: dict[int, _Segment], operation: MessagesAppended | MessagesSpilled, size: int) -> None:
    segment = _Segment(operation.count, size, bytes(joined(operation.body)))
    segment.settled = bits_of(operation.first, operation.count, operation.settled)
    if segment.left:
        segments[operation.first] = segment


def _settle_in(segments: dict[int, _Segment], ranges: Sequence[Range]) -> None:
    for first, segment in list(segments.items()):
        segment.settled |= bits_of(first, segment.count, ranges)
        if not segment.left:
            del segments[first]


_APPLY: dict[type[Operation], Callable[..., None]] = {
    RecordPut: MemoryStore._put,
    RecordRemoved: MemoryStore._remove,
    RecordRangeRemoved: MemoryStore._remove_range,
    QueueDeclared: MemoryStore._declare_queue,
    QueueDeleted: MemoryStore._delete_queue,
    MessagesAppended: MemoryStore._append,
    MessagesSettled: MemoryStore._settle,
    ChunkAppended: MemoryStore._append_chunk,
    ChunksDropped: MemoryStore._drop_chunks,
    ChunksMerged: MemoryStore._merge_chunks,
    MessagesDelivered: MemoryStore._delivered,
    AttemptsCounted: MemoryStore._attempts,
    MessagesDelayed: MemoryStore._delay,
    DelayedDropped: MemoryStore._drop,
    MessagesSpilled: MemoryStore._spill,
    SpilledDropped: MemoryStore._unspill,
}
