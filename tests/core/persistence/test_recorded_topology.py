import pytest

from core.durable import (
    ONE,
    TRANSIENT,
    DurableHarness,
    backlog_of,
    open_durable_directory,
    open_durable_harness,
)
from core.harness import Harness, close, open_harness, publish
from core.simulated_disk import SimulatedDisk
from memory_store import MemoryStore
from triomq.core import (
    DeleteQueue,
    DeleteSink,
    Directory,
    Persistence,
    QueueOptions,
    SinkKind,
    SinkOptions,
    recover,
    recovered_domains,
)
from triomq.core.persistence.records import encode_key, encode_options
from triomq.store import Journal, OperationBatch, QueueDeclared, QueueDeleted, RecordKind, RecordPut

TRANSIENT_QUEUE = QueueOptions(durable=False)


def kept_in(store: MemoryStore) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """Sinks, queues and bindings that are there in another life."""
    _, directory = open_durable_directory(store, 0)
    bindings = [(one.source, one.destination) for sink in directory.sinks.values() for one in sink.bindings]
    return sorted(directory.sinks), sorted(directory.queues), sorted(bindings)


def delete_sink(harness: Harness, name: str) -> None:
    harness.domain.ask_nowait(DeleteSink(name, session=harness.session))


async def test_durable_things_are_there_again() -> None:
    async with open_durable_harness() as durable:
        harness = durable.harness
        harness.queue("q", QueueOptions(max_length=7))
        harness.queue("t", TRANSIENT_QUEUE)
        harness.queue("mine", QueueOptions(exclusive=True))
        harness.sink("s", SinkKind.TOPIC, alternate="a")
        harness.sink("u", durable=False)
        for source in ("s", "u"):
            for queue in ("q", "t", "mine"):
                harness.bind(source, queue, "k", {"x": 1})
        harness.bind_sinks("s", "s")
        harness.bind_sinks("s", "u")
        harness.bind_sinks("u", "s")
        durable.disk.work()
    store = durable.disk.store
    assert kept_in(store) == (["s"], ["q"], [("s", "q"), ("s", "s")])
    _, directory = open_durable_directory(store, 0)
    assert directory.sinks["s"].declared == SinkOptions(kind=SinkKind.TOPIC, alternate="a")
    assert directory.queues["q"].declared == QueueOptions(max_length=7)


async def test_messages_are_routed_by_what_is_there_again() -> None:
    async with open_durable_harness() as durable:
        durable.harness.queue("q")
        durable.harness.sink("s")
        durable.harness.bind("s", "q", "k")
        durable.disk.work()
    _, directory = open_durable_directory(durable.disk.store, 0)
    async with open_harness(directory):
        assert directory.route("s", "k", dict).queues == (directory.queues["q"].ref,)
        assert directory.route("s", "other", dict).queues == ()


async def test_deleted_things_are_gone_with_their_bindings(durable: DurableHarness) -> None:
    harness = durable.harness
    for name in ("q", "r"):
        harness.queue(name)
    for name in ("s", "t"):
        harness.sink(name)
        for queue in ("q", "r"):
            harness.bind(name, queue)
    harness.bind_sinks("s", "t")
    durable.disk.work()
    harness.delete("q")
    durable.disk.work()
    assert kept_in(durable.disk.store) == (["s", "t"], ["r"], [("s", "r"), ("s", "t"), ("t", "r")])
    delete_sink(harness, "t")
    durable.disk.work()
    assert kept_in(durable.disk.store) == (["s"], ["r"], [("s", "r")])


async def test_auto_deleted_things_are_gone_from_the_store(durable: DurableHarness) -> None:
    harness = durable.harness
    queue = harness.queue("q", QueueOptions(auto_delete=True))
    harness.sink("s", auto_delete=True)
    harness.bind("s", "q")
    durable.disk.work()
    feed = harness.feed(queue, harness.consumer())
    close(feed)
    durable.disk.work()
    assert kept_in(durable.disk.store) == ([], [], [])


