"""Connections to the files of a store."""

import sqlite3
from pathlib import Path

DATABASE = "store.db"
"""The file with everything that is kept."""
SPILL = "spill.db"
"""The file with what is only out of memory; emptied when a broker starts."""
MARK = "store.mark"
"""The file that says how far the other one has come; see ``triomq.store.mark``."""

PAGE_SIZE = 16384
"""Octets: a quarter of the pages that a commit of some kilobytes would touch with SQLite's own 4,096."""
CACHE = 32 * 1024
"""KiB of pages that a connection keeps."""
LOG_PAGES = 4_000
"""Pages in the log from which on a commit moves them to the database, 64 MiB: what is settled by then is not moved."""
LOG_SIZE = 128 * 1024 * 1024
"""Octets that the log's file keeps after it was once larger."""
PATIENCE = 5_000
"""Milliseconds to wait for another connection, such as a backup's."""


def connect(path: Path, *, synced: bool = True) -> sqlite3.Connection:
    """Open a file for writing; make it if it is not there.

    Args:
        path: The file.
        synced: Whether a commit is on disk when it returns; without it only the end of the machine loses it.
    """
    connection = sqlite3.connect(path, timeout=PATIENCE / 1000, isolation_level=None, cached_statements=256)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")  # counts only for a file that is being made
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
    """Open a file that is there for reading alone, as it is without its log. Nobody may write it meanwhile."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True, isolation_level=None)


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open a file that is there for reading alone."""
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
