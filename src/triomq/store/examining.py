"""Examines a directory before its store is opened for writing, so that a refusal has changed nothing.

    database    mark       log               verdict
    missing     there      any               refused: the database is gone
    batch 8     none or 7  whole             opened (a mark may be behind)
    batch 8     8          cut at its end    opened with a warning: one commit was being written
    batch 5     8          any               refused: the log was removed, cut or damaged
    batch 5     any        2 or more commits refused: commits that were on disk whole stand behind damage
                           behind damage
    any         of another store             refused, as is a log of another store

Each commit is synced before the next one begins, so a crash leaves at most one commit behind a frame that is not whole.
"""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from triomq.errors import StoreCorrupt
from triomq.store.connecting import DATABASE, MARK, PAGE_SIZE, connect_alone, connect_reader
from triomq.store.faults import corrupt, faults_named
from triomq.store.mark import read_mark
from triomq.store.schema import require_known
from triomq.store.wal import WriteAheadLog, accepted_frames, read_log

_RESTORED = (
    "Nothing has been changed. If a backup was put in place of {database}, delete {log}, {index} and {mark}, which "
    "belong to what was there before, and start again. If not, keep a copy of the directory; `triomq store salvage "
    "--data {directory} TARGET` then writes all that can be read to a new directory"
)
_DAMAGED_LOG = (
    "{log} is damaged: {count} batches stand behind a part that is not what was written. They were on disk whole, and "
    "may have been confirmed; the store could be opened only as it was before them, at batch {committed}. "
)
_BEHIND = (
    "{database} with its log ends at batch {committed}, but {mark} shows that batch {number} was on disk. The log has "
    "been removed, cut or damaged since, and confirmed messages would be missing. "
)
_OTHER_MARK = "{mark} belongs to another store than {database}. "
_OTHER_LOG = "{log} belongs to another store than {database}. "
_GONE = "{database} is missing or empty, but {beside} is there, so there was a store. "
_TORN = (
    "{log} ends within a batch, as after the end of a process or of a machine that was writing; the store is opened at "
    "batch {committed}, the last whole one. A batch is confirmed only once it is on disk whole{proof}"
)
_PROVEN = ", and {mark} knows of no later one"
_UNREADABLE = (
    "{mark} cannot be read, so it cannot be told whether the log is complete; it is written anew. After a power cut "
    "this is harmless"
)


class Examined(msgspec.Struct, frozen=True):
    """The verdict that the store may be opened.

    Args:
        notices: Warnings for the operator of the broker.
        is_torn: Whether the log has anything behind the last whole batch.
    """

    notices: list[str]
    is_torn: bool = False


def examine(directory: Path) -> Examined:
    """Check that the store in a directory can be opened without a loss; the caller has the directory's lock.

    Raises:
        StoreCorrupt: The database is not a store, or it or its log is damaged or gone.
        StoreTooNew: A later version of triomq has written it.
    """
    return _Examination(directory).result()


class _Examination:
    """One examination, with the paths that its texts name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.database = directory / DATABASE
        self.log = directory / f"{DATABASE}-wal"
        self.index = directory / f"{DATABASE}-shm"
        self.mark = directory / MARK
        self.found = read_mark(self.mark)
        self.written = read_log(self.log, PAGE_SIZE)

    def result(self) -> Examined:
        if not self.database.exists() or not self.database.stat().st_size:
            self._require_no_store()
            return Examined([])
        with faults_named(self.database), closing(connect_reader(self.database)) as connection:
            require_known(connection, self.database)
            identity, committed = _progress(connection, self.database)
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # reading creates the log's index
            accepted = accepted_frames(self.index)
        if self._identity_without_log() not in (None, b"", identity):
            raise self._refusal(_OTHER_LOG)
        return self._compare(identity, committed, accepted)

    def _identity_without_log(self) -> bytes | None:
        """Return the identity of the database without its log, if it can be read: a checkpoint may be unfinished."""
        with suppress(sqlite3.Error, StoreCorrupt), closing(connect_alone(self.database)) as connection:
            return _progress(connection, self.database)[0]
        return None

    def _require_no_store(self) -> None:
        for path, is_there in ((self.log, self.written), (self.mark, self.found)):
            if is_there is not None:
                raise self._refusal(_GONE, beside=path)

    def _compare(self, identity: bytes | None, committed: int, accepted: int) -> Examined:
        """Compare what SQLite would open with the log and the mark."""
        log, found = self.written, self.found
        behind = _commits_behind(log, accepted)
        if behind > 1:
            raise self._refusal(_DAMAGED_LOG, count=behind, committed=committed)
        torn = log is not None and (log.is_cut or log.frames > accepted)
        is_young = identity is None or (not identity and torn)  # the log has ended before it came to its identity
        notices = []
        if found is not None and not found.identity:
            notices.append(_UNREADABLE.format(mark=self.mark))
        elif found is not None and not is_young and found.identity != identity:
            raise self._refusal(_OTHER_MARK)
        elif found is not None and (found.number > committed or is_young):
            raise self._refusal(_BEHIND, committed=committed, number=found.number)
        if torn:
            proof = _PROVEN.format(mark=self.mark) if found is not None and found.identity else ""
            notices.append(_TORN.format(log=self.log, committed=committed, proof=proof))
        return Examined(notices, torn)

    def _refusal(self, text: str, **values: object) -> StoreCorrupt:
        names = {
            "directory": self.directory,
            "database": self.database,
            "log": self.log,
            "index": self.index,
            "mark": self.mark,
        }
        return StoreCorrupt((text + _RESTORED).format(**names, **values))


def _progress(connection: sqlite3.Connection, database: Path) -> tuple[bytes | None, int]:
    """Return a store's identity, empty in its first version, and its last batch; None if there are no tables yet."""
    columns = {name for (name,) in connection.execute("SELECT name FROM pragma_table_info('progress')")}
    if not columns:
        return None, 0
    identity = "identity" if "identity" in columns else "x''"
    row = connection.execute(f"SELECT {identity}, committed FROM progress").fetchone()
    if row is None or not isinstance(row[0], bytes) or not isinstance(row[1], int):
        raise corrupt(database, "the number of the last batch, or the store's identity, is missing or was changed")
    return row[0], row[1]


def _commits_behind(log: WriteAheadLog | None, accepted: int) -> int:
    return 0 if log is None else sum(number > accepted for number in log.commits)
