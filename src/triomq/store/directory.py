"""The data directory: one broker at a time has it, and what is in it is for its owner alone.

The lock belongs to the process that has the file open, so it ends with the process, however that ends. A broker that is
started again at once may have to wait until the store of the one before has finished. The directory itself is locked as
well: a lock file that was removed by hand lets no second broker in. The database file is not locked, because closing it
would release SQLite's own locks.

A directory that belongs to the user of the process and has nothing but a store's files in it is the store's own, so its
mode is narrowed. Any other may be a home directory, or ``/tmp``: its mode stays as it is, and the broker warns, or does
not open the store there if other users can write.
"""

import errno
import fcntl
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from triomq.errors import StoreLocked, StoreUnwritable
from triomq.process import close_in_forks, open_descriptors

PATIENCE = 5.0
"""Seconds to wait for the lock: the store of a broker that was killed has one commit to finish."""

_PAUSE = 0.02  # seconds between two attempts

_LONGEST_PID = 20  # bytes

_OWN = ("store.", "spill.", "lock", "salvage.txt", "lost+found")
"""How the names of a store's files begin; ``lost+found`` is there when the directory is a file system of its own."""

_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
_READABLE = stat.S_IRWXG | stat.S_IRWXO


class DirectoryLock:
    """The lock on one directory; created and held by the store's host, released when that closes it or dies.

    Args:
        directory: Made if it is not there.
        patience: Seconds to wait for the process that holds it.

    Raises:
        StoreLocked: Another process still holds it.
        StoreUnwritable: The directory cannot be made or written, or is a file.
    """

    def __init__(self, directory: Path, *, patience: float = PATIENCE) -> None:
        path = directory / "lock"
        self._files: list[int] = []
        self._directory = directory
        close_in_forks(self, DirectoryLock._descriptors)
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # messages are for their owner alone
            self._files.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._files.append(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        except FileExistsError:
            raise StoreUnwritable(
                f"{directory} is no directory, as a data directory must be. Name another, or move what is there away"
            ) from None
        except OSError as error:
            self.release()
            raise StoreUnwritable(
                f"{path} cannot be opened ({error.strerror}). Give the broker a data directory that the user whom it "
                "runs as may write"
            ) from error
        try:
            self._lock_all(path, patience)
        except BaseException:
            self.release()
            raise

    @property
    def directory_descriptor(self) -> int:
        """The descriptor of the directory itself."""
        return self._files[1]

    def _lock_all(self, path: Path, patience: float) -> None:
        until = time.monotonic() + patience
        for file in self._files:
            self._lock(file, path, patience, until)
        if os.pread(self._files[0], _LONGEST_PID, 0).strip(b"0123456789"):
            raise StoreUnwritable(
                f"{path} has something else than the number of a process, so it is another program's, and left as it "
                "is. Give the broker a data directory of its own"
            )
        with suppress(OSError):  # a full disk: the number is only for the text of an error
            os.ftruncate(self._files[0], 0)
            os.pwrite(self._files[0], str(os.getpid()).encode(), 0)

    def _lock(self, file: int, path: Path, patience: float, until: float) -> None:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise StoreUnwritable(f"{path} cannot be locked ({error.strerror}); use a local disk") from error
                if time.monotonic() >= until:
                    raise StoreLocked(self._holder(path, patience)) from None
                time.sleep(_PAUSE)

    def _holder(self, path: Path, patience: float) -> str:
        pid = os.pread(self._files[0], _LONGEST_PID, 0).decode("ascii", "replace") or "of unknown number"
        return (
            f"{path} is held by process {pid}, also after {patience:g} s. Two brokers cannot share a data directory: "
            "stop the other, or give this one a directory of its own"
        )

    def _descriptors(self) -> list[int]:
        """Return what this process has open of the store, SQLite's files among it; for a store on a thread."""
        if not self._files:
            return []
        within = os.path.realpath(self._directory) + os.sep
        return [*self._files, *(number for number, path in open_descriptors() if path.startswith(within))]

    def release(self) -> None:
        """Release the lock."""
        for file in self._files:
            os.close(file)
        self._files = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def require_private(directory: Path) -> list[str]:
    """Narrow the mode of a directory that is the store's own; return warnings about one that is not.

    Raises:
        StoreUnwritable: Other users can write there, and so change what is in the store.
    """
    found = directory.stat()
    mode = stat.S_IMODE(found.st_mode)
    if not mode & _READABLE:
        return []
    if found.st_uid == os.geteuid() and all(name.startswith(_OWN) for name in os.listdir(directory)):
        directory.chmod(0o700)
        return []
    if mode & _WRITABLE:
        raise StoreUnwritable(
            f"{directory} has mode {mode:04o}, so other users can change what is in it, and it has files that are not "
            "the store's or belongs to another user, so it is left as it is. Give the broker a directory of its own, "
            "or take the right to write from others: chmod go-w"
        )
    return [
        f"{directory} has mode {mode:04o}, so other users can see what is in it; the store's own files are for its "
        "owner alone. Give the broker a directory of its own, or chmod it to 0700"
    ]


def make_private(path: Path) -> None:
    """Create a database's file for its owner alone, or narrow one that is there; SQLite gives its log the same mode.

    Called before the file is opened: closing it again would release locks that this process has on it.
    """
    for beside in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        if beside.exists() and stat.S_IMODE(beside.stat().st_mode) & _READABLE:
            beside.chmod(0o600)
    if not path.exists():
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
