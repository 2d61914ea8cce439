"""Any batches that a core could make, for Hypothesis."""

from hypothesis import strategies as st

from triomq.chunks import RecordRun, encode_chunk
from triomq.store import (
    AttemptsCounted,
    BodyRun,
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
    RecordKind,
    RecordPut,
    RecordRangeRemoved,
    RecordRemoved,
    SpilledDropped,
    encode_body,
)

QUEUES = (1, 2, 3)
KINDS = st.sampled_from([RecordKind.SINK, RecordKind.BINDING, RecordKind.RESULT])


class Author:
    """Draws operations that make sense: ids grow, and what is appended to was declared."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._next: dict[int, int] = {}
        self._delayed = 0
        self.number = 0

    def batch(self) -> OperationBatch:
        self.number += 1
        count = self._draw(st.integers(0, 6))
        return OperationBatch(self.number, [self._operation() for _ in range(count)])

    def _operation(self) -> Operation:
        queue = self._draw(st.sampled_from(QUEUES))
        if queue not in self._next:
            self._next[queue] = 1
            return QueueDeclared(queue, b"q%d" % queue, self._draw(st.binary(max_size=3)))
        return self._draw(st.sampled_from(_MAKERS))(self, queue)

    def _body(self, count: int) -> bytes:
        length = self._draw(st.sampled_from((0, 5, 40_000)))
        return encode_body([BodyRun(0, b"head", [bytes([position]) * length for position in range(count)])])

    def _ids(self, queue: int, count: int) -> int:
        first = self._next[queue] + self._draw(st.integers(0, 2))
        self._next[queue] = first + count
        return first

    def _ranges(self, queue: int) -> list[Range]:
        ids = st.integers(1, max(1, self._next[queue] - 1))
        counts = st.one_of(st.integers(1, 4), st.just(20_000))
        return self._draw(st.lists(st.tuples(ids, counts), min_size=1, max_size=4))

    def append(self, queue: int) -> Operation:
        count = self._draw(st.integers(1, 9))
        first = self._ids(queue, count)
        settled = self._draw(st.lists(st.tuples(st.integers(first, first + count - 1), st.integers(1, 9)), max_size=2))
        body = self._body(count)
        return MessagesAppended(queue=queue, first=first, count=count, size=len(body), body=body, settled=settled)

    def spill(self, queue: int) -> Operation:
        count = self._draw(st.integers(1, 3))
        return MessagesSpilled(queue=queue, first=self._ids(queue, count), count=count, body=self._body(count))

    def settle(self, queue: int) -> Operation:
        return MessagesSettled(queue, self._ranges(queue))

    def unspill(self, queue: int) -> Operation:
        return SpilledDropped(queue, self._ranges(queue))

    def put(self, queue: int) -> Operation:
        return RecordPut(self._draw(KINDS), self._draw(st.binary(max_size=1)), self._draw(st.binary(max_size=3)))

    def remove(self, queue: int) -> Operation:
        return RecordRemoved(self._draw(KINDS), self._draw(st.binary(max_size=1)))

    def remove_range(self, queue: int) -> Operation:
        keys = st.binary(max_size=1)
        return RecordRangeRemoved(self._draw(KINDS), self._draw(keys), self._draw(keys))

    def redeclare(self, queue: int) -> Operation:
        return QueueDeclared(queue, b"again", self._draw(st.binary(max_size=3)))

    def delete(self, queue: int) -> Operation:
        del self._next[queue]
        return QueueDeleted(queue)

    def delivered(self, queue: int) -> Operation:
        return MessagesDelivered(queue, self._draw(st.integers(0, 1)), self._draw(st.integers(0, 30)))

    def attempts(self, queue: int) -> Operation:
        return AttemptsCounted(queue, self._draw(st.integers(1, 30)), self._draw(st.integers(1, 3)))

    def append_chunk(self, queue: int) -> Operation:
        count = self._draw(st.integers(1, 9))
        first, size = self._ids(queue, count) - 1, self._draw(st.sampled_from((1, 5, 40_000)))
        body = encode_chunk(first, first, [RecordRun(0, b"s", b"k", b"p", [bytes(size)] * count)])
        return ChunkAppended(queue=queue, first=first, count=count, time=first, body=body)

    def drop_chunks(self, queue: int) -> Operation:
        return ChunksDropped(queue, self._draw(st.integers(0, self._next[queue])))

    def merge_chunks(self, queue: int) -> Operation:
        return ChunksMerged(queue, self._draw(st.integers(0, 9)), self._draw(st.integers(0, self._next[queue])))

    def delay(self, queue: int) -> Operation:
        self._delayed += 1
        count = self._draw(st.integers(1, 3))
        body = self._body(count)
        return MessagesDelayed(queue=queue, number=self._delayed, due=1.5, count=count, size=len(body), body=body)

    def drop(self, queue: int) -> Operation:
        return DelayedDropped(queue, [self._draw(st.integers(1, max(1, self._delayed)))])


_MAKERS = (
    *[Author.append] * 6,
    *[Author.settle] * 4,
    Author.spill,
    Author.unspill,
    Author.put,
    Author.remove,
    Author.remove_range,
    Author.redeclare,
    Author.delete,
    Author.delivered,
    Author.attempts,
    Author.delay,
    Author.drop,
    *[Author.append_chunk] * 2,
    Author.drop_chunks,
    Author.merge_chunks,
)


@st.composite
def batches(draw: st.DrawFn, *, most: int = 12) -> list[OperationBatch]:
    author = Author(draw)
    return [author.batch() for _ in range(draw(st.integers(1, most)))]
