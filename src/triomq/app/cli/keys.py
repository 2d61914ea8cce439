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

WaitKey = Callable[[float], str]

END = "\x04"
"""Ctrl-D, also returned when the terminal is gone."""


@contextmanager
def open_keys() -> Iterator[WaitKey]:
    """Yield a function that waits so many seconds for a key and returns it, or an empty text if none came.

    Where standard input is no terminal, it only waits. Leaving the block restores the terminal.
    """
    if not sys.stdin.isatty():
        yield wait_only
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield partial(_wait_key, terminal)
    finally:
        try:
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        except termios.error:
            pass  # the terminal is gone


def wait_only(seconds: float) -> str:
    """Wait so many seconds where no key can come."""
    time.sleep(seconds)
    return ""


def _wait_key(terminal: int, seconds: float) -> str:
    readable, _, _ = select.select([terminal], [], [], seconds)
    if not readable:
        return ""
    try:
        key = os.read(terminal, 1)
    except OSError:  # the terminal is gone
        return END
    return key.decode("latin-1") if key else END
