from functools import partial

import pytest

from triomq.errors import DiskFull, StoreError
from triomq.store import (
    BodyRun,
    ChunksDropped,
    ChunksMerged,
    Journal,
    MessagesAppended,
    MessagesSettled,
    MessagesSpilled,
    QueueDeclared,
    QueueDeleted,
    Reading,
    RecordKind,
    RecordPut,
    Recovered,
    encode_body,
)

Answer = Reading | list[bytes | None] | StoreError


@pytest.fixture
def journal() -> Journal:
    journal = Journal()
    journal.opened(10, Recovered())
    return journal


def add_one(journal: Journal, queue: int = 1) -> None:
    journal.add(QueueDeclared(queue, b"q", b""))


def test_relief_is_what_is_settled_in_batches_that_do_nothing_else() -> None:
    journal = Journal()
    journal.append(1, 1, b"", [b"moved"], 5)
    journal.settle(2, 1)
    journal.take()
    journal.settle(2, 5, 2)
    assert journal.early_settlements() == [MessagesSettled(2, [(5, 2)])]
    journal.append(1, 2, b"", [b"moved too"], 9)
    assert journal.early_settlements() == []


def test_numbers_go_on_behind_what_is_there(journal: Journal) -> None:
    assert (journal.committed, journal.open_batch, journal.require_commit()) == (10, 11, 10)
    add_one(journal)
    assert (journal.open_batch, journal.require_commit()) == (11, 11)
    batch = journal.take()
    assert batch is not None
    assert (batch.number, journal.open_batch, journal.require_commit()) == (11, 12, 11)
    assert journal.take() is None


def test_ranges_to_merge_are_asked_for_again(journal: Journal) -> None:
    journal.merge_chunks(1, 5, 9)
    batch = journal.take()
    assert batch is not None
    journal.answered(batch.number)
    journal.merge_again()
    again = journal.take()
    assert again is not None
    assert again.operations == batch.operations == [ChunksMerged(1, 5, 9)]
    journal.merge_again()
    assert journal.take() is None


def test_values_of_records_are_on_their_way_too(journal: Journal) -> None:
    journal.add(RecordPut(RecordKind.JOB, b"key", b"value"))
    journal.add(RecordPut(RecordKind.JOB, b"key", b"another"))
    assert journal.pending_bytes == 10
    assert journal.early_settlements() == []
    batch = journal.take(patient=True)  # records are never held
    assert batch is not None
    assert batch.operations == [RecordPut(RecordKind.JOB, b"key", b"another")]
    assert journal.pending_bytes == 10
    journal.answered(11)
    assert journal.pending_bytes == 0


def test_the_next_batch_gathers_while_two_are_on_their_way(journal: Journal) -> None:
    for _ in range(2):
        add_one(journal)
        assert journal.take() is not None
    add_one(journal, 1)
    add_one(journal, 2)
    assert journal.take() is None
    journal.answered(11)
    batch = journal.take()
    assert batch is not None
    assert len(batch.operations) == 2


def test_answer_is_for_all_batches_up_to_its_number(journal: Journal) -> None:
    for _ in range(2):
        add_one(journal)
        journal.take()
    journal.answered(12)
    journal.answered(12)
    assert (journal.committed, journal.unanswered) == (12, [])


def test_callbacks_are_called_once_and_in_order(journal: Journal) -> None:
    received: list[str] = []
    for name in ("one", "two", "three"):
        add_one(journal)
        journal.when_committed(journal.open_batch, partial(received.append, name))
        journal.when_committed(journal.require_commit(), partial(received.append, f"{name} again"))
        journal.take()
    journal.answered(11)
    assert received == ["one", "one again"]
    journal.answered(12)
    journal.answered(12)
    assert received[2:] == ["two", "two again"]


def test_callbacks_for_a_committed_number_are_called_soon_but_not_at_once(journal: Journal) -> None:
    received: list[str] = []
    woken: list[None] = []
    journal.wake = lambda: woken.append(None)
    journal.when_committed(journal.require_commit(), partial(received.append, "told"))
    assert (len(woken), received) == (1, [])
    assert journal.take() is None
    assert received == ["told"]


def test_callback_that_is_added_again_does_not_hold_up_the_others(journal: Journal) -> None:
    received: list[str] = []

    def again() -> None:
        received.append("again")
        journal.when_committed(journal.require_commit(), again)

    journal.when_committed(journal.require_commit(), again)
    journal.when_committed(journal.require_commit(), partial(received.append, "other"))
    journal.take()
    assert received == ["again", "other"]
    journal.take()
    assert received == ["again", "other", "again"]


def test_callback_may_add_operations_and_callbacks(journal: Journal) -> None:
    received: list[str] = []

    def say_more() -> None:
        add_one(journal)
        journal.when_committed(journal.open_batch, partial(received.append, "more"))

    add_one(journal)
    journal.when_committed(journal.open_batch, say_more)
    journal.take()
    journal.answered(11)
    assert received == []
    assert journal.take() is not None
    journal.answered(12)
    assert received == ["more"]


