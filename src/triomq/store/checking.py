"""Checks a store that is not open: is everything there, and is it what was written?

Whether it can be opened is judged by ``examine`` alone, as at the start of a broker: what that warns of is a notice
here, and what it refuses is a complaint, in the same words. Beyond that all is read that a start leaves unread.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain, pairwise
from pathlib import Path

import msgspec

from triomq.errors import StoreCorrupt, StoreError
from triomq.store.body import decode_body, is_whole
from triomq.store.chunk_rows import is_chunk, is_sane_chunk
from triomq.store.connecting import DATABASE, MARK, connect_reader
from triomq.store.directory import PATIENCE, DirectoryLock
from triomq.store.examining import examine
from triomq.store.faults import fault_of, faults_named
from triomq.store.recovered import QueueFound, RecordFound
from triomq.store.schema import APPLICATION, VERSION, add_missing_tables
from triomq.store.segments import is_sane

_MOST = 100
"""Complaints that are listed; more of them would not change what to do."""


_Row = tuple[int, int, int]  # queue, first id, count
_QUEUES = """
    SELECT queue, key,
        (SELECT coalesce(sum(unsettled), 0) FROM segment WHERE segment.queue = queue.queue)
            + (SELECT coalesce(sum(count), 0) FROM chunk WHERE chunk.queue = queue.queue),
        (SELECT coalesce(sum(count), 0) FROM delayed WHERE delayed.queue = queue.queue),
        (SELECT coalesce(sum(length(octets)), 0) FROM body WHERE body IN (
            SELECT body FROM segment WHERE segment.queue = queue.queue
            UNION ALL SELECT body FROM chunk WHERE chunk.queue = queue.queue
            UNION ALL SELECT body FROM delayed WHERE delayed.queue = queue.queue))
    FROM queue ORDER BY queue
"""


_COUNTS = """
    SELECT queue, sum(count) FROM (SELECT queue, unsettled AS count FROM segment
        UNION ALL SELECT queue, count FROM chunk) GROUP BY queue
