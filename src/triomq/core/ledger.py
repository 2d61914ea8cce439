"""A ledger: under which number a consumer knows each delivery, until it is settled.

Wires number deliveries and settle them by number, one by one or all up to one (AMQP's multiple, the cumulative acks of
other protocols). A number leads to the batch that the message came in, for many messages come in one batch; the place
in it is the number less the first one of those that were given together.

Who settles all deliveries at once may settle a million. That is decided at once, so that none of the numbers leads
anywhere any more, and told to the queues bit by bit, oldest first, in turns between those of others.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from triomq.core.batch import Batch
from triomq.core.delivery import Outcome, settle
from triomq.core.refusals import UnknownDelivery

if TYPE_CHECKING:
    from triomq.core.domain import Domain

__all__ = ["Ledger", "Numbered", "Settler"]


_AT_ONCE = 20_000
"""Deliveries that are settled in the turn in which that was asked for: some 10 ms."""

_STEP = 1_000
"""Deliveries settled in one step of the rest: half a millisecond."""


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


def _settle_entries(entries: dict[int, Numbered], numbers: Iterable[int], outcome: Outcome, settler: Settler) -> None:
    """Settle deliveries and forget their numbers; neighbours of one batch are settled together."""
    numbered: Numbered | None = None
    offsets: list[int] = []
    for number in numbers:
        found = entries.pop(number, None)
        if found is not numbered:
            if numbered is not None:
                settler(numbered, outcome, offsets)
            numbered, offsets = found, []
        if found is None:
            raise UnknownDelivery(number)
        offsets.append(number - found.first)
    if numbered is not None:
        settler(numbered, outcome, offsets)


class SettleRest:
    """A chore of the domain: settle all deliveries that a ledger had.

    Args:
        entries: The deliveries by number; nobody else has them any more.
        outcome: How they are settled.
    """

    def __init__(self, entries: dict[int, Numbered], outcome: Outcome) -> None:
        """Hold them."""
        self._entries = entries
        # A copy: in a table that shrinks the first key is ever harder to find.
        self._numbers = iter(list(entries))
        self._outcome = outcome

    def go_on(self) -> bool:
        """Settle some; return whether there are more."""
        _settle_entries(self._entries, islice(self._numbers, _STEP), self._outcome, _settle_now)
        return bool(self._entries)

    def step(self, domain: "Domain") -> bool:
        """Settle some, as a chore."""
        domain.system.turn.charge(_STEP // 2)
        return self.go_on()


class Ledger:
    """The unsettled deliveries of one consumer or channel, by number from 1; made with it, ends with it.

    ``settler`` is what becomes of settlements: told at once, or kept by a transaction.
    """

    __slots__ = ("_entries", "_oldest", "begin_later", "next_number", "settler")

    def __init__(self) -> None:
        """Start without deliveries."""
        self.next_number = 1
        self.settler: Settler = _settle_now
        self.begin_later: Callable[[SettleRest], None] | None = None  # has long work done; None: it is done at once
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
        _settle_entries(self._entries, numbers, outcome, settler)

    def settle_up_to(self, number: int, outcome: Outcome) -> None:
        """Settle all deliveries up to a number, 0 meaning all.

        Raises:
            UnknownDelivery: The number leads nowhere; nothing is settled.
        """
        if number and number not in self._entries:
            raise UnknownDelivery(number)
        last = number or self.next_number - 1
        if len(self._entries) > _AT_ONCE and last == self.next_number - 1 and self.settler is _settle_now:
            self._settle_many(outcome)
            return
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
        if len(self._entries) > _AT_ONCE:
            self._settle_many(Outcome.REQUEUE)
        else:
            self.requeue(list(self._entries))

    def _settle_many(self, outcome: Outcome) -> None:
        rest = SettleRest(self._entries, outcome)
        self._entries = {}
        self._oldest = self.next_number
        if self.begin_later is not None:
            self.begin_later(rest)
        else:
            while rest.go_on():
                pass

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
