"""The store in a directory: SQLite in WAL mode, synced at every commit.

    store.db + store.db-wal   durable: records, queues, messages; each commit is one sync of the log
    spill.db + spill.db-wal   transient messages that were paged out; never synced, emptied when a broker starts
    store.mark                the number of the last batch; a log that is cut or removed later is found out by it

- A batch goes into both files, the spill file first; each file has the number of its last batch. So a batch that is
  sent again, after the process died between the two, is applied only where it is missing.
- Only a broker's start empties the spill file. When just the store's process starts again, the broker still counts on
  what it has paged out.
- A sync that fails leaves the whole transaction in the log, behind its end. The next one may be shorter, and would
  leave the rest of it there; after a few of those the log would look damaged. So the log is emptied first.
- One connection writes. Readers have their own, so a read never waits for a commit. Damaged bodies are never deleted
  (``be_careful``): a damaged row may lead to pages of others.

Tried and dropped (``benchmarks/store.py``): a row for each message (twice the price of a write, and a restart that
grows with the backlog); a file that is only appended to (2.6 µs for a message instead of 6.2, but it frees no room
until it is rewritten, is read whole at each start, and needs transactions and checksums of its own).
"""

import os
import secrets
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import get_args

from triomq.errors import DiskFull, StoreCorrupt, StoreError, StoreLocked, StoreLost, StoreUnwritable
from triomq.store.chunk_rows import read_chunks, read_unchecked_chunks
from triomq.store.connecting import DATABASE, MARK, SPILL, connect, connect_reader
from triomq.store.directory import PATIENCE, DirectoryLock, make_private, require_private
from triomq.store.examining import Examined, examine
from triomq.store.faults import faults_named, is_damage
from triomq.store.interface import StoreStatistics
from triomq.store.lost_note import remove_notes, require_no_note
from triomq.store.mark import Mark
from triomq.store.operations import (
    ChunkAppended,
    MessagesAppended,
    MessagesDelayed,
    MessagesSettled,
    MessagesSpilled,
    Operation,
    OperationBatch,
    QueueDeclared,
    QueueDeleted,
    RecordPut,
    SpilledDropped,
)
from triomq.store.presence import KnownStore, Presence, require_same, require_there
from triomq.store.reading import ChunksRead, Damaged, Reading, SegmentRead, collect
from triomq.store.recovered import Piece
from triomq.store.reserve import DiskReserve
from triomq.store.schema import migrate
from triomq.store.segments import read_delayed, read_segments
from triomq.store.tables import Tables

_SPILLED_ONLY = (MessagesSpilled, SpilledDropped)
"""Operations on the spill file alone; the end of a queue concerns both files."""
_DURABLE_ONLY = tuple(set(get_args(Operation)) - {QueueDeleted, *_SPILLED_ONLY})

_GROWING = (MessagesAppended, MessagesDelayed, MessagesSpilled, ChunkAppended, RecordPut, QueueDeclared)
"""Operations that need room; all others make room, or are marks."""

_Work = list[tuple[int, list[Operation]]]
"""Operations by the number of their batch."""


