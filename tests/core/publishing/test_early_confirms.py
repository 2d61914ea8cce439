"""What consumers have before the disk does is safe: when publishers need not wait, and when they have to."""

from collections.abc import Callable, Iterator, Sequence

import pytest
import trio

from triomq.core import (
    EVERYTHING,
    Batch,
    Confirmed,
    Confirms,
    Discard,
    Get,
    Head,
    Outcome,
    Publish,
    Publisher,
    Purge,
    QueueOptions,
    QueueState,
    Receipt,
    RoutedRun,
    SingleReceipt,
    Transaction,
    WaitingPublisher,
)
from triomq.core.publishing.publishing import CachedRoute
from triomq.store import AttemptsCounted, MessagesAppended, MessagesDelivered, MessagesSettled, Operation

from ..durable import ONE, PERSISTENT, TRANSIENT, DurableHarness, backlog_of, get, open_durable_harness
from ..harness import publish, settle

LETTERS = "letters"
WITH_LETTERS = {"dead_letter_sink": "", "dead_letter_key": LETTERS}


class Place:
    """A queue with letters and a feed, over a disk that has all declarations."""

    def __init__(self, durable: DurableHarness, **options: object) -> None:
        self.durable, self.harness = durable, durable.harness
        self.journal = durable.disk.journal
        self.batches: list[Batch] = []
        self.done = 0
        self.letters = self.harness.queue(LETTERS)
        self.queue = self.harness.queue("q", QueueOptions(**options))  # type: ignore[arg-type]
        self.consume(self.queue)
        durable.disk.work()

    def consume(self, queue: QueueState) -> None:
        self.harness.feed(queue, self.harness.consumer(self.batches))

    def placed(self) -> None:
        self.done += 1

    def receipt(self, count: int = 1, queues: int = 1) -> Receipt:
        self.done = 0
        return Receipt(1, count, count * queues, self.placed)

    def publish(self, *contents: bytes, head: Head = PERSISTENT) -> Receipt:
        receipt = self.receipt(len(contents))
        publish(self.queue, *contents, head=head, receipt=receipt)
        return receipt

    def taken(self) -> Sequence[Operation] | None:
        """The operations of the next batch; None if there is none."""
        batch = self.journal.take()
        return None if batch is None else batch.operations

    def waits(self, receipt: Receipt) -> bool:
        """Whether a publisher waits for the open batch, which is sent for its sake."""
        return receipt.number == self.journal.open_batch and self.taken() is not None


@pytest.fixture
async def place(durable: DurableHarness) -> Place:
    return Place(durable)


@pytest.fixture
async def lettered(durable: DurableHarness) -> Place:
    return Place(durable, **WITH_LETTERS, delivery_limit=1)


async def test_message_that_a_consumer_has_in_time_is_safe_and_never_written(place: Place) -> None:
    number, receipt = place.journal.open_batch, place.publish(b"1", b"2")
    assert (receipt.missing, receipt.number, place.done) == (0, number, 1)
    settle(place.batches[0], positions=[0])
    assert (receipt.number, place.done) == (number, 1)
    settle(place.batches[0])
    assert (receipt.number, place.done) == (0, 2)
    assert place.taken() is None
    assert place.journal.open_batch == number


async def test_messages_of_several_publishers_are_safe_each_for_itself(place: Place) -> None:
    receipts = [place.publish(b"1", b"2"), place.publish(b"3"), place.publish(b"4", b"5")]
    for batch in place.batches[:2]:
        settle(batch)
    settle(place.batches[2], positions=[1])
    assert [receipt.unsafe for receipt in receipts] == [0, 0, 1]
    assert [receipt.number > 0 for receipt in receipts] == [False, False, True]


async def test_each_queue_has_to_be_done_with_its_copy(place: Place) -> None:
    other = place.harness.queue("other")
    place.consume(other)
    place.durable.disk.work()
    receipt = place.receipt(queues=2)
    for queue in (place.queue, other):
        publish(queue, b"1", head=PERSISTENT, receipt=receipt)
    settle(place.batches[0])
    assert (receipt.unsafe, receipt.number > 0) == (1, True)
    settle(place.batches[1])
    assert (receipt.unsafe, receipt.number, place.done) == (0, 0, 2)


