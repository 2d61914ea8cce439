import pytest
import trio
import trio.testing

from memory_store import MemoryStore
from triomq.core import Directory, Keeping
from triomq.store import DeclareQueue

from .machine.disk import Disk

DECLARE = DeclareQueue(1, b"", b"")


@pytest.fixture
def disk() -> Disk:
    return Disk(MemoryStore())


@pytest.fixture
def keeping(disk: Disk) -> Keeping:
    return Keeping(disk.journal)


def be_behind(disk: Disk) -> None:
    """Let more be on its way to the disk than publishers need not wait for."""
    disk.journal.append(1, 1, b"", [bytes(17 << 20)], 17 << 20)


def test_queues_get_numbers_that_no_queue_on_disk_has(disk: Disk, keeping: Keeping) -> None:
    assert [keeping.number_queue(), keeping.number_queue()] == [1, 2]
    disk.journal.add(DeclareQueue(7, b"", b""))
    disk.work()
    assert Keeping(Disk(disk.store).journal).number_queue() == 8
    assert Keeping(type(disk.journal)()).number_queue() == 1


def test_what_is_noted_is_the_batch_that_was_said_last(disk: Disk, keeping: Keeping) -> None:
    keeping.note()
    assert (keeping.noted, keeping.notes) == (disk.journal.committed, 1)
    disk.journal.add(DECLARE)
    assert keeping.noted == disk.journal.committed
    keeping.note()
    assert (keeping.noted, keeping.notes) == (disk.journal.committed + 1, 2)
    disk.take()
    keeping.note()
    assert keeping.noted == disk.journal.committed + 1
    disk.work()
    assert keeping.noted == disk.journal.committed


async def test_waiting_ends_when_the_batch_is_on_disk(disk: Disk, keeping: Keeping) -> None:
    with trio.fail_after(5):
        await keeping.wait_noted()
        disk.journal.add(DECLARE)
        keeping.note()
        ended: list[str] = []

        async def wait(name: str) -> None:
            await (keeping.wait_noted() if name == "noted" else keeping.wait_committed(1))
            ended.append(name)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, "noted")
            nursery.start_soon(wait, "committed")
            await trio.testing.wait_all_tasks_blocked()
            assert not ended
            disk.work()
        assert sorted(ended) == ["committed", "noted"]
        await keeping.wait_committed(1)


def test_a_callback_is_called_once_when_its_batch_is_on_disk(disk: Disk, keeping: Keeping) -> None:
    called: list[None] = []
    disk.journal.add(DECLARE)
    keeping.when_committed(disk.journal.number, lambda: called.append(None))
    assert not called
    for _ in range(2):
        disk.work()
        assert called == [None]


def test_store_is_behind_from_a_look_on_until_all_of_it_is_on_disk(disk: Disk, keeping: Keeping) -> None:
    called: list[int] = []
    disk.journal.add(DECLARE)
    keeping.look()
    be_behind(disk)
    assert not keeping.behind  # nothing begins in the middle of a turn
    keeping.look()
    assert keeping.behind
    keeping.when_caught_up(lambda: called.append(1))
    keeping.when_caught_up(lambda: called.append(2))
    disk.take()
    disk.write()
    assert not called
    disk.answer()
    assert called == [1, 2]
    assert not keeping.behind
    disk.work()
    assert called == [1, 2]


def test_store_that_is_behind_again_goes_on_being_so(disk: Disk, keeping: Keeping) -> None:
    called: list[int] = []
    disk.journal.add(DECLARE)
    be_behind(disk)
    keeping.look()
    keeping.when_caught_up(lambda: called.append(1))
    disk.take()
    disk.journal.append(1, 2, b"", [bytes(17 << 20)], 17 << 20)
    disk.write()
    disk.answer()
    assert not called
    disk.work()
    assert called == [1]


def test_store_that_fails_is_not_behind(disk: Disk, keeping: Keeping) -> None:
    called: list[int] = []
    directory = Directory("a", keeping=keeping)
    disk.journal.add(DECLARE)
    be_behind(disk)
    keeping.look()
    assert directory.version == 1  # publishers look for their routes anew
    keeping.when_caught_up(lambda: called.append(1))
    keeping.when_caught_up(called.clear)
    keeping.forget_caught_up(called.clear)
    disk.fail()
    assert called == [1]
    assert not keeping.behind
    keeping.look()
    assert not keeping.behind


def test_a_fault_lets_publishers_look_for_their_routes_anew(disk: Disk, keeping: Keeping) -> None:
    directories = [Directory("a", keeping=keeping), Directory("b", keeping=keeping)]
    disk.fail()
    assert [directory.version for directory in directories] == [1, 1]
    disk.mend()
    assert [directory.version for directory in directories] == [2, 2]


def test_who_waits_for_the_end_of_a_fault_is_told_once_unless_it_has_given_up(disk: Disk, keeping: Keeping) -> None:
    called: list[str] = []

    def patient() -> None:
        called.append("patient")

    def impatient() -> None:
        called.append("impatient")

    disk.fail()
    keeping.when_writable(patient)
    keeping.when_writable(impatient)
    keeping.forget_writable(impatient)
    keeping.forget_writable(impatient)
    disk.fail()
    assert not called
    for _ in range(2):
        disk.mend()
        assert called == ["patient"]
        disk.fail()
