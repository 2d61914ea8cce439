"""What the operating system says of the memory of this process."""

import resource
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")
_KIB = 1024


def process_memory() -> int:
    """Give the octets of memory that the process has; where that cannot be known, the most that it has had."""
    pages = _read_pages()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB if pages is None else _octets(pages[1])


def anonymous_memory() -> int | None:
    """Give the octets that are nobody else's and in no file (Linux's ``RssAnon``); None where that cannot be known.

    Programs and libraries, which all processes share, and the page cache are not among them.
    """
    pages = _read_pages()
    return None if pages is None else _octets(pages[1] - pages[2])


def knows_process_memory() -> bool:
    """Tell whether this system says what a process has at present."""
    return sys.platform.startswith("linux")


def _octets(pages: int) -> int:
    return pages * resource.getpagesize()


def _read_pages() -> tuple[int, int, int] | None:
    """Read the pages that the process has in all, has in memory, and has in memory from files and others."""
    try:
        whole, resident, shared, *_ = _STATM.read_text("ascii").split()
        return int(whole), int(resident), int(shared)
    except (OSError, ValueError):
        return None
