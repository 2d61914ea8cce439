"""SQLite's errors as errors for the operator of the broker: which file, what is wrong, what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from triomq.errors import DiskFull, StoreCorrupt, StoreError, StoreLocked, StoreUnwritable

_PRIMARY = 0xFF  # the lowest byte is the kind of error, the rest of a code its details

_CORRUPT = (
    "{path} is damaged ({error}). Stop the broker and keep a copy of the directory; then either let it start on a "
    "backup, or `triomq store salvage` writes all that can be read to a new directory"
)
_FULL = (
    "{path} cannot grow ({error}): the disk is full, or a limit on file sizes is reached. Free space or raise the "
    "limit; the broker goes on by itself"
)
_UNWRITABLE = (
    "{path} cannot be written ({error}). See that its directory belongs to the user whom the broker runs as, that the "
    "file system is not mounted read-only, and that the disk is well; the broker tries again by itself"
)
_LOCKED = (
    "{path} is in use by another program ({error}). Two brokers cannot share a data directory: stop the other, or give "
    "this one a directory of its own"
)

_FAULTS: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, _CORRUPT),
    sqlite3.SQLITE_NOTADB: (StoreCorrupt, _CORRUPT),
    sqlite3.SQLITE_FULL: (DiskFull, _FULL),
    sqlite3.SQLITE_IOERR: (StoreUnwritable, _UNWRITABLE),
    sqlite3.SQLITE_READONLY: (StoreUnwritable, _UNWRITABLE),
    sqlite3.SQLITE_CANTOPEN: (StoreUnwritable, _UNWRITABLE),
    sqlite3.SQLITE_PERM: (StoreUnwritable, _UNWRITABLE),
    sqlite3.SQLITE_BUSY: (StoreLocked, _LOCKED),
    sqlite3.SQLITE_LOCKED: (StoreLocked, _LOCKED),
}


def corrupt(path: Path, reason: str) -> StoreCorrupt:
    """Return the error for a file that SQLite can read and that has what no store writes."""
    return StoreCorrupt(_CORRUPT.format(path=path, error=reason))


def unreadable(path: Path, error: OSError) -> StoreUnwritable:
    """Return the error for a file beside the database that cannot be read."""
    return StoreUnwritable(
        f"{path} cannot be read ({error.strerror}). See that it is a file that belongs to the user whom the broker "
        "runs as, and that the disk is well"
    )


def fault_of(path: Path, error: sqlite3.Error) -> StoreError:
    """Return the error to raise in place of SQLite's."""
    # Errors of the module itself have no code; those of SQLite always do.
    code = getattr(error, "sqlite_errorcode", None)
    kind, text = _FAULTS.get((code or 0) & _PRIMARY, (StoreError, "{path}: {error}"))
    name = getattr(error, "sqlite_errorname", None)
    return kind(text.format(path=path, error=f"{error}, {name}" if name else error))


_DAMAGE = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS)
"""Errors of the disk that concern the place that was read, not the whole file."""


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error concerns only what was read, so that other parts may still be readable."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code & _PRIMARY == sqlite3.SQLITE_CORRUPT or code in _DAMAGE


@contextmanager
def faults_named(path: Path) -> Iterator[None]:
    """Raise SQLite's errors within the block as ``StoreError``, with the file's name and what to do.

    Raises:
        StoreError: Of the class that fits.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise fault_of(path, error) from error
