"""Giving back to the file system what a store does not need any more."""

import os
from contextlib import closing
from pathlib import Path

from triomq.errors import StoreError
from triomq.store.connecting import DATABASE
from triomq.store.faults import faults_named
from triomq.store.lock import PATIENCE
from triomq.store.sqlite import SqliteStore


def compact(directory: Path, *, patience: float = PATIENCE) -> tuple[int, int]:
    """Write a store anew, as small as it can be; nobody may have it open. For a while it takes twice its place.

    A store that is in use needs this only after it was once much larger: it uses the place of settled messages again.

    Args:
        directory: The store's.
        patience: Seconds to wait for a broker that is leaving it.

    Returns:
        Octets before and after.

    Raises:
        StoreLocked: A broker uses it.
        DiskFull: There is not enough room; nothing has changed.
        StoreError: There is none, or it is damaged.
    """
    path = directory / DATABASE
    if not path.exists():
        raise StoreError(f"there is no store in {directory}: {path} does not exist")
    with closing(SqliteStore(directory, fresh=False, patience=patience)) as store, faults_named(path):
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = os.path.getsize(path)
        store.connection.execute("VACUUM")
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return before, os.path.getsize(path)
