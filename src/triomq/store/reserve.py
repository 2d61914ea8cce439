"""The disk reserve: room that is left free, below which nothing is written that needs more room.

A disk that is filled to its last byte stops all other programs that write there, and leaves SQLite no room to move its
log to the database. So before each commit the file system is asked what is free. What is free within the database
counts as well, since it is used first; otherwise consumers could never make room.
"""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from triomq.errors import DiskFull
from triomq.store.faults import faults_named

DISK_RESERVE = 50_000_000
"""Bytes, as much as RabbitMQ's ``disk_free_limit``; the size of the log, which a checkpoint writes, comes on top."""


def _free(directory: Path) -> int:
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


class DiskReserve:
    """The reserve of one store; asked before each commit.

    Args:
        database: The store's file.
        reserve: Bytes to leave free; 0 for no reserve.
        free: Returns the bytes that are free where a directory is.
    """

    def __init__(self, database: Path, reserve: int, free: Callable[[Path], int] = _free) -> None:
        self._database = database
        self._log = f"{database}-wal"
        self._reserve = reserve
        self._free = free
        self._is_low = False

    def require(self, connection: sqlite3.Connection) -> None:
        """Check that there is room.

        Args:
            connection: To the database.

        Raises:
            DiskFull: There is less than the reserve; or, once that was so, less than twice as much.
            StoreError: The database cannot be read.
        """
        if not self._reserve:
            return
        wanted = (self._reserve + os.stat(self._log).st_size) * (2 if self._is_low else 1)
        room = self._free(self._database.parent)
        if room < wanted:  # SQLite uses its free pages first
            with faults_named(self._database):
                (pages,) = connection.execute("PRAGMA freelist_count").fetchone()
                (page,) = connection.execute("PRAGMA page_size").fetchone()
            room += pages * page
        self._is_low = room < wanted
        if self._is_low:
            raise DiskFull(
                f"{self._database} has {room:,} bytes of room on its disk and in itself, and {wanted:,} are wanted: "
                "disk_reserve and the size of its log, twice as much until there is enough again. Free space; the "
                "broker goes on by itself"
            )
