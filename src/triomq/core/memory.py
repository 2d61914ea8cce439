"""The memory alarm: whether the queues of a broker hold more memory than they should.

Rules:

- What the queues hold is summed up now and then, not counted along: publishers count roughly what they add, and when
  that comes to some megabytes the sum is taken again, before the next turn that publishes anything; while the alarm is
  on, twice a second.
- So the alarm never begins or ends in the middle of a turn (see ``publishing``), and a message costs it nothing but one
  addition for each run.
- While it is on, nothing is published; nothing that leads messages out of the broker asks for it.
- It ends at nine tenths of the mark, so that it does not come and go with each message.
- A broker that has the process to itself also watches the memory of the process, twice a second, since that is what
  makes the system kill it. Python gives little back, however much is freed: so this alarm ends as well when little is
  counted, once everything was given back that can be, and then only growth starts it again.

    publishers ── fresh > room ──▶ measure ──▶ sum over queues > mark ──▶ on: Directory.changed ──▶ guards refuse
                                      ▲                              └──▶ off: callbacks, routes are found again
    run (while on, or with a process) ┘
"""

import logging
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import trio

from triomq.core.queue.queue_state import QueueState

if TYPE_CHECKING:
    from triomq.core.topology.directory import Directory

_log = logging.getLogger("triomq.core")

MESSAGE_OVERHEAD = 128
"""Bytes that a message costs beside its body: its properties, its frames, its place in a queue."""

_STEP = 8 * 1024 * 1024
"""The least bytes of new messages after which the sum is taken again: with 10,000 queues that takes a millisecond."""

_PART = 1 / 64
"""The part of what is left up to the mark that may come before the next sum: copies are counted as less than they are.
"""

_INTERVAL = 0.5  # seconds between two sums while the alarm is on

_ENDS = 0.9  # the part of the mark at which the alarm ends: it should not come and go with each message


_PROCESS_BEGINS = 0.6
"""The part of the memory of machine or control group from which on the process has too much: messages may take 0.4 of
it by default, and what is beside the process, such as the store's own and the page cache, is to have room."""

_LITTLE = 0.5  # the part of the mark below which what is counted is not what makes the process large


class Process(Protocol):
    """The process that a broker has for itself."""

    limit: int
    """Bytes of memory that it could have."""

    def anonymous(self) -> int:
        """Return the bytes that it has and that are in no file."""

    def give_back(self) -> None:
        """Give unused memory back to the system, as far as possible."""


class _ProcessAlarm:
    """Whether a process has too much memory; made and asked by the memory alarm."""

    __slots__ = ("_floor", "_process", "on", "used")

    def __init__(self, process: Process) -> None:
        self.on = False
        self.used = process.anonymous()
        self._process = process
        self._floor = 0  # bytes, when little was counted and all was given back that can be

    @property
    def limit(self) -> int:
        """Bytes from which on it is on: those that it would have without any messages do not count."""
        return int(max(self._process.limit * _PROCESS_BEGINS, self._floor / _ENDS))

    def look(self) -> bool:
        """Read what the process has; return whether that is too much."""
        self.used = self._process.anonymous()
        return self.used > self.limit

    def measure(self, *, little: bool) -> None:
        """Start or end the alarm; ``little`` is whether the queues hold little."""
        too_much = self.look()
        if self.used <= self._process.limit * _PROCESS_BEGINS * _ENDS:
            self.on, self._floor = False, 0
        elif self.on and little:
            self._process.give_back()
            self.used = self._floor = self._process.anonymous()
            self.on = False
        else:
            self.on = self.on or too_much


