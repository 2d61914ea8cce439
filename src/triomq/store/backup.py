"""Backups: a copy of a store that is in use, as it was at one moment; a broker can be started on it."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from triomq.errors import StoreCorrupt, StoreError, StoreUnwritable
from triomq.store.connecting import DATABASE, MARK, connect_reader
from triomq.store.faults import fault_of, faults_named
from triomq.store.mark import MarkRead, read_mark
from triomq.store.unfinished import appearing


def back_up(directory: Path, target: Path) -> None:
    """Copy the durable file to a new directory while a broker uses it; the copy is compact, and appears whole.

    The copy has an identity of its own: a log or a mark of the original is not taken for the copy's.

    Args:
        directory: The store's.
        target: The directory to create; its parent must exist.

    Raises:
        StoreUnwritable: The target exists already, or cannot be created.
        StoreCorrupt: The store lacks batches that were on disk, or is damaged otherwise.
        StoreError: The store cannot be read, or there is none.
    """
    source = directory / DATABASE
    if not source.exists():
        raise StoreError(f"there is no store in {directory}: {source} does not exist")
    with faults_named(source):
        connection = connect_reader(source)
    mark = read_mark(directory / MARK)  # before the copy, which has at least as much
    with closing(connection):
        try:
            with appearing(target) as part:
                _copy(connection, part / DATABASE)
                _give_identity(part / DATABASE, source, mark)
                _sync(part / DATABASE)
                _sync(part)
            _sync(target.parent)
        except FileExistsError as error:
            raise StoreUnwritable(str(error)) from None
        except (OSError, ValueError) as error:  # a path with a NUL is no path
            raise StoreUnwritable(f"{target} cannot be written ({error}); name a directory that can be made") from error
        except sqlite3.Error as error:
            raise fault_of(target, error) from error


def _copy(connection: sqlite3.Connection, target: Path) -> None:
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    connection.execute("VACUUM INTO ?", (str(target),))


def _give_identity(target: Path, source: Path, mark: MarkRead | None) -> None:
    """Set an identity of the copy's own, after checking that it lacks no batch."""
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        columns = {name for (name,) in copy.execute("SELECT name FROM pragma_table_info('progress')")}
        if "identity" not in columns:
            return  # no broker of this version has opened the store yet; it gets one then
        identity, committed = copy.execute("SELECT identity, committed FROM progress").fetchone()
        if mark is not None and mark.identity and (mark.identity != identity or mark.number > committed):
            raise StoreCorrupt(
                f"{source} ends at batch {committed}, but its mark is of batch {mark.number} or of another store, so a "
                "copy would lack confirmed messages; `triomq store check` says more"
            )
        copy.execute("UPDATE progress SET identity = randomblob(16)")


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
