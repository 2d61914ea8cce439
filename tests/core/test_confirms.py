from hypothesis import given
from hypothesis import strategies as st

from triomq.core import Confirmed, Confirms, Receipt

RUNS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=8)


class Woken:
    """Counts how often it is called."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


class Publisher:
    """Hears what is confirmed, and believes it only if it can be true."""

    def __init__(self) -> None:
        self.sent = 0
        self.refused: set[int] = set()
        self.confirmed: set[int] = set()
        self.unplaced: set[int] = set()

    def hear(self, confirmed: Confirmed) -> None:
        for number in confirmed.refused:
            self.settle(number, self.refused)
        for number in confirmed.single:
            self.settle(number, self.confirmed)
        if confirmed.up_to:
            new = set(range(1, confirmed.up_to + 1)) - self.refused - self.confirmed
            assert confirmed.up_to in new, "an 'up to' names a number that is still open"
            for number in new:
                self.settle(number, self.confirmed)

    def settle(self, number: int, where: set[int]) -> None:
        assert number not in self.unplaced
        assert number not in self.refused | self.confirmed
        where.add(number)


@given(RUNS, st.data())
def test_every_number_is_confirmed_or_refused_once_in_whatever_order_queues_place(
    runs: list[tuple[int, int]], data: st.DataObject
) -> None:
    confirms, publisher = Confirms(Woken()), Publisher()
    reports: list[tuple[Receipt, int, int, bool]] = []  # what each queue will say of each part of a run
    refused: set[int] = set()
    for count, queues in runs:
        receipt = confirms.expect(count, queues)
        assert receipt.first == publisher.sent + 1
        publisher.sent += count
        if queues:
            publisher.unplaced.update(range(receipt.first, receipt.first + count))
        for _ in range(queues):
            cut = data.draw(st.integers(0, count))
            parts = [part for part in ((0, cut), (cut, count)) if part[0] < part[1]]
            reports += [(receipt, start, stop, data.draw(st.booleans())) for start, stop in parts]
    for receipt, start, stop, takes in data.draw(st.permutations(reports)):
        if takes:
            receipt.placed(stop - start)
        else:
            receipt.refused(start, stop - start)
            refused.update(range(receipt.first + start, receipt.first + stop))
        if not receipt.missing:
            publisher.unplaced -= set(range(receipt.first, receipt.first + receipt.count))
        if data.draw(st.booleans()):
            publisher.hear(confirms.take())
    publisher.hear(confirms.take())
    assert publisher.refused == refused
    assert publisher.refused | publisher.confirmed == set(range(1, publisher.sent + 1))
    assert confirms.take() == Confirmed([], [], 0)


def test_runs_that_are_placed_in_order_are_confirmed_with_one_up_to() -> None:
    woken = Woken()
    confirms = Confirms(woken)
    receipts = [confirms.expect(10, 1) for _ in range(3)]
    for receipt in receipts:
        receipt.placed(10)
    assert woken.times == 3
    assert confirms.take() == Confirmed([], [], 30)


def test_what_no_queue_gets_is_confirmed_at_once() -> None:
    woken = Woken()
    confirms = Confirms(woken)
    confirms.expect(2, 0)
    assert woken.times == 1
    assert confirms.take() == Confirmed([], [], 2)


def test_runs_behind_one_that_misses_something_are_confirmed_singly() -> None:
    confirms = Confirms(Woken())
    slow, quick = confirms.expect(2, 2), confirms.expect(2, 1)
    slow.placed(2)
    quick.placed(2)
    assert confirms.take() == Confirmed([], [3, 4], 0)
    assert confirms.take() == Confirmed([], [], 0)
    slow.placed(2)
    last = confirms.expect(1, 1)
    last.placed(1)
    assert confirms.take() == Confirmed([], [], 5)


def test_a_number_that_one_of_two_queues_refuses_is_refused() -> None:
    confirms = Confirms(Woken())
    receipt = confirms.expect(3, 2)
    receipt.placed(3)
    receipt.placed(1)
    receipt.refused(1, 2)
    assert confirms.take() == Confirmed([2, 3], [], 1)


def test_a_run_that_is_refused_wholly_confirms_nothing() -> None:
    confirms = Confirms(Woken())
    confirms.expect(2, 1).refused(0, 2)
    assert confirms.take() == Confirmed([1, 2], [], 0)


def test_a_receipt_is_done_once_with_the_last_placement() -> None:
    woken = Woken()
    receipt = Receipt(1, 2, 4, woken)
    receipt.placed(2)
    receipt.refused(0, 1)
    assert woken.times == 0
    receipt.placed(1)
    assert (woken.times, receipt.refusals) == (1, {1})
