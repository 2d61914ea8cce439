from functools import partial

import pytest

from triomq.errors import DiskFull, StoreError
from triomq.store import (
    BodyRun,
    Journal,
    MessagesAppended,
    MessagesSettled,
    MessagesSpilled,
    QueueDeclared,
    Reading,
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
