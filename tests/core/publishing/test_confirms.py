from hypothesis import given
from hypothesis import strategies as st

from core.durable import PERSISTENT, TRANSIENT, DurableHarness
from core.simulated_disk import SimulatedDisk
from memory_store import MemoryStore
from triomq.core import (
    Confirmed,
    Confirms,
    Head,
    Overflow,
    Persistence,
    Publish,
    QueueOptions,
    QueueState,
    Receipt,
)
from triomq.store import QueueDeclared

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
            assert len(new) > 1, "an 'up to' is said of more than one"
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
        receipt = confirms.expect(count, count * queues)
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
            receipt.refused(range(start, stop))
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
    receipts = [confirms.expect(10, 10) for _ in range(3)]
    for receipt in receipts:
        receipt.placed(10)
    assert woken.times == 3
    assert confirms.take() == Confirmed([], [], 30)


def test_message_that_no_queue_gets_is_confirmed_at_once() -> None:
    woken = Woken()
    confirms = Confirms(woken)
    confirms.expect(2, 0)
    assert woken.times == 1
    assert confirms.take() == Confirmed([], [], 2)


def test_runs_behind_one_that_misses_something_are_confirmed_singly() -> None:
    confirms = Confirms(Woken())
    slow, quick = confirms.expect(2, 4), confirms.expect(2, 2)
    slow.placed(2)
    quick.placed(2)
    assert confirms.take() == Confirmed([], [3, 4], 0)
    assert confirms.take() == Confirmed([], [], 0)
    slow.placed(2)
    last = confirms.expect(1, 1)
    last.placed(1)
    assert confirms.take() == Confirmed([], [], 5)


def test_number_that_one_of_two_queues_refuses_is_refused() -> None:
    confirms = Confirms(Woken())
    receipt = confirms.expect(3, 6)
    receipt.placed(3)
    receipt.placed(1)
    receipt.refused((1, 2))
    assert confirms.take() == Confirmed([2, 3], [1], 0)


def test_run_that_is_refused_wholly_confirms_nothing() -> None:
    confirms = Confirms(Woken())
    confirms.expect(2, 2).refused((0, 1))
    assert confirms.take() == Confirmed([1, 2], [], 0)


def test_receipt_is_done_once_with_the_last_placement() -> None:
    woken = Woken()
    receipt = Receipt(1, 2, 4, woken)
    receipt.placed(2)
    receipt.refused((0,))
    assert woken.times == 0
    receipt.placed(1)
    assert (woken.times, receipt.refusals) == (1, {1})


def placed(confirms: Confirms, count: int, number: int = 0) -> Receipt:
    """A run that one queue has; the store has it in a batch."""
    receipt = confirms.expect(count, count)
    receipt.number = number
    receipt.placed(count)
    return receipt


def test_durable_message_is_confirmed_when_it_is_on_disk_and_those_behind_it_too() -> None:
    disk, committed = SimulatedDisk(MemoryStore()), Woken()
    confirms = Confirms(Woken(), Persistence(disk.journal), committed)
    placed(confirms, 1)
    for number in (1, 2):
        disk.journal.add(QueueDeclared(number, b"", b""))
        placed(confirms, 2, disk.journal.open_batch)
        assert disk.take() == number
    placed(confirms, 1)
    assert confirms.take() == Confirmed([], [1], 0)
    assert confirms.take() == Confirmed([], [], 0)
    disk.journal.answered(1)
    assert committed.times == 1
    assert confirms.take() == Confirmed([], [], 3)
    disk.journal.answered(2)
    assert committed.times == 2
    assert confirms.take() == Confirmed([], [], 6)


def test_durable_run_behind_an_incomplete_one_waits_for_the_disk_as_well() -> None:
    disk, committed = SimulatedDisk(MemoryStore()), Woken()
    confirms = Confirms(Woken(), Persistence(disk.journal), committed)
    disk.journal.add(QueueDeclared(1, b"", b""))
    slow = confirms.expect(1, 1)
    placed(confirms, 1)
    placed(confirms, 1, disk.journal.open_batch)
    assert confirms.take() == Confirmed([], [2], 0)
    disk.work()
    assert committed.times == 1
    assert confirms.take() == Confirmed([], [3], 0)
    slow.number = disk.journal.open_batch
    slow.placed(1)
    assert confirms.take() == Confirmed([], [], 0)
    disk.journal.add(QueueDeclared(2, b"", b""))
    disk.work()
    assert confirms.take() == Confirmed([], [1], 0)


async def test_receipt_names_the_batch_if_the_queue_keeps_some_of_the_run(durable: DurableHarness) -> None:
    full = QueueOptions(max_length=1, overflow=Overflow.REJECT_PUBLISH)
    queue, transient = durable.harness.queue("d", full), durable.harness.queue("t", QueueOptions(durable=False))
    durable.disk.work()
    number = durable.disk.journal.open_batch

    def told(queue: QueueState, head: Head, delay: float = 0.0) -> Receipt:
        receipt = Receipt(1, 2, 2, lambda: None)
        queue.ref.tell_nowait(Publish(head, [b"1", b"2"], 2, receipt, delay=delay))
        return receipt

    assert told(transient, PERSISTENT).number == 0
    assert told(queue, TRANSIENT, delay=60).number == 0
    assert told(queue, PERSISTENT, delay=60).number == number
    assert told(queue, PERSISTENT).number == number
    assert told(queue, PERSISTENT).number == 0
    assert durable.disk.journal.require_commit() == number
