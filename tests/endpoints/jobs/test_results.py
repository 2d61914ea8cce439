"""Results that are kept: for so long, so many, and through a restart."""

import msgspec
import pytest

from core.durable import open_durable_directory
from core.simulated_disk import SimulatedDisk
from memory_store import MemoryStore
from triomq.core import Directory, KeyedRecords, RecordKind
from triomq.endpoints.jobs.results import LARGEST, LONGEST, Result, ResultBook
from triomq.errors import StoreCorrupt, StoreUnwritable
from triomq.store import Journal, RecordPut

OK = Result("ok", b'{"value": 1}', b'{"v": 1}')


class Clock:
    """The Unix time of a test."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Party:
    """A book of results, over a store or not."""

    def __init__(self, store: MemoryStore | None = None, most: int = 1 << 20, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.disk: SimulatedDisk | None = None
        directory = Directory("domain")
        if store is not None:
            self.disk, directory = open_durable_directory(store, 1000)
        self.book = ResultBook(KeyedRecords(directory, RecordKind.RESULT), self.clock, most=most)

    def read(self, job: bytes) -> Result | None:
        found: list[Result | None] = []
        self.book.read(job, found.append)
        if self.disk is not None:
            self.disk.work()
        (result,) = found
        return result


@pytest.fixture(params=[False, True], ids=["in memory", "on disk"])
def party(request: pytest.FixtureRequest) -> Party:
    return Party(MemoryStore() if request.param else None)


def test_result_is_there_as_long_as_was_asked_for_and_a_minute_longer_at_most(party: Party) -> None:
    party.book.keep(b"job", "user", 90.0, OK)
    assert party.book.owner(b"job") == "user"
    party.clock.now += 90
    assert party.book.sweep() == 0
    assert party.read(b"job") == OK
    party.clock.now += 60
    assert party.book.owner(b"job") is None
    assert party.read(b"job") is None
    assert party.book.sweep() == 1
    assert party.book.statistics().size == 0


def test_result_of_no_job_is_none(party: Party) -> None:
    assert party.book.owner(b"job") is party.read(b"job") is None
    party.book.forget(b"job")


def test_later_result_of_a_job_takes_the_place_of_the_earlier_one(party: Party) -> None:
    for end in ("failed", "ok"):
        party.book.keep(b"job", "user", 10.0, Result(end, b"1"))
    assert party.read(b"job") == Result("ok", b"1")
    assert party.book.statistics().count == 1
    party.book.forget(b"job")
    assert party.read(b"job") is None
    assert party.book.statistics().size == 0


def test_oldest_results_go_when_there_are_too_many(party: Party) -> None:
    party.book = ResultBook(party.book._records, party.clock, most=100_000)
    for number in range(500):
        seconds = 600.0 if number % 2 else 3600.0
        party.book.keep(b"%d" % number, "user", seconds, Result("ok", b"x" * 1000))
    statistics = party.book.statistics()
    assert 90_000 < statistics.size <= 100_000
    assert statistics.count + statistics.dropped == 500
    left = [number for number in range(500) if party.book.owner(b"%d" % number) is not None]
    assert set(left) >= set(range(left[0] + 4, 500)), "to a bucket or two"
    assert party.read(b"499") is not None
    party.clock.now += 4000
    assert party.book.sweep() == len(left)


def test_result_that_is_too_large_is_kept_without_its_value(party: Party) -> None:
    party.book.keep(b"job", "user", 10.0, Result("ok", b"x" * LARGEST))
    assert party.read(b"job") == Result("ok", b"")
    assert party.book.statistics().refused == 1


def test_nothing_is_kept_for_ever(party: Party) -> None:
    party.book.keep(b"job", "user", 1e15, OK)
    party.clock.now += LONGEST + 60
    assert party.book.sweep() == 1


def test_results_are_found_after_a_restart() -> None:
    store, clock = MemoryStore(), Clock()
    before = Party(store, clock=clock)
    for number, seconds in enumerate((30.0, 300.0, 300.0)):
        before.book.keep(b"\xff%d" % number, "user", seconds, OK)
    assert before.disk is not None
    before.disk.work()
    after = Party(store, clock=clock)
    assert msgspec.structs.replace(before.book.statistics()) == after.book.statistics()
    assert after.book.owner(b"\xff0") == "user"
    assert [after.read(b"\xff%d" % number) for number in range(3)] == [OK] * 3
    clock.now += 120
    assert after.book.sweep() == 1
    after.book.keep(b"more", "user", 300.0, OK)
    assert after.disk is not None
    after.disk.work()
    assert Party(store, clock=clock).book.statistics().count == 3


def test_memory_has_values_only_until_they_are_on_disk() -> None:
    party = Party(MemoryStore())
    disk = party.disk
    assert disk is not None
    party.book.keep(b"job", "user", 60.0, OK)
    assert disk.journal.pending_bytes
    found: list[Result | None] = []
    party.book.read(b"job", found.append)
    assert found == [OK], "it need not be on disk to be read"
    disk.work()
    party.book.sweep()
    party.book.read(b"job", found.append)
    assert found == [OK], "it has to be read now"
    disk.work()
    assert found == [OK, OK]


def test_results_that_go_before_they_were_written_are_not_written() -> None:
    party = Party(MemoryStore(), most=64 * 2000)
    disk = party.disk
    assert disk is not None
    for number in range(1000):
        party.book.keep(b"%d" % number, "user", 60.0, Result("ok", b"x" * 1000))
    assert disk.journal.pending_bytes < 64 * 2000
    batch = disk.journal.take()
    assert batch is not None
    assert sum(isinstance(each, RecordPut) for each in batch.operations) == party.book.statistics().count


def test_result_that_cannot_be_read_is_none(caplog: pytest.LogCaptureFixture) -> None:
    party = Party(MemoryStore())
    assert party.disk is not None
    party.book.keep(b"job", "user", 60.0, OK)
    party.disk.work()
    party.book.sweep()
    found: list[Result | None] = []
    party.book.read(b"job", found.append)
    journal: Journal = party.disk.journal
    (fetch,) = journal.take_fetches()
    journal.fetched(fetch.request.number, StoreUnwritable("the disk is gone"))
    assert found == [None]
    assert "cannot be read" in caplog.text


def test_record_with_another_key_is_damage() -> None:
    store = MemoryStore()
    disk, directory = open_durable_directory(store, 1000)
    KeyedRecords(directory, RecordKind.RESULT).put(("minute", "user", "job"), b"")
    disk.work()
    with pytest.raises(StoreCorrupt, match="key that is none"):
        Party(store)
