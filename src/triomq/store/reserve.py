"""The disk reserve: room that is left free, below which nothing is written that needs more room.

A disk that is filled to its last byte stops all other programs that write there, and leaves SQLite no room to move its
log to the database. So before each commit the file system is asked what is free. What is free within the database
counts as well, since it is used first; otherwise consumers could never make room.

The log grows with each commit and shrinks by none, so on a small volume it would be the log that takes the room, and as
long as nothing is committed it would stay so. Where that would help, it is moved to the database and emptied before
anything is refused.
"""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from triomq.errors import DiskFull
from triomq.store.faults import faults_named

DISK_RESERVE = 50_000_000
"""Bytes, as much as RabbitMQ's ``disk_free_limit``; the size of the log, which a checkpoint writes, comes on top."""

_LEAST_PART = 4
"""What is wanted beyond the reserve is at most this part of the rest of the volume."""


def _free(directory: Path) -> int:
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def _total(directory: Path) -> int:
    found = os.statvfs(directory)
    return found.f_blocks * found.f_frsize


class DiskReserve:
    """The reserve of one store; asked before each commit.

    Args:
        database: The store's file.
        reserve: Bytes to leave free; 0 for no reserve.
        free: Returns the bytes that are free where a directory is.
        total: Returns how many there are in all.
    """

    def __init__(
        self,
        database: Path,
        reserve: int,
        free: Callable[[Path], int] = _free,
        total: Callable[[Path], int] = _total,
    ) -> None:
        self._database = database
        self._log = f"{database}-wal"
        self._reserve = reserve
        self._free = free
        self._total = total
        self._is_low = False

    @property
    def notices(self) -> list[str]:
        """Warnings for the operator: the volume is so small that hardly anything, or nothing, can be written."""
        total = self._total(self._database.parent) if self._reserve else 0
        if not self._reserve or total > self._reserve + self._reserve // _LEAST_PART:
            return []
        return [
            f"the disk of {self._database} has {total:,} bytes in all, and disk_reserve leaves {self._reserve:,} of "
            "them free, so nothing durable may ever be taken: set disk_reserve to a part of it, or give the broker a "
            "larger disk"
        ]

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
        log = os.stat(self._log).st_size
        wanted, room = self._wanted(log), self._room(connection, log)
        if log <= room < wanted and self._wanted(0) <= room and self._empty_log(connection):
            log = os.stat(self._log).st_size
            wanted, room = self._wanted(log), self._room(connection, log)
        self._is_low = room < wanted
        if self._is_low:
            raise DiskFull(
                f"{self._database} has {room:,} bytes of room on its disk and in itself, and {wanted:,} are wanted: "
                "disk_reserve and the size of its log, twice as much until there is enough again. Free space; the "
                "broker goes on by itself"
            )

    def _wanted(self, log: int) -> int:
        """Return how much is to be free with a log of a size; more once there was less, but no more than there can be.

        Else a volume of less than twice the reserve would stay refused for ever.
        """
        wanted = self._reserve + log
        if not self._is_low:
            return wanted
        return min(2 * wanted, wanted + max(0, self._total(self._database.parent) - wanted) // _LEAST_PART)

    def _room(self, connection: sqlite3.Connection, log: int) -> int:
        room = self._free(self._database.parent)
        if room < self._wanted(log):  # SQLite uses its free pages first
            with faults_named(self._database):
                (pages,) = connection.execute("PRAGMA freelist_count").fetchone()
                (page,) = connection.execute("PRAGMA page_size").fetchone()
            room += pages * page
        return room

    def _empty_log(self, connection: sqlite3.Connection) -> bool:
        """Move the log to the database, unless somebody reads it just now; return whether that was done."""
        with faults_named(self._database):
            (patience,) = connection.execute("PRAGMA busy_timeout").fetchone()
            try:
                connection.execute("PRAGMA busy_timeout = 0")
                busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                connection.execute(f"PRAGMA busy_timeout = {patience}")
        return not busy
