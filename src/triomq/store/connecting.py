"""Connections to the files of a store."""

import sqlite3
from pathlib import Path

DATABASE = "store.db"
"""The file with everything that is durable."""
SPILL = "spill.db"
"""The file with transient messages that were paged out; emptied when a broker starts."""
MARK = "store.mark"
"""The file with the number of the last batch of ``DATABASE``; see ``triomq.store.mark``."""

PAGE_SIZE = 16384
"""Bytes: a commit of some kilobytes touches a quarter of the pages that it would with SQLite's default of 4,096."""
CACHE = 32 * 1024
"""KiB of pages that a connection caches."""
LOG_PAGES = 4_000
"""Pages in the log from which on a commit moves them to the database, 64 MiB: what was settled before is not moved."""
LOG_SIZE = 128 * 1024 * 1024
"""Bytes to which the log's file is cut after it was once larger."""
PATIENCE = 5_000
"""Milliseconds to wait for another connection, such as a backup's."""


def connect(path: Path, *, synced: bool = True) -> sqlite3.Connection:
    """Open a file for writing; create it if it is not there.

    Args:
        path: The file.
        synced: Whether a commit is on disk when it returns; without it only a crash of the machine loses it.
    """
    connection = sqlite3.connect(path, timeout=PATIENCE / 1000, isolation_level=None, cached_statements=256)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")  # only for a file that is being created
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if synced else 'OFF'}")
        connection.execute("PRAGMA secure_delete = OFF")  # Debian's default writes zeros over what is deleted
        connection.execute(f"PRAGMA cache_size = -{CACHE}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_SIZE}")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_alone(path: Path) -> sqlite3.Connection:
    """Open an existing file for reading, as it is without its log; it must not be written meanwhile."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True, isolation_level=None)


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open an existing file for reading."""
    # The thread that makes it is not the one that reads; only one does at a time.
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        timeout=PATIENCE / 1000,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute(f"PRAGMA cache_size = -{CACHE // 4}")
    except BaseException:
        connection.close()
        raise
    return connection
