"""Records of one kind: by domain, written and removed, and there again after a restart."""

import pytest

from core.durable import open_durable_directory
from core.simulated_disk import SimulatedDisk
from memory_store import MemoryStore
from triomq.core import Directory, KeyedRecords
from triomq.errors import StoreCorrupt, StoreError
from triomq.store import OperationBatch, RecordKind, RecordPut


def opened(store: MemoryStore, kind: RecordKind, name: str = "domain") -> tuple[SimulatedDisk, KeyedRecords]:
    disk, directory = open_durable_directory(store, 1000, name)
    return disk, KeyedRecords(directory, kind)


def test_records_of_a_domain_and_a_kind_come_back_as_they_were() -> None:
    store = MemoryStore()
    disk, directory = open_durable_directory(store, 1000)
    records = KeyedRecords(directory, RecordKind.SCHEDULE)
    assert list(records.recovered()) == []
    records.put(("a", "x"), b"1")
    records.put(("b",), b"2")
    records.put(("a", "x"), b"3")
    records.remove(("b",))
    KeyedRecords(Directory("other", persistence=directory.persistence), RecordKind.SCHEDULE).put(("a",), b"4")
    KeyedRecords(directory, RecordKind.JOB).put(("a",), b"5")
    disk.work()
    for kind, name, expected in (
        (RecordKind.SCHEDULE, "domain", (("a", "x"), b"3")),
        (RecordKind.SCHEDULE, "other", (("a",), b"4")),
        (RecordKind.JOB, "domain", (("a",), b"5")),
    ):
        assert list(opened(store, kind, name)[1].recovered()) == [expected]


def test_recovered_records_are_forgotten_when_their_owner_has_read_them_all() -> None:
    store = MemoryStore()
    disk, records = opened(store, RecordKind.JOB)
    records.put(("a",), b"1")
    records.put(("b",), b"2")
    disk.work()
    disk, records = opened(store, RecordKind.JOB)
    reading = records.recovered()
    next(reading)
    reading.close()  # the owner could not read it, and is created again
    assert len(list(records.recovered())) == 2
    assert list(records.recovered()) == []
    assert disk.journal.recovered is not None
    assert disk.journal.recovered.records == []


def test_results_come_back_as_sizes_and_are_read_one_by_one() -> None:
    store = MemoryStore()
    disk, records = opened(store, RecordKind.RESULT)
    number = records.put(("0001", "a"), b"value")
    assert records.committed < number
    disk.work()
    assert records.committed >= number
    disk, records = opened(store, RecordKind.RESULT)
    assert list(records.recovered_sizes()) == [(("0001", "a"), 5)]
    found: list[bytes | StoreError | None] = []
    records.read(("0001", "a"), found.append)
    records.read(("0001", "b"), found.append)
    assert found == []
    disk.work()
    assert found == [b"value", None]


def test_range_of_records_goes_with_one_operation() -> None:
    store = MemoryStore()
    disk, records = opened(store, RecordKind.RESULT)
    names = [(minute, name) for minute in ("0001", "0002", "0010") for name in ("", "a", "x" * 300)]
    for each in names:
        records.put(each, b"value")
    disk.work()
    records.remove_range(("0000", ""), ("0002", ""))
    disk.work()
    left = [each for each, _ in opened(store, RecordKind.RESULT)[1].recovered_sizes()]
    assert sorted(left) == sorted(names[3:])


def test_new_record_that_is_removed_in_the_same_batch_is_not_written() -> None:
    disk, records = opened(MemoryStore(), RecordKind.JOB)
    records.put(("a",), b"1", is_new=True)
    records.remove(("a",))
    assert disk.take() is None


def test_record_whose_key_means_nothing_is_damage() -> None:
    store = MemoryStore()
    store.commit([OperationBatch(1, [RecordPut(RecordKind.JOB, b"\xff", b"")])])
    with pytest.raises(StoreCorrupt, match="cannot be decoded"):
        list(opened(store, RecordKind.JOB)[1].recovered())


def test_domain_without_a_store_has_no_records() -> None:
    records = KeyedRecords(Directory("domain"), RecordKind.RESULT)
    assert not records.is_durable
    assert records.put(("a",), b"1") == records.committed == 0
    records.remove(("a",))
    records.remove_range(("a",), ("b",))
    assert list(records.recovered()) == list(records.recovered_sizes()) == []