"""


class Gap(msgspec.Struct, frozen=True, gc=False):
    """Ids in a row that a queue had and has no more: settled, unless messages are missing; see ``Report.missing``.

    Args:
        queue: The queue's number.
        first: The first id.
        count: How many.
    """

    queue: int
    first: int
    count: int


class QueueReport(msgspec.Struct, frozen=True, gc=False):
    """The contents of one queue.

    Args:
        queue: Its number.
        key: As it was declared.
        messages: How many are not settled; the records of a stream.
        delayed: How many are not ready yet.
        size: Bytes that both take on disk, with settled messages in between.
    """

    queue: int
    key: bytes
    messages: int
    delayed: int
    size: int


class Report(msgspec.Struct, frozen=True):
    """The result of a check.

    Args:
        path: The file.
        version: Of its format.
        committed: The number of the last batch.
        messages: Messages that are not settled, and the records of streams, by queue.
        gaps: Ids between the lowest and the highest of each queue, or offsets of a stream, that nothing has.
        missing: By queue, messages that were stored, not settled, and are not there; only queues that lack some.
        complaints: All that is not as it should be, in words; empty if all is well.
        queues: The contents of each queue; empty if the file is too damaged to read them.
        notices: What the start of a broker would warn of, though nothing is damaged or missing by it.
    """

    path: Path
    version: int
    committed: int
    messages: dict[int, int]
    gaps: list[Gap]
    missing: dict[int, int]
    complaints: list[str]
    queues: list[QueueReport] = []
    notices: list[str] = []

    @property
    def is_well(self) -> bool:
        """Whether nothing is damaged or missing."""
        return not self.complaints


def _accept(piece: RecordFound | QueueFound) -> None:
    """Accept any record."""


def check(
    directory: Path,
    *,
    patience: float = PATIENCE,
    decode: Callable[[RecordFound | QueueFound], None] = _accept,
) -> Report:
    """Read all of a store, bodies too, and change nothing.

    Args:
        directory: The store's.
        patience: Seconds to wait for a broker that is closing it.
        decode: Raises ``StoreCorrupt`` for a record or a queue that cannot be decoded.

    Raises:
        StoreLocked: A broker uses it.
        StoreCorrupt: It is so damaged that it cannot even be opened.
        StoreError: There is none.
    """
    path = directory / DATABASE
    if not directory.is_dir() or not any((directory / name).exists() for name in (DATABASE, MARK)):
        raise StoreError(f"there is no store in {directory}: {path} does not exist")
    with DirectoryLock(directory, patience=patience):
        complaints: list[str] = []
        notices: list[str] = []
        try:
            notices += examine(directory).notices
        except StoreCorrupt as error:
            if not path.exists():
                raise
            complaints.append(str(error))
        with faults_named(path), closing(connect_reader(path)) as connection:
            report = _report(path, connection, complaints, decode)
    return msgspec.structs.replace(report, notices=notices)


def _report(
    path: Path,
    connection: sqlite3.Connection,
    complaints: list[str],
    decode: Callable[[RecordFound | QueueFound], None],
) -> Report:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION or version > VERSION:
        raise StoreCorrupt(
            f"{path} is not a store of this version of triomq: it has application id {application:#x} and format "
            f"{version}; expected are {APPLICATION:#x} and at most {VERSION}"
        )
    try:
        add_missing_tables(connection)
        found = connection.execute(f"PRAGMA integrity_check({_MOST})").fetchall()
        complaints += [text for (text,) in found if text != "ok"]
        row = connection.execute("SELECT committed FROM progress").fetchone()
        committed = row[0] if row is not None and isinstance(row[0], int) else 0
        rows = _rows(connection, complaints)
        counts = dict(connection.execute(_COUNTS).fetchall())
        gaps = list(_gaps(rows))
        missing = _missing(connection, counts)
        complaints += [
            f"queue {queue}: {count} messages are neither there nor settled" for queue, count in missing.items()
        ]
        complaints += _undecodable(connection, decode)
        complaints += _strays(connection)
        complaints += _overlaps(rows)
        complaints += _bodies(connection)
        queues = [QueueReport(*row) for row in connection.execute(_QUEUES)]
    except sqlite3.DatabaseError as error:
        complaints.append(str(fault_of(path, error)))
        return Report(path, version, 0, {}, [], {}, complaints)
    return Report(path, version, committed, counts, gaps, missing, complaints[:_MOST], queues)


def _undecodable(connection: sqlite3.Connection, decode: Callable[[RecordFound | QueueFound], None]) -> Iterator[str]:
    rows = connection.execute("SELECT kind, key, value FROM record ORDER BY kind, key")
    queues = connection.execute("SELECT queue, key, value, next_id FROM queue ORDER BY queue")
    records, declared = (RecordFound(*row) for row in rows), (QueueFound(*row) for row in queues)
    pieces: Iterator[RecordFound | QueueFound] = chain(records, declared)
    for piece in pieces:
        try:
            decode(piece)
        except StoreCorrupt as error:
            yield str(error)


def _rows(connection: sqlite3.Connection, complaints: list[str]) -> list[_Row]:
    """Return the rows of segments, and complain of those whose values do not fit together: nothing else covers them."""
    found: list[_Row] = []
    query = "SELECT first, count, unsettled, size, settled, body, queue FROM segment ORDER BY queue, first"
    for *row, queue in connection.execute(query):
        first, count, unsettled, _, settled, _ = row
        if is_sane(tuple(row)):
            found.append((queue, first, count))
            if count - int.from_bytes(settled, "little").bit_count() == unsettled:
                continue
        complaints.append(f"queue {queue}: the record of the segment from id {first} on is not what was written")
    for queue, *row in connection.execute("SELECT queue, first, count, size, time, body FROM chunk"):
        if is_sane_chunk(tuple(row)):
            found.append((queue, row[0], row[1]))
        else:
            complaints.append(f"stream {queue}: the record of the chunk at offset {row[0]} is not what was written")
    return sorted(found)


def _gaps(rows: list[_Row]) -> Iterator[Gap]:
    for (before, start, count), (queue, first, _) in pairwise(rows):
        if queue == before and first > start + count:
            yield Gap(queue, start + count, first - start - count)


def _overlaps(rows: list[_Row]) -> Iterator[str]:
    for (before, start, count), (queue, first, _) in pairwise(rows):
        if queue == before and first < start + count:
            yield f"queue {queue}: the segment from id {first} on overlaps the one before"


def _missing(connection: sqlite3.Connection, counts: dict[int, int]) -> dict[int, int]:
    """Return by queue how many messages were stored, not settled, and are not there."""
    expected = connection.execute("SELECT queue, stored - settled FROM queue").fetchall()
    lacking = {queue: left - counts.get(queue, 0) for queue, left in expected}
    return {queue: count for queue, count in lacking.items() if count}


def _strays(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield rows of queues that do not exist, and segments with ids that were never given out."""
    for table in ("segment", "delayed", "chunk", "delivered", "attempts"):
        for (queue,) in connection.execute(
            f"SELECT DISTINCT queue FROM {table} WHERE queue NOT IN (SELECT queue FROM queue)"
        ):
            yield f"there are records in {table} of queue {queue}, which is not there"
    for queue, first in connection.execute(
        "SELECT segment.queue, first FROM segment JOIN queue USING (queue) WHERE first + count > next_id"
    ):
        yield f"queue {queue}: the segment from id {first} on has ids that were never given out"
    for queue, first in connection.execute(
        "SELECT chunk.queue, first FROM chunk JOIN queue USING (queue) WHERE first + count >= next_id"
    ):
        yield f"stream {queue}: the chunk at offset {first} has offsets that were never given out"


def _bodies(connection: sqlite3.Connection) -> Iterator[str]:
    """Read every body; yield what is missing or damaged."""
    for table, name in (("segment", "first"), ("delayed", "number"), ("chunk", "first")):
        is_readable = is_chunk if table == "chunk" else _is_readable
        for queue, first, count, expected, data in connection.execute(
            f"SELECT queue, {name}, count, checksum, octets FROM {table} LEFT JOIN body USING (body)"
        ):
            what = f"queue {queue}: the messages of {table} {first}"
            if table == "chunk" and is_sane_chunk((first, count, 0, 0, 0)):
                what = f"stream {queue}: the records {first} to {first + count - 1}"
            if data is None:
                yield f"{what} are not there"
            elif not is_whole(data, expected, queue, first, count) or not is_readable(data):
                yield f"{what} are not what was written"


def _is_readable(data: bytes) -> bool:
    try:
        decode_body(data)
    except msgspec.DecodeError:
        return False
    return True
