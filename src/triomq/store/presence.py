"""Notices that the files of an open store are not in their places any more: moved, removed, replaced, overwritten.

SQLite goes on with files that have no name any more, so a store whose directory was moved, deleted by a cleaner or
unmounted would go on to confirm what nobody finds again; and one that is started anew in the place would begin with
nothing. So the files are looked at before and after each commit, and twice a second while there is none:

    where                 is compared                             finds
    directory, each file  device and inode, with those at open    moved, removed, unmounted, replaced
    store.db              length and time of the last change      overwritten in place: identity and last batch are read
    store.db-wal          its last frame, with SQLite's index     emptied or overwritten in place

While a file is open its inode belongs to no other, so equal numbers are the same file. The descriptors here are closed
after those of SQLite: closing one of a database releases all locks that the process has on it.

A store that is *known* is one that a broker counts on: the host that its supervisor starts in place of one that died
makes nothing, and requires the store's identity and all batches that the broker has seen committed.
"""

import os
import sqlite3
import struct
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from triomq.errors import StoreLost, StoreUnwritable
from triomq.store.connecting import DATABASE, MARK, SPILL, connect_alone

LOCK = "lock"
_LOG, _INDEX = f"{DATABASE}-wal", f"{DATABASE}-shm"
_NAMES = (DATABASE, _LOG, MARK, LOCK, SPILL, f"{SPILL}-wal")
_LASTING = (DATABASE, MARK, LOCK, SPILL)
"""Files that are there as long as a broker counts on the store, whether a process has it open or not."""

# https://www.sqlite.org/walformat.html section 2.1: the index has at 12 whether it is set up, at 14 the size of a page
# (1 is 65,536), at 16 the number of frames, at 24 the checksum of the last of them, all in this machine's order, and at
# 32 the salts, as they stand in the log.
_LAST = struct.Struct("=12xBxHI4x2I8s")
_CHECKSUM = struct.Struct(">2I")
_LOG_HEADER, _FRAME_HEADER = 32, 24


_Known = tuple[str, int, int]
"""A path, and device and inode of what is there."""


class KnownStore(msgspec.Struct, frozen=True):
    """What a broker knows of its store: the store that is opened has to be that one, and to have as much.

    Args:
        identity: The store's.
        committed: The number of the last batch that was on disk.
    """

    identity: bytes
    committed: int


def require_there(directory: Path, known: KnownStore) -> None:
    """Check that the files of a known store are there, before anything is made in their places.

    Raises:
        StoreLost: They are not.
    """
    missing = [name for name in _LASTING if not (directory / name).exists()]
    if not directory.is_dir():
        raise StoreLost(f"{directory} is gone, with the store up to batch {known.committed}. {_PUT_BACK}")
    if missing:
        remedy = _PUT_BACK if DATABASE in missing else _START_AGAIN
        raise StoreLost(
            f"{_listed(missing)} of the store in {directory} {_is(missing)} gone, which had all up to batch "
            f"{known.committed}. {remedy}"
        )


def require_same(directory: Path, known: KnownStore, identity: bytes, committed: int) -> None:
    """Check that a store that was opened is the known one.

    Raises:
        StoreLost: It is another, or an older state of it.
    """
    if identity != known.identity:
        raise StoreLost(
            f"{directory} has another store than the broker has worked with up to batch {known.committed}. {_PUT_BACK}"
        )
    if committed < known.committed:
        raise StoreLost(
            f"{directory} has the store as it was at batch {committed}, and batch {known.committed} was on disk. "
            f"{_PUT_BACK}"
        )


_PUT_BACK = (
    "Put it back as it was, and the broker goes on by itself; nothing durable is taken until then. Or end the broker, "
    "and start it on a backup"
)
_START_AGAIN = "Nothing durable is taken any more, and what was confirmed is there: end the broker, and start it again"
_UNTIL_THEN = "nothing durable is taken until then"


