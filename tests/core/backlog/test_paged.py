from math import inf

import pytest

from memory_store import MemoryStore
from triomq.core import Batch, Fits, Head, Overflow, Persistence, Publish, QueueOptions, traits_of
from triomq.core.backlog import PagedBacklog, PagedPlainBacklog, PagedPriorityBacklog
from triomq.core.queue.limits import is_full
from triomq.errors import StoreError
from triomq.store import QueueDeclared, Reading

from ..durable import ONE, PERSISTENT, TRANSIENT, get, open_durable_harness
from ..harness import publish
from ..simulated_disk import SimulatedDisk

OTHER = Head(routing_key="other", traits=traits_of(persistent=True))


class Place:
    """The backlog of a queue, over a disk, through lives of the broker."""

    def __init__(self, memory: int = 1 << 20, levels: int = 0, *, durable: bool = True) -> None:
        self.memory, self.levels, self.durable = memory, levels, durable
        self.store = MemoryStore()
        self.begin()
        self.journal.add(QueueDeclared(1, b"", b""))

    def begin(self) -> None:
        self.disk = SimulatedDisk(self.store)
        self.journal = self.disk.journal
        persistence = Persistence(self.journal, self.memory)
        self.backlog: PagedBacklog = (
            PagedPriorityBacklog(self.levels, persistence, 1, name="q", durable=self.durable, now=float)
            if self.levels
            else PagedPlainBacklog(persistence, 1, name="q", durable=self.durable, now=float)
        )

    def live_again(self) -> None:
        """Begin another life with what is on disk by now."""
        self.disk.work()
        self.begin()
        assert self.journal.recovered is not None
        found = self.journal.recovered.queues[1]
        left = sum(segment.left for segment in found.segments)
        size = sum(segment.size for segment in found.segments)
        self.backlog.recover(found.found.next_id, left, size, found.delivered, found.attempts)

    def push(self, *contents: bytes, head: Head = PERSISTENT, deadline: float = inf, level: int = 0) -> None:
        size = sum(map(len, contents))
        self.backlog.push(head, contents, size, deadline, level)

    def fetch(self) -> None:
        """Have at hand what there is room for."""
        found: list[Reading | StoreError] = []
        while True:
            self.backlog.fetch(found.append)
            self.disk.read()
            self.disk.answer_fetches()
            if not found:
                return
            self.backlog.arrived(found.pop())

    def take(self, most: int = 100) -> Batch:
        return self.backlog.take(most, 1 << 30)

    def on_disk(self) -> dict[int, bytes]:
        self.disk.work()
        return self.disk.contents(1, spilled=False)

    def marks(self) -> dict[int, int]:
        self.disk.work()
        return SimulatedDisk(self.store).journal.recovered.queues[1].delivered  # type: ignore[union-attr]

    def attempts(self) -> dict[int, int]:
        self.disk.work()
        return SimulatedDisk(self.store).journal.recovered.queues[1].attempts  # type: ignore[union-attr]


def test_queue_that_is_not_durable_tells_the_store_nothing() -> None:
    place = Place(durable=False)
    place.disk.work()
    place.push(b"1", b"2", b"3")
    batch = place.take(2)
    place.backlog.accept(batch, [0])
    place.backlog.requeue(batch)
    place.backlog.drop(1)
    place.backlog.discard(1)
    place.backlog.purge([])
    assert place.disk.take() is None


def test_messages_beyond_the_memory_are_paged() -> None:
    place = Place(ONE)
    place.push(b"1", b"22")
    place.push(b"333", head=TRANSIENT)
    place.push(b"4444")
    backlog = place.backlog
    assert (backlog.resident, backlog.resident_bytes, backlog.paged, backlog.paged_bytes, backlog.buffered_bytes) == (
        2,
        3,
        2,
        7,
        7,
    )
    assert place.on_disk() == {1: b"1", 2: b"22", 4: b"4444"}
    assert (backlog.buffered_bytes, backlog.has_spilled) == (0, True)
    place.fetch()
    assert backlog.paged == 2
    place.take()
    place.fetch()
    assert (backlog.resident, backlog.resident_bytes, backlog.paged, backlog.paged_bytes) == (2, 7, 0, 0)
    assert place.take().contents == [b"333"]
    assert place.take().contents == [b"4444"]


