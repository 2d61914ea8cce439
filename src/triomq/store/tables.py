"""The tables of one file: each operation of a batch as SQL statements.

Settling is what costs, so it is done by segment and not by message: all ranges of an operation go over a queue's
segments once, in order, and each segment that they touch is updated once (a bitmap) or deleted. A range of ``_WHOLE``
ids or more is a purge: the segments within it are deleted by one statement. Bodies are never rewritten.

The counts ``stored`` and ``settled`` of a queue are updated in the same transaction, so that after damage the number of
missing messages is known, even where the rows that had them cannot be read.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence

from triomq.errors import StoreCorrupt
from triomq.store.body import checksum
from triomq.store.chunk_rows import ChunkRow, Merger, find_chunks, merged_chunk
from triomq.store.faults import is_damage
from triomq.store.gathered import Octets, joined
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
    QueueDeclared,
    QueueDeleted,
    Range,
    RecordPut,
    RecordRangeRemoved,
    RecordRemoved,
    SpilledDropped,
)
from triomq.store.reading import Damaged
from triomq.store.recovered import (
    AttemptsFound,
    DelayedFound,
    DeliveredFound,
    Piece,
    QueueFound,
    RecordFound,
    RecordKeyFound,
    SegmentFound,
    TotalsFound,
)
from triomq.store.segments import is_damaged, segment_rows

_LAST_ID = 1 << 62
"""Above all ids."""

_WHOLE = 10_000
"""Ids in a range from which on segments are deleted by one statement, not one by one."""

_SegmentRow = tuple[int, int, int, bytes]  # first, count, unsettled, settled
_COLUMNS = "SELECT first, count, unsettled, settled FROM segment WHERE queue = ? "


class Tables:
    """Applies operations to one file; created by the store that owns the connection and its transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.careful: sqlite3.Connection | None = None
        """Once a damaged body is known: a reading connection that checks bodies before they are deleted."""
        self._connection = connection
        self._execute = connection.execute
        self.merger = Merger(connection)
        # Queues that may have rows in the table attempts, so that settling in all others skips that table.
        self._counted = {queue for (queue,) in self._execute("SELECT DISTINCT queue FROM attempts")}

    def apply(self, operation: Operation, batch: int) -> None:
        """Apply one operation of the batch with this number.

        Raises:
            ValueError: The operation cannot be applied: the queue was not declared, or the id is taken.
        """
        _APPLY[type(operation)](self, operation, batch)

    # Records

    def _put(self, operation: RecordPut, batch: int) -> None:
        self._execute(
            "INSERT OR REPLACE INTO record VALUES (?, ?, ?)", (operation.kind, operation.key, operation.value)
        )

    def _remove(self, operation: RecordRemoved, batch: int) -> None:
        self._execute("DELETE FROM record WHERE kind = ? AND key = ?", (operation.kind, operation.key))

    def _remove_range(self, operation: RecordRangeRemoved, batch: int) -> None:
        self._execute(
            "DELETE FROM record WHERE kind = ? AND key >= ? AND key < ?",
            (operation.kind, operation.first, operation.stop),
        )

    def _declare_queue(self, operation: QueueDeclared, batch: int) -> None:
        self._execute(
            "INSERT INTO queue (queue, key, value) VALUES (?, ?, ?)"
            " ON CONFLICT (queue) DO UPDATE SET key = excluded.key, value = excluded.value",
            (operation.queue, operation.key, operation.value),
        )

    def _delete_queue(self, operation: QueueDeleted, batch: int) -> None:
        queue = (operation.queue,)
        for table in ("segment", "delayed", "chunk"):
            self._delete_bodies(table, "queue = ?", queue)
        for table in ("segment", "delayed", "chunk", "delivered", "attempts", "queue"):
            self._execute(f"DELETE FROM {table} WHERE queue = ?", queue)

    # Messages

    def _append(self, operation: MessagesAppended, batch: int) -> None:
        queue, first, count = operation.queue, operation.first, operation.count
        settled = bits_of(first, count, operation.settled)
        done = self._execute(
            "UPDATE queue SET next_id = ?, stored = stored + ?, settled = settled + ? WHERE queue = ? AND next_id <= ?",
            (first + count, count, settled.bit_count(), queue, first),
        )
        if not done.rowcount:
            raise ValueError(f"queue {queue} is not declared, or has had the id {first} already")
        self._insert(operation, operation.size, settled, batch)

    def _spill(self, operation: MessagesSpilled, batch: int) -> None:
        settled = bits_of(operation.first, operation.count, operation.settled)
        self._insert(operation, len(operation.body), settled, batch)

    def _insert(self, segment: MessagesAppended | MessagesSpilled, size: int, settled: int, batch: int) -> None:
        """Write a segment, unless all of it is settled."""
        queue, first, count = segment.queue, segment.first, segment.count
        if left := count - settled.bit_count():
            row = (
                queue,
                first,
                count,
                left,
                size,
                bitmap_of(settled),
                self._insert_body(segment.body, queue, first, count),
                batch,
            )
            self._execute("INSERT INTO segment VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def _insert_body(self, body: Octets, queue: int, number: int, count: int, *, is_delayed: bool = False) -> int:
        data = joined(body)
        row = (checksum(data, queue, number, count), data, queue, 0 if is_delayed else number, count)
        done = self._execute(
            "INSERT INTO body (checksum, octets, of_queue, of_first, of_count) VALUES (?, ?, ?, ?, ?)", row
        )
        assert done.lastrowid is not None
        return done.lastrowid

    def _unspill(self, operation: SpilledDropped, batch: int) -> None:
        self._settle_ranges(operation.queue, operation.ranges)

    def _settle(self, operation: MessagesSettled, batch: int) -> None:
        queue = operation.queue
        settled = self._settle_ranges(queue, operation.ranges)
        if settled:
            self._execute("UPDATE queue SET settled = settled + ? WHERE queue = ?", (settled, queue))
        if queue in self._counted:
            for first, count in operation.ranges:
                self._execute(
                    "DELETE FROM attempts WHERE queue = ? AND id BETWEEN ? AND ?", (queue, first, first + count - 1)
                )

    def _settle_ranges(self, queue: int, ranges: Sequence[Range]) -> int:
        """Settle the messages in ranges; return their number."""
        whole = sum(self._settle_whole(queue, *each) for each in ranges if each[1] >= _WHOLE)
        return whole + self._settle_each(queue, ranges)

    def _settle_whole(self, queue: int, first: int, count: int) -> int:
        """Delete the segments that lie within a range; return how many unsettled messages they had."""
        where = "queue = ? AND first BETWEEN ? AND ? AND first + count <= ?"
        values = (queue, first, first + count - 1, first + count)
        (settled,) = self._execute(f"SELECT coalesce(sum(unsettled), 0) FROM segment WHERE {where}", values).fetchone()
        self._delete_bodies("segment", where, values)
        self._execute(f"DELETE FROM segment WHERE {where}", values)
        return int(settled)

    def _settle_each(self, queue: int, ranges: Sequence[Range]) -> int:
        """Settle messages segment by segment, each updated once; return how many were settled."""
        total, position, waiting = 0, 0, sorted(ranges)
        while waiting:
            found = self._segment_from(queue, max(position, waiting[0][0]))
            if found is None:
                break
            first, count, unsettled, settled = found
            position = first + count
            before = int.from_bytes(settled, "little")
            bits = before | bits_of(first, count, _starting_before(waiting, position))
            if bits != before:
                left = count - bits.bit_count()
                total += unsettled - left
                self._update_segment(queue, first, left, bits)
            while waiting and waiting[0][0] + waiting[0][1] <= position:
                del waiting[0]
        return total

    def _segment_from(self, queue: int, first: int) -> _SegmentRow | None:
        """Return the segment that has this id, else the next one behind it."""
        row: _SegmentRow | None = self._execute(
            _COLUMNS + "AND first <= ? ORDER BY first DESC LIMIT 1", (queue, first)
        ).fetchone()
        if row is None or row[0] + row[1] <= first:
            row = self._execute(_COLUMNS + "AND first > ? ORDER BY first LIMIT 1", (queue, first)).fetchone()
        if row is not None and not (isinstance(row[3], bytes) and all(isinstance(row[i], int) for i in (0, 1, 2))):
            raise StoreCorrupt(f"the record of messages from id {row[0]} on of queue {queue} has been changed on disk")
        return row

    def _update_segment(self, queue: int, first: int, left: int, bits: int) -> None:
        if left:
            self._execute(
                "UPDATE segment SET unsettled = ?, settled = ? WHERE queue = ? AND first = ?",
                (left, bitmap_of(bits), queue, first),
            )
        else:
            self._delete_bodies("segment", "queue = ? AND first = ?", (queue, first))
            self._execute("DELETE FROM segment WHERE queue = ? AND first = ?", (queue, first))

    def _delete_bodies(self, table: str, where: str, values: Sequence[object]) -> None:
        """Delete the bodies of rows; while ``careful`` is set, except damaged ones.

        A damaged body may lead to pages of others, which SQLite would free with it. One that stays only takes room.
        """
        if self.careful is None:
            self._execute(f"DELETE FROM body WHERE body IN (SELECT body FROM {table} WHERE {where})", values)
            return
        number = "number" if table == "delayed" else "first"
        rows = self._execute(f"SELECT body, queue, {number}, count FROM {table} WHERE {where}", values).fetchall()
        # A connection that has met damage while it writes deletes nothing any more, so another one checks.
        whole = [(body,) for body, *key in rows if not is_damaged(self.careful, body, *key)]
        self._connection.executemany("DELETE FROM body WHERE body = ?", whole)

    # Streams

    def _append_chunk(self, operation: ChunkAppended, batch: int) -> None:
        queue, first, count, time = operation.queue, operation.first, operation.count, operation.time
        next_id = first + 1  # ids begin at 1, offsets at 0
        done = self._execute(
            "UPDATE queue SET next_id = ?, stored = stored + ? WHERE queue = ? AND next_id <= ?",
            (next_id + count, count, queue, next_id),
        )
        if not done.rowcount:
            raise ValueError(f"stream {queue} is not declared, or has had the offset {first} already")
        self._insert_chunk(operation.body, queue, first, count, time)

    def _insert_chunk(self, body: Octets, queue: int, first: int, count: int, time: int) -> None:
        row = (queue, first, count, len(body), time, self._insert_body(body, queue, first, count))
        self._execute("INSERT INTO chunk VALUES (?, ?, ?, ?, ?, ?)", row)

    def _drop_chunks(self, operation: ChunksDropped, batch: int) -> None:
        where, values = "queue = ? AND first + count <= ?", (operation.queue, operation.stop)
        self._execute(
            f"UPDATE queue SET settled = settled + (SELECT coalesce(sum(count), 0) FROM chunk WHERE {where})"
            " WHERE queue = ?",
            (*values, operation.queue),
        )
        self._delete_bodies("chunk", where, values)
        self._execute(f"DELETE FROM chunk WHERE {where}", values)

    def _merge_chunks(self, operation: ChunksMerged, batch: int) -> None:
        self.merger.add(operation)

    def merge_rows(self, queue: int, rows: Sequence[ChunkRow]) -> bool:
        """Replace neighbouring chunks of a stream by one; return whether none of them is damaged."""
        merged = merged_chunk(self._connection, queue, rows)
        if merged is None:
            return False
        self._connection.executemany("DELETE FROM body WHERE body = ?", [(row[4],) for row in rows])
        first, stop, time = rows[0][0], rows[-1][0] + rows[-1][1], rows[-1][3]
        self._execute("DELETE FROM chunk WHERE queue = ? AND first >= ? AND first < ?", (queue, first, stop))
        self._insert_chunk(merged, queue, first, stop - first, time)
        return True

    # Marks

    def _delivered(self, operation: MessagesDelivered, batch: int) -> None:
        self._execute(
            "INSERT INTO delivered SELECT ?, ?, ? WHERE EXISTS (SELECT 1 FROM queue WHERE queue = ?)"
            " ON CONFLICT DO UPDATE SET up_to = max(up_to, excluded.up_to)",
            (operation.queue, operation.level, operation.up_to, operation.queue),
        )

    def _attempts(self, operation: AttemptsCounted, batch: int) -> None:
        self._counted.add(operation.queue)
        self._execute(
            "INSERT OR REPLACE INTO attempts SELECT ?, ?, ? WHERE EXISTS (SELECT 1 FROM queue WHERE queue = ?)",
            (operation.queue, operation.id, operation.count, operation.queue),
        )

    # Delayed messages

    def _delay(self, operation: MessagesDelayed, batch: int) -> None:
        queue, number = operation.queue, operation.number
        present = self._execute(
            "SELECT 1 FROM queue WHERE queue = ? AND NOT EXISTS"
            " (SELECT 1 FROM delayed WHERE delayed.queue = queue.queue AND number = ?)",
            (queue, number),
        ).fetchone()
        if not present:
            raise ValueError(f"queue {queue} is not declared, or has delayed messages with number {number} already")
        row = (queue, number, operation.due, operation.count, operation.size)
        body = self._insert_body(operation.body, queue, number, operation.count, is_delayed=True)
        self._execute("INSERT INTO delayed VALUES (?, ?, ?, ?, ?, ?)", (*row, body))

    def _drop(self, operation: DelayedDropped, batch: int) -> None:
        for number in operation.numbers:
            key = (operation.queue, number)
            self._delete_bodies("delayed", "queue = ? AND number = ?", key)
            self._execute("DELETE FROM delayed WHERE queue = ? AND number = ?", key)

    # Reading

    def recover(self, *, segments: bool) -> Iterator[Piece]:
        """Yield everything in the file except bodies; with segments, or with the totals of each queue."""
        yield from self._records()
        queues = self._execute("SELECT queue, key, value, next_id FROM queue ORDER BY queue").fetchall()
        for found in queues:
            yield QueueFound(*found)
            queue = found[:1]
            chunks = find_chunks(self._connection, *queue)
            yield from (
                self._segments(*queue) if segments else self._totals(found[0], sum(each.count for each in chunks))
            )
            yield from chunks
            for row in self._execute(
                "SELECT queue, number, due, count, size FROM delayed WHERE queue = ? ORDER BY number", queue
            ):
                yield DelayedFound(*row)
            for row in self._execute("SELECT * FROM delivered WHERE queue = ? ORDER BY level", queue):
                yield DeliveredFound(*row)
            for row in self._execute("SELECT * FROM attempts WHERE queue = ? ORDER BY id", queue):
                yield AttemptsFound(*row)

    def _records(self) -> Iterator[Piece]:
        singly = ", ".join(str(int(kind)) for kind in sorted(READ_SINGLY))
        for row in self._execute(
            f"SELECT kind, key, value FROM record WHERE kind NOT IN ({singly}) ORDER BY kind, key"
        ):
            yield RecordFound(*row)
        for row in self._execute(
            f"SELECT kind, key, length(value) FROM record WHERE kind IN ({singly}) ORDER BY kind, key"
        ):
            yield RecordKeyFound(*row)

    def _segments(self, queue: int) -> Iterator[Piece]:
        for row in self._execute(
            "SELECT queue, first, count, unsettled, size, settled FROM segment WHERE queue = ? ORDER BY first", (queue,)
        ):
            yield SegmentFound(*row)

    def _totals(self, queue: int, records: int) -> Iterator[Piece]:
        try:
            count, size = self._execute(
                "SELECT sum(unsettled), sum(size * unsettled / count) FROM segment WHERE queue = ?", (queue,)
            ).fetchone()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            count, size = self._totals_around_damage(queue)
        (expected,) = self._execute("SELECT stored - settled FROM queue WHERE queue = ?", (queue,)).fetchone()
        if count or expected > records:
            yield TotalsFound(queue, count or 0, size or 0, max(0, expected - records - (count or 0)))

    def _totals_around_damage(self, queue: int) -> tuple[int, int]:
        rows = [row for row in segment_rows(self._connection, queue, 0, _LAST_ID) if not isinstance(row, Damaged)]
        return sum(row[2] for row in rows), sum(row[3] * row[2] // row[1] for row in rows)

    def count(self) -> tuple[int, int, int]:
        """Return the number of queues, of messages with the delayed ones, and of records."""
        (queues,) = self._execute("SELECT count(*) FROM queue").fetchone()
        (messages,) = self._execute("SELECT coalesce(sum(unsettled), 0) FROM segment").fetchone()
        (in_streams,) = self._execute("SELECT coalesce(sum(count), 0) FROM chunk").fetchone()
        (delayed,) = self._execute("SELECT coalesce(sum(count), 0) FROM delayed").fetchone()
        (records,) = self._execute("SELECT count(*) FROM record").fetchone()
        return int(queues), int(messages) + int(in_streams) + int(delayed), int(records)


def _starting_before(ranges: Sequence[Range], position: int) -> Iterator[Range]:
    """Yield the ranges that begin before an id; ranges are sorted."""
    for each in ranges:
        if each[0] >= position:
            return
        yield each


def bits_of(first: int, count: int, ranges: Iterable[Range]) -> int:
    """Return the bitmap of a segment's messages whose ids are in ranges: bit *n* is the message at position *n*."""
    bits = 0
    for start, length in ranges:
        low, high = max(start, first) - first, min(start + length, first + count) - first
        if low < high:
            bits |= (1 << high) - (1 << low)
    return bits


def bitmap_of(bits: int) -> bytes:
    """Return a bitmap as it is stored; empty if no bit is set."""
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


_APPLY: dict[type[Operation], Callable[..., None]] = {
    RecordPut: Tables._put,
    RecordRemoved: Tables._remove,
    RecordRangeRemoved: Tables._remove_range,
    QueueDeclared: Tables._declare_queue,
    QueueDeleted: Tables._delete_queue,
    MessagesAppended: Tables._append,
    MessagesSettled: Tables._settle,
    MessagesDelivered: Tables._delivered,
    AttemptsCounted: Tables._attempts,
    MessagesDelayed: Tables._delay,
    DelayedDropped: Tables._drop,
    MessagesSpilled: Tables._spill,
    SpilledDropped: Tables._unspill,
    ChunkAppended: Tables._append_chunk,
    ChunksDropped: Tables._drop_chunks,
    ChunksMerged: Tables._merge_chunks,
}
