"""The lock on a data directory: one broker at a time.

It is held by whoever has the file open, so it ends with its process, however that ends. A broker that is started again
at once may have to wait for the store of the one before to finish. The directory itself is locked as well, so that a
lock file that somebody has removed lets no second broker in. The database is not: closing it would give up SQLite's
locks.
"""

import errno
import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from triomq.errors import StoreLocked, StoreUnwritable

PATIENCE = 5.0
"""Seconds to wait for the lock: the store of a broker that was killed has one commit to finish."""

_PAUSE = 0.02  # seconds between two looks


class DirectoryLock:
    """The lock on one directory; made and held by the store's host, released when it closes or dies.

    Args:
        directory: Made if it is not there.
        patience: Seconds to wait for whoever holds it.

    Raises:
        StoreLocked: Somebody still holds it.
        StoreUnwritable: The directory cannot be made or written, or is a file.
    """

    def __init__(self, directory: Path, *, patience: float = PATIENCE) -> None:
        path = directory / "lock"
        self._files: list[int] = []
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # messages are nobody else's business
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
            self._take(path, patience)
        except BaseException:
            self.release()
            raise

    def _take(self, path: Path, patience: float) -> None:
        until = time.monotonic() + patience
        for file in self._files:
            self._lock(file, path, patience, until)
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
        pid = os.pread(self._files[0], 20, 0).decode("ascii", "replace") or "of unknown number"
        return (
            f"{path} is held by process {pid}, also after {patience:g} s. Two brokers cannot share a data directory: "
            "stop the other, or give this one a directory of its own"
        )

    def release(self) -> None:
        """Let others have it."""
        for file in self._files:
            os.close(file)
        self._files = []

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release it."""
        self.release()
