"""The chunks of streams in one file: appended, dropped, merged, and read around what the disk has damaged.

    appended   ▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭   one for each batch, perhaps of a single record
    merged     ▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬ ▭▭▭▭▭▭▭▭▭   ``_MERGED`` bytes each, one after the other

What reads a stream pays for each chunk, so small ones are merged once they are enough. That is no part of a batch: it
happens behind it, in a transaction of its own, so it delays no confirm, and what stops it stops nothing else. A full
disk makes it wait. A kill before or within it leaves the chunks as they were. Where damage is known nothing is merged.
"""

import sqlite3
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing

import msgspec

from triomq.chunks import check_chunk, merge_chunks, read_chunk_head
from triomq.errors import ChunkDamaged
from triomq.store.faults import is_damage
from triomq.store.operations import ChunksMerged
from triomq.store.reading import ChunksRead, Damaged
from triomq.store.recovered import ChunkFound
from triomq.store.segments import read_body, read_unchecked, rows_around_damage

_MERGED = 256 * 1024
"""Bytes of a merged chunk at most: a reader that wants one record gets so many, and larger ones are no cheaper each."""

_LARGE = 32 * 1024
"""Bytes of a chunk from which on it is not merged: it costs its readers a tenth more, and merging twice the writing."""

_MOST_ROWS = 1_000
"""Chunks that are merged at once at most: about ten milliseconds, for which batches wait."""

_MOST_RECORDS = 1 << 32

_LAST_OFFSET = 1 << 62
"""Above all offsets."""

ChunkRow = tuple[int, int, int, int, int]
"""A row of ``chunk``: first, count, size, time, body."""

_WITHIN = (
    "SELECT first, count, size, time, body FROM chunk WHERE queue = ? AND first >= ? AND first + count <= ?"
    " ORDER BY first LIMIT ?"
)
_ALL = "SELECT queue, first, count, size, time FROM chunk WHERE queue = ? ORDER BY first"
_COLUMNS = "SELECT first, count, size, time, body FROM chunk WHERE queue = :queue "


def is_sane_chunk(row: tuple[object, ...]) -> bool:
    """Return whether a row has values that a row can have; rows have no checksum."""
    if not all(isinstance(each, int) and each >= 0 for each in row):
        return False
    count = row[1]
    return isinstance(count, int) and 0 < count < _MOST_RECORDS


def is_chunk(data: bytes) -> bool:
    """Return whether a body is a whole chunk."""
    try:
        check_chunk(data)
    except ChunkDamaged:
        return False
    return True


def chunk_rows(connection: sqlite3.Connection, queue: int, first: int, stop: int) -> Generator[ChunkRow | Damaged]:
    """Yield the rows of the chunks that have offsets of a range, in order; see ``rows_around_damage``."""
    return rows_around_damage(connection, _COLUMNS, is_sane_chunk, queue, first, stop)


def find_chunks(connection: sqlite3.Connection, queue: int) -> list[ChunkFound]:
    """Return all chunks of a stream but those whose rows cannot be read; there may be tens of thousands."""
    try:
        rows = connection.execute(_ALL, (queue,)).fetchall()
        return msgspec.convert(rows, list[ChunkFound])
    except (sqlite3.DatabaseError, msgspec.ValidationError) as error:
        if isinstance(error, sqlite3.DatabaseError) and not is_damage(error):
            raise
    found = chunk_rows(connection, queue, 0, _LAST_OFFSET)
    return [ChunkFound(queue, *row[:4]) for row in found if not isinstance(row, Damaged)]


def read_chunks(
    connection: sqlite3.Connection, queue: int, first: int, stop: int, max_bytes: int, since: int
) -> ChunksRead:
    """Return whole chunks of a range of offsets; see ``Reader.read_chunks``."""
    return _read(connection, read_body, queue, first, stop, max_bytes, since)


def read_unchecked_chunks(
    connection: sqlite3.Connection, queue: int, first: int, stop: int, max_bytes: int
) -> ChunksRead:
    """Return the same for a reader that checks chunks itself: here only their heads are, at a third of the price."""
    return _read(connection, _with_head, queue, first, stop, max_bytes, 0)


