"""The memory alarm: whether the queues of a broker hold more than the machine should give them.

What the queues hold is summed up now and then, not kept: publishers note roughly what they add, and when that comes to
some megabytes the sum is taken anew; while the alarm is on, twice a second. Then publishers look at ``on``: whoever
could only add more has to wait, all others are refused. Nothing that leads messages out of the broker asks.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from triomq.core.queue_store import QueueStore

if TYPE_CHECKING:
    from triomq.core.directory import Directory

__all__ = ["MESSAGE_OVERHEAD", "MemoryAlarm"]

_log = logging.getLogger("triomq.core")

MESSAGE_OVERHEAD = 128
"""Octets that a message costs beside its body: its properties, its frames, its place in a queue."""

_STEP = 8 * 1024 * 1024
"""The least octets of new messages after which the sum is taken anew: with 10,000 queues that takes a millisecond."""

_PART = 1 / 64
"""The part of what is left up to the mark that may come before the next sum: copies are noted as less than they are."""

_INTERVAL = 0.5  # seconds between two sums while the alarm is on

_ENDS = 0.9  # the part of the mark at which the alarm ends: it should not come and go with each message


class MemoryAlarm:
    """Watches what the queues of some domains hold; made by whoever opens a broker, lives as long.

    Args:
        mark: Octets from which on the alarm is on; 0 for never.
        resident: Gives the octets of memory that the process really has. One content may be in many queues and is
            counted in each; as long as the process is smaller than the mark nobody has to care. Without it only the
            sum counts.
    """

    __slots__ = ("_directories", "_fresh", "_resident", "_room", "_rung", "_waiting", "held", "mark", "on")

    def __init__(self, mark: int = 0, resident: Callable[[], int] | None = None) -> None:
        """Start without domains, and off."""
        self.mark = mark
        self.on = False
        self.held = 0  # octets, when the sum was taken last
        self._resident = resident
        self._directories: list[Directory] = []
        self._fresh = 0  # octets that have come since then, roughly
        self._room = float(_STEP)  # how many of them there may be before it is taken again
        self._waiting: dict[Callable[[], None], None] = {}
        self._rung = trio.Event()  # replaced whenever the alarm ends

    def watch(self, directory: "Directory") -> None:
        """Watch one more domain."""
        self._directories.append(directory)

    def set_mark(self, mark: int) -> None:
        """Let another number of octets be the mark, from now on."""
        self.mark = mark
        self.measure()

    def note(self, messages: int, octets: int) -> None:
        """Note that messages of a total size were published, each counted for each queue that it went to."""
        self._fresh += octets + messages * MESSAGE_OVERHEAD
        if self._fresh > self._room:
            self.measure()

    def measure(self) -> None:
        """Take the sum, and begin or end the alarm."""
        self._fresh = 0
        if not self.mark:
            self._end()
            return
        held = sum(octets_in(store) for directory in self._directories for store in directory.queues.values())
        if held > self.mark and self._resident is not None:
            held = min(held, self._resident())
        self.held = held
        self._room = max(_STEP, (self.mark - held) * _PART)
        if held > self.mark:
            self._begin()
        elif held <= self.mark * _ENDS:
            self._end()

    def _begin(self) -> None:
        if self.on:
            return
        self.on = True
        self._rung.set()
        self._tell_publishers()
        _log.warning("memory alarm", extra={"fields": {"held": self.held, "mark": self.mark}})

    def _end(self) -> None:
        if not self.on:
            return
        self.on = False
        self._rung = trio.Event()
        self._tell_publishers()
        _log.warning("memory alarm is over", extra={"fields": {"held": self.held, "mark": self.mark}})
        waiting, self._waiting = self._waiting, {}
        for callback in waiting:
            callback()

    def _tell_publishers(self) -> None:
        """Let publishers look for their routes anew: then they see whether the alarm is on, and at no other time."""
        for directory in self._directories:
            directory.changed()

    def when_over(self, callback: Callable[[], None]) -> None:
        """Have something called, once, when the alarm is over."""
        self._waiting[callback] = None

    def forget(self, callback: Callable[[], None]) -> None:
        """Call that no more, should it not have been called yet."""
        self._waiting.pop(callback, None)

    async def wait_over(self) -> None:
        """Wait until the alarm is over; at least until others have had the loop."""
        over = trio.Event()
        self.when_over(over.set)
        try:
            if self.on:
                await over.wait()
            else:
                await trio.lowlevel.checkpoint()
        finally:
            self.forget(over.set)

    async def keep_measuring(self) -> None:
        """Take the sum twice a second while the alarm is on; runs until cancelled."""
        while True:
            await self._rung.wait()
            await trio.sleep(_INTERVAL)
            self.measure()


def octets_in(store: QueueStore) -> int:
    """Tell about how many octets a queue holds: ready, delayed and with consumers."""
    backlog, delayed = store.backlog, store.delayed
    held = backlog.resident_bytes + backlog.buffered_bytes + (backlog.resident + backlog.unsettled) * MESSAGE_OVERHEAD
    if delayed is not None:
        held += delayed.count * MESSAGE_OVERHEAD + delayed.size
    if backlog.unsettled:
        windows = [feed.window for feed in store.feeds or () if feed.settles]
        if backlog.unsettled == sum(window.used for window in windows):
            held += sum(window.used_bytes for window in windows)
        else:  # some went out otherwise: by a get, or to a feed that is closed
            held += sum(batch.size for batch in backlog.outstanding())
    return held