class _File:
    """One of the two files, open for writing."""

    def __init__(self, path: Path, *, synced: bool) -> None:
        self.path = path
        self._has_rest = False  # whether a failed sync has left a transaction behind the end of the log
        try:
            make_private(path)
        except OSError as error:
            raise StoreUnwritable(f"{path} cannot be made or narrowed to its owner ({error.strerror})") from error
        with faults_named(path):
            self.connection = connect(path, synced=synced)
            try:
                migrate(self.connection)
                self.tables = Tables(self.connection)
                row = self.connection.execute("SELECT committed, identity FROM progress").fetchone()
                self.committed, self.identity = int(row[0]), bytes(row[1])
            except BaseException:
                self.connection.close()
                raise

    def commit(self, work: "_Work", last: int) -> None:
        """Apply the operations of batches in one transaction; ``last`` is the number of the last batch."""
        with faults_named(self.path):
            if self._has_rest:
                self.empty_log()
            try:
                self._transact(work, last)
            except sqlite3.DatabaseError as error:
                if self.tables.careful is not None or not is_damage(error):
                    raise
                self.be_careful()
                self._transact(work, last)
        self.committed = last

    def _transact(self, work: "_Work", last: int) -> None:
        apply = self.tables.apply
        with self._transaction():
            for number, operations in work:
                for operation in operations:
                    apply(operation, number)
            self.connection.execute("UPDATE progress SET committed = ?", (last,))

    def merge_next(self) -> bool:
        """Merge some small chunks of a stream; return whether any were, so that there may be more."""
        merger = self.tables.merger
        with faults_named(self.path):
            if self._has_rest:
                self.empty_log()
            try:
                found = merger.next() if self.tables.careful is None else None
                if found is None:
                    merger.clear()
                    return False
                queue, rows = found
                with self._transaction():
                    is_whole = self.tables.merge_rows(queue, rows)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                is_whole = False
        if is_whole:
            merger.advance(rows[-1][0] + rows[-1][1])
        else:
            self.be_careful()
        return True

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        connection = self.connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("COMMIT")
        except BaseException as error:
            self._has_rest = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_FSYNC
            self._roll_back()
            raise

    def be_careful(self) -> None:
        """Check bodies before they are deleted from now on, since some are damaged."""
        if self.tables.careful is None:
            self.tables.careful = connect_reader(self.path)
            self.tables.careful.text_factory = bytes

    def empty_log(self) -> None:
        """Move all of the log to the database.

        Raises:
            sqlite3.Error: It cannot be done.
            StoreLocked: Another connection reads what is in it, such as a backup.
        """
        busy, _, _ = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreLocked(
                f"the log of {self.path} has to be emptied, since a write to it has failed, and another program reads "
                "it, such as a backup. Wait for its end"
            )
        self._has_rest = False

    def _roll_back(self) -> None:
        if self.connection.in_transaction:  # SQLite may have done it by itself
            with suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")

    def close(self) -> None:
        if self.tables.careful is not None:
            self.tables.careful.close()
        with suppress(sqlite3.Error):  # nothing is lost by it: what is committed is in the log
            self.connection.close()


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Read as of one moment within the block, so that a row whose body is missing is damage and not a later commit."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:  # SQLite may have ended it by itself, after an error
            connection.execute("ROLLBACK")


