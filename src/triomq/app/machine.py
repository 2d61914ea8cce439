"""How much memory the machine has, how much of it this process uses, and how the process returns what is free."""

import gc
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import trio

from triomq.allocator import INTERVAL, FreeMemory
from triomq.core import anonymous_memory, knows_process_memory, process_memory

_log = logging.getLogger("triomq.app")

DEFAULT_WATERMARK = 0.4
"""The part of the machine's memory that queues may hold, as in RabbitMQ: the rest is for everything else."""

_CGROUPS = Path("/proc/self/cgroup")
_CGROUP_ROOT = Path("/sys/fs/cgroup")


def memory_mark(watermark: float) -> int:
    """Return a mark in bytes, which may be written as a part of the machine's memory.

    Args:
        watermark: Bytes if it is above 1, a part of the memory if it is not.
    """
    return int(watermark if watermark > 1 else watermark * machine_memory())


def machine_memory() -> int:
    """Return the bytes of memory that this process could have: the machine's, or its control group's if fewer.

    They are 0 where the system does not tell.
    """
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        machine = 0
    return min([machine, *_limits()])


def _limits() -> Iterator[int]:
    """Yield the limits of the process's control groups and of all above them; the lowest of them counts."""
    for path in _limit_files():
        try:
            text = path.read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdecimal():  # without a limit it says "max"
            yield int(text)


def _limit_files() -> Iterator[Path]:
    """Yield the files with the limits of the control groups, in the second and the first version of those."""
    try:
        lines = _CGROUPS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:  # such as "0::/system.slice/triomq.service", or "4:memory:/docker/…" in the first version
        _, controllers, group = line.split(":", 2)
        if not controllers:
            yield from _upwards(_CGROUP_ROOT, group, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _upwards(_CGROUP_ROOT / "memory", group, "memory.limit_in_bytes")


def _upwards(root: Path, group: str, name: str) -> Iterator[Path]:
    """Yield the file of a control group and of each above it; in a container the group itself may not be visible."""
    path = Path(group.lstrip("/"))
    for above in (path, *path.parents):
        yield root / above / name


def resident_memory() -> Callable[[], int] | None:
    """Return a function that measures the bytes of memory of this process; None where the system does not tell."""
    return process_memory if knows_process_memory() else None


class OwnProcess:
    """The process as its broker's memory alarm sees it, where the broker has the process for itself.

    Args:
        limit: Bytes of memory that it could have.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._free = FreeMemory()

    def anonymous(self) -> int:
        """Return the bytes that it has and that are in no file."""
        return anonymous_memory() or 0

    def give_back(self) -> None:
        """Collect garbage, and return free memory to the system as far as the C library (glibc) can."""
        gc.collect()
        self._free.trim()


async def keep_giving_back() -> None:
    """Return memory to the system that is free for long, of this process; runs until cancelled."""
    memory = FreeMemory()
    while True:
        await trio.sleep(INTERVAL)
        if memory.may_be_much:
            given_back = await trio.to_thread.run_sync(memory.give_back)
            if given_back:
                _log.info("unused memory given back to the system", extra={"fields": {"bytes": given_back}})


def own_process() -> OwnProcess | None:
    """Return this process for the memory alarm to watch; None where the system tells neither its memory nor a limit."""
    limit = machine_memory()
    return OwnProcess(limit) if limit and anonymous_memory() is not None else None
