"""A look at what is in a directory, before anything there is opened for writing.

Whatever speaks against opening the store is found here, so that a refusal has changed nothing: a database of another
program, a later version, a log that is damaged or gone.
"""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from triomq.errors import StoreCorrupt
from triomq.store.connecting import DATABASE, MARK, PAGE_SIZE, connect_alone, connect_reader
from triomq.store.faults import faults_named
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
    """What was found.

    Args:
        notices: What whoever runs the broker should know.
        is_torn: Whether something stands in the log behind the last whole batch.
    """

    notices: list[str]
    is_torn: bool = False


def examine(directory: Path) -> Examined:
    """See whether the store in a directory can be opened without a loss; the caller has the directory's lock.

    Raises:
        StoreCorrupt: The database is not a store, or it or its log is damaged or gone.
        StoreTooNew: A later version of triomq has written it.
    """
    return _Examination(directory).result()


class _Examination:
    """One look; everything that the texts name is in it."""

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
            self._require_nothing()
            return Examined([])
        with faults_named(self.database), closing(connect_reader(self.database)) as connection:
            require_known(connection, self.database)
            identity, committed = _progress(connection)
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # reads, and so has the index made
            accepted = accepted_frames(self.index)
        if self._identity_without_log() not in (None, b"", identity):
            raise self._refusal(_OTHER_LOG)
        return self._hold_against(identity, committed, accepted)

    def _identity_without_log(self) -> bytes | None:
        """Give the identity that the database alone has, if it can be read: a checkpoint may have been broken off."""
        with suppress(sqlite3.Error), closing(connect_alone(self.database)) as connection:
            return _progress(connection)[0]
        return None

    def _require_nothing(self) -> None:
        for path, is_there in ((self.log, self.written), (self.mark, self.found)):
            if is_there is not None:
                raise self._refusal(_GONE, beside=path)

    def _hold_against(self, identity: bytes | None, committed: int, accepted: int) -> Examined:
        """Hold what SQLite would open against the log and the mark."""
        log, found = self.written, self.found
        behind = _commits_behind(log, accepted)
        if behind > 1:
            raise self._refusal(_DAMAGED_LOG, count=behind, committed=committed)
        notices = []
        if found is not None and not found.identity:
            notices.append(_UNREADABLE.format(mark=self.mark))
        elif found is not None and identity is not None and found.identity != identity:
            raise self._refusal(_OTHER_MARK)
        elif found is not None and (found.number > committed or identity is None):
            raise self._refusal(_BEHIND, committed=committed, number=found.number)
        torn = log is not None and (log.is_cut or log.frames > accepted)
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


def _progress(connection: sqlite3.Connection) -> tuple[bytes | None, int]:
    """Give the identity of a store, empty in its first version, and its last batch; None if there are no tables yet."""
    columns = {name for (name,) in connection.execute("SELECT name FROM pragma_table_info('progress')")}
    if not columns:
        return None, 0
    identity = "identity" if "identity" in columns else "x''"
    row = connection.execute(f"SELECT {identity}, committed FROM progress").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("the number of the last batch is missing")
    return bytes(row[0]), int(row[1])


def _commits_behind(log: WriteAheadLog | None, accepted: int) -> int:
    return 0 if log is None else sum(number > accepted for number in log.commits)
