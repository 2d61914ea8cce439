"""When jobs that wait have waited for too long: their deadlines, by the quarter of a second after which they are over.

A job that is called under a deadline is nearly always done before it. So a deadline costs two operations on a dict
here, and neither a timer nor a place in a heap: that holds slots of time alone.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from math import floor, inf
from typing import Final

from triomq.endpoints.jobs.job import BookedJob

SLOT: Final = 0.25
"""Seconds by which an end may be late: whoever has waited for so long does not notice, and four wake-ups a second are
all that deadlines cost a broker where nothing else happens."""


class Deadlines:
    """The deadlines of one domain's jobs; made with its register."""

    __slots__ = ("_order", "_slots", "on_earlier")

    def __init__(self) -> None:
        self.on_earlier: Callable[[], None] | None = None
        """Called when ``next`` has become earlier."""
        self._slots: dict[int, dict[bytes, BookedJob]] = {}
        self._order: list[int] = []  # a heap of the slots' numbers

    @property
    def next(self) -> float:
        """When ``take_due`` has to be called, by Unix time; infinity for never."""
        return self._order[0] * SLOT if self._order else inf

    def add(self, job: BookedJob, at: float) -> None:
        """Have a job be due at a Unix time, or ``SLOT`` later at most."""
        number = _slot(at)
        slot = self._slots.get(number)
        if slot is not None:
            slot[job.id] = job
            return
        self._slots[number] = {job.id: job}
        heappush(self._order, number)
        if self._order[0] == number and self.on_earlier is not None:
            self.on_earlier()

    def remove(self, job: BookedJob, at: float) -> None:
        """Forget a job that would have been due at a time."""
        slot = self._slots.get(_slot(at))
        if slot is not None:
            slot.pop(job.id, None)

    def take_due(self, now: float, most: int) -> list[BookedJob]:
        """Remove and return jobs that are due, so many at most; call it again as long as ``next`` has passed."""
        due: list[BookedJob] = []
        while self.next <= now and len(due) < most:
            slot = self._slots[self._order[0]]
            while slot and len(due) < most:
                due.append(slot.popitem()[1])
            if not slot:
                del self._slots[heappop(self._order)]
        return due


def _slot(at: float) -> int:
    return floor(at / SLOT) + 1
