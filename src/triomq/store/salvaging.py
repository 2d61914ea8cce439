"""Salvages a damaged store: writes all that can be read to a new store, and reports what is missing.

    database + log ──▶ image (each page as it was last written whole) ──▶ rows and bodies ──▶ new store
                                                                               └──▶ Salvage: lost, found, complaints

- The damaged store is not changed. The new one is written through the same operations as a broker's, so it is whole by
  construction, and appears under its name only when it is complete.
- A body has a checksum, and beside it the queue, the first id and the count that the checksum covers. So a body is the
  authority on its place, and a row only on what is settled. Where they agree, the segment is written with the row's
  settled positions. A body whose row is lost or changed is written at its own place, and its messages count as not
  settled (``found``), unless the row at that place has the same count. So messages may come again, and none that can
  be read is lost.
- A chunk of a stream says itself which offsets it has, and none of it is settled; so its row is not asked for. Offsets
  that were given out are not given out again, even if their records are lost.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from triomq.chunks import read_chunk_head
from triomq.errors import StoreError, StoreUnwritable
from triomq.store.body import BodyRun, decode_body, gaps_of, is_whole
from triomq.store.chunk_rows import is_chunk
from triomq.store.connecting import DATABASE, MARK
from triomq.store.directory import PATIENCE, DirectoryLock
from triomq.store.faults import fault_of
from triomq.store.image import make_image
from triomq.store.mark import MarkRead, read_mark
from triomq.store.operations import (
    AttemptsCounted,
    ChunkAppended,
    MessagesAppended,
    MessagesDelayed,
    MessagesDelivered,
    Operation,
    OperationBatch,
    QueueDeclared,
    RecordPut,
)
from triomq.store.reading import Damaged
from triomq.store.segments import read_body, segment_rows
from triomq.store.sqlite import SqliteStore
from triomq.store.unfinished import appearing

REPORT = "salvage.txt"
"""The file with the report, beside the new store."""

_LAST_ID = 1 << 62
"""Above all ids."""

_GROUP = 8 << 20
"""Bytes that are written in one batch: enough that syncs do not count, and little memory."""


class SalvagedQueue(msgspec.Struct):
    """The result for one queue.

    Args:
        key: As it was declared.
        messages: How many are in the new store, delayed ones too.
        lost: How many were there and cannot be read, as far as the counts show.
        found: How many of ``messages`` had no record any more; some of them may have been settled.
        delayed: How many of ``messages`` are not ready yet.
    """

    key: bytes
    messages: int = 0
    lost: int = 0
    found: int = 0
    delayed: int = 0


class Salvage(msgspec.Struct):
    """The result of a salvage.

    Args:
        queues: By number.
        records: How many sinks, bindings and the like there are.
        complaints: What could not be read beside messages, in words.
    """

    queues: dict[int, SalvagedQueue] = {}
    records: int = 0
    complaints: list[str] = []


T = TypeVar("T")


class _Number(NamedTuple):
    number: int


class _RecordRow(NamedTuple):
    kind: int
    key: bytes
    value: bytes


class _QueueRow(NamedTuple):
    number: int
    key: bytes
    value: bytes
    next_id: int
    stored: int
    settled: int


class _DelayedRow(NamedTuple):
    queue: int
    number: int
    due: float
    messages: int
    size: int
    body: int


class _MarkRow(NamedTuple):
    """A row of ``delivered`` or of ``attempts``."""

    queue: int
    place: int
    value: int


_STRAY = "SELECT of_queue, of_first, of_count, checksum, octets FROM body WHERE body = ?"


class _FoundSegment(msgspec.Struct):
    count: int
    body: int
    settled: bytes = b""
    size: int = -1  # not known

    @property
    def bits(self) -> int:
        """The bitmap of settled positions, without those behind the last."""
        bits = int.from_bytes(self.settled, "little")
        return bits if bits.bit_length() <= self.count else bits & ((1 << self.count) - 1)


def salvage(
    directory: Path,
    target: Path,
    *,
    declare: Callable[[int], tuple[bytes, bytes]],
    patience: float = PATIENCE,
) -> Salvage:
    """Write all that can be read of a store to a new directory.

    Args:
        directory: The store's; no broker may have it open.
        target: The directory to create; its parent must exist.
        declare: Returns key and value for a queue, by its number, whose own cannot be read.
        patience: Seconds to wait for a broker that is closing the store.

    Raises:
        StoreLocked: A broker uses it.
        StoreUnwritable: The target exists already, or cannot be created.
        DiskFull: There is not enough room.
        StoreError: There is nothing to read.
    """
    if not any((directory / name).exists() for name in (DATABASE, f"{DATABASE}-wal")):
        raise StoreError(f"there is no store in {directory}: {directory / DATABASE} does not exist")
    with DirectoryLock(directory, patience=patience):
        try:
            with appearing(target) as part:
                done = _salvage_to(part, directory, declare)
        except FileExistsError as error:
            raise StoreUnwritable(str(error)) from None
        except sqlite3.Error as error:
            raise fault_of(directory / DATABASE, error) from error
        except OSError as error:
            raise StoreUnwritable(
                f"{directory} cannot be salvaged to {target} ({error.strerror}): the one cannot be read, or the other "
                "cannot be written"
            ) from error
    return done


def _salvage_to(part: Path, directory: Path, declare: Callable[[int], tuple[bytes, bytes]]) -> Salvage:
    image = part / "image"
    complaints = make_image(directory, image)
    with (
        closing(sqlite3.connect(f"{image.absolute().as_uri()}?mode=ro", uri=True)) as source,
        closing(SqliteStore(part)) as store,
    ):
        source.text_factory = bytes
        source.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # without it nothing can be read
        complaints += _behind(source, read_mark(directory / MARK))
        done = _Salvaging(source, store, declare, complaints).run()
    for path in (image, part / "lock"):
        path.unlink()
    return done


def _behind(source: sqlite3.Connection, mark: MarkRead | None) -> list[str]:
    """Return a complaint if batches are missing at the end; what they did is not known."""
    try:
        row = source.execute("SELECT committed FROM progress").fetchone()
    except sqlite3.DatabaseError:
        row = None
    committed = None if row is None else row[0]
    if not isinstance(committed, int):
        return ["the number of the last batch cannot be read"]
    if mark is None or mark.number <= committed:
        return []
    return [
        f"batch {mark.number} was on disk, and what is there ends at batch {committed}: what the batches between them "
        "did is lost, and is not counted here"
    ]


class _Salvaging:
    """One salvage, from a database to a store."""

    def __init__(
        self,
        source: sqlite3.Connection,
        store: SqliteStore,
        declare: Callable[[int], tuple[bytes, bytes]],
        complaints: list[str],
    ) -> None:
        self._source = source
        self._store = store
        self._declare_lost = declare
        self._done = Salvage(complaints=complaints)
        # Rows whose bodies are not theirs, by queue and first id.
        self._broken: dict[tuple[int, int], _FoundSegment] = {}
        self._chunks: dict[int, list[tuple[int, int, int]]] = {}  # first offset, count below zero, body, by stream
        self._next_ids: dict[int, int] = {}
        self._operations: list[Operation] = []
        self._size = 0

    def run(self) -> Salvage:
        for kind, key, value in self._rows("record", "kind, key, value", 2, _RecordRow):
            self._add(RecordPut(kind, key, value))
            self._done.records += 1
        expected = self._declare_queues()
        segments = {queue: self._segments(queue) for queue in self._done.queues}
        delayed = self._rows("delayed", "queue, number, due, count, size, body", 2, _DelayedRow)
        strays = self._add_strays(segments)
        self._count_broken(segments, strays, expected)
        for queue, found in segments.items():
            self._append(queue, found)
        for queue, chunks in self._chunks.items():
            self._append_chunks(queue, chunks)
        for row in delayed:
            self._delay(row)
        for queue, level, up_to in self._rows("delivered", "queue, level, up_to", 2, _MarkRow):
            self._add(MessagesDelivered(queue, level, up_to))
        for queue, number, count in self._rows("attempts", "queue, id, count", 2, _MarkRow):
            self._add(AttemptsCounted(queue, number, count))
        self._flush()
        self._store.connection.executemany(
            "UPDATE queue SET next_id = max(next_id, ?) WHERE queue = ?",
            [(next_id, number) for number, next_id in self._next_ids.items()],
        )
        for number, left in expected.items():
            done = self._done.queues[number]
            done.lost = max(done.lost, left - done.messages + done.found + done.delayed)
        return self._done

    def _rows(self, table: str, columns: str, key: int, kind: type[T]) -> list[T]:
        """Read a table from both ends, as far as there is nothing damaged between them.

        Args:
            table: Its name.
            columns: Those to read, the key before the others.
            key: How many columns the key has.
            kind: The type of a row.
        """
        found: dict[tuple[object, ...], T] = {}
        order = columns.removeprefix("DISTINCT ").split(", ")[:key]
        for direction in ("", " DESC"):
            by = ", ".join(f"{name}{direction}" for name in order)
            try:
                for row in self._source.execute(f"SELECT {columns} FROM {table} ORDER BY {by}"):
                    try:
                        found.setdefault(row[:key], msgspec.convert(row, kind))
                    except msgspec.ValidationError as error:
                        self._complain(f"a row of the table {table} is damaged: {error}")
            except sqlite3.DatabaseError as error:
                self._complain(f"the table {table} is damaged: {error}")
            else:
                break
        return list(found.values())

    def _complain(self, text: str) -> None:
        if text not in self._done.complaints:
            self._done.complaints.append(text)

    def _declare_queues(self) -> dict[int, int]:
        """Declare the queues that can be read; return how many messages each of them should have."""
        expected = {}
        for row in self._rows("queue", "queue, key, value, next_id, stored, settled", 1, _QueueRow):
            self._declare(row.number, row.key, row.value)
            expected[row.number] = row.stored - row.settled
            self._next_ids[row.number] = row.next_id
        for (number,) in self._rows("segment", "DISTINCT queue", 1, _Number):
            self._require_queue(number)
        return expected

    def _declare(self, number: int, key: bytes, value: bytes) -> None:
        self._done.queues[number] = SalvagedQueue(key)
        self._add(QueueDeclared(number, key, value))

    def _require_queue(self, number: int) -> None:
        if number not in self._done.queues:
            self._complain(f"the record of queue {number} is lost; it has another name now, and no options")
            self._declare(number, *self._declare_lost(number))

    def _segments(self, queue: int) -> dict[int, _FoundSegment]:
        """Return the segments whose rows and bodies belong together, by their first ids; note the others."""
        found: dict[int, _FoundSegment] = {}
        for row in segment_rows(self._source, queue, 0, _LAST_ID):
            if isinstance(row, Damaged):
                self._complain("the table segment is damaged: " + row.reason)
                continue
            first, count, _, size, settled, body = row
            segment = _FoundSegment(count, body, settled, size)
            if isinstance(read_body(self._source, body, queue, first, count), bytes):
                found[first] = segment
            else:
                self._broken[queue, first] = segment
        return found

    def _add_strays(self, segments: dict[int, dict[int, _FoundSegment]]) -> set[int]:
        """Add the bodies that no row leads to, by the place that stands beside them; return their numbers.

        A row at that place is believed for what is settled if it counts as many messages.
        """
        used = {segment.body for found in segments.values() for segment in found.values()}
        strays = set()
        for (body,) in self._rows("body", "body", 1, _Number):
            if body in used:
                continue
            try:
                row = self._source.execute(_STRAY, (body,)).fetchone()
            except sqlite3.DatabaseError:
                continue  # counts as lost with its queue
            queue, first, count, expected, data = row
            if not queue or not count or not is_whole(data, expected, queue, first, count):
                continue
            if is_chunk(data):
                self._require_queue(queue)
                self._chunks.setdefault(queue, []).append((first, -count, body))
            elif first:
                self._require_queue(queue)
                broken = self._broken.get((queue, first))
                known = broken if broken is not None and broken.count == count else _FoundSegment(count, body)
                segments.setdefault(queue, {}).setdefault(first, msgspec.structs.replace(known, body=body))
                strays.add(body)
        return strays

    def _count_broken(
        self, segments: dict[int, dict[int, _FoundSegment]], strays: set[int], expected: dict[int, int]
    ) -> None:
        """Count what is lost with broken rows, where the record of the queue does not tell."""
        for (queue, first), segment in self._broken.items():
            if queue not in expected and segment.body not in strays and first not in segments.get(queue, {}):
                self._done.queues[queue].lost += segment.count - segment.bits.bit_count()

    def _append(self, queue: int, segments: dict[int, _FoundSegment]) -> None:
        done, position = self._done.queues[queue], 0
        for first, segment in sorted(segments.items()):
            bits = segment.bits
            left = segment.count - bits.bit_count()
            data = read_body(self._source, segment.body, queue, first, segment.count)
            runs = [] if isinstance(data, Damaged) else _decoded(data)
            if isinstance(data, Damaged) or not runs or first < position:
                done.lost += left
                continue
            position = first + segment.count
            size = segment.size
            settled = [(first + place, 1) for place, bit in enumerate(reversed(f"{bits:b}")) if bit == "1"]
            if size < 0:  # nothing is known but the body
                size = sum(len(content) for run in runs for content in run.contents)
                settled = gaps_of(runs, first, segment.count)
                left = segment.count - sum(count for _, count in settled)
                done.found += left
            done.messages += left
            self._add(
                MessagesAppended(queue=queue, first=first, count=segment.count, size=size, body=data, settled=settled),
                len(data),
            )

    def _append_chunks(self, queue: int, chunks: list[tuple[int, int, int]]) -> None:
        done, position = self._done.queues[queue], 0
        for _, _, body in sorted(chunks):
            (data,) = self._source.execute("SELECT octets FROM body WHERE body = ?", (body,)).fetchone()
            head = read_chunk_head(data)
            if head.first < position:
                continue  # an older page still had what was merged since
            position = head.stop
            done.messages += head.count
            chunk = ChunkAppended(queue=queue, first=head.first, count=head.count, time=head.last_time, body=data)
            self._add(chunk, len(data))

    def _delay(self, row: _DelayedRow) -> None:
        queue, number, due, count, size, body = row
        self._require_queue(queue)
        done = self._done.queues[queue]
        data = read_body(self._source, body, queue, number, count)
        if isinstance(data, Damaged) or not _decoded(data):
            done.lost += count
            return
        done.messages += count
        done.delayed += count
        delay = MessagesDelayed(queue=queue, number=number, due=due, count=count, size=size, body=data)
        self._add(delay, len(data))

    # Writing

    def _add(self, operation: Operation, size: int = 0) -> None:
        self._operations.append(operation)
        self._size += size
        if self._size >= _GROUP:
            self._flush()

    def _flush(self) -> None:
        self._store.commit([OperationBatch(self._store.committed + 1, self._operations)])
        self._operations, self._size = [], 0


def _decoded(data: bytes) -> list[BodyRun]:
    try:
        return decode_body(data)
    except msgspec.DecodeError:
        return []
