"""What every backlog promises, whatever holds its messages: one word, one meaning."""

from collections.abc import Callable, Sequence
from math import inf

import pytest

from memory_store import MemoryStore
from triomq.core import Batch, Head, Persistence, Stretch, traits_of
from triomq.core.backlog import (
    Backlog,
    Entry,
    MemoryBacklog,
    PagedBacklog,
    PagedPlainBacklog,
    PagedPriorityBacklog,
    PriorityBacklog,
)
from triomq.errors import StoreError
from triomq.store import QueueDeclared, Reading

from ..simulated_disk import SimulatedDisk

HEAD = Head(routing_key="q", traits=traits_of(persistent=True))
OTHER = Head(routing_key="other", traits=traits_of(persistent=True))


class Subject:
    """A backlog under test, and the disk below it, if it has one.

    Args:
        name: Which one.
    """

    def __init__(self, name: str) -> None:
        self.disk: SimulatedDisk | None = None
        kind, _, durable = name.partition(" ")
        self.backlog: Backlog
        if kind == "memory":
            self.backlog = MemoryBacklog()
        elif kind == "priority":
            self.backlog = PriorityBacklog(3)
        else:
            self.disk = SimulatedDisk(MemoryStore())
            self.disk.journal.add(QueueDeclared(1, b"", b""))
            persistence = Persistence(self.disk.journal, 300)  # two messages are resident
            if kind == "paged":
                self.backlog = PagedPlainBacklog(persistence, 1, name="q", durable=durable == "durable", now=float)
            else:
                self.backlog = PagedPriorityBacklog(
                    3, persistence, 1, name="q", durable=durable == "durable", now=float
                )
        self._read: list[Callable[[], None]] = []

    def push(self, *contents: bytes, head: Head = HEAD, deadline: float = inf) -> None:
        self.backlog.push(head, contents, sum(map(len, contents)), deadline)

    def work(self) -> None:
        """Have everything written, and what is wished for read."""
        if self.disk is not None:
            self.disk.work()
        read, self._read = self._read, []
        for each in read:
            each()

    def fetch(self) -> None:
        """Page in what there is room for, as a queue does at the end of a turn."""
        while isinstance(backlog := self.backlog, PagedBacklog) and not backlog.fetch(self._arrived):
            if not backlog.is_reading:
                return
            self.work()

    def _arrived(self, reading: Reading | StoreError) -> None:
        backlog = self.backlog
        assert isinstance(backlog, PagedBacklog)
        self._read.append(lambda: backlog.arrived(reading))

    def _page_read(self, reading: Reading | StoreError) -> None:
        backlog = self.backlog
        assert isinstance(backlog, PagedBacklog)
        self._read.append(lambda: backlog.page_read(reading))

    def take(self, most: int = 1) -> Batch:
        self.fetch()
        return self.backlog.take(most, 1 << 30)

    def browse(self, limit: int = 2) -> list[Entry]:
        """Page through everything."""
        seen: list[Entry] = []
        while (page := self.backlog.browse(seen[-1].id if seen else 0, limit, self._page_read)) != []:
            assert page is None or len(page) <= limit
            seen += page or ()
            self.work()
        return seen

    def discard(self, up_to: int) -> int:
        """Discard as a queue does: with what is paged paged in for it."""
        count = self.backlog.discard(up_to)
        while self.backlog.has_paged(up_to):
            self.fetch()
            count += self.backlog.discard(up_to)
        return count


@pytest.fixture(
    params=[
        "memory",
        "priority",
        "paged durable",
        "paged transient",
        "paged-priority durable",
        "paged-priority transient",
    ]
)
def subject(request: pytest.FixtureRequest) -> Subject:
    return Subject(request.param)


CONTENTS = tuple(b"%d" % number for number in range(1, 10))


def counts(backlog: Backlog) -> tuple[int, int, int]:
    return backlog.ready, backlog.ready_bytes, backlog.unsettled


def contents_of(entries: Sequence[Entry]) -> list[bytes]:
    return [entry.message.content for entry in entries]


def push_all(subject: Subject) -> None:
    """Nine messages in three runs, of which a paged backlog has three in memory once the disk has worked."""
    for start in (0, 3, 6):
        subject.push(*CONTENTS[start : start + 3], head=HEAD if start != 3 else OTHER)
    subject.work()


def test_ready_counts_all_that_no_consumer_has(subject: Subject) -> None:
    backlog = subject.backlog
    assert counts(backlog) == (0, 0, 0)
    push_all(subject)
    assert counts(backlog) == (9, 9, 0)
    assert (backlog.ready, backlog.ready_bytes) == (
        backlog.resident + backlog.paged,
        backlog.resident_bytes + backlog.paged_bytes,
    )
    batch = subject.take(2)
    assert counts(backlog) == (7, 7, 2)
    backlog.accept(batch, [0])
    assert counts(backlog) == (7, 7, 1)
    backlog.requeue(batch)
    assert counts(backlog) == (8, 8, 0)
    subject.fetch()
    assert counts(backlog) == (8, 8, 0)