class MemoryAlarm:
    """Watches what the queues of some domains hold; created by the code that opens a broker, lives as long.

    Args:
        mark: Bytes from which on the alarm is on; 0 for never.
        resident: Gives the bytes of memory that the process really has. One content may be in many queues and is
            counted in each; as long as the process is smaller than the mark that does not matter. Without it only the
            sum counts.
    """

    __slots__ = (
        "_directories",
        "_full",
        "_process",
        "_resident",
        "_to_look",
        "_waiting",
        "fresh",
        "held",
        "mark",
        "on",
        "room",
    )

    def __init__(self, mark: int = 0, resident: Callable[[], int] | None = None) -> None:
        self.mark = mark
        self.on = False
        self.held = 0  # bytes, when the sum was taken last
        self._resident = resident
        self._full = False  # whether queues hold too much
        self._process: _ProcessAlarm | None = None
        self._directories: list[Directory] = []
        self.fresh = 0  # bytes that have come since then, roughly; publishers add to it
        self.room = float(_STEP)  # how many of them there may be before publishers have it taken again
        self._waiting: dict[Callable[[], None], None] = {}
        self._to_look = trio.Event()  # that the sum is to be taken now and then: while the alarm is on

    def watch(self, directory: "Directory") -> None:
        """Watch one more domain."""
        self._directories.append(directory)

    def watch_process(self, process: Process) -> None:
        """Watch what the whole process has as well, from now on."""
        self._process = _ProcessAlarm(process)
        self._to_look.set()

    def set_mark(self, mark: int) -> None:
        """Set another mark, in bytes."""
        self.mark = mark
        self.measure()

    def measure(self) -> None:
        """Take the sum, and start or end the alarm."""
        self.fresh = 0
        if not self.mark:
            self._full = False
            self._end()
            return
        held = sum(bytes_in(queue) for directory in self._directories for queue in directory.queues.values())
        held += sum(directory.stages.size for directory in self._directories if directory.stages is not None)
        for directory in self._directories:
            if directory.ledgers is not None:
                held += sum(bytes_in(ledger.state) for ledger in directory.ledgers)
        if held > self.mark and self._resident is not None:
            held = min(held, self._resident())
        self.held = held
        self.room = max(_STEP, (self.mark - held) * _PART)
        self._full = held > self.mark * (_ENDS if self._full else 1)
        if self._process is not None:
            self._process.measure(little=held < self.mark * _LITTLE)
        if self._full or (self._process is not None and self._process.on):
            self._begin()
        else:
            self._end()

    def _begin(self) -> None:
        if self.on:
            return
        self.on = True
        self._to_look.set()
        self._notify_publishers()
        _log.warning("memory alarm", extra={"fields": self._figures()})

    def _end(self) -> None:
        if not self.on:
            return
        self.on = False
        if self._process is None:
            self._to_look = trio.Event()
        self._notify_publishers()
        _log.warning("memory alarm is over", extra={"fields": self._figures()})
        waiting, self._waiting = self._waiting, {}
        for callback in waiting:
            callback()

    def _figures(self) -> dict[str, object]:
        figures: dict[str, object] = {"held": self.held, "mark": self.mark}
        if self._process is not None:
            figures |= {"process": self._process.used, "limit": self._process.limit}
        return figures

    def _notify_publishers(self) -> None:
        """Make publishers find their routes again: that is when the guards see whether the alarm is on."""
        for directory in self._directories:
            directory.changed()

    @property
    def reason(self) -> str:
        """Why the alarm is on, for texts."""
        if self._process is not None and self._process.on and not self._full:
            return f"the process has {self._process.used} bytes of memory, more than it should ({self._process.limit})"
        return f"queues hold {self.held} bytes, more than memory_high_watermark allows ({self.mark})"

    def when_over(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when the alarm is over."""
        self._waiting[callback] = None

    def forget(self, callback: Callable[[], None]) -> None:
        """Withdraw a callback that was not called yet."""
        self._waiting.pop(callback, None)

    async def run(self) -> None:
        """Take the sum twice a second while the alarm is on, and look at the process; runs until cancelled."""
        while True:
            await self._to_look.wait()
            await trio.sleep(_INTERVAL)
            if self.on or (self._process is not None and self._process.look()):
                self.measure()


def bytes_in(queue: QueueState) -> int:
    """Return about how many bytes a queue holds: ready, delayed and with consumers."""
    backlog, delayed = queue.backlog, queue.delayed
    held = backlog.resident_bytes + backlog.buffered_bytes + (backlog.resident + backlog.unsettled) * MESSAGE_OVERHEAD
    if delayed is not None:
        held += delayed.count * MESSAGE_OVERHEAD + delayed.size
    if backlog.unsettled:
        windows = [feed.window for feed in queue.feeds or () if feed.settles]
        if backlog.unsettled == sum(window.used for window in windows):
            held += sum(window.used_bytes for window in windows)
        else:  # some went out otherwise: by a get, or to a feed that is closed
            held += sum(batch.size for batch in backlog.outstanding())
    return held


# What the operating system knows


_STATM = Path("/proc/self/statm")
_KIB = 1024


def process_memory() -> int:
    """Return the bytes of memory that the process has; where that cannot be known, the most that it has had."""
    pages = _read_pages()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB if pages is None else _octets(pages[1])


def anonymous_memory() -> int | None:
    """Return the bytes that belong to this process alone and are in no file (Linux's ``RssAnon``); None if unknown.

    Programs and libraries, which all processes share, and the page cache are not among them.
    """
    pages = _read_pages()
    return None if pages is None else _octets(pages[1] - pages[2])


def knows_process_memory() -> bool:
    """Return whether this system tells what a process has at present."""
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