async def test_declare_and_delete_of_something_durable_make_sync_points(durable: DurableHarness) -> None:
    harness, persistence, disk = durable.harness, durable.persistence, durable.disk
    harness.queue("t", TRANSIENT_QUEUE)
    harness.sink("u", durable=False)
    harness.bind("u", "t")
    assert not persistence.sync_points

    def is_waited_for() -> bool:
        waited = persistence.sync_point > disk.journal.committed
        disk.work()
        return waited and persistence.sync_point == disk.journal.committed

    for declare in (lambda: harness.queue("q"), lambda: harness.sink("s"), lambda: harness.bind("s", "q")):
        declare()
        said, notes = disk.journal.require_commit(), persistence.sync_points
        declare()  # it is there, but not on disk
        assert (disk.journal.require_commit(), persistence.sync_points) == (said, notes + 1)
        assert is_waited_for()
        declare()
        assert not is_waited_for()
    harness.bind("s", "t")
    assert not is_waited_for()
    delete_sink(harness, "s")
    assert is_waited_for()
    harness.delete("q")
    assert is_waited_for()
    harness.delete("t")
    assert not is_waited_for()


async def test_spilled_messages_of_a_transient_queue_go_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triomq.core.backlog.tail._SPILL", 1)
    async with open_durable_harness(queue_memory=ONE) as durable:
        queue = durable.harness.queue("t", TRANSIENT_QUEUE)
        for content in (b"1", b"2", b"3"):
            publish(queue, content, head=TRANSIENT)
        durable.disk.work()
        number = backlog_of(queue).queue
        assert list(durable.disk.contents(number, spilled=True).values()) == [b"2", b"3"]
        durable.harness.domain.ask_nowait(DeleteQueue("t", durable.harness.session))
        durable.disk.work()
        assert durable.disk.contents(number, spilled=True) == {}


async def test_domains_are_apart() -> None:
    store = MemoryStore()
    for domain in ("a", "b"):
        disk, directory = open_durable_directory(store, 0, domain)
        async with open_harness(directory) as harness:
            harness.queue("q", QueueOptions(max_length=ord(domain)))
            harness.sink("s")
            harness.bind("s", "q", domain)
            disk.work()
    assert recovered_domains(Persistence(SimulatedDisk(store).journal)) == ["a", "b"]
    for domain in ("a", "b"):
        directory = open_durable_directory(store, 0, domain)[1]
        assert directory.queues["q"].declared.max_length == ord(domain)
        assert [binding.key for binding in directory.sinks["s"].bindings] == [domain]


async def test_domain_is_known_by_anything_in_it() -> None:
    disk = SimulatedDisk(MemoryStore())
    disk.journal.add(RecordPut(RecordKind.SINK, encode_key("d", "s"), encode_options(SinkOptions())))
    disk.journal.add(RecordPut(RecordKind.JOB, b"job", b""))
    disk.work()
    assert recovered_domains(Persistence(SimulatedDisk(disk.store).journal)) == ["d"]


def test_before_the_store_is_open_nothing_is_known() -> None:
    persistence = Persistence(Journal())
    directory = Directory("d", persistence=persistence)
    recover(directory)
    recover(Directory("d"))
    assert recovered_domains(persistence) == []
    assert (directory.sinks, directory.queues) == ({}, {})


async def test_binding_that_leads_nowhere_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async with open_durable_harness() as durable:
        durable.harness.queue("q")
        durable.harness.sink("s")
        durable.harness.bind("s", "q")
        durable.disk.work()
    store = durable.disk.store
    store.commit([OperationBatch(store.committed + 1, [QueueDeleted(1)])])
    assert kept_in(store) == (["s"], [], [])
    assert "led nowhere" in caplog.text


def test_size_of_what_is_settled_in_part_is_about_right() -> None:
    disk = SimulatedDisk(MemoryStore())
    disk.journal.add(QueueDeclared(1, encode_key("domain", "q"), encode_options(QueueOptions())))
    disk.journal.append(1, 1, b"", [b"11", b"22", b"33", b"44"], 8)
    disk.work()
    disk.journal.settle(1, 2)
    disk.work()
    backlog = open_durable_directory(disk.store, 0)[1].queues["q"].backlog
    assert (backlog.paged, backlog.paged_bytes) == (3, 6)