async def test_copy_on_its_way_to_the_disk_counts_though_a_later_one_is_with_a_consumer(place: Place) -> None:
    receipt = place.receipt(queues=2)
    publish(place.letters, b"1", head=PERSISTENT, receipt=receipt)
    assert place.taken()
    publish(place.queue, b"1", head=PERSISTENT, receipt=receipt)  # it was being restarted
    settle(place.batches[0])
    assert receipt.unsafe == 1
    assert receipt.number == place.journal.open_batch
    assert place.taken() == []  # its number is waited for


async def test_message_whose_append_was_sent_waits_for_the_disk_and_comes_again_after_a_crash(place: Place) -> None:
    receipt = place.publish(b"1")
    number = place.durable.disk.take()
    settle(place.batches[0])
    assert (receipt.number, place.done) == (number, 1)
    assert place.taken() == [MessagesSettled(backlog_of(place.queue).queue, [(1, 1)])]
    place.durable.disk.write(1)
    assert place.durable.disk.contents(backlog_of(place.queue).queue, spilled=False) == {1: b"1"}


# What is no accept


@pytest.mark.parametrize("outcome", [Outcome.REQUEUE, Outcome.RETURN])
async def test_message_that_comes_back_is_not_safe_until_it_is_accepted(place: Place, outcome: Outcome) -> None:
    receipt = place.publish(b"1")
    settle(place.batches[0], outcome)
    assert (receipt.unsafe, place.done) == (1, 1)
    settle(place.batches[1])
    assert (receipt.number, place.done) == (0, 2)
    assert place.taken() is None


def reject(place: Place) -> None:
    settle(place.batches[0], Outcome.REJECT)


def wear_out(place: Place) -> None:
    for position in range(2):
        settle(place.batches[position], Outcome.REQUEUE)


@pytest.mark.parametrize("bury", [reject, wear_out])
async def test_message_that_becomes_a_dead_letter_waits_for_the_batch_that_has_the_letter(
    lettered: Place, bury: Callable[[Place], None]
) -> None:
    receipt = lettered.publish(b"1")
    bury(lettered)
    assert (receipt.unsafe, receipt.number) == (1, lettered.journal.open_batch)
    operations = lettered.taken()
    assert operations is not None
    assert [each.queue for each in operations if isinstance(each, MessagesAppended)] == [
        backlog_of(lettered.letters).queue
    ]


async def test_dead_letter_that_a_consumer_has_at_once_leaves_the_publisher_its_batch(lettered: Place) -> None:
    lettered.consume(lettered.letters)
    receipt = lettered.publish(b"1")
    reject(lettered)
    settle(lettered.batches[1])
    assert lettered.waits(receipt)


async def test_message_that_is_dropped_waits_for_the_disk(place: Place) -> None:
    receipt = place.publish(b"1")
    reject(place)
    assert place.waits(receipt)


async def test_messages_that_expire_or_have_to_give_way_wait_for_the_disk(durable: DurableHarness) -> None:
    for name, options, count in (("full", QueueOptions(max_length=1), 1), ("late", QueueOptions(message_ttl=0), 2)):
        queue, receipt = durable.harness.queue(name, options), Receipt(1, 2, 2, lambda: None)
        durable.disk.work()
        publish(queue, b"1", b"2", head=PERSISTENT, receipt=receipt)
        await trio.testing.wait_all_tasks_blocked()
        assert queue.backlog.ready == 2 - count
        assert (receipt.unsafe, receipt.number) == (2, durable.disk.journal.open_batch)
        assert durable.disk.take() is not None


async def test_messages_that_are_purged_wait_for_the_disk(durable: DurableHarness) -> None:
    for request in (Purge(), Discard(5)):
        queue, receipt = durable.harness.queue(), Receipt(1, 1, 1, lambda: None)
        durable.disk.work()
        publish(queue, b"1", head=PERSISTENT, receipt=receipt)
        assert queue.ref.ask_nowait(request) == 1
        assert (receipt.unsafe, receipt.number) == (1, durable.disk.journal.open_batch)
        assert durable.disk.take() is not None


