"""A ledger: under which number a consumer knows each delivery, until it is settled.

Protocols number deliveries and settle them by number, one by one or all up to one (AMQP's multiple, the cumulative acks
of other protocols).

    number ──▶ table ──▶ Numbered(batch, first) ──▶ position = number - first ──▶ queue: Settle(batch, positions)

Rules:

- A number leads to the batch that the message came in, for many messages come in one batch; the position in it is the
  number less the first one of those that were numbered together.
- Settling all deliveries up to one may settle a million. That is decided at once, so that none of the numbers is valid
  any more, and the queues are told bit by bit, oldest first, in turns between those of others.
- For that the numbers are in tables of some thousands: whole tables are handed over, and only the last one is split.
  What is settled singly is mostly in the newest table, which is the only one of nearly every consumer.
- Deliveries that are settled when they are sent are numbered (``skip``) and not entered.

One dict of all numbers would have to be walked from its front, where every key that was removed is passed again.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from triomq.core.batch import Batch
from triomq.core.delivery import Outcome, Postpone, Settle
from triomq.core.message import Stretch
from triomq.core.refusals import UnknownDelivery

if TYPE_CHECKING:
    from triomq.core.topology.domain import Domain

_TABLE = 16_384
"""Numbers after which a table is closed, if it is at least half full: to settle all of them takes some 5 ms, and is
done in the turn in which it was asked for."""

_STEP = 1_000
"""Deliveries settled in one step of the rest: half a millisecond."""


class Numbered(msgspec.Struct, eq=False):
    """Messages of a batch that were sent together under consecutive numbers.

    Args:
        batch: The batch.
        first: The first message's number.
        positions: The messages' positions in the batch; None if they are all that it had.
    """

    batch: Batch
    first: int
    positions: Sequence[int] | None = None

    def at(self, offsets: Sequence[int]) -> Sequence[int]:
        """Return which positions of the batch some offsets from the first number mean."""
        positions = self.positions
        return offsets if positions is None else [positions[offset] for offset in offsets]

    def stretch(self) -> Stretch:
        """Return the messages, without those that are settled."""
        return self.batch.stretch(self.positions)


def settle(
    batch: Batch, outcome: Outcome, positions: Sequence[int] | None = None, *, in_exchange: bool = False
) -> None:
    """Settle deliveries of a batch at its queue.

    Args:
        batch: The batch.
        outcome: How.
        positions: Where in it; None for all that are left.
        in_exchange: Whether something else that this turn publishes or records takes their place. Then their publishers
            are not told that they are safe before that is on disk.
    """
    assert batch.queue is not None
    if batch.left:  # else its queue has ended, or has taken everything back after a crash
        batch.queue.tell_nowait(Settle(batch, outcome, positions, in_exchange))


def postpone(batch: Batch, position: int, reason: str) -> None:
    """Tell a batch's queue that a consumer failed over a delivery of it, and why."""
    assert batch.queue is not None
    batch.queue.tell_nowait(Postpone(batch, position, reason))


Settler: TypeAlias = Callable[[Numbered, Outcome, Sequence[int]], None]
"""What settles the deliveries at some offsets from the first number."""


