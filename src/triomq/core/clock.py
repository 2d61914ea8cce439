"""The clock of a domain: the next deadline of each queue, in one heap with one timer.

A queue with a TTL has no timer of its own. It sets its next deadline here, at most one at a time, is told ``Due`` when
that has come, and sets the next. The domain runs the clock (``Domain``), so that ten thousand queues cost one task.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Generic, TypeVar

import trio

T = TypeVar("T")

_SPARE = 64  # stale entries that are always tolerated: below it a clean-up costs more than it saves


class Clock(Generic[T]):
    """Deadlines by their owners; created with a domain's directory, outlives the domain's incarnations.

    Args:
        now: Gives the time in seconds; Trio's clock, so that tests can run in virtual time.
    """

    __slots__ = ("_deadlines", "_heap", "_sequence", "now", "on_earlier")

    def __init__(self, now: Callable[[], float] = trio.current_time) -> None:
        self.now = now
        self.on_earlier: Callable[[], None] | None = None  # called when the next deadline has become an earlier one
        self._heap: list[tuple[float, int, T]] = []
        self._deadlines: dict[T, float] = {}
        self._sequence = 0

    def set(self, item: T, deadline: float) -> None:
        """Set the deadline of an item, unless an earlier one is set already."""
        if deadline >= self._deadlines.get(item, inf):
            return
        first = self.next_deadline
        self._deadlines[item] = deadline
        self._sequence += 1
        heappush(self._heap, (deadline, self._sequence, item))
        if len(self._heap) > 2 * len(self._deadlines) + _SPARE:
            self._clean()
        if deadline < first and self.on_earlier is not None:
            self.on_earlier()

    def forget(self, item: T) -> None:
        """Remove the deadline of an item."""
        self._deadlines.pop(item, None)
        if len(self._heap) > 2 * len(self._deadlines) + _SPARE:
            self._clean()

    def _clean(self) -> None:
        """Throw out what was taken back or replaced: short-lived queues with long deadlines would pile up."""
        self._heap = [entry for entry in self._heap if self._is_set(entry)]
        heapify(self._heap)

    def _is_set(self, entry: tuple[float, int, T]) -> bool:
        return self._deadlines.get(entry[2]) == entry[0]

    @property
    def next_deadline(self) -> float:
        """The earliest deadline; infinity if there is none."""
        while self._heap and not self._is_set(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else inf

    def take_due(self, now: float) -> list[T]:
        """Remove and return the items whose deadlines have come, earliest first."""
        due: list[T] = []
        while self.next_deadline <= now:
            _, _, item = heappop(self._heap)
            del self._deadlines[item]
            due.append(item)
        return due

    def __len__(self) -> int:
        """Count the items that have a deadline."""
        return len(self._deadlines)
