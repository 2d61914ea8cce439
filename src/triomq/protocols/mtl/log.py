"""What has become of the contents that a writer has sent: pending, confirmed or rejected, by their numbers.

A lease has one log for all of its flows, since a writer that connects again says anew what it has no answer for. What
was taken already is not taken again, but answered again.

Rules:

- Numbers rise (11/MTL leaves it open). A repeated one is answered as it was before; if it is pending, its answer comes.
- Numbers may be left out. One that comes later, since it was lost the first time, is new: to confirm it would lose it.
- What is not remembered any more is rejected: to say that something is safe which is not would be worse than to have it
  sent twice.
- A Confirm with ``multiple`` covers whatever the writer has open up to its number. So it is used where nothing below is
  pending. What was rejected is told first, also to a flow that comes later.
"""

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from triomq.protocols.mtl.headers import LARGEST_SEQUENCE

ContentFate: TypeAlias = Literal["new", "pending", "confirmed", "rejected"]

MOST_GAPS: Final = 1_000
"""Numbers in a row that were left out, which are remembered; our client leaves out those of its commands."""

MOST_REJECTED: Final = 1_000
"""Rejected contents that are remembered: as many as a writer usually has open."""


class WriterLog:
    """The contents of one lease; made with it, and used by the engine of the flow that has claimed it."""

    __slots__ = ("_forgotten", "_gaps", "_order", "_pending", "_rejected", "last")

    def __init__(self) -> None:
        self.last = 0
        """The highest number that was taken."""
        self._pending: set[int] = set()
        self._order: deque[int] = deque()  # rising; what was answered stays until it is the first
        self._rejected: dict[int, bool] = {}  # and whether they may be sent again
        self._gaps: list[tuple[int, int]] = []  # first and last numbers, rising
        self._forgotten = 0  # up to this one gaps, or rejected ones, are not known any more

    @property
    def pending(self) -> int:
        """How many contents wait for their answer."""
        return len(self._pending)

    @property
    def rejected(self) -> list[tuple[int, bool]]:
        """The contents that were rejected, as far as they are remembered, and whether each may be sent again."""
        return list(self._rejected.items())

    def fate(self, sequence: int) -> ContentFate:
        """Return what has become of a content."""
        if sequence > self.last or self._gap_of(sequence) is not None:
            return "new"
        if sequence in self._pending:
            return "pending"
        if sequence in self._rejected or sequence <= self._forgotten:
            return "rejected"
        return "confirmed"

    def may_recycle(self, sequence: int) -> bool:
        """Return what was said of a rejected content: whether it may be sent again."""
        return self._rejected.get(sequence, False)

    def _gap_of(self, sequence: int) -> int | None:
        """Return the place of the gap that a number is in."""
        place = bisect_right(self._gaps, (sequence, LARGEST_SEQUENCE)) - 1
        return place if place >= 0 and sequence <= self._gaps[place][1] else None

    def take(self, sequences: Sequence[int]) -> None:
        """Note that contents are taken, which are new, and wait for their answer."""
        last = self.last
        if sequences and sequences[0] == last + 1 and sequences[-1] == last + len(sequences):
            self._order.extend(sequences)
            self._pending.update(sequences)
            self.last = sequences[-1]
            return
        for sequence in sequences:
            self._take(sequence)

    def _take(self, sequence: int) -> None:
        if sequence > self.last:
            if sequence > self.last + 1:
                self._gaps.append((self.last + 1, sequence - 1))
            self._order.append(sequence)
            self.last = sequence
        else:
            place = self._gap_of(sequence)
            if place is None:
                return
            first, last = self._gaps.pop(place)
            self._gaps[place:place] = [gap for gap in ((first, sequence - 1), (sequence + 1, last)) if gap[0] <= gap[1]]
            insort(self._order, sequence)
        self._pending.add(sequence)
        if len(self._gaps) > MOST_GAPS:
            self._forgotten = max(self._forgotten, self._gaps.pop(0)[1])

    def confirm(self, sequences: Sequence[int]) -> list[tuple[int, bool]]:
        """Note that contents are safe; return what is to be said: numbers, and whether all up to them are meant."""
        pending = self._pending
        confirmed = [sequence for sequence in sequences if sequence in pending]
        pending.difference_update(confirmed)
        self._drop_answered()
        lowest = self._order[0] if self._order else self.last + 1
        covered = [sequence for sequence in confirmed if sequence < lowest]
        said = [(max(covered), len(covered) > 1)] if covered else []
        return said + [(sequence, False) for sequence in confirmed if sequence > lowest]

    def reject(self, sequence: int, *, recycle: bool) -> None:
        """Note that a content is not taken; it need not be pending."""
        if self.fate(sequence) == "new":
            self._take(sequence)
        self._pending.discard(sequence)
        self._drop_answered()
        self._rejected[sequence] = recycle
        if len(self._rejected) > MOST_REJECTED:
            oldest = next(iter(self._rejected))
            del self._rejected[oldest]
            self._forgotten = max(self._forgotten, oldest)

    def _drop_answered(self) -> None:
        order, pending = self._order, self._pending
        while order and order[0] not in pending:
            order.popleft()