class Presence:
    """The files of one open store; made before they are opened, and closed after them.

    Args:
        directory: The store's.
        descriptor: Of the directory.
    """

    def __init__(self, directory: Path, descriptor: int) -> None:
        self._directory = directory
        self._descriptor = descriptor
        self._identity = b""
        self._files: dict[str, int] = {}
        self._place = _as_it_is(str(directory))
        self._known: list[_Known] = []
        self._written = (-1, -1)  # length of the database, and when it was changed last
        self._alone = -1  # the last batch in the database without its log; -1 if all is in the log

    def begin(self, identity: bytes) -> None:
        """Remember the files as they are now, with all of them open.

        Args:
            identity: The store's.

        Raises:
            StoreUnwritable: They cannot be opened.
        """
        self._identity = identity
        try:
            for name in (DATABASE, _LOG, _INDEX):
                self._files[name] = os.open(self._directory / name, os.O_RDONLY | os.O_CLOEXEC)
            self._known = [
                _as_it_is(str(self._directory / name)) for name in _NAMES if (self._directory / name).exists()
            ]
        except OSError as error:
            raise StoreUnwritable(f"{error.filename} cannot be opened ({error.strerror})") from error
        self.note_writes()

    def close(self) -> None:
        """Close the files."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files = {}

    # What this store writes itself

    def note_writes(self) -> None:
        """Remember how the database is, after a commit of this store: no other program may change it."""
        found = os.fstat(self._files[DATABASE])
        if self._written == (found.st_size, found.st_mtime_ns):
            return
        progress = self._progress()
        if found.st_size < self._written[0]:
            return  # not by this store, as the next look finds
        if progress is None and self._alone < 0:
            pass  # all is in the log
        elif progress is not None and progress[0] == self._identity and progress[1] >= self._alone:
            self._alone = progress[1]
        else:
            return
        self._written = (found.st_size, found.st_mtime_ns)

    def _progress(self) -> tuple[bytes, int] | None:
        """Return identity and last batch of the database without its log; None if it has none, or cannot be read."""
        with suppress(sqlite3.Error), closing(connect_alone(self._directory / DATABASE)) as connection:
            row = connection.execute("SELECT identity, committed FROM progress").fetchone()
            if row is not None and isinstance(row[0], bytes) and isinstance(row[1], int):
                return row[0], row[1]
        return None

    # Looking

    @property
    def lost_names(self) -> list[str]:
        """The names of files that are not in their places; all of them if the directory is not."""
        if _is_other(self._place):
            return [os.path.basename(path) for path, _, _ in self._known]
        return [os.path.basename(each[0]) for each in self._known if _is_other(each)]

    def require_places(self) -> None:
        """Check that all files are in their places.

        Raises:
            StoreLost: Some are not.
            StoreUnwritable: That cannot be found out.
        """
        try:
            if _is_other(self._place) or any(map(_is_other, self._known)):
                self._raise_lost()
        except OSError as error:
            raise StoreUnwritable(
                f"{error.filename} cannot be looked at ({error.strerror}), so nothing durable is taken. See that the "
                "directory belongs to the user whom the broker runs as, and that its disk is there; the broker goes on "
                "by itself"
            ) from error

    def require(self) -> None:
        """Check the same, and that no other program has written to database or log; not while this store writes.

        Raises:
            StoreLost: Something is not as this store has left it.
            StoreUnwritable: That cannot be found out.
        """
        self.require_places()
        found = os.fstat(self._files[DATABASE])
        if (found.st_size, found.st_mtime_ns) != self._written:
            self._require_database()
        self._require_log()

    def _require_database(self) -> None:
        before = self._written
        self.note_writes()  # a change that changes nothing, such as of the time
        if self._written == before:
            raise StoreLost(self._overwritten(DATABASE))

    def _require_log(self) -> None:
        header = os.pread(self._files[_INDEX], _LAST.size, 0)
        if len(header) < _LAST.size:
            return
        is_set, page_size, frames, one, two, salts = _LAST.unpack(header)
        if not is_set or not frames:
            return
        place = _LOG_HEADER + (frames - 1) * (_FRAME_HEADER + (65536 if page_size == 1 else page_size))
        frame = os.pread(self._files[_LOG], _FRAME_HEADER, place)
        if frame[8:16] != salts or _CHECKSUM.unpack(frame[16:]) != (one, two):
            raise StoreLost(self._overwritten(_LOG))

    # Saying what is lost, and what can be saved

    def _raise_lost(self) -> None:
        if _is_other(self._place):
            raise StoreLost(self._moved())
        lost = self.lost_names
        gone = [name for name in lost if _stat(self._directory / name) is None]
        replaced = [name for name in lost if name not in gone]
        what = " and ".join(
            f"{_listed(names)} {_is(names)} {how}" for names, how in ((gone, "gone"), (replaced, "replaced")) if names
        )
        raise StoreLost(f"in {self._directory}, under the running broker, {what}. {self._remedy(lost)}")

    def _moved(self) -> str:
        now = _name_of(self._descriptor)
        at = _stat(Path(now)) if now else None
        if at is not None and (at.st_dev, at.st_ino) == self._place[1:]:
            return (
                f"{self._directory}, the data directory of the running broker, is now {now}. Move it back, and the "
                f"broker goes on by itself; {_UNTIL_THEN}"
            )
        how = "is gone" if _stat(self._directory) is None else "is another directory now"
        if os.fstat(self._files[DATABASE]).st_nlink:
            return (
                f"{self._directory}, the data directory of the running broker, {how}, as when a volume is unmounted. "
                f"Put it back, and the broker goes on by itself; {_UNTIL_THEN}"
            )
        return f"{self._directory}, the data directory of the running broker, {how}. {self._saving()}"

    def _remedy(self, lost: list[str]) -> str:
        if DATABASE in lost:
            if os.fstat(self._files[DATABASE]).st_nlink:
                return f"Put back what was there, and the broker goes on by itself; {_UNTIL_THEN}"
            return self._saving()
        return f"What was in it is in {DATABASE} now. {_START_AGAIN}" if _LOG in lost else _START_AGAIN

    def _saving(self) -> str:
        """Return how files without a name can be saved: the process has them open."""
        own = f"/proc/{os.getpid()}/fd"
        if not os.path.isdir(own):
            return "Nothing durable is taken any more; end the broker, and start it on a backup"
        return (
            "Nothing durable is taken any more. All that was confirmed can be saved as long as the broker runs: mkdir "
            f"-m 700 SAVED; cp {own}/{self._files[DATABASE]} SAVED/{DATABASE}; cp {own}/{self._files[_LOG]} "
            f"SAVED/{_LOG}; then end it, and start it with --data SAVED"
        )

    def _overwritten(self, name: str) -> str:
        return (
            f"{self._directory / name} was overwritten by another program under the running broker, as by copying a "
            "backup over it. Nothing durable is taken any more, and what it had is lost: end the broker, keep a copy "
            "of the directory, and start on a backup, or `triomq store salvage` writes all that can be read to a new "
            "directory"
        )


def _stat(path: Path | str) -> os.stat_result | None:
    """Return what is at a path, None if there is nothing.

    Raises:
        OSError: It cannot be found out.
    """
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _as_it_is(path: str) -> _Known:
    found = os.stat(path)
    return path, found.st_dev, found.st_ino


def _is_other(known: _Known) -> bool:
    path, device, inode = known
    found = _stat(path)
    return found is None or found.st_ino != inode or found.st_dev != device


def _name_of(descriptor: int) -> str:
    """Return what the system calls an open file now; empty if it does not say."""
    with suppress(OSError):
        return os.readlink(f"/proc/self/fd/{descriptor}")
    return ""


def _listed(names: list[str]) -> str:
    return ", ".join(names)


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
