"""What the operating system says of this process."""

import resource
from pathlib import Path

__all__ = ["process_memory"]

_STATM = Path("/proc/self/statm")
_KIB = 1024


def process_memory() -> int:
    """Tell how many octets of memory the process holds; where that cannot be known, the most that it has held."""
    try:
        return int(_STATM.read_text("ascii").split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB
