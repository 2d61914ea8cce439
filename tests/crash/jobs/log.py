"""What jobs write when they begin and when they have ended, each line at once and whole, whatever happens to them."""

import os
import time


class Log:
    """The log, open for writing.

    Args:
        path: Where it is; all processes write to the same one.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, what: str, job: str, attempt: int) -> None:
        """Write a line."""
        os.write(self._file, f"{what} {job} {attempt} {os.getpid()} {time.monotonic()}\n".encode())

    def close(self) -> None:
        """Close it."""
        os.close(self._file)
