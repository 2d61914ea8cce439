"""Single keys from a terminal, without waiting for Enter."""

import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
        yield _wait_key
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _wait(seconds: float) -> str:
    time.sleep(seconds)
    return ""


def _wait_key(seconds: float) -> str:
    readable, _, _ = select.select([sys.stdin], [], [], seconds)
    return sys.stdin.read(1) if readable else ""