class SqliteReader:
    """Reads bodies from a directory whose store is open elsewhere; one thread uses it, not always the one that made it.

    Args:
        directory: The store's.

    Raises:
        StoreError: The files cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        self._connections: dict[Path, sqlite3.Connection] = {}
        self._durable, self._spilled = directory / DATABASE, directory / SPILL
        try:
            for path in (self._durable, self._spilled):
                with faults_named(path):
                    self._connections[path] = connect_reader(path)
                    self._connections[path].execute("SELECT count(*) FROM sqlite_schema").fetchone()  # opens the files
                self._connections[path].text_factory = bytes  # damage may turn bytes into a text that cannot be decoded
        except BaseException:
            self.close()
            raise

    def read(self, queue: int, first: int, stop: int, max_bytes: int) -> Reading:
        """Return the segments that hold ids of a range; see ``Reader.read``."""
        with (
            closing(self._segments(self._durable, queue, first, stop)) as durable,
            closing(self._segments(self._spilled, queue, first, stop)) as spilled,
        ):
            return collect(merge(durable, spilled, key=attrgetter("first")), stop, max_bytes)

    def _segments(self, path: Path, queue: int, first: int, stop: int) -> Generator[SegmentRead | Damaged]:
        connection = self._connections[path]
        with faults_named(path), _snapshot(connection):
            yield from read_segments(connection, queue, first, stop, spilled=path == self._spilled)

    def read_chunks(self, queue: int, first: int, stop: int, max_bytes: int, since: int = 0) -> ChunksRead:
        """Return whole chunks of a stream that hold offsets of a range; see ``Reader.read_chunks``."""
        connection = self._connections[self._durable]
        with faults_named(self._durable), _snapshot(connection):
            return read_chunks(connection, queue, first, stop, max_bytes, since)

    def read_unchecked_chunks(self, queue: int, first: int, stop: int, max_bytes: int) -> ChunksRead:
        """Return the same for somebody who checks chunks; only what shows in their heads is found here."""
        connection = self._connections[self._durable]
        with faults_named(self._durable), _snapshot(connection):
            return read_unchecked_chunks(connection, queue, first, stop, max_bytes)

    def read_delayed(self, queue: int, numbers: Sequence[int]) -> list[bytes | None]:
        """Return the bodies of delayed messages, None for those that are damaged or not there."""
        connection = self._connections[self._durable]
        with faults_named(self._durable), _snapshot(connection):
            return [read_delayed(connection, queue, number) for number in numbers]

    def read_record(self, kind: int, key: bytes) -> bytes | None:
        """Return the value of a record, None if it is not there."""
        with faults_named(self._durable):
            row = (
                self._connections[self._durable]
                .execute("SELECT value FROM record WHERE kind = ? AND key = ?", (kind, key))
                .fetchone()
            )
        return None if row is None else bytes(row[0])

    def close(self) -> None:
        """Close both files."""
        for connection in self._connections.values():
            connection.close()


class SqliteStore:
    """A store in a directory; created and used by its host, in one thread. It holds the directory's lock until closed.

    Args:
        directory: Created if it is not there.
        fresh: Whether a broker starts, so that the spill file is emptied.
        patience: Seconds to wait for the lock.
        reserve: Bytes on the disk below which nothing is written that needs more room; see ``triomq.store.reserve``.
        known: The store that has to be there; None if there may be none yet.

    Raises:
        StoreLocked: Another broker has the directory.
        StoreCorrupt, StoreTooNew: The files cannot be used; nothing was changed.
        StoreLost: The known store is not there, or not all of it; or one was lost here, and none is there.
        StoreUnwritable, DiskFull: The directory cannot be written, or other users can write there.
    """

    def __init__(
        self,
        directory: Path,
        *,
        fresh: bool = True,
        patience: float = PATIENCE,
        reserve: int = 0,
        known: KnownStore | None = None,
    ) -> None:
        self.directory = directory
        self._reader: SqliteReader | None = None
        if known is None:
            require_no_note(directory)
        else:
            require_there(directory, known)
        with ExitStack() as opened:
            lock = DirectoryLock(directory, patience=patience)
            opened.callback(lock.release)
            self._presence = Presence(directory, lock.directory_descriptor)
            opened.callback(self._presence.close)
            notices = require_private(directory)
            examined = _examine(directory, known)
            if fresh:
                _delete_spill(directory)
            self._durable = _File(directory / DATABASE, synced=True)
            opened.callback(self._durable.close)
            if known is not None:
                require_same(directory, known, self._durable.identity, self._durable.committed)
            if examined.is_torn:
                with faults_named(self._durable.path):
                    self._durable.empty_log()
            self._spilled = _File(directory / SPILL, synced=False)
            opened.callback(self._spilled.close)
            self._mark = _open_mark(directory / MARK, self._durable)
            opened.callback(self._mark.close)
            self._presence.begin(self._durable.identity)
            guard = connect_reader(self._durable.path)  # so that the other one need not be the last; see ``close``
            opened.callback(guard.close)
            guard.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            self._opened = opened.pop_all()
        self._is_saved = False  # whether the log was moved to the database, since it has no name any more
        self._reserve = DiskReserve(self._durable.path, reserve)
        self._committed = self._durable.committed
        self.notices = notices + examined.notices + remove_notes(directory) + self._reserve.notices
        """Warnings for the operator of the broker, from opening it."""

    @property
    def committed(self) -> int:
        """The number of the last batch on disk."""
        return self._committed

    @property
    def identity(self) -> bytes:
        """What tells the store from every other."""
        return self._durable.identity

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection to the durable file; for tests of a full disk."""
        return self._durable.connection

    def commit(self, batches: Sequence[OperationBatch]) -> int:
        """Write batches, all in one transaction; see ``Store.commit``.

        The spill file comes first: when the durable file has a batch, both have it.
        """
        self.require_present()
        fresh = [batch for batch in batches if batch.number > self._committed]
        if not fresh:
            return self._committed
        self._require_room(fresh)
        last = fresh[-1].number
        spilling = _work(fresh, self._spilled.committed, spilled=True)
        if spilling:
            self._spilled.commit(spilling, last)
        if durable := _work(fresh, self._durable.committed, spilled=False):
            with self._writing():
                self._durable.commit(durable, last)
            self._mark.write(last)
        self._committed = last
        self.require_present()  # nothing is confirmed that has no name by now
        return last

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._presence.note_writes()

    def require_present(self) -> None:
        """Check that the files are in their places, and are what this store has written.

        Raises:
            StoreLost: They are not; the text says what can be saved.
            StoreUnwritable: That cannot be found out.
        """
        try:
            self._presence.require()
        except StoreLost:
            self._save_log()
            raise

    def require_places(self) -> None:
        """Check that the files are in their places; may be called from another thread. Raises the same."""
        self._presence.require_places()

    def open_reader(self) -> SqliteReader:
        """Open the files for reading, by their names: so they must still be those of the store.

        Raises:
            StoreError: They are not, or cannot be read.
        """
        reader = SqliteReader(self.directory)
        try:
            self.require_places()
        except StoreError:
            reader.close()
            raise
        return reader

    def _save_log(self) -> None:
        """Move the log to the database, if the one has lost its name and the other has not: then nothing is lost."""
        with suppress(OSError, sqlite3.Error, StoreError):
            lost, log = self._presence.lost_names, self.directory / f"{DATABASE}-wal"
            if not self._is_saved and log.name in lost and DATABASE not in lost:
                with self._writing():
                    self._durable.empty_log()
                self._is_saved = True
                if log.exists():  # somebody's, which SQLite would delete at the end
                    log.rename(log.with_name(f"{log.name}.{secrets.token_hex(4)}"))

    def _require_room(self, batches: Sequence[OperationBatch]) -> None:
        try:
            with self._writing():
                self._reserve.require(self._durable.connection)
        except DiskFull:
            if any(isinstance(operation, _GROWING) for batch in batches for operation in batch.operations):
                raise

    @property
    def has_merges(self) -> bool:
        """Whether small chunks of streams may be left that are to be merged."""
        return bool(self._durable.tables.merger)

    def merge_next(self) -> bool:
        """Merge some small chunks of a stream, in a transaction of its own.

        Returns:
            Whether any were merged, so that there may be more.

        Raises:
            StoreError: There is no room now, or the disk reports an error; nothing has changed.
        """
        self.require_present()
        with self._writing():
            self._reserve.require(self._durable.connection)
            return self._durable.merge_next()

    def be_careful(self) -> None:
        """Check bodies before they are deleted from now on; may be called from another thread."""
        for file in (self._durable, self._spilled):
            file.be_careful()

    def settle_early(self, operations: Sequence[MessagesSettled]) -> None:
        """Settle messages ahead of their batches, which settle them again and so change nothing.

        Raises:
            StoreError: There is no room even for that.
        """
        self.require_present()
        with self._writing():
            self._durable.commit([(self._durable.committed, list(operations))], self._durable.committed)

    def recover(self, *, segments: bool = True) -> Iterator[Piece]:
        """Yield all that the store has, except bodies; see ``Store.recover``."""
        with faults_named(self._durable.path):
            yield from self._durable.tables.recover(segments=segments)

    def read(self, queue: int, first: int, stop: int, max_bytes: int) -> Reading:
        """Return the segments that hold ids of a range; see ``Reader.read``."""
        return self._reading().read(queue, first, stop, max_bytes)

    def read_chunks(self, queue: int, first: int, stop: int, max_bytes: int, since: int = 0) -> ChunksRead:
        """Return whole chunks of a stream that hold offsets of a range; see ``Reader.read_chunks``."""
        return self._reading().read_chunks(queue, first, stop, max_bytes, since)

    def read_delayed(self, queue: int, numbers: Sequence[int]) -> list[bytes | None]:
        """Return the bodies of delayed messages, None for those that are damaged or not there."""
        return self._reading().read_delayed(queue, numbers)

    def read_record(self, kind: int, key: bytes) -> bytes | None:
        """Return the value of a record, None if it is not there."""
        return self._reading().read_record(kind, key)

    def _reading(self) -> SqliteReader:
        if self._reader is None:
            self._reader = SqliteReader(self.directory)
        return self._reader

    def statistics(self) -> StoreStatistics:
        """Return a snapshot."""
        with faults_named(self._durable.path):
            queues, messages, records = self._durable.tables.count()
        size = sum(file.stat().st_size for file in self.directory.glob("*.db*"))
        return StoreStatistics(self._committed, queues, messages, records, size)

    def close(self) -> None:
        """Close the files and release the directory's lock."""
        if self._reader is not None:
            self._reader.close()
        try:
            self._presence.require()
        except StoreError:
            # The last connection moves the log to the database: not if either is not what this store has written.
            self._opened.callback(self._durable.close)
        self._opened.close()