def test_resident_messages_can_be_taken_and_come_first(subject: Subject) -> None:
    push_all(subject)
    assert 0 < subject.backlog.resident <= 9
    taken: list[bytes | None] = []
    while subject.backlog.ready:
        before = subject.backlog.resident
        batch = subject.take()
        assert before == 0 or subject.backlog.resident >= before - 1
        taken += batch.contents
    assert taken == [*CONTENTS]
    with pytest.raises(IndexError, match=r"look at Backlog\.resident first"):
        subject.backlog.take(1, 1)


def test_ids_go_on_wherever_messages_are(subject: Subject) -> None:
    push_all(subject)
    assert subject.backlog.next_id == 10
    subject.take(3)
    subject.fetch()
    assert subject.backlog.next_id == 10


def test_browsing_shows_all_that_is_ready_and_pages_nothing_in(subject: Subject) -> None:
    push_all(subject)
    resident, buffered = subject.backlog.resident, subject.backlog.buffered_bytes
    entries = subject.browse()
    assert contents_of(entries) == [*CONTENTS]
    assert [entry.id for entry in entries] == [*range(1, 10)]
    assert {entry.message.head for entry in entries} == {HEAD, OTHER}
    assert subject.backlog.resident == resident
    assert subject.backlog.buffered_bytes == buffered  # what was read for it is gone with the last page


def test_browsing_leaves_out_what_is_out_and_shows_how_often_messages_came_back(subject: Subject) -> None:
    push_all(subject)
    batch = subject.take(3)
    assert contents_of(subject.browse()) == [*CONTENTS[3:]]
    subject.backlog.requeue(batch, [1])
    entries = subject.browse()
    assert [(entry.id, entry.attempts) for entry in entries] == [(2, 1), *((number, 0) for number in range(4, 10))]


def test_browsing_shows_no_more_octets_at_once_than_a_page_may_have(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triomq.core.backlog.backlog.BROWSE_BYTES", 10)
    subject.push(b"x" * 6, b"y" * 6, b"z" * 20)
    page = subject.backlog.browse(0, 9, subject._page_read)
    assert page is not None
    assert contents_of(page) == [b"x" * 6]
    assert [len(content) for content in contents_of(subject.browse(9))] == [6, 6, 20]


def test_discarding_forgets_up_to_an_id_wherever_that_is(subject: Subject) -> None:
    push_all(subject)
    assert subject.discard(2) == 2
    assert subject.discard(5) == 3
    assert counts(subject.backlog) == (4, 4, 0)
    assert contents_of(subject.browse()) == [*CONTENTS[5:]]
    assert subject.discard(100) == 4
    assert counts(subject.backlog) == (0, 0, 0)


def test_discarding_leaves_what_is_out_in_its_place(subject: Subject) -> None:
    push_all(subject)
    batch = subject.take()
    assert subject.discard(8) == 7
    subject.backlog.requeue(batch)
    assert contents_of(subject.browse()) == [b"1", b"9"]


def test_purging_forgets_everything_that_is_ready(subject: Subject) -> None:
    push_all(subject)
    batch = subject.take()
    assert subject.backlog.purge([]) == 8
    assert counts(subject.backlog) == (0, 0, 1)
    assert subject.browse() == []
    subject.backlog.requeue(batch)
    assert contents_of(subject.browse()) == [b"1"]


def test_deadline_is_that_of_the_first_resident_message(subject: Subject) -> None:
    subject.push(b"1", deadline=5.0)
    subject.push(b"2")
    backlog = subject.backlog
    assert (backlog.next_deadline(), backlog.expired_level(4.0), backlog.expired_level(5.0)) == (5.0, None, 0)
    assert backlog.first(9) == Stretch(HEAD, [b"1"])
    assert list(backlog.drop(1)) == [1]
    assert (backlog.next_deadline(), backlog.expired_level(1e9)) == (inf, None)
    assert counts(backlog) == (1, 1, 0)


def test_next_message_can_be_looked_at(subject: Subject) -> None:
    subject.push(b"1", b"22")
    backlog = subject.backlog
    assert (backlog.run_length, backlog.longest(2), backlog.next_size(), backlog.next_head()) == (2, 2, 1, HEAD)
    assert (backlog.next_level, backlog.lowest_level) == (0, 0)
    one, other = backlog.take_turns(2, 1)
    assert (one.contents, other.contents) == ([b"1"], [b"22"])
    assert backlog.outstanding() == [one, other]
    assert backlog.holds(one)
    backlog.accept(one)
    assert not backlog.holds(one)
