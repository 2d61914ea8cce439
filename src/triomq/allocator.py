"""Memory that the C library keeps though nobody uses it, and how it goes back to the system.

glibc keeps what was freed, for the next to ask. After an attack, or a backlog that is gone, that may be gigabytes: the
alarm of the process's memory counts them, and the machine does not have them. So somebody looks now and then:

    the process has more than after the last trim ──▶ how much is free? (mallinfo2)
                                                        └─ much, and 10 s later still ──▶ malloc_trim, in a thread

What is free for moments is not given back: it would have to be asked for again. To look costs 11 µs while the process
does not grow, and below a millisecond when it has. ``malloc_trim`` takes 60 to 120 ms for a gigabyte, with the
allocator's lock held; it lets other threads of Python run meanwhile, as far as they need no memory.

Elsewhere than on Linux with glibc 2.33 or later nothing is done.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path
from resource import getpagesize
from typing import Final

_STATM: Final = Path("/proc/self/statm")

INTERVAL: Final = 10.0
"""Seconds between two looks."""

MUCH: Final = 32 * 1024 * 1024
"""Bytes that are worth it."""


class _MallInfo(ctypes.Structure):
    """``struct mallinfo2`` of glibc, see mallinfo(3)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
        )
    ]  # fmt: skip


class FreeMemory:
    """What this process has of free memory; made by whoever looks, once every ``INTERVAL`` seconds."""

    __slots__ = ("_find", "_floor", "_trim", "_was_much")

    def __init__(self) -> None:
        self._find: Callable[[], _MallInfo] | None = None
        self._trim: Callable[[int], int] | None = None
        try:
            library = ctypes.CDLL(None)
            library.mallinfo2.restype = _MallInfo
            self._find, self._trim = library.mallinfo2, library.malloc_trim
        except (OSError, AttributeError, TypeError):
            pass
        self._floor = resident()
        self._was_much = False

    @property
    def may_be_much(self) -> bool:
        """Whether it is worth while to call ``give_back``, which takes longer; asking costs 20 µs."""
        return self._trim is not None and resident() - self._floor > MUCH

    def free(self) -> int:
        """Return how many bytes the C library keeps that nobody uses."""
        return 0 if self._find is None else self._find().fordblks

    def give_back(self) -> int:
        """Return free memory to the system, if there was much at the last call too; return how many bytes went back.

        It may be called in any thread, and in one at a time.
        """
        before, is_much = resident(), self.free() > MUCH
        if not (is_much and self._was_much):
            self._was_much = is_much
            return 0
        self.trim()
        return max(0, before - self._floor)

    def trim(self) -> None:
        """Return free memory to the system, as far as it can be."""
        if self._trim is not None:
            self._trim(0)
        self._was_much = False
        self._floor = resident()

    def look(self) -> int:
        """Do what is to be done now, in a thread that may take its time; return how many bytes went back."""
        return self.give_back() if self.may_be_much else 0


def resident() -> int:
    """Return the bytes of memory that the process has; 0 where the system does not tell."""
    try:
        return int(_STATM.read_text("ascii").split()[1]) * getpagesize()
    except (OSError, ValueError, IndexError):
        return 0