async def test_delayed_message_waits_for_the_disk(place: Place) -> None:
    receipt = place.receipt()
    place.queue.ref.tell_nowait(Publish(PERSISTENT, [b"1"], 1, receipt, delay=5))
    assert place.waits(receipt)


async def test_position_that_is_named_twice_counts_once(place: Place) -> None:
    receipt = place.publish(b"1", b"2")
    settle(place.batches[0], positions=[0, 0])
    assert receipt.unsafe == 1


# Transactions


async def test_ack_in_a_transaction_counts_only_with_the_transaction(place: Place) -> None:
    receipt = place.publish(b"1")
    transaction = Transaction(place.harness.directory)
    transaction.settle(place.batches[0], Outcome.ACCEPT)
    transaction.publish([place.letters.ref], Publish(PERSISTENT, [b"2"], 1))
    place.harness.turn(transaction.commit)
    assert (receipt.unsafe, receipt.number) == (1, place.journal.open_batch)
    assert place.durable.persistence.sync_point == receipt.number
    place.durable.disk.work()
    assert place.journal.committed == receipt.number
    assert place.durable.disk.contents(backlog_of(place.letters).queue, spilled=False) == {1: b"2"}


async def test_transaction_of_acks_alone_is_a_batch_though_nothing_is_left_to_write(place: Place) -> None:
    receipt = place.publish(b"1")
    transaction = Transaction(place.harness.directory)
    transaction.settle(place.batches[0], Outcome.ACCEPT)
    place.harness.turn(transaction.commit)
    assert place.waits(receipt)


async def test_commit_is_answered_though_consumers_have_all_that_it_published(place: Place) -> None:
    transaction = Transaction(place.harness.directory)
    transaction.publish([place.queue.ref], Publish(PERSISTENT, [b"1"], 1))
    place.harness.turn(transaction.commit)
    settle(place.batches[0])
    number = place.durable.persistence.sync_point
    assert number > place.journal.committed
    place.durable.disk.work()
    assert place.journal.committed == number


# Marks


def operations_of(place: Place) -> Iterator[type[Operation]]:
    yield from map(type, place.taken() or ())


async def test_mark_is_written_if_it_concerns_a_message_that_stays(place: Place) -> None:
    place.publish(b"1")
    place.publish(b"2")
    settle(place.batches[1])
    assert [*operations_of(place)] == [MessagesAppended, MessagesDelivered]
    settle(place.batches[0])
    place.publish(b"3")
    settle(place.batches[2])
    assert [*operations_of(place)] == [MessagesSettled]


async def test_mark_is_written_if_messages_before_it_may_be_on_disk(place: Place) -> None:
    place.publish(b"1", head=TRANSIENT)
    place.publish(b"2")
    settle(place.batches[1])
    assert [*operations_of(place)] == [MessagesDelivered]
    place.publish(b"3")
    settle(place.batches[2])
    assert [*operations_of(place)] == []


async def test_messages_that_came_back_are_not_counted_once_they_are_accepted(place: Place) -> None:
    place.publish(b"1")
    for _ in range(3):
        settle(place.batches[-1], Outcome.REQUEUE)
    assert any(isinstance(each, AttemptsCounted) for each in place.journal._builder._operations)
    settle(place.batches[-1])
    assert place.taken() is None


# Backlogs


async def test_messages_that_were_paged_out_are_safe_once_they_are_accepted() -> None:
    async with open_durable_harness(queue_memory=ONE) as durable:
        queue = durable.harness.queue()
        durable.disk.work()
        receipt = Receipt(1, 3, 3, lambda: None)
        for number in range(3):
            publish(queue, b"%d" % number, head=PERSISTENT, receipt=receipt)
        assert backlog_of(queue).paged == 2
        while (batch := queue.ref.ask_nowait(Get())) is not None:
            settle(batch)
        assert (receipt.unsafe, receipt.number) == (0, 0)
        assert durable.disk.take() is None


