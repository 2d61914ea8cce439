"""Messages that came back to a backlog, in their old order, whatever the order in which they come back.

They are held as they were handed out: a batch that comes back whole is one run, with its list of contents and its range
of ids, so that a consumer which leaves with a million unsettled messages costs some thousand runs and no copy. The
messages of a run share the traits, the deadline, and how often they came back.

Runs may overlap, since batches of messages that were handed out in turns have ids 1, 4, 7 and 2, 5, 8. So they wait in
a heap by their first ids, and of the first run only what comes before the next one's first id may go.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import accumulate
from typing import cast

import msgspec

from triomq.core.backlog.run import RUN_LENGTH, add_heads
from triomq.core.batch import Batch
from triomq.core.message import Head, QueueMessage


class ReturnedRun(msgspec.Struct, eq=False, gc=False):
    """Messages that came back together; holds no cycle, so needs no collection.

    Args:
        head: The first one's, and that of all if ``heads`` is None.
        contents: Their bytes.
        ids: Their ids, ascending.
        size: Total of the bytes.
        deadline: When they expire, in seconds of the domain's clock.
        attempts: How often they came back.
        heads: The head of each; None as long as they have the same one.
    """

    head: Head
    contents: list[bytes]
    ids: Sequence[int]
    size: int
    deadline: float
    attempts: int
    heads: list[Head] | None = None

    def head_at(self, position: int) -> Head:
        """Return the head of the message at a position."""
        return self.head if self.heads is None else self.heads[position]

    def shares_all(self, other: "ReturnedRun") -> bool:
        """Return whether messages of both may go in one batch."""
        return (
            self.head.traits is other.head.traits
            and self.deadline == other.deadline
            and self.attempts == other.attempts
        )


class ReturnedMessages:
    """Messages that came back, lowest ids first; made by a backlog with the first one, ends with the last one."""

    __slots__ = ("_heap", "_latest")

    def __init__(self) -> None:
        self._heap: list[tuple[int, ReturnedRun]] = []  # by the first id, which no two have in common
        self._latest: ReturnedRun | None = None

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self._heap)

    def put(self, run: ReturnedRun) -> None:
        """Put messages back in their places; behind the run that came before if they follow it."""
        latest = self._latest
        if (
            latest is not None
            and isinstance(run.ids, range)
            and isinstance(latest.ids, range)
            and latest.ids.step == run.ids.step == 1
            and latest.ids.stop == run.ids.start
            and len(latest.contents) + len(run.contents) <= RUN_LENGTH
            and latest.shares_all(run)
        ):
            add_heads(latest, run.head, run.heads, len(run.contents))
            latest.contents += run.contents
            latest.ids = range(latest.ids.start, run.ids.stop)
            latest.size += run.size
            return
        heappush(self._heap, (run.ids[0], run))
        self._latest = run

    @property
    def first_id(self) -> int:
        """The id of the first message."""
        return self._heap[0][0]

    @property
    def first(self) -> ReturnedRun:
        """The run of the first message."""
        return self._heap[0][1]

    def in_a_row(self) -> int:
        """Return how many of the first messages are of one run and have ids in a row; at least one."""
        ids = self.first.ids
        return _before_next(self._heap) if isinstance(ids, range) and ids.step == 1 else 1

    def cut(self, count: int) -> ReturnedRun:
        """Remove and return the first messages of the first run; no more than come before those of other runs."""
        run = self._heap[0][1]
        if count == len(run.contents):
            heappop(self._heap)
            if run is self._latest:
                self._latest = None
            return run
        gone = ReturnedRun(run.head, run.contents[:count], run.ids[:count], 0, run.deadline, run.attempts)
        gone.size = sum(map(len, gone.contents))
        del run.contents[:count]
        if run.heads is not None:
            gone.heads = run.heads[:count]
            del run.heads[:count]
            run.head = run.heads[0]
        run.ids = run.ids[count:]
        run.size -= gone.size
        heapreplace(self._heap, (run.ids[0], run))
        return gone

    def take(self, most: int, most_bytes: int) -> Batch:
        """Remove and return the first messages as long as they share all that a run shares, and the limits hold.

        Args:
            most: At most so many messages.
            most_bytes: At most so many bytes, except that one message may always go.
        """
        heap, first = self._heap, self._heap[0][1]
        taken: list[ReturnedRun] = []
        while heap and most and heap[0][1].shares_all(first):
            run = heap[0][1]
            count = min(most, _before_next(heap))
            if run.size > most_bytes:
                if taken:
                    break  # a batch that comes back whole goes out whole: to fill up to the limit would cut them all
                count = min(count, bisect_right([*accumulate(map(len, run.contents[:count]))], most_bytes))
            taken.append(self.cut(max(1, count)))
            most -= len(taken[-1].contents)
            most_bytes -= taken[-1].size
        return _batch_of(taken)

    def runs(self) -> Iterator[ReturnedRun]:
        """Yield all runs, in no order."""
        for _, run in self._heap:
            yield run

    def after(self, number: int) -> Iterator[tuple[int, QueueMessage, ReturnedRun]]:
        """Yield the messages with ids above a number, in order: id, message, and the run that each is in."""
        positions = ((run, bisect_right(run.ids, number)) for _, run in self._heap)
        heap = [(run.ids[position], position, run) for run, position in positions if position < len(run.ids)]
        heapify(heap)
        while heap:
            found, position, run = heap[0]
            yield found, QueueMessage(run.head_at(position), run.contents[position]), run
            position += 1
            if position < len(run.ids):
                heapreplace(heap, (run.ids[position], position, run))
            else:
                heappop(heap)


def _before_next(heap: Sequence[tuple[int, ReturnedRun]]) -> int:
    """Count the messages of the first run that come before all those of others."""
    run = heap[0][1]
    if len(heap) == 1:
        return len(run.contents)
    following = heap[1][0] if len(heap) == 2 else min(heap[1][0], heap[2][0])
    return len(run.contents) if run.ids[-1] < following else bisect_left(run.ids, following)


def _batch_of(taken: Sequence[ReturnedRun]) -> Batch:
    """Make one batch of the messages that go together."""
    first = taken[0]
    ids: Sequence[int] = first.ids
    if len(taken) > 1:
        ids = [number for run in taken for number in run.ids]
        if ids[-1] - ids[0] == len(ids) - 1:
            ids = range(ids[0], ids[-1] + 1)
        for run in taken[1:]:  # nothing else refers to their lists
            add_heads(first, run.head, run.heads, len(run.contents))
            first.contents += run.contents
    return Batch(
        first.head,
        cast("list[bytes | None]", first.contents),
        ids,
        first.attempts > 0 or first.head.traits.repeated,
        sum(run.size for run in taken),
        len(first.contents),
        deadline=first.deadline,
        attempts=first.attempts,
        heads=first.heads if len(first.contents) > 1 else None,
    )
