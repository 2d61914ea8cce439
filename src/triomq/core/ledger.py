"""A ledger: under which number a consumer knows each delivery, until it is settled.

Wires number deliveries and settle them by number, one by one or all up to one (AMQP's multiple, the cumulative acks of
other protocols). A number leads to the batch that the message came in; its place there is the number less the batch's
first. Who settles what is decided elsewhere: the ledger hands on batches and positions, neighbours together.
"""

from collections.abc import Callable, Sequence

from triomq.core.batch import Batch
from triomq.core.delivery import Outcome, settle
from triomq.core.refusals import UnknownDelivery

__all__ = ["Ledger", "Settler"]

Settler = Callable[[Batch, Outcome, Sequence[int] | None], None]
"""Settles deliveries of a batch, all that are left or those at some positions: ``settle``, or a transaction's."""


class Ledger:
    """The unsettled deliveries of one consumer or channel, by number from 1; ends with it.

    ``unsettled`` leads from each number to its batch, in the order of delivery.
    """

    __slots__ = ("_oldest", "next_number", "unsettled")

    def __init__(self) -> None:
        """Start without deliveries."""
        self.next_number = 1
        self.unsettled: dict[int, Batch] = {}
        self._oldest = 1  # no number below this one is unsettled

    def enter(self, batch: Batch, *, settles: bool = True) -> int:
        """Number the messages of a batch that goes out, and give the first number.

        Args:
            batch: What goes out; nothing of it is settled yet.
            settles: Whether the consumer settles; if not, the numbers are used up and lead nowhere.
        """
        first = self.next_number
        self.next_number = following = first + batch.left
        batch.first_tag = first
        if settles:
            if following - first == 1:
                self.unsettled[first] = batch
            else:
                self.unsettled.update(dict.fromkeys(range(first, following), batch))
        return first

    def settle_each(self, numbers: Sequence[int], outcome: Outcome, settler: Settler = settle) -> None:
        """Settle deliveries one by one; neighbours of one batch are handed on together.

        Raises:
            UnknownDelivery: A number leads nowhere; those before it are settled.
        """
        if len(numbers) == 1:  # a consumer that settles each by itself: no grouping to do
            found = self.unsettled.pop(numbers[0], None)
            if found is None:
                raise UnknownDelivery(numbers[0])
            _hand_on(settler, found, outcome, [numbers[0] - found.first_tag])
            return
        batch: Batch | None = None
        positions: list[int] = []
        for number in numbers:
            found = self.unsettled.pop(number, None)
            if found is not batch:
                _hand_on(settler, batch, outcome, positions)
                batch, positions = found, []
            if found is None:
                raise UnknownDelivery(number)
            positions.append(number - found.first_tag)
        _hand_on(settler, batch, outcome, positions)

    def settle_up_to(self, number: int, outcome: Outcome, settler: Settler = settle) -> None:
        """Settle all deliveries up to a number, 0 meaning all, in the order in which they went out.

        Raises:
            UnknownDelivery: The number leads nowhere; nothing is settled.
        """
        if number and number not in self.unsettled:
            raise UnknownDelivery(number)
        last = number or self.next_number - 1
        unsettled, span = self.unsettled, range(self._oldest, last + 1)
        if len(span) <= len(unsettled):
            present = [candidate for candidate in span if candidate in unsettled]
        else:  # most were settled singly, or when they left: they may be milliards
            present = [candidate for candidate in unsettled if candidate <= last]
        self._oldest = last + 1
        self.settle_each(present, outcome, settler)

    def put_back(self, batch: Batch, positions: Sequence[int] | None) -> None:
        """Enter deliveries again under the numbers that they had, since what settled them was taken back."""
        for position in batch.unsettled() if positions is None else positions:
            number = batch.first_tag + position
            self.unsettled[number] = batch
            self._oldest = min(self._oldest, number)


def _hand_on(settler: Settler, batch: Batch | None, outcome: Outcome, positions: list[int]) -> None:
    if batch is not None:
        settler(batch, outcome, None if len(positions) == batch.left else positions)
