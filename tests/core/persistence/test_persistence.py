import pytest
import trio
import trio.testing

from core.simulated_disk import SimulatedDisk
from memory_store import MemoryStore
from triomq.core import Directory, Persistence
from triomq.store import QueueDeclared

DECLARE = QueueDeclared(1, b"", b"")


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(MemoryStore())


@pytest.fixture
def persistence(disk: SimulatedDisk) -> Persistence:
    return Persistence(disk.journal)


def be_behind(disk: SimulatedDisk) -> None:
    """Let more be on its way to the disk than publishers need not wait for."""
    disk.journal.append(1, 1, b"", [bytes(17 << 20)], 17 << 20)


def test_queues_get_numbers_that_no_queue_on_disk_has(disk: SimulatedDisk, persistence: Persistence) -> None:
    assert [persistence.number_queue(), persistence.number_queue()] == [1, 2]
    disk.journal.add(QueueDeclared(7, b"", b""))
    disk.work()
    assert Persistence(SimulatedDisk(disk.store).journal).number_queue() == 8
    assert Persistence(type(disk.journal)()).number_queue() == 1


def test_sync_point_is_the_last_batch(disk: SimulatedDisk, persistence: Persistence) -> None:
    persistence.mark_sync_point()
    assert (persistence.sync_point, persistence.sync_points) == (disk.journal.committed, 1)
    disk.journal.add(DECLARE)
    assert persistence.sync_point == disk.journal.committed
    persistence.mark_sync_point()
    assert (persistence.sync_point, persistence.sync_points) == (disk.journal.committed + 1, 2)
    disk.take()
    persistence.mark_sync_point()
    assert persistence.sync_point == disk.journal.committed + 1
    disk.work()
    assert persistence.sync_point == disk.journal.committed


async def test_waiting_ends_when_the_batch_is_on_disk(disk: SimulatedDisk, persistence: Persistence) -> None:
    with trio.fail_after(60):
        await persistence.wait_synced()
        disk.journal.add(DECLARE)
        persistence.mark_sync_point()
        ended: list[str] = []

        async def wait(name: str) -> None:
            await (persistence.wait_synced() if name == "noted" else persistence.wait_committed(1))
            ended.append(name)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, "noted")
            nursery.start_soon(wait, "committed")
            await trio.testing.wait_all_tasks_blocked()
            assert not ended
            disk.work()
        assert sorted(ended) == ["committed", "noted"]
        await persistence.wait_committed(1)


def test_callback_is_called_once_when_its_batch_is_on_disk(disk: SimulatedDisk, persistence: Persistence) -> None:
    called: list[None] = []
    disk.journal.add(DECLARE)
    persistence.when_committed(disk.journal.open_batch, lambda: called.append(None))
    assert not called
    for _ in range(2):
        disk.work()
        assert called == [None]


def test_store_is_behind_from_a_look_on_until_all_of_it_is_on_disk(
    disk: SimulatedDisk, persistence: Persistence
) -> None:
    called: list[int] = []
    disk.journal.add(DECLARE)
    persistence.look()
    be_behind(disk)
    assert not persistence.behind  # nothing begins in the middle of a turn
    persistence.look()
    assert persistence.behind
    persistence.when_caught_up(lambda: called.append(1))
    persistence.when_caught_up(lambda: called.append(2))
    disk.take()
    disk.write()
    assert not called
    disk.answer()
    assert called == [1, 2]
    assert not persistence.behind
    disk.work()
    assert called == [1, 2]


def test_store_that_is_behind_again_goes_on_being_so(disk: SimulatedDisk, persistence: Persistence) -> None:
    called: list[int] = []
    disk.journal.add(DECLARE)
    be_behind(disk)
    persistence.look()
    persistence.when_caught_up(lambda: called.append(1))
    disk.take()
    disk.journal.append(1, 2, b"", [bytes(17 << 20)], 17 << 20)
    disk.write()
    disk.answer()
    assert not called
    disk.work()
    assert called == [1]


def test_store_that_fails_is_not_behind(disk: SimulatedDisk, persistence: Persistence) -> None:
    called: list[int] = []
    directory = Directory("a", persistence=persistence)
    disk.journal.add(DECLARE)
    be_behind(disk)
    persistence.look()
    assert directory.version == 1  # publishers look for their routes anew
    persistence.when_caught_up(lambda: called.append(1))
    persistence.when_caught_up(called.clear)
    persistence.forget_caught_up(called.clear)
    disk.fail()
    assert called == [1]
    assert not persistence.behind
    persistence.look()
    assert not persistence.behind


def test_fault_lets_publishers_look_for_their_routes_anew(disk: SimulatedDisk, persistence: Persistence) -> None:
    directories = [Directory("a", persistence=persistence), Directory("b", persistence=persistence)]
    disk.fail()
    assert [directory.version for directory in directories] == [1, 1]
    disk.recover()
    assert [directory.version for directory in directories] == [2, 2]


def test_waiting_for_the_end_of_a_fault_is_told_once_unless_given_up(
    disk: SimulatedDisk, persistence: Persistence
) -> None:
    called: list[str] = []

    def patient() -> None:
        called.append("patient")

    def impatient() -> None:
        called.append("impatient")

    disk.fail()
    persistence.when_writable(patient)
    persistence.when_writable(impatient)
    persistence.forget_writable(impatient)
    persistence.forget_writable(impatient)
    disk.fail()
    assert not called
    for _ in range(2):
        disk.recover()
        assert called == ["patient"]
        disk.fail()
