"""Messages that a consumer failed over: they come back to their places after a while, which doubles each time.

Such a message is out of its consumer's window at once, so that others can go, and counts as delivered once more. It
stays outstanding in its queue's backlog until its time has come: nothing about it changes on disk, and after a crash
of the queue or of the broker it is simply there again. How often it has failed is how often it was delivered and came
back, whatever brought it back, for that is what is known after a restart.
"""

from heapq import heappop, heappush
from math import inf

from triomq.core.batch import Batch

_FIRST_DELAY = 1.0
"""Seconds; long enough that a supervisor which allows three restarts in five seconds survives one bad message."""

_LONGEST_DELAY = 60.0
"""Seconds; what it needs may be back by then, and a line a minute in the log is still seen."""

MOST_FAILURES = 5
"""Goes that a message gets before it becomes a dead letter: with the delays between them, 15 seconds."""


def delay_after(failures: int) -> float:
    """Say how many seconds a message waits after so many failures, 1 for the first."""
    return min(_LONGEST_DELAY, _FIRST_DELAY * 2.0 ** min(failures - 1, 16))


class Postponed:
    """The postponed messages of one queue, each in a batch of its own, by time; made with the first of them."""

    __slots__ = ("_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Batch]] = []
        self._sequence = 0  # batches cannot be compared

    def __len__(self) -> int:
        """Count the messages."""
        return len(self._heap)

    def push(self, batch: Batch, due: float) -> None:
        """Add a message until a time, in seconds of the domain's clock."""
        self._sequence += 1
        heappush(self._heap, (due, self._sequence, batch))

    @property
    def next_due(self) -> float:
        """When the next message goes back; infinity when none waits."""
        return self._heap[0][0] if self._heap else inf

    def take_due(self, now: float) -> Batch | None:
        """Take out the first message whose time has come."""
        return heappop(self._heap)[2] if self.next_due <= now else None

    def take_all(self) -> list[Batch]:
        """Take out all messages."""
        heap, self._heap = self._heap, []
        return [batch for _, _, batch in heap]
