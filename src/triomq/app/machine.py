"""How much memory there is, and how much of it this process has."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

__all__ = ["DEFAULT_WATERMARK", "memory_mark", "resident_memory"]

DEFAULT_WATERMARK = 0.4
"""The part of the machine's memory that queues may hold, as with RabbitMQ: the rest is for everything else."""

_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Where Linux says what a container may have, in the second and the first version of control groups."""

_STATM = Path("/proc/self/statm")


def memory_mark(watermark: float) -> int:
    """Say in octets what a mark means that may be a part of the machine's memory.

    Args:
        watermark: Octets if it is above 1, a part of the memory if it is not.
    """
    return int(watermark if watermark > 1 else watermark * _machine_memory())


def _machine_memory() -> int:
    """Tell the octets of memory that this process could have: the machine's, or the container's if those are fewer."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        machine = 0  # nobody can tell: there is no mark then
    return min([machine, *_limits()])


def _limits() -> list[int]:
    found = []
    for path in _CGROUP_LIMITS:
        try:
            text = path.read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdecimal():  # without a limit it says "max"
            found.append(int(text))
    return found


def resident_memory() -> Callable[[], int] | None:
    """Give what tells the octets of memory that this process has now; None where nobody can tell."""
    if not sys.platform.startswith("linux"):
        return None
    page = os.sysconf("SC_PAGE_SIZE")
    return lambda: int(_STATM.read_text(encoding="ascii").split()[1]) * page