async def test_messages_of_all_priorities_are_safe_once_they_are_accepted(durable: DurableHarness) -> None:
    place = Place(durable, max_priority=3)
    receipt = place.publish(b"1", b"2")
    settle(place.batches[0])
    assert receipt.number == 0
    assert place.taken() is None


async def test_message_of_basic_get_is_safe_once_it_is_accepted(durable: DurableHarness) -> None:
    queue, receipt = durable.harness.queue(), Receipt(1, 1, 1, lambda: None)
    durable.disk.work()
    publish(queue, b"1", head=PERSISTENT, receipt=receipt)
    batch = queue.ref.ask_nowait(Get())
    assert batch is not None
    settle(batch)
    assert receipt.number == 0


# Those who wait


async def test_publish_of_a_task_returns_when_a_consumer_has_the_message(place: Place) -> None:
    harness, turn = place.harness, place.harness.system.turn
    publisher = Publisher(harness.directory, EVERYTHING, turn)
    waiting = WaitingPublisher(publisher, harness.directory, turn)
    run = RoutedRun(CachedRoute("", "q"), PERSISTENT, [b"1"], 1)
    returned: list[Receipt] = []

    async def publish_one() -> None:
        returned.append(await waiting.publish(run))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publish_one)
        await trio.testing.wait_all_tasks_blocked()
        assert not returned
        settle(place.batches[0])
        await trio.testing.wait_all_tasks_blocked()
        assert len(returned) == 1
    assert place.taken() is None


async def test_single_receipt_reports_once(place: Place) -> None:
    for accepts_first in (True, False):
        done: list[None] = []
        receipt = SingleReceipt(lambda done=done: done.append(None), place.durable.persistence)  # type: ignore[misc]
        receipt.expect(1, 1)
        publish(place.queue, b"1", head=PERSISTENT, receipt=receipt)
        assert (receipt.is_safe, done) == (False, [])
        if accepts_first:
            settle(place.batches[-1])
            assert done == [None]
        publish(place.letters, b"more", head=PERSISTENT)  # has the same number, should it have been given back
        place.durable.disk.work()
        assert (receipt.is_safe, done) == (True, [None])


async def test_confirms_of_what_consumers_have_come_in_order(place: Place) -> None:
    woken: list[None] = []
    confirms = Confirms(lambda: woken.append(None), place.durable.persistence)
    for content in (b"1", b"2", b"3"):
        publish(place.queue, content, head=PERSISTENT, receipt=confirms.expect(1, 1))
    assert confirms.take() == Confirmed([], [], 0)
    woken.clear()
    settle(place.batches[1])
    assert woken == [None]
    assert confirms.take() == Confirmed([], [], 0)  # it waits with the first one, which the disk has soon
    settle(place.batches[0])
    assert confirms.take() == Confirmed([], [], 2)
    settle(place.batches[2])
    assert confirms.take() == Confirmed([], [3], 0)
    publish(place.letters, b"4", head=PERSISTENT, receipt=confirms.expect(1, 1))
    assert confirms.take() == Confirmed([], [], 0)
    place.durable.disk.work()
    assert confirms.take() == Confirmed([], [4], 0)


async def test_other_life_has_what_no_consumer_had(durable: DurableHarness) -> None:
    place = Place(durable)
    kept = Receipt(1, 1, 1, lambda: None)
    publish(place.letters, b"kept", head=PERSISTENT, receipt=kept)
    place.publish(b"1")
    settle(place.batches[0])
    durable.disk.work()
    async with open_durable_harness(durable.disk.store) as again:
        queue, letters = (again.harness.directory.queues[name] for name in ("q", LETTERS))
        assert get(queue, again.disk) is None
        assert get(letters, again.disk) == (b"kept", False)
        publish(queue, b"2", head=PERSISTENT)
        again.disk.work()
        assert again.disk.contents(backlog_of(queue).queue, spilled=False) == {1: b"2"}
