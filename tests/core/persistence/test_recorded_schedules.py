"""Records of schedules: by domain, written and removed, and there again after a restart."""

from core.durable import open_durable_directory
from memory_store import MemoryStore
from triomq.core import Directory, ScheduleRecords


def test_records_of_a_domain_come_back_as_they_were() -> None:
    store = MemoryStore()
    disk, directory = open_durable_directory(store, 1000)
    records = ScheduleRecords(directory)
    assert list(records.recovered()) == []
    records.put("a", b"1")
    records.put("b", b"2")
    records.put("a", b"3")
    records.remove("b")
    ScheduleRecords(Directory("other", persistence=directory.persistence)).put("a", b"4")
    disk.work()
    for name, value in (("domain", b"3"), ("other", b"4")):
        _, again = open_durable_directory(store, 1000, name)
        assert list(ScheduleRecords(again).recovered()) == [("a", value)]


def test_domain_without_a_store_has_no_records() -> None:
    records = ScheduleRecords(Directory("domain"))
    records.put("a", b"1")
    records.remove("a")
    assert list(records.recovered()) == []
