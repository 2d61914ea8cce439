"""A copy of a store that is in use, as it was at one moment."""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from triomq.errors import StoreError, StoreUnwritable
from triomq.store.connecting import DATABASE, connect_reader
from triomq.store.faults import fault_of, faults_named

__all__ = ["back_up"]


def back_up(directory: Path, target: Path) -> None:
    """Copy what is kept to a file, while brokers go on using it; the copy is put in place whole, and compact.

    To use it, make a directory with the file in it, called ``store.db``.

    Args:
        directory: The store's.
        target: The file to make.

    Raises:
        StoreUnwritable: The file is there already, or cannot be made.
        StoreError: The store cannot be read, or there is none.
    """
    source = directory / DATABASE
    if not source.exists():
        raise StoreError(f"there is no store in {directory}: {source} does not exist")
    part = target.with_name(f"{target.name}.part")
    with faults_named(source):
        connection = connect_reader(source)
    with closing(connection):
        try:
            _begin(target, part)
            connection.execute("VACUUM INTO ?", (str(part),))
            _sync(part)
            part.rename(target)
            _sync(target.parent)
        except (OSError, ValueError) as error:  # a path with a zero octet is no path
            raise StoreUnwritable(f"{target} cannot be written ({error}); name a file that can be made") from error
        except sqlite3.Error as error:
            raise fault_of(target, error) from error
        finally:
            with suppress(OSError, ValueError):
                part.unlink()


def _begin(target: Path, part: Path) -> None:
    """Make the file that becomes the copy; messages are nobody else's business."""
    if target.exists():
        raise StoreUnwritable(f"{target} is there already; name a file that is not, so that no older backup is lost")
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
