import itertools
import logging
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_store import MemoryStore
from triomq.core import Persistence
from triomq.core.backlog.tail import PagedRun, PagedTail, _unsettled
from triomq.errors import StoreCorrupt, StoreError
from triomq.store import QueueDeclared, Reading

from ..durable import PERSISTENT, TRANSIENT
from ..simulated_disk import SimulatedDisk

INF = float("inf")


class Place:
    """What of a queue is away, and the disk that it is on."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(MemoryStore())
        self.journal = self.disk.journal
        self.persistence = Persistence(self.journal)
        self.journal.add(QueueDeclared(1, b"", b""))
        self.tail = PagedTail(self.persistence, 1, "q", float)
        self.next_id = 1
        self.answers: list[Reading | StoreError] = []

    def keep(self, *contents: bytes) -> None:
        encoded, size = self.persistence.heads.encode(PERSISTENT, 0, INF, 0), sum(map(len, contents))
        self.tail.spill()
        self.journal.append(1, self.next_id, encoded, contents, size)
        self.tail.put(
            PagedRun(PERSISTENT, contents, self.next_id, size, INF, 0),
            encoded,
            size,
            self.journal.open_batch,
        )
        self.next_id += len(contents)

    def put(self, *contents: bytes) -> None:
        """Put messages away that are not to be kept."""
        encoded, size = self.persistence.heads.encode(TRANSIENT, 0, INF, 0), sum(map(len, contents))
        run = PagedRun(TRANSIENT, contents, self.next_id, size, INF, 0)
        self.tail.put(run, encoded, size, 0)
        self.next_id += len(contents)

    def get(self) -> list[bytes]:
        return contents_of(self.tail.get(self.next_id, self.answers.append))

    def read(self) -> list[bytes]:
        """Get what must be read first."""
        assert self.get() == []
        self.disk.read()
        self.disk.answer_fetches()
        return contents_of(self.tail.read(self.answers.pop()))

    def spilled(self) -> list[bytes]:
        self.disk.work()
        return list(self.disk.contents(1, spilled=True).values())


@pytest.fixture
def place() -> Place:
    return Place()


def contents_of(found: Sequence[PagedRun]) -> list[bytes]:
    return [content for run in found for content in run.contents]


def test_unwritten_messages_are_returned_from_memory(place: Place) -> None:
    place.keep(b"1", b"22")
    place.put(b"333")
    assert (place.tail.count, place.tail.size, place.tail.held) == (3, 6, 6)
    assert place.get() == [b"1", b"22", b"333"]
    assert (place.tail.count, place.tail.size, place.tail.held) == (0, 0, 0)


def test_written_messages_leave_memory_and_are_read(place: Place) -> None:
    place.keep(b"1", b"22")
    place.disk.work()
    place.keep(b"333")
    assert (place.tail.count, place.tail.size, place.tail.held) == (3, 6, 3)
    assert place.read() == [b"1", b"22"]
    assert place.tail.size == 3


def test_memory_is_given_back_batch_by_batch(place: Place) -> None:
    sizes = []
    for content in (b"1", b"22", b"333"):
        place.keep(content)
        sizes.append(place.tail.held)
        place.disk.take()
    assert sizes == [1, 3, 6]
    place.disk.write(1)
    place.disk.answer()
    assert place.tail.held == 5
    assert place.read() == [b"1"]
    place.disk.write(1)
    place.disk.answer()
    assert place.tail.held == 3
    place.disk.work()
    assert place.tail.held == 0


def test_while_something_is_read_nothing_else_is_given(place: Place) -> None:
    place.keep(b"1")
    place.disk.work()
    place.keep(b"2")
    assert place.get() == []
    assert place.get() == []
    assert len(place.journal.take_fetches()) == 1


def test_transient_messages_are_spilled_when_they_are_many(place: Place) -> None:
    many = bytes(200_000)
    place.put(many)
    assert place.spilled() == []
    assert place.tail.held == 200_000
    place.put(many)
    assert place.spilled() == [many, many]
    assert place.tail.held == 0
    assert place.tail.spilled
    assert place.read() == [many, many]
    assert place.spilled() == []


def test_transient_messages_are_spilled_before_durable_ones_behind_them(place: Place) -> None:
    place.keep(b"1")
    place.put(b"2")
    place.put(b"3")
    place.keep(b"4")
    place.disk.work()
    assert place.disk.contents(1, spilled=True) == {2: b"2", 3: b"3"}
    assert place.disk.contents(1, spilled=False) == {1: b"1", 4: b"4"}
    assert place.read() == [b"1", b"2", b"3", b"4"]


def test_spilled_messages_returned_from_memory_are_removed_from_disk(place: Place) -> None:
    place.put(b"1")
    place.put(b"2")
    place.keep(b"3")
    assert place.get() == [b"1", b"2", b"3"]
    assert place.spilled() == []


def test_ids_that_are_given_from_memory_and_have_a_gap_are_forgotten_apart(place: Place) -> None:
    place.put(b"1")
    place.keep(b"2")
    place.put(b"3")
    place.keep(b"4")
    assert place.get() == [b"1", b"2", b"3", b"4"]
    assert place.spilled() == []


def test_purged_messages_are_removed_everywhere(place: Place) -> None:
    place.put(b"1")
    place.keep(b"2")
    place.disk.work()
    assert place.get() == []
    assert place.tail.purge(place.next_id) == 2
    place.disk.work()
    assert place.answers == []
    assert place.spilled() == []
    assert (place.tail.count, place.tail.size, place.tail.held, place.tail.first) == (0, 0, 0, 3)
    place.keep(b"3")
    place.disk.work()
    assert place.read() == [b"3"]


def test_unreadable_messages_stay_paged_until_they_are_purged(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.keep(b"1")
    place.disk.work()
    assert place.get() == []
    assert place.tail.read(StoreCorrupt("it is torn")) == []
    assert place.tail.broken
    assert place.get() == []
    assert place.journal.take_fetches(again=True)[1:] == []
    assert "messages cannot be read" in caplog.text
    assert place.tail.purge(place.next_id) == 1
    place.keep(b"2")
    assert place.get() == [b"2"]


def test_second_reader_gets_what_is_read_then(place: Place) -> None:
    place.keep(b"1")
    place.disk.work()
    assert place.get() == []
    place.disk.collect_fetches()
    place.tail.forget_reading()
    assert place.read() == [b"1"]
    assert place.answers == []


def test_reading_that_is_not_awaited_is_ignored(place: Place) -> None:
    place.keep(b"1")
    assert place.tail.read(Reading([], 9)) == []
    assert place.get() == [b"1"]


def test_store_that_has_less_than_it_said_is_believed(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    place.tail.recover(1, 3, 30)
    place.next_id = 4
    assert place.read() == []
    assert place.get() == []
    assert (place.tail.count, place.tail.size) == (0, 0)
    assert "fewer messages than it had" in caplog.text


def test_much_is_read_in_parts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triomq.core.backlog.tail._READ", 10)
    for number in range(4):
        place.keep(bytes([number]) * 9)
        place.disk.work()
    place.keep(b"4")
    place.keep(bytes(10))
    place.keep(b"6")
    for number in range(4):
        assert place.read() == [bytes([number]) * 9]
    assert place.get() == [b"4", bytes(10)]
    assert place.get() == [b"6"]


@given(st.integers(0, 1 << 12), st.integers(0, 12), st.integers(-3, 14))
def test_stretches_are_of_what_is_not_settled(bits: int, count: int, skip: int) -> None:
    stretches = _unsettled(bits, count, skip)
    given_out = [position for start, stop in stretches for position in range(start, stop)]
    assert given_out == [position for position in range(max(0, skip), count) if not bits >> position & 1]
    assert all(before[1] < after[0] for before, after in itertools.pairwise(stretches))