def _examine(directory: Path, known: KnownStore | None) -> Examined:
    """Examine a directory; for a broker that has worked with its store, what would be refused at a start is lost."""
    try:
        return examine(directory)
    except StoreCorrupt as error:
        if known is None:
            raise
        raise StoreLost(f"{error}. Nothing durable is taken any more") from error


def _work(batches: Sequence[OperationBatch], committed: int, *, spilled: bool) -> _Work:
    """Return the operations for one of the files that it does not have yet, by batch."""
    found = []
    for batch in batches:
        if batch.number <= committed:
            continue
        foreign = _DURABLE_ONLY if spilled else _SPILLED_ONLY
        operations = [operation for operation in batch.operations if not isinstance(operation, foreign)]
        if operations:
            found.append((batch.number, operations))
    return found


def _open_mark(path: Path, durable: _File) -> Mark:
    try:
        mark = Mark(path, durable.identity)
    except OSError as error:
        raise StoreUnwritable(f"{path} cannot be written ({error.strerror})") from error
    mark.write(durable.committed)
    return mark


def _delete_spill(directory: Path) -> None:
    """Delete the spill file; one without a store beside it is another program's."""
    if (directory / SPILL).exists() and not (directory / DATABASE).exists():
        raise StoreCorrupt(
            f"{directory / SPILL} is there without {DATABASE}, so it is another program's, and left as it is. Give the "
            "broker a data directory of its own, or delete the file if it is not needed"
        )
    for suffix in ("", "-wal", "-shm"):
        try:
            (directory / f"{SPILL}{suffix}").unlink(missing_ok=True)
        except OSError as error:
            raise StoreUnwritable(f"{directory / SPILL} cannot be deleted ({error.strerror})") from error


def compact(directory: Path, *, patience: float = PATIENCE) -> tuple[int, int]:
    """Rewrite a store as small as it can be; no broker may have it open. Meanwhile it takes twice its room.

    A store that is in use needs this only after it was once much larger: it uses the room of settled messages again.

    Args:
        directory: The store's.
        patience: Seconds to wait for a broker that is closing it.

    Returns:
        Its size before and after, in bytes.

    Raises:
        StoreLocked: A broker uses it.
        DiskFull: There is not enough room; nothing has changed.
        StoreError: There is none, or it is damaged.
    """
    path = directory / DATABASE
    if not path.exists():
        raise StoreError(f"there is no store in {directory}: {path} does not exist")
    with closing(SqliteStore(directory, fresh=False, patience=patience)) as store, faults_named(path):
        store._durable.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = os.path.getsize(path)
        store._durable.connection.execute("VACUUM")
        store._durable.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return before, os.path.getsize(path)
