"""What a fork of the test's process has, and what a function does in it."""

import ctypes
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from triomq.process import open_descriptors

FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

_ANSWER = 1000
"""The descriptor by which a fork answers, beyond those that are in use."""

_PATIENCE = 60.0
"""Seconds that a fork may take to answer; then it hangs."""

_OF_NOBODY = ("/dev/", "anon_inode:[eventfd]", "anon_inode:[pidfd]")
"""What is in the place of a closed descriptor; and what a fork may have, as nothing depends on it."""


def fork_in_c() -> int:
    """Fork without Python being told of it, as servers in C do.

    What is called in such a fork may start no thread: the locks of the interpreter are as other threads left them.
    """
    return int(ctypes.PyDLL(None).fork())


def in_fork(function: Callable[[], object], fork: Callable[[], int] = os.fork) -> str:
    """Call a function in a fork, and return what it returns or raises, as text."""
    reading, writing = os.pipe()
    child = fork()
    if not child:
        os.dup2(writing, _ANSWER)
        os.close(reading)
        os.close(writing)
        try:
            said = str(function())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(_ANSWER, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        if not select.select([pipe], [], [], _PATIENCE)[0]:
            os.kill(child, signal.SIGKILL)
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


@contextmanager
def living_fork() -> Iterator[int]:
    """Have a fork that does nothing but live until the block is left; yield its number."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    try:
        yield child
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def descriptors() -> dict[int, str]:
    """Return all descriptors that are open now, and where each leads."""
    return dict(open_descriptors())


def left_in_fork(before: dict[int, str], *, zmq: bool = False, pipes: bool = False) -> list[str]:
    """Return where those descriptors lead that a fork would have of what was opened since.

    Args:
        before: All that were open then.
        zmq: Whether ZeroMQ is open, whose epoll sets stay.
        pipes: Whether pipes count; the one by which the fork answers does not.
    """

    def look() -> list[str]:
        nobody = (*_OF_NOBODY, *(["anon_inode:[eventpoll]"] if zmq else []), *([] if pipes else ["pipe:"]))
        found = {n: link for n, link in descriptors().items() if before.get(n) != link and n != _ANSWER}
        return sorted(link for link in found.values() if link not in mine and not link.startswith(nobody))

    mine = {f"/proc/{os.getpid()}/fd"}
    said = in_fork(lambda: "\n".join(look()))
    return said.splitlines()