def test_pending_bytes_are_counted_until_they_are_on_disk(journal: Journal) -> None:
    journal.append(1, 1, b"head", [b"x" * 1000], 1000)
    assert journal.pending_bytes == 1000
    journal.take()
    journal.append(1, 2, b"head", [b"x" * 500], 500)
    assert journal.pending_bytes == 1500
    journal.answered(11)
    assert journal.pending_bytes == 500


def test_fault_stops_new_batches_until_one_is_written(journal: Journal) -> None:
    received: list[StoreError | None] = []
    journal.on_fault(received.append)
    add_one(journal)
    journal.take()
    fault = DiskFull("full")
    journal.failed(fault)
    journal.failed(fault)
    add_one(journal)
    assert journal.take() is None
    assert [batch.number for batch in journal.unanswered] == [11]
    journal.answered(11)
    assert journal.take() is not None
    assert received == [fault, None]


def test_session_is_woken_up(journal: Journal) -> None:
    woken: list[None] = []
    journal.wake = lambda: woken.append(None)
    journal.delivered(1, 0, 0, 5)
    assert len(woken) == 1
    journal.settle(1, 1)
    journal.append(1, 1, b"", [b""], 0)
    assert len(woken) == 3


def test_wishes_are_sent_once_and_again_to_another_host(journal: Journal) -> None:
    answers: list[Answer] = []
    first = journal.fetch(1, 1, 5, 100, answers.append)
    second = journal.fetch_delayed(1, [2], answers.append)
    assert journal.take_fetches() == [first, second]
    assert journal.take_fetches() == []
    journal.fetched(first.request.number, Reading([], 5))
    assert journal.take_fetches(again=True) == [second]
    journal.cancel_fetch(second)
    journal.fetched(second.request.number, [b"late"])
    assert answers == [Reading([], 5)]


class OneChunk:
    """An operation that is open until its batch is taken."""

    queue = 1

    def __init__(self) -> None:
        self.finished = 0

    def finish(self) -> ChunksDropped | None:
        self.finished += 1
        return ChunksDropped(1, 5)


def test_open_operation_is_finished_when_its_batch_is_taken_behind_all_others(journal: Journal) -> None:
    chunk = OneChunk()
    journal.add_open(chunk)
    journal.grow(100)
    assert journal.pending_bytes == 100
    journal.settle(2, 1)
    journal.add(QueueDeclared(1, b"stream", b""))
    assert chunk.finished == 0
    batch = journal.take(patient=True)  # a publisher may wait for it, so it is not held
    assert batch is not None
    assert [type(each) for each in batch.operations] == [QueueDeclared, MessagesSettled, ChunksDropped]
    assert (chunk.finished, journal.pending_bytes) == (1, 100)
    journal.answered(batch.number)
    assert journal.pending_bytes == 0


def test_open_operation_goes_with_its_queue(journal: Journal) -> None:
    chunk = OneChunk()
    journal.add_open(chunk)
    journal.add(QueueDeleted(1))
    batch = journal.take()
    assert batch is not None
    assert (batch.operations, chunk.finished) == ([QueueDeleted(1)], 0)


def test_spilled_messages_come_with_the_batch(journal: Journal) -> None:
    runs = [BodyRun(0, b"head", [b"a", b"b"]), BodyRun(3, b"other", [b"c"])]
    journal.spill(1, 5, runs, 6)
    batch = journal.take()
    assert batch is not None
    assert batch.operations == [
        MessagesSpilled(queue=1, first=5, count=6, body=encode_body(runs), settled=[(7, 1), (9, 2)]),
    ]


def test_messages_appended_behind_a_cut_are_another_segment(journal: Journal) -> None:
    journal.append(1, 1, b"head", [b"a"], 1)
    journal.append(2, 1, b"head", [b"a"], 1)
    journal.cut(1)
    journal.append(1, 3, b"head", [b"b"], 1)
    journal.append(2, 3, b"head", [b"b"], 1)
    batch = journal.take()
    assert batch is not None
    found = [(each.queue, each.first, each.count) for each in batch.operations if isinstance(each, MessagesAppended)]
    assert found == [(1, 1, 1), (2, 1, 3), (1, 3, 1)]


def test_pending_bytes_are_those_of_contents_and_the_size_is_what_the_core_says(journal: Journal) -> None:
    journal.append(1, 1, b"head", [b"x" * 1000], 7)
    assert journal.pending_bytes == 1000
    batch = journal.take()
    assert batch is not None
    assert [each.size for each in batch.operations if isinstance(each, MessagesAppended)] == [7]


# Publishers, consumers, and batches that are left empty


class Owed:
    """What a publisher is owed."""

    def __init__(self) -> None:
        self.unsafe = self.number = 0

    def wait_for(self, number: int, count: int) -> None:
        self.number = number
        self.unsafe += count

    def consumed(self, count: int) -> None:
        self.unsafe -= count


def owe(journal: Journal, first: int, count: int = 1, *, queue: int = 1, delivered: bool = True) -> Owed:
    """Append messages that a publisher waits for, and send them to a consumer."""
    owed = Owed()
    journal.owe(queue, first, count, owed)
    journal.append(queue, first, b"head", [b"x"] * count, count)
    if delivered:
        journal.delivered(queue, 0, first - 1, first + count - 1)
    return owed


