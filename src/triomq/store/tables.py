"""The tables of one file: each operation as statements."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from triomq.errors import StoreCorrupt
from triomq.store.body import checksum
from triomq.store.operations import (
    Append,
    Attempts,
    DeclareQueue,
    Delay,
    DeleteQueue,
    Delivered,
    Drop,
    Operation,
    Put,
    Range,
    Remove,
    Settle,
    Spill,
    Unspill,
)
from triomq.store.reading import SegmentRead
from triomq.store.recovered import (
    AttemptsFound,
    DelayedFound,
    DeliveredFound,
    HeldFound,
    Piece,
    QueueFound,
    RecordFound,
    SegmentFound,
)
from triomq.store.settling import bits_of, octets_of

__all__ = ["Tables", "read_delayed", "read_segments"]

_WHOLE = 10_000
"""Ids in a row from which on segments are deleted by one statement, not one by one: a purge."""

_READ = """
    SELECT first, count, settled, octets, checksum FROM segment LEFT JOIN body USING (body)
    WHERE queue = :queue AND first < :stop AND first + count > :first AND first >= coalesce(
        (SELECT max(first) FROM segment WHERE queue = :queue AND first <= :first), :first
    )
    ORDER BY first
"""
_READ_DELAYED = "SELECT octets, checksum FROM delayed LEFT JOIN body USING (body) WHERE queue = ? AND number = ?"

_SegmentRow = tuple[int, int, int, bytes, int]  # first, count, unsettled, settled, body
_COLUMNS = "SELECT first, count, unsettled, settled, body FROM segment WHERE queue = ? "


class Tables:
    """What a connection to one file is told; made by the store that owns the connection, inside its transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Look at what is there."""
        self._execute = connection.execute
        # Queues that may have records in the table of attempts, so that settling the others need not look.
        self._counted = {queue for (queue,) in self._execute("SELECT DISTINCT queue FROM attempts")}

    def apply(self, operation: Operation, batch: int) -> None:
        """Do one operation of a batch with this number.

        Raises:
            ValueError: It asks for what cannot be.
        """
        _APPLY[type(operation)](self, operation, batch)

    # Records

    def _put(self, operation: Put, batch: int) -> None:
        self._execute(
            "INSERT OR REPLACE INTO record VALUES (?, ?, ?)", (operation.kind, operation.key, operation.value)
        )

    def _remove(self, operation: Remove, batch: int) -> None:
        self._execute("DELETE FROM record WHERE kind = ? AND key = ?", (operation.kind, operation.key))

    def _declare_queue(self, operation: DeclareQueue, batch: int) -> None:
        self._execute(
            "INSERT INTO queue (queue, key, value) VALUES (?, ?, ?)"
            " ON CONFLICT (queue) DO UPDATE SET key = excluded.key, value = excluded.value",
            (operation.queue, operation.key, operation.value),
        )

    def _delete_queue(self, operation: DeleteQueue, batch: int) -> None:
        queue = (operation.queue,)
        for table in ("segment", "delayed"):
            self._execute(f"DELETE FROM body WHERE body IN (SELECT body FROM {table} WHERE queue = ?)", queue)
        for table in ("segment", "delayed", "delivered", "attempts", "queue"):
            self._execute(f"DELETE FROM {table} WHERE queue = ?", queue)

    # Messages

    def _append(self, operation: Append, batch: int) -> None:
        queue, first, count = operation.queue, operation.first, operation.count
        settled = bits_of(first, count, operation.settled)
        done = self._execute(
            "UPDATE queue SET next_id = ?, stored = stored + ?, settled = settled + ? WHERE queue = ? AND next_id <= ?",
            (first + count, count, settled.bit_count(), queue, first),
        )
        if not done.rowcount:
            raise ValueError(f"queue {queue} is not declared, or has had the id {first} already")
        self._insert(operation, operation.size, settled, batch)

    def _spill(self, operation: Spill, batch: int) -> None:
        settled = bits_of(operation.first, operation.count, operation.settled)
        self._insert(operation, len(operation.body), settled, batch)

    def _insert(self, segment: Append | Spill, size: int, settled: int, batch: int) -> None:
        """Write a segment, unless all of it is settled."""
        queue, first, count = segment.queue, segment.first, segment.count
        if left := count - settled.bit_count():
            row = (queue, first, count, left, size, octets_of(settled), self._insert_body(segment.body), batch)
            self._execute("INSERT INTO segment VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def _insert_body(self, octets: bytes) -> int:
        done = self._execute("INSERT INTO body (checksum, octets) VALUES (?, ?)", (checksum(octets), octets))
        assert done.lastrowid is not None
        return done.lastrowid

    def _unspill(self, operation: Unspill, batch: int) -> None:
        self._settle_ranges(operation.queue, operation.ranges)

    def _settle(self, operation: Settle, batch: int) -> None:
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
        """Settle what is in some ranges, and tell how many messages that were."""
        whole = sum(self._settle_whole(queue, *each) for each in ranges if each[1] >= _WHOLE)
        return whole + self._settle_each(queue, ranges)

    def _settle_whole(self, queue: int, first: int, count: int) -> int:
        """Delete the segments that lie within a range, and tell how many unsettled messages they had."""
        where = "segment WHERE queue = ? AND first BETWEEN ? AND ? AND first + count <= ?"
        values = (queue, first, first + count - 1, first + count)
        (settled,) = self._execute(f"SELECT coalesce(sum(unsettled), 0) FROM {where}", values).fetchone()
        self._execute(f"DELETE FROM body WHERE body IN (SELECT body FROM {where})", values)
        self._execute(f"DELETE FROM {where}", values)
        return int(settled)

    def _settle_each(self, queue: int, ranges: Sequence[Range]) -> int:
        """Go from segment to segment, and touch each one once; tell how many messages were settled."""
        total, position, waiting = 0, 0, sorted(ranges)
        while waiting:
            found = self._segment_from(queue, max(position, waiting[0][0]))
            if found is None:
                break
            first, count, unsettled, settled, body = found
            position = first + count
            before = int.from_bytes(settled, "little")
            bits = before | bits_of(first, count, _starting_before(waiting, position))
            if bits != before:
                left = count - bits.bit_count()
                total += unsettled - left
                self._note_settled(queue, first, left, bits, body)
            while waiting and waiting[0][0] + waiting[0][1] <= position:
                del waiting[0]
        return total

    def _segment_from(self, queue: int, first: int) -> _SegmentRow | None:
        """Find the segment with this id, or else the next one behind it."""
        row: _SegmentRow | None = self._execute(
            _COLUMNS + "AND first <= ? ORDER BY first DESC LIMIT 1", (queue, first)
        ).fetchone()
        if row is None or row[0] + row[1] <= first:
            row = self._execute(_COLUMNS + "AND first > ? ORDER BY first LIMIT 1", (queue, first)).fetchone()
        return row

    def _note_settled(self, queue: int, first: int, left: int, bits: int, body: int) -> None:
        if left:
            self._execute(
                "UPDATE segment SET unsettled = ?, settled = ? WHERE queue = ? AND first = ?",
                (left, octets_of(bits), queue, first),
            )
        else:
            self._execute("DELETE FROM segment WHERE queue = ? AND first = ?", (queue, first))
            self._execute("DELETE FROM body WHERE body = ?", (body,))

    # Marks

    def _delivered(self, operation: Delivered, batch: int) -> None:
        self._execute(
            "INSERT INTO delivered SELECT ?, ?, ? WHERE EXISTS (SELECT 1 FROM queue WHERE queue = ?)"
            " ON CONFLICT DO UPDATE SET up_to = max(up_to, excluded.up_to)",
            (operation.queue, operation.level, operation.up_to, operation.queue),
        )

    def _attempts(self, operation: Attempts, batch: int) -> None:
        self._counted.add(operation.queue)
        self._execute(
            "INSERT OR REPLACE INTO attempts SELECT ?, ?, ? WHERE EXISTS (SELECT 1 FROM queue WHERE queue = ?)",
            (operation.queue, operation.id, operation.count, operation.queue),
        )

    # Delayed messages

    def _delay(self, operation: Delay, batch: int) -> None:
        queue, number = operation.queue, operation.number
        present = self._execute(
            "SELECT 1 FROM queue WHERE queue = ? AND NOT EXISTS"
            " (SELECT 1 FROM delayed WHERE delayed.queue = queue.queue AND number = ?)",
            (queue, number),
        ).fetchone()
        if not present:
            raise ValueError(f"queue {queue} is not declared, or has delayed messages with number {number} already")
        row = (queue, number, operation.due, operation.count, operation.size)
        body = self._insert_body(operation.body)
        self._execute("INSERT INTO delayed VALUES (?, ?, ?, ?, ?, ?)", (*row, body))

    def _drop(self, operation: Drop, batch: int) -> None:
        for number in operation.numbers:
            key = (operation.queue, number)
            self._execute(
                "DELETE FROM body WHERE body = (SELECT body FROM delayed WHERE queue = ? AND number = ?)", key
            )
            self._execute("DELETE FROM delayed WHERE queue = ? AND number = ?", key)

    # Looking

    def recover(self, *, segments: bool) -> Iterator[Piece]:
        """Go through everything that is kept, bodies apart; with segments, or with what those of a queue come to."""
        for row in self._execute("SELECT kind, key, value FROM record ORDER BY kind, key"):
            yield RecordFound(*row)
        queues = self._execute("SELECT queue, key, value, next_id FROM queue ORDER BY queue").fetchall()
        for found in queues:
            yield QueueFound(*found)
            queue = found[:1]
            yield from self._segments(*queue) if segments else self._held(*queue)
            for row in self._execute(
                "SELECT queue, number, due, count, size FROM delayed WHERE queue = ? ORDER BY number", queue
            ):
                yield DelayedFound(*row)
            for row in self._execute("SELECT * FROM delivered WHERE queue = ? ORDER BY level", queue):
                yield DeliveredFound(*row)
            for row in self._execute("SELECT * FROM attempts WHERE queue = ? ORDER BY id", queue):
                yield AttemptsFound(*row)

    def _segments(self, queue: int) -> Iterator[Piece]:
        for row in self._execute(
            "SELECT queue, first, count, unsettled, size, settled FROM segment WHERE queue = ? ORDER BY first", (queue,)
        ):
            yield SegmentFound(*row)

    def _held(self, queue: int) -> Iterator[Piece]:
        count, size = self._execute(
            "SELECT sum(unsettled), sum(size * unsettled / count) FROM segment WHERE queue = ?", (queue,)
        ).fetchone()
        if count:
            yield HeldFound(queue, count, size)

    def count(self) -> tuple[int, int]:
        """Tell how many queues there are, and how many messages, delayed ones too."""
        (queues,) = self._execute("SELECT count(*) FROM queue").fetchone()
        (messages,) = self._execute("SELECT coalesce(sum(unsettled), 0) FROM segment").fetchone()
        (delayed,) = self._execute("SELECT coalesce(sum(count), 0) FROM delayed").fetchone()
        return int(queues), int(messages) + int(delayed)


def _starting_before(ranges: Sequence[Range], position: int) -> Iterator[Range]:
    """Give the first ranges, as long as they begin before an id; they are sorted."""
    for each in ranges:
        if each[0] >= position:
            return
        yield each


def read_segments(
    connection: sqlite3.Connection, queue: int, first: int, stop: int, *, spilled: bool
) -> Iterator[SegmentRead]:
    """Give the segments that hold ids of a range, in order; as of one moment, until the iterator is closed.

    Raises:
        StoreCorrupt: One of them is not what was written.
    """
    with closing(connection.execute(_READ, {"queue": queue, "first": first, "stop": stop})) as rows:
        for start, count, settled, octets, expected in rows:
            _require_whole(octets, expected, f"messages from id {start} on of queue {queue}")
            yield SegmentRead(start, count, settled, octets, spilled)


def read_delayed(connection: sqlite3.Connection, queue: int, number: int) -> bytes | None:
    """Give the body of delayed messages, None if they are not there.

    Raises:
        StoreCorrupt: It is not what was written.
    """
    row: tuple[bytes | None, int] | None = connection.execute(_READ_DELAYED, (queue, number)).fetchone()
    if row is None:
        return None
    _require_whole(*row, f"delayed messages with number {number} of queue {queue}")
    return row[0]


def _require_whole(octets: bytes | None, expected: int, what: str) -> None:
    if octets is None or checksum(octets) != expected:
        raise StoreCorrupt(
            f"the {what} are not what was written: the disk has changed them. "
            "Stop the broker and put a backup in place; `triomq store check` says what can still be read"
        )


_APPLY: dict[type[Operation], Callable[..., None]] = {
    Put: Tables._put,
    Remove: Tables._remove,
    DeclareQueue: Tables._declare_queue,
    DeleteQueue: Tables._delete_queue,
    Append: Tables._append,
    Settle: Tables._settle,
    Delivered: Tables._delivered,
    Attempts: Tables._attempts,
    Delay: Tables._delay,
    Drop: Tables._drop,
    Spill: Tables._spill,
    Unspill: Tables._unspill,
}
