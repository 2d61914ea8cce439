"""Messages that are not ready before their time.

They wait beside the queue's index and get their place, and their id, when the time has come: behind what is ready by
then.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf

import msgspec

from triomq.core.message import Head

__all__ = ["Delayed", "DelayedRun"]


class DelayedRun(msgspec.Struct, frozen=True, gc=False):
    """Messages that share a head and a time.

    Args:
        head: What they share.
        contents: Their octets.
        size: Total of their octets.
        number: Their own in the queue's part of the store; 0 if they are not kept.
    """

    head: Head
    contents: Sequence[bytes]
    size: int
    number: int = 0


class Delayed:
    """The delayed messages of one queue, by time and then by arrival; made with the first of them.

    Belongs to what outlives the queue's incarnations. ``count`` is how many messages
    wait, ``size`` how many octets they have.
    """

    __slots__ = ("_heap", "_sequence", "count", "expected", "last_number", "size")

    def __init__(self) -> None:
        """Start empty."""
        self._heap: list[tuple[float, int, DelayedRun]] = []
        self._sequence = 0
        self.last_number = 0  # the highest that a run had
        self.expected: dict[int, int] = {}  # how many messages of which numbers are still being read from disk
        self.count = 0
        self.size = 0

    def push(self, run: DelayedRun, due: float) -> None:
        """Keep messages until a time, in seconds of the domain's clock."""
        self._sequence += 1
        self.last_number = max(self.last_number, run.number)
        self.count += len(run.contents)
        self.size += run.size
        heappush(self._heap, (due, self._sequence, run))

    @property
    def next_due(self) -> float:
        """When the next message becomes ready; infinity when none waits."""
        return self._heap[0][0] if self._heap else inf

    def take_due(self, now: float) -> DelayedRun | None:
        """Take out the first run whose time has come."""
        if self.next_due > now:
            return None
        run = heappop(self._heap)[2]
        self.count -= len(run.contents)
        self.size -= run.size
        return run

    def expect(self, number: int, count: int) -> None:
        """Count messages that are still being read from disk."""
        self.last_number = max(self.last_number, number)
        self.expected[number] = count
        self.count += count

    def arrived(self, number: int) -> bool:
        """Expect messages no longer, since they are here; tell whether they were not purged meanwhile."""
        count = self.expected.pop(number, 0)
        self.count -= count
        return count > 0

    def numbers(self) -> list[int]:
        """List the numbers of what waits."""
        return [*self.expected, *(run.number for _, _, run in self._heap)]

    def purge(self) -> int:
        """Forget all and tell how many they were."""
        count, self.count = self.count, 0
        self.expected.clear()
        self.size = 0
        self._heap.clear()
        return count