def _with_head(connection: sqlite3.Connection, body: int, queue: int, first: int, count: int) -> bytes | Damaged:
    data = read_unchecked(connection, body, queue, first, count)
    if isinstance(data, bytes):
        try:
            head = read_chunk_head(data)
        except ChunkDamaged as error:
            return Damaged(first, count, b"", str(error))
        if (head.first, head.count, head.size) != (first, count, len(data)):
            return Damaged(first, count, b"", "they are other records, or not all of them")
    return data


def _read(
    connection: sqlite3.Connection,
    read: Callable[[sqlite3.Connection, int, int, int, int], bytes | Damaged],
    queue: int,
    first: int,
    stop: int,
    max_bytes: int,
    since: int,
) -> ChunksRead:
    chunks: list[bytes] = []
    damaged: list[Damaged] = []
    size = 0
    with closing(chunk_rows(connection, queue, first, stop)) as rows:
        for row in rows:
            if isinstance(row, Damaged):
                damaged.append(row)
                continue
            start, count, _, time, body = row
            if time < since:
                continue
            data = read(connection, body, queue, start, count)
            if isinstance(data, Damaged):
                damaged.append(Damaged(start, count, b"", data.reason))
                continue
            chunks.append(data)
            size += len(data)
            if size >= max_bytes:
                return ChunksRead(chunks, min(stop, start + count), damaged)
    return ChunksRead(chunks, stop, damaged)


def contiguous(chunks: Sequence[bytes], first: int) -> list[bytes]:
    """Return the chunks from the one with an offset on, up to the first gap; none if the offset is in none of them."""
    found: list[bytes] = []
    position = first
    for chunk in chunks:
        head = read_chunk_head(chunk)
        if head.first > position:
            break
        position = head.stop
        found.append(chunk)
    return found


class Merger:
    """What is to be merged in one file; created with its tables. What has not been done when it ends is not done."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._ranges: deque[ChunksMerged] = deque()

    def add(self, operation: ChunksMerged) -> None:
        """Merge the chunks of a range, later."""
        if operation not in self._ranges:  # a batch may be tried again and again
            self._ranges.append(operation)

    def __bool__(self) -> bool:
        """Return whether there may be anything to merge."""
        return bool(self._ranges)

    def clear(self) -> None:
        """Merge nothing of what was asked for."""
        self._ranges.clear()

    def next(self) -> tuple[int, list[ChunkRow]] | None:
        """Return a stream and rows of it to be made one, at least two; None if there are no more."""
        while self._ranges:
            queue = self._ranges[0].queue
            rows = self._next_rows(self._ranges[0])
            if len(rows) > 1:
                return queue, rows
            self.advance(rows[0][0] + rows[0][1] if rows else None)
        return None

    def advance(self, stop: int | None) -> None:
        """Leave the chunks below an offset as they are now; all of the range that comes next if it is None."""
        each = self._ranges.popleft()
        if stop is not None and stop < each.stop:
            self._ranges.appendleft(ChunksMerged(each.queue, stop, each.stop))

    def _next_rows(self, each: ChunksMerged) -> list[ChunkRow]:
        """Return the next rows of a range that fit into one chunk; one alone if it is large enough as it is."""
        found: list[ChunkRow] = []
        size = 0
        for row in self._connection.execute(_WITHIN, (each.queue, each.first, each.stop, _MOST_ROWS)):
            size += row[2]
            is_large = row[2] >= _LARGE
            if found and (is_large or size > _MERGED or found[-1][0] + found[-1][1] != row[0]):
                break
            found.append(row)
            if is_large:
                break
        return found


def merged_chunk(connection: sqlite3.Connection, queue: int, rows: Sequence[ChunkRow]) -> bytes | None:
    """Return the chunks of some rows as one; None if the disk has damaged one of them."""
    bodies = [read_body(connection, body, queue, first, count) for first, count, _, _, body in rows]
    whole = [body for body in bodies if isinstance(body, bytes)]
    try:
        return merge_chunks(whole) if len(whole) == len(rows) else None
    except ChunkDamaged:
        return None