@pytest.mark.parametrize("deadline", [inf, 50.0])
def test_queue_hears_of_what_may_expire_as_it_comes_to_be_at_hand(deadline: float) -> None:
    for works in (False, True):
        place = Place(ONE)
        place.push(b"1")
        place.push(b"2", deadline=deadline)
        if works:
            place.disk.work()
        place.take()
        assert not place.backlog.expiring_paged_in
        place.fetch()
        assert place.backlog.expiring_paged_in is (deadline < inf)
        assert place.backlog.next_deadline() == pytest.approx(deadline, abs=1)


# Settling


# Another life


def test_marks_of_what_was_never_written_concern_nobody_in_another_life() -> None:
    place = Place(300)
    place.push(b"1", head=TRANSIENT)
    place.push(b"2", b"3")
    place.take()
    for _ in range(2):
        place.backlog.requeue(place.take())
    place.backlog.accept(place.take())
    place.live_again()
    assert place.backlog.next_id == 4
    for content in (b"4", b"5", b"6"):
        place.push(content)
    place.live_again()
    place.fetch()
    assert [(entry.id, entry.attempts) for entry in place.backlog.entries()] == [(4, 0), (5, 0), (6, 0)]


def test_attempts_that_are_known_keep_ids_from_being_used_again() -> None:
    place = Place()
    place.backlog.recover(1, 0, 0, {}, {5: 2})
    assert place.backlog.next_id == 6


# Priorities


def test_priority_queue_has_nothing_resident_before_all_is_read() -> None:
    place = Place(ONE, levels=2)
    place.push(b"low")
    place.push(b"high", level=2)
    assert (place.backlog.resident, place.backlog.paged) == (2, 0)
    place.live_again()
    place.push(b"new", level=2)
    assert (place.backlog.resident, place.backlog.paged) == (0, 3)
    assert not place.backlog.fetch(lambda found: None)
    place.disk.read()
    place.fetch()
    assert (place.backlog.resident, place.backlog.paged) == (0, 3)
    place.backlog.forget_reading()
    place.fetch()
    assert (place.backlog.resident, place.backlog.paged) == (3, 0)
    assert [place.take(1).contents for _ in range(3)] == [[b"high"], [b"new"], [b"low"]]


def test_marks_are_kept_level_by_level() -> None:
    place = Place(levels=2)
    place.push(b"low")
    place.push(b"high", level=2)
    place.take(1)
    assert place.marks() == {2: 2}
    place.live_again()
    place.fetch()
    assert [(entry.message.content, entry.attempts) for entry in place.backlog.entries()] == [(b"high", 1), (b"low", 0)]


# What the queue asks besides


async def test_paged_messages_count_towards_the_limits_of_a_queue() -> None:
    async with open_durable_harness(queue_memory=ONE) as durable:
        short = QueueOptions(max_length=3, overflow=Overflow.REJECT_PUBLISH)
        small = QueueOptions(max_bytes=3, overflow=Overflow.REJECT_PUBLISH)
        for queue in (durable.harness.queue("short", short), durable.harness.queue("small", small)):
            for content in (b"1", b"2", b"3"):
                assert not is_full(queue)
                publish(queue, content, head=PERSISTENT)
            assert queue.backlog.paged == 2
            assert is_full(queue)
            publish(queue, b"4", head=PERSISTENT)
            assert (queue.statistics().ready, queue.statistics().dropped) == (3, 1)
            assert not queue.ref.ask_nowait(Fits([Publish(PERSISTENT, [b"4"], 1)]))


async def test_oldest_give_way_to_what_is_away() -> None:
    async with open_durable_harness(queue_memory=ONE) as durable:
        short, small = QueueOptions(max_length=2), QueueOptions(max_bytes=2)
        for queue in (durable.harness.queue("short", short), durable.harness.queue("small", small)):
            for content in (b"1", b"2", b"3", b"4"):
                publish(queue, content, head=PERSISTENT)
            durable.disk.work()
            assert [get(queue, durable.disk) for _ in range(3)] == [(b"3", False), (b"4", False), None]
            assert queue.statistics().dropped == 2
