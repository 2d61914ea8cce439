"""What publishers are owed: messages of the open batch that are to be on disk, or with consumers.

    owe 1-3 to A, 4 to B, 5-9 to A      ids of a queue ascend, so one search finds the first that a range touches
    consumed 2-4                        A.consumed(2), B.consumed(1)

A debt is of copies, and a publisher that has sent one message to three queues is owed three. Each id is settled once,
so counting is enough. The debts of a batch that is sent are forgotten: then its number tells the rest.
"""

from bisect import bisect_right
from typing import Protocol


class Debt(Protocol):
    """What a publisher is owed: copies of its messages that are to be on disk, or with a consumer."""

    @property
    def unsafe(self) -> int:
        """How many of the copies are neither."""

    def wait_for(self, number: int, count: int) -> None:
        """Wait for the batch with a number because of so many copies."""

    def consumed(self, count: int) -> None:
        """Report that consumers have so many of them before they were sent to the disk."""


class Debts:
    """What publishers are owed of one queue's messages; created with the first, ends with its batch.

    ``stop`` is the id behind the last one.
    """

    __slots__ = ("_firsts", "_owed", "_seen", "stop")

    def __init__(self) -> None:
        self._firsts: list[int] = []  # ascend
        self._owed: list[tuple[int, Debt]] = []  # beside each first id: the one behind the last, and whose they are
        self._seen = 0  # debts that were there at the last ``drop_paid``
        self.stop = 0

    def add(self, first: int, count: int, debt: Debt) -> None:
        self._firsts.append(first)
        self.stop = first + count
        self._owed.append((self.stop, debt))

    def pay(self, first: int, count: int) -> int:
        """Report ids in a row, each of which comes once; return how many of them were owed."""
        firsts, owed, end, total = self._firsts, self._owed, first + count, 0
        at = max(0, bisect_right(firsts, first) - 1)
        while at < len(firsts) and firsts[at] < end:
            stop, debt = owed[at]
            paid = min(stop, end) - max(firsts[at], first)
            if paid > 0:
                total += paid
                debt.consumed(paid)
            at += 1
        return total

    @property
    def is_awaited(self) -> bool:
        return any(debt.unsafe for _, debt in self._owed)

    def drop_paid(self) -> bool:
        """Drop debts of which nothing is unsafe any more; return whether one is left that was there the last time."""
        owed = self._owed
        left = [position for position, (_, debt) in enumerate(owed) if debt.unsafe]
        overdue = bool(left) and left[0] < self._seen
        self._firsts = [self._firsts[position] for position in left]
        self._owed = [owed[position] for position in left]
        self._seen = len(left)
        return overdue
