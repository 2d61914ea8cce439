"""Messages that are not ready before their time.

They wait beside the queue's backlog and get their place, and their id, when the time has come: behind what is ready by
then.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import repeat
from math import inf

import msgspec

from triomq.core.batch import Batch
from triomq.core.message import Head, QueueMessage
from triomq.store import DelayedFound


class DelayedRun(msgspec.Struct, frozen=True, gc=False):
    """Messages of one run that share a time.

    Args:
        head: The first one's, and that of all if ``heads`` is None.
        contents: Their bytes.
        size: Total of their bytes.
        number: Their own in the queue's part of the store; 0 if they are not durable.
        heads: The head of each; None if they have the same one.
    """

    head: Head
    contents: Sequence[bytes]
    size: int
    number: int = 0
    heads: Sequence[Head] | None = None


class Delayed:
    """The delayed messages of one queue, by time and then by arrival; created with the first of them.

    It outlives the queue's incarnations. ``count`` is how many messages wait, ``size`` how many bytes those have that
    are in memory. ``expected`` are those that the store has from before a restart and that have not been read yet, by
    their numbers.
    """

    __slots__ = ("_heap", "_sequence", "count", "expected", "last_number", "size")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, DelayedRun]] = []
        self._sequence = 0
        self.last_number = 0  # the highest that a run had
        self.count = 0
        self.size = 0
        self.expected: dict[int, DelayedFound] = {}

    def expect(self, found: DelayedFound) -> None:
        """Count messages that are still to be read, and give their number to no others."""
        self.expected[found.number] = found
        self.last_number = max(self.last_number, found.number)
        self.count += found.count

    def arrive(self, number: int) -> bool:
        """Return whether messages are still to be read; the caller has read them, and pushes them now."""
        found = self.expected.pop(number, None)
        if found is None:
            return False  # forgotten meanwhile, or read twice
        self.count -= found.count
        return True

    def push(self, run: DelayedRun, due: float) -> None:
        """Delay messages until a time, in seconds of the domain's clock."""
        self._sequence += 1
        self.last_number = max(self.last_number, run.number)
        self.count += len(run.contents)
        self.size += run.size
        heappush(self._heap, (due, self._sequence, run))

    @property
    def next_due(self) -> float:
        """When the next message becomes ready; infinity when none waits."""
        return self._heap[0][0] if self._heap else inf

    def messages(self) -> Iterator[tuple[float, QueueMessage]]:
        """Yield what waits and is in memory, each with its time, in no order: there may be 100,000."""
        for due, _, run in self._heap:
            heads = repeat(run.head) if run.heads is None else run.heads
            for head, content in zip(heads, run.contents, strict=False):
                yield due, QueueMessage(head, content)

    def take_due(self, now: float) -> DelayedRun | None:
        """Remove and return the first run that is due; None if there is none."""
        if self.next_due > now:
            return None
        run = heappop(self._heap)[2]
        self.count -= len(run.contents)
        self.size -= run.size
        return run

    def numbers(self) -> list[int]:
        """List the numbers of what waits."""
        return [*self.expected, *(run.number for _, _, run in self._heap)]

    def purge(self) -> int:
        """Remove all messages and return how many they were."""
        count, self.count = self.count, 0
        self.size = 0
        self._heap.clear()
        self.expected.clear()
        return count


# Postponed messages

_FIRST_DELAY = 1.0
"""Seconds; long enough that a supervisor which allows three restarts in five seconds survives one bad message."""

_LONGEST_DELAY = 60.0
"""Seconds; what it needs may be back by then, and a line a minute in the log is still seen."""

MOST_FAILURES = 5
"""Deliveries that a message gets before it becomes a dead letter: with the delays between them, 15 seconds."""


def delay_after(failures: int) -> float:
    """Return how many seconds a message waits after so many failures, 1 for the first."""
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
        """Remove and return the first message that is due; None if there is none."""
        return heappop(self._heap)[2] if self.next_due <= now else None

    def take_all(self) -> list[Batch]:
        """Remove and return all messages."""
        heap, self._heap = self._heap, []
        return [batch for _, _, batch in heap]
