"""What jobs write when they begin and when they have ended, each line at once and whole, whatever happens to them."""

import os
import time

_LINE = 128
"""Bytes of a line, with blanks at its end. Pages are multiples of it, so that no line is in two: a reader may see the
first page of a write before the second, and a process may be killed between them."""


class Log:
    """The log, open for writing.

    Args:
        path: Where it is; all processes write to the same one.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, what: str, job: str, attempt: int) -> None:
        """Write a line."""
        line = f"{what} {job} {attempt} {os.getpid()} {time.monotonic()}"
        os.write(self._file, line.ljust(_LINE - 1).encode() + b"\n")

    def close(self) -> None:
        """Close it."""
        os.close(self._file)