def _settle_now(numbered: Numbered, outcome: Outcome, offsets: Sequence[int]) -> None:
    """Settle deliveries at their queue at once."""
    batch = numbered.batch
    left = batch.left
    if left:  # as in ``settle``, for each ack
        assert batch.queue is not None
        batch.queue.tell_nowait(Settle(batch, outcome, None if len(offsets) == left else numbered.at(offsets)))


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
    """A chore of the domain: settle many deliveries that a ledger had.

    Args:
        tables: The deliveries by number, oldest first; not in the ledger any more.
        outcome: How they are settled.
    """

    def __init__(self, tables: Iterable[dict[int, Numbered]], outcome: Outcome) -> None:
        self._tables = deque(tables)
        self._numbers: Iterator[int] = iter(())
        self._outcome = outcome

    def go_on(self) -> bool:
        """Settle some; return whether there are more."""
        numbers = list(islice(self._numbers, _STEP))
        if numbers:
            _settle_entries(self._tables[0], numbers, self._outcome, _settle_now)
            return True
        if self._tables and not self._tables[0]:
            self._tables.popleft()
        if self._tables:
            # A copy: in a table that shrinks the first key is ever harder to find.
            self._numbers = iter(list(self._tables[0]))
        return bool(self._tables)

    def step(self, domain: "Domain") -> bool:
        """Settle some, as a chore."""
        domain.system.turn.charge(_STEP // 2)
        return self.go_on()


class Ledger:
    """The unsettled deliveries of one consumer or channel, by number from 1; created with it, ends with it.

    ``settler`` receives settlements: it tells the queue at once, or gathers them in a transaction.
    """

    __slots__ = ("_closes_at", "_entries", "_older", "_oldest", "begin_later", "next_number", "settler")

    def __init__(self) -> None:
        self.next_number = 1
        self.settler: Settler = _settle_now
        self.begin_later: Callable[[SettleRest], None] | None = None  # has long work done; None: it is done at once
        self._entries: dict[int, Numbered] = {}  # the newest table
        self._closes_at = _TABLE  # the number from which on it may be closed
        self._older: deque[dict[int, Numbered]] = deque()  # closed tables, ascending, none of them empty
        self._oldest = 1  # no number below this one is unsettled

    @property
    def is_empty(self) -> bool:
        """Whether nothing is unsettled."""
        return not self._entries and not self._older

    def __len__(self) -> int:
        """Count what is unsettled."""
        return sum(map(len, self._tables))

    @property
    def oldest(self) -> int:
        """The number of the delivery that is unsettled for longest; the next number if there is none."""
        return next(iter(self._older[0] if self._older else self._entries), self.next_number)

    @property
    def _tables(self) -> Iterator[dict[int, Numbered]]:
        return chain(self._older, (self._entries,))

    def skip(self, count: int) -> int:
        """Number messages that are settled as they are sent; return the first number."""
        first = self.next_number
        self.next_number = first + count
        return first

    def enter(self, batch: Batch) -> int:
        """Number all messages of a batch, and remember where the numbers lead; return the first one."""
        first = self.next_number
        self.next_number = following = first + batch.left
        if following > self._closes_at:
            self._close_table()
        numbered = Numbered(batch, first)
        if following - first == 1:
            self._entries[first] = numbered
        else:
            self._entries.update(dict.fromkeys(range(first, following), numbered))
        return first

    def _close_table(self) -> None:
        """Start a new table, if there is much in the present one."""
        self._closes_at = self.next_number + _TABLE
        if len(self._entries) > _TABLE // 2:
            self._older.append(self._entries)
            self._entries = {}

    def find(self, number: int) -> Numbered | None:
        """Find where a number leads, in whatever table it is."""
        for table in self._tables:
            if number in table:
                return table[number]
        return None

    def _take(self, number: int) -> Numbered | None:
        """Remove and return what a number leads to, in any table."""
        for table in self._tables:
            found = table.pop(number, None)
            if found is not None:
                self._drop_empty(table)
                return found
        return None

    def _drop_empty(self, table: dict[int, Numbered]) -> None:
        if not table and table is not self._entries:
            self._older.remove(table)

    def settle_each(self, numbers: Sequence[int], outcome: Outcome) -> None:
        """Settle deliveries one by one; neighbours of one batch are settled together.

        Raises:
            UnknownDelivery: A number leads nowhere; those before it are settled.
        """
        if len(numbers) == 1:  # a consumer that acks each by itself: no grouping to do
            found = self._entries.pop(numbers[0], None) or self._take(numbers[0])
            if found is None:
                raise UnknownDelivery(numbers[0])
            self.settler(found, outcome, (numbers[0] - found.first,))
        else:
            self._settle(numbers, outcome, self.settler)

    def _settle(self, numbers: Sequence[int], outcome: Outcome, settler: Settler) -> None:
        if not self._older:
            _settle_entries(self._entries, numbers, outcome, settler)
            return
        sought = set(numbers)
        for table in self._tables:
            if table.keys() >= sought:
                _settle_entries(table, numbers, outcome, settler)
                self._drop_empty(table)
                return
        wanted: dict[int, Numbered] = {}
        for number in numbers:
            found = self._take(number)
            if found is None:
                break  # the next line raises, when those before it are settled
            wanted[number] = found
        _settle_entries(wanted, numbers, outcome, settler)

    def settle_up_to(self, number: int, outcome: Outcome) -> None:
        """Settle all deliveries up to a number, 0 meaning all.

        Raises:
            UnknownDelivery: The number leads nowhere; nothing is settled.
        """
        if number and number not in self._entries and self.find(number) is None:
            raise UnknownDelivery(number)
        self.settle_through(number or self.next_number - 1, outcome)

    def settle_through(self, last: int, outcome: Outcome) -> None:
        """Settle all deliveries up to a number, which was given, whether or not it still leads anywhere."""
        entries = self._entries
        if self._older:
            self._settle_many(last, outcome)
            return
        span = range(self._oldest, last + 1)
        self._oldest = last + 1
        if len(span) <= len(entries):
            present = [number for number in span if number in entries]
        else:  # most were settled singly: the span may be milliards
            present = [number for number in entries if number <= last]
        _settle_entries(entries, present, outcome, self.settler)

    def requeue(self, numbers: Sequence[int]) -> None:
        """Requeue messages at once, marked, whatever transaction is going on."""
        self._settle(numbers, Outcome.REQUEUE, _settle_now)

    def requeue_all(self) -> None:
        """Requeue all messages, in the order in which they were handed out."""
        if self._older:
            self._settle_later(self._part(self.next_number - 1), Outcome.REQUEUE)
        else:
            self.requeue(list(self._entries))

    def _settle_many(self, last: int, outcome: Outcome) -> None:
        """Settle what is in several tables: bit by bit, but at once where a transaction gathers it."""
        tables = self._part(last)
        if self.settler is _settle_now:
            self._settle_later(tables, outcome)
            return
        for table in tables:
            _settle_entries(table, list(table), outcome, self.settler)

    def _part(self, last: int) -> list[dict[int, Numbered]]:
        """Remove all numbers up to one, and return them in tables."""
        self._oldest = last + 1
        parted: list[dict[int, Numbered]] = []
        older = self._older
        while older and next(reversed(older[0])) <= last:
            parted.append(older.popleft())
        table = older[0] if older else self._entries
        part = {number: table[number] for number in table if number <= last}
        for number in part:
            del table[number]
        return [*parted, part]

    def _settle_later(self, tables: Iterable[dict[int, Numbered]], outcome: Outcome) -> None:
        rest = SettleRest(tables, outcome)
        if self.begin_later is not None:
            self.begin_later(rest)
        else:
            while rest.go_on():
                pass

    def groups(self) -> Iterator[tuple[Numbered, list[int]]]:
        """Go through all numbers, those together that were given together."""
        items = chain.from_iterable(table.items() for table in self._tables)
        for _, group in groupby(items, key=lambda entry: id(entry[1])):
            entries = list(group)
            yield entries[0][1], [number for number, _ in entries]

    def still(self, numbered: Numbered, numbers: Sequence[int]) -> list[int]:
        """Return which of some numbers are not settled yet."""
        return [number for number in numbers if self.find(number) is numbered]

    def renumber(self, numbered: Numbered, numbers: Sequence[int]) -> Numbered:
        """Return messages new numbers, for they go out again; the old ones lead nowhere any more."""
        for number in numbers:
            self._take(number)
        first = self.skip(len(numbers))
        if self.next_number > self._closes_at:
            self._close_table()
        again = Numbered(numbered.batch, first, numbered.at([number - numbered.first for number in numbers]))
        self._entries.update(dict.fromkeys(range(first, self.next_number), again))
        return again

    def restore(self, settled: Sequence[tuple[Numbered, Sequence[int]]]) -> None:
        """Make deliveries unsettled again that a transaction had settled and does not."""
        if not settled:
            return
        entries: dict[int, Numbered] = {}
        for table in self._tables:
            entries |= table
        for numbered, offsets in settled:
            entries.update(dict.fromkeys([numbered.first + offset for offset in offsets], numbered))
        numbers = sorted(entries)
        self._oldest = numbers[0]
        tables = [numbers[start : start + _TABLE] for start in range(0, len(numbers), _TABLE)]
        *older, self._entries = [{number: entries[number] for number in table} for table in tables]
        self._older = deque(older)
        self._closes_at = self.next_number + _TABLE