def test_batch_that_is_left_empty_gives_its_number_back(journal: Journal) -> None:
    owed = owe(journal, 1, 3)
    journal.settle(1, 1, 3, consumed=True)
    assert (owed.number, owed.unsafe) == (11, 0)
    assert journal.take() is None
    assert (journal.open_batch, journal.require_commit(), journal.unanswered) == (11, 10, [])
    add_one(journal)
    batch = journal.take()
    assert batch is not None
    assert batch.number == 11


def test_batch_that_is_left_empty_is_sent_if_its_number_is_waited_for(journal: Journal) -> None:
    owe(journal, 1)
    assert journal.require_commit() == 11
    journal.settle(1, 1, consumed=True)
    batch = journal.take()
    assert batch is not None
    assert (batch.number, batch.operations) == (11, [])
    owe(journal, 2)
    journal.settle(1, 2, consumed=True)
    assert journal.take() is None, "the number of the next one is waited for by nobody"


def test_debts_are_paid_by_ids_whatever_the_ranges(journal: Journal) -> None:
    owed = [owe(journal, 1, 3), owe(journal, 4), owe(journal, 9, 2)]
    other = owe(journal, 1, 20, queue=2)
    journal.settle(1, 3, 7, consumed=True)
    assert [each.unsafe for each in owed] == [2, 0, 1]
    journal.settle(1, 1, 1)
    journal.settle(1, 2, 1, consumed=True)
    journal.settle(1, 10, 5, consumed=True)
    journal.settle(3, 1, 5, consumed=True)
    assert [each.unsafe for each in owed] == [1, 0, 0]
    assert other.unsafe == 20


def test_debts_of_a_batch_that_was_sent_are_not_paid(journal: Journal) -> None:
    owed = owe(journal, 1)
    assert journal.take() is not None
    journal.settle(1, 1, consumed=True)
    assert (owed.number, owed.unsafe) == (11, 1)


def test_batch_is_held_while_consumers_have_all_that_publishers_wait_for(journal: Journal) -> None:
    for first in range(1, 4):
        owe(journal, first)
        assert journal.take(patient=True) is None
        assert journal.is_held
        assert not journal.tick()
        journal.settle(1, first, consumed=True)
    owe(journal, 4)
    assert not journal.tick()
    assert journal.tick(), "the consumer takes its time"
    assert journal.take(patient=True) is not None
    assert not journal.is_held


def test_batch_with_a_message_that_no_consumer_has_is_not_held(journal: Journal) -> None:
    owe(journal, 1)
    owe(journal, 2, delivered=False)
    assert journal.take(patient=True) is not None
    assert not journal.is_held


@pytest.mark.parametrize("required", [True, False])
def test_batch_that_does_something_else_is_not_held(journal: Journal, *, required: bool) -> None:
    owe(journal, 1)
    if required:
        journal.require_commit()
    else:
        add_one(journal)
    assert journal.take(patient=True) is not None


def test_batch_of_very_many_queues_is_not_held(journal: Journal) -> None:
    for queue in range(1, 20):
        owe(journal, 1, queue=queue)
    assert journal.take(patient=True) is not None


def test_batch_that_nobody_waits_for_is_held_for_a_while(journal: Journal) -> None:
    journal.settle(1, 1)
    assert journal.take(patient=True) is None
    assert not journal.tick()
    assert journal.tick()
    assert journal.take(patient=True) is not None
    journal.settle(1, 2)
    assert journal.take(patient=True) is None, "this one has not been held yet"


def test_batches_are_sent_at_once_after_one_was_held_for_nothing(journal: Journal) -> None:
    """Consumers that take their time cost publishers nothing but a try now and then."""
    first, held = 1, []
    for number in range(100):
        owe(journal, first)
        if journal.take(patient=True) is None:
            held.append(number)
            assert not journal.tick()
            assert journal.tick()
            assert journal.take(patient=True) is not None
        journal.answered(journal.open_batch - 1)
        first += 1
    assert held == [0, 2, 6, 14, 30, 62]
    for _ in range(64):
        owe(journal, first)
        if journal.take(patient=True) is None:
            break
        journal.answered(journal.open_batch - 1)
        first += 1
    journal.settle(1, first, consumed=True)
    assert not journal.tick(), "a consumer was fast enough"
    owe(journal, first + 1)
    assert journal.take(patient=True) is None


def test_what_is_settled_takes_no_memory_while_the_disk_is_slow(journal: Journal) -> None:
    content = bytes(100_000)
    for number in range(1, 1001):
        journal.owe(1, number, 1, Owed())
        journal.append(1, number, b"head", [content], len(content))
        if number != 500:
            journal.settle(1, number, consumed=True)
        assert journal.pending_bytes < 5_000_000
    batch = journal.take()
    assert batch is not None
    (append,) = batch.operations
    assert isinstance(append, MessagesAppended)
    assert (append.first, append.count) == (500, 1)
