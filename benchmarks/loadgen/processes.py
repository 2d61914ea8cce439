"""What /proc says about a broker: processor time and resident memory of a process and all its descendants."""

import os
import time
from pathlib import Path

_WHOLE_PROCESS = 2
"""What the kernel calls the clock that counts user and system time of all threads (``clock_getcpuclockid``)."""

TICK = 1 / os.sysconf("SC_CLK_TCK")


def _fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the command's name, which may itself hold spaces and brackets."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def parent_of(pid: int) -> int | None:
    """The process that has started a process, None when that is gone."""
    fields = _fields(pid)
    return int(fields[1]) if fields else None


def tree_of(pid: int) -> list[int]:
    """A process and all its descendants, found by walking /proc once."""
    parents = {int(entry.name): _fields(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    members = [pid]
    for member in members:  # grows while it is walked: breadth first
        members += [child for child, fields in parents.items() if fields and int(fields[1]) == member]
    return members


def processor_seconds(pids: list[int]) -> float:
    """User and system time that these processes have used so far, in seconds."""
    ticks = 0
    for pid in pids:
        fields = _fields(pid)
        if fields:
            ticks += int(fields[11]) + int(fields[12])
    return ticks * TICK


def exact_seconds(pids: list[int]) -> float:
    """The same to the nanosecond, for windows that are short or have gaps."""
    return sum(time.clock_gettime((~pid << 3) | _WHOLE_PROCESS) for pid in pids)


def waited_seconds(pid: int) -> float:
    """How long the main thread of a process was ready to run, and others had the processors."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def reaped_seconds(pids: list[int]) -> float:
    """User and system time of their children that have ended, and that they have waited for."""
    ticks = 0
    for pid in pids:
        fields = _fields(pid)
        if fields:
            ticks += int(fields[13]) + int(fields[14])
    return ticks * TICK


def resident_octets(pids: list[int]) -> int:
    """Resident set of these processes together, in octets (VmRSS of /proc/PID/status)."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except FileNotFoundError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return total * 1024
