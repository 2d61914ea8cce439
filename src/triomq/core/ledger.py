"""A ledger: under which number a consumer knows each delivery, until it is settled.

Wires number deliveries and settle them by number, one by one or all up to one (AMQP's multiple, the cumulative acks of
other protocols). A number leads to the batch that the message came in, for many messages come in one batch; the place
in it is the number less the first one of those that were given together.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

import msgspec

from triomq.core.batch import Batch
from triomq.core.delivery import Outcome, settle
from triomq.core.refusals import UnknownDelivery

__all__ = ["Ledger", "Numbered", "Settler"]


class Numbered(msgspec.Struct, eq=False):
    """Messages of a batch that went out together under consecutive numbers.

    Args:
        batch: The batch.
        first: The first message's number.
        positions: The messages' positions in the batch; None says that they are all that it had.
    """

    batch: Batch
    first: int
    positions: Sequence[int] | None = None

    def at(self, offsets: Sequence[int]) -> Sequence[int]:
        """Tell which positions of the batch some offsets from the first number mean."""
        positions = self.positions
        return offsets if positions is None else [positions[offset] for offset in offsets]

    @property
    def contents(self) -> list[bytes]:
        """The messages' octets, without those that are settled."""
        contents = self.batch.contents
        found = contents if self.positions is None else [contents[position] for position in self.positions]
        return [content for content in found if content is not None]


Settler: TypeAlias = Callable[[Numbered, Outcome, Sequence[int]], None]
"""What settles the deliveries at some offsets from the first number."""


def _settle_now(numbered: Numbered, outcome: Outcome, offsets: Sequence[int]) -> None:
    """Tell the queue at once."""
    batch = numbered.batch
    settle(batch, outcome, None if len(offsets) == batch.left else numbered.at(offsets))


class Ledger:
    """The unsettled deliveries of one consumer or channel, by number from 1; made with it, ends with it.

    ``settler`` is what becomes of settlements: told at once, or kept by a transaction.
    """

    __slots__ = ("_entries", "_oldest", "next_number", "settler")

    def __init__(self) -> None:
        """Start without deliveries."""
        self.next_number = 1
        self.settler: Settler = _settle_now
        self._entries: dict[int, Numbered] = {}
        self._oldest = 1  # no number below this one is unsettled

    @property
    def is_empty(self) -> bool:
        """Whether nothing is unsettled."""
        return not self._entries

    @property
    def oldest(self) -> int:
        """The number of the delivery that is unsettled for longest; the next number if there is none."""
        return next(iter(self._entries), self.next_number)

    def skip(self, count: int) -> int:
        """Number messages that nobody settles; give the first number."""
        first = self.next_number
        self.next_number = first + count
        return first

    def enter(self, batch: Batch) -> int:
        """Number all messages of a batch, and remember where the numbers lead; give the first one."""
        first = self.next_number
        self.next_number = following = first + batch.left
        numbered = Numbered(batch, first)
        if following - first == 1:
            self._entries[first] = numbered
        else:
            self._entries.update(dict.fromkeys(range(first, following), numbered))
        return first

    def settle_each(self, numbers: Sequence[int], outcome: Outcome) -> None:
        """Settle deliveries one by one; neighbours of one batch are settled together.

        Raises:
            UnknownDelivery: A number leads nowhere; those before it are settled.
        """
        if len(numbers) == 1:  # a consumer that acks each by itself: no grouping to do
            found = self._entries.pop(numbers[0], None)
            if found is None:
                raise UnknownDelivery(numbers[0])
            self.settler(found, outcome, (numbers[0] - found.first,))
        else:
            self._settle(numbers, outcome, self.settler)

    def _settle(self, numbers: Sequence[int], outcome: Outcome, settler: Settler) -> None:
        numbered: Numbered | None = None
        offsets: list[int] = []
        for number in numbers:
            found = self._entries.pop(number, None)
            if found is not numbered:
                if numbered is not None:
                    settler(numbered, outcome, offsets)
                numbered, offsets = found, []
            if found is None:
                raise UnknownDelivery(number)
            offsets.append(number - found.first)
        if numbered is not None:
            settler(numbered, outcome, offsets)

    def settle_up_to(self, number: int, outcome: Outcome) -> None:
        """Settle all deliveries up to a number, 0 meaning all.

        Raises:
            UnknownDelivery: The number leads nowhere; nothing is settled.
        """
        if number and number not in self._entries:
            raise UnknownDelivery(number)
        last = number or self.next_number - 1
        present = self._up_to(last)
        self._oldest = last + 1
        self._settle(present, outcome, self.settler)

    def _up_to(self, last: int) -> list[int]:
        entries, span = self._entries, range(self._oldest, last + 1)
        if len(span) <= len(entries):
            return [number for number in span if number in entries]
        return [number for number in entries if number <= last]  # most were settled singly: the span may be milliards

    def requeue(self, numbers: Sequence[int]) -> None:
        """Put messages back at once, marked, whatever transaction is going on."""
        self._settle(numbers, Outcome.REQUEUE, _settle_now)

    def requeue_all(self) -> None:
        """Put all messages back at once, in the order in which they went out."""
        self.requeue(list(self._entries))

    def groups(self) -> Iterator[tuple[Numbered, list[int]]]:
        """Go through all numbers, those together that were given together."""
        for _, group in groupby(self._entries.items(), key=lambda entry: id(entry[1])):
            entries = list(group)
            yield entries[0][1], [number for number, _ in entries]

    def still(self, numbered: Numbered, numbers: Sequence[int]) -> list[int]:
        """Tell which of some numbers are not settled yet."""
        return [number for number in numbers if self._entries.get(number) is numbered]

    def renumber(self, numbered: Numbered, numbers: Sequence[int]) -> Numbered:
        """Give messages new numbers, for they go out again; the old ones lead nowhere any more."""
        for number in numbers:
            del self._entries[number]
        first = self.skip(len(numbers))
        again = Numbered(numbered.batch, first, numbered.at([number - numbered.first for number in numbers]))
        self._entries.update(dict.fromkeys(range(first, self.next_number), again))
        return again

    def restore(self, settled: Sequence[tuple[Numbered, Sequence[int]]]) -> None:
        """Let deliveries be unsettled again that a transaction had settled and does not."""
        for numbered, offsets in settled:
            self._entries.update(dict.fromkeys([numbered.first + offset for offset in offsets], numbered))
        if settled:
            self._entries = dict(sorted(self._entries.items(), key=lambda entry: entry[0]))
            self._oldest = next(iter(self._entries))
