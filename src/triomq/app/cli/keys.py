"""Single keys from a terminal, without waiting for Enter."""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

__all__ = ["open_keys"]

WaitKey = Callable[[float], str]


@contextmanager
def open_keys() -> Iterator[WaitKey]:
    """Give a function that waits so many seconds for a key and returns it, or an empty text when none came.

    Where standard input is no terminal it only waits. The terminal is as it was when the block is left.
    """
    if not sys.stdin.isatty():
        yield _wait
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield partial(_wait_key, terminal)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _wait(seconds: float) -> str:
    time.sleep(seconds)
    return ""


def _wait_key(terminal: int, seconds: float) -> str:
    readable, _, _ = select.select([terminal], [], [], seconds)
    return os.read(terminal, 1).decode("latin-1") if readable else ""
