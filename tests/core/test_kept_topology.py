import pytest

from memory_store import MemoryStore
from triomq.core import (
    DeleteQueue,
    DeleteSink,
    Directory,
    Keeping,
    QueueOptions,
    SinkKind,
    SinkOptions,
    recover,
    recovered_domains,
)
from triomq.core.stored import encode_key, encode_options
from triomq.store import Batch, DeclareQueue, Journal, Kind, Put
from triomq.store import DeleteQueue as DeleteQueueThere

from .cast import House, close, open_house, publish
from .kept import KEPT, ONE, TRANSIENT, backlog_of, open_kept, open_kept_house
from .machine.disk import Disk

TRANSIENT_QUEUE = QueueOptions(durable=False)


def kept_in(store: MemoryStore) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """Sinks, queues and bindings that are there in another life."""
    _, directory = open_kept(store, 0)
    bindings = [(one.source, one.destination) for sink in directory.sinks.values() for one in sink.bindings]
    return sorted(directory.sinks), sorted(directory.queues), sorted(bindings)


def delete_sink(house: House, name: str) -> None:
    house.domain.ask_nowait(DeleteSink(name, session=house.session))


async def test_what_is_durable_is_there_again() -> None:
    async with open_kept_house() as kept:
        house = kept.house
        house.queue("q", QueueOptions(max_length=7))
        house.queue("t", TRANSIENT_QUEUE)
        house.queue("mine", QueueOptions(exclusive=True))
        house.sink("s", SinkKind.TOPIC, alternate="a")
        house.sink("u", durable=False)
        for source in ("s", "u"):
            for queue in ("q", "t", "mine"):
                house.bind(source, queue, "k", {"x": 1})
        house.bind_sinks("s", "s")
        house.bind_sinks("s", "u")
        house.bind_sinks("u", "s")
        kept.disk.work()
    store = kept.disk.store
    assert kept_in(store) == (["s"], ["q"], [("s", "q"), ("s", "s")])
    _, directory = open_kept(store, 0)
    assert directory.sinks["s"].declared == SinkOptions(kind=SinkKind.TOPIC, alternate="a")
    assert directory.queues["q"].declared == QueueOptions(max_length=7)


async def test_messages_are_routed_by_what_is_there_again() -> None:
    async with open_kept_house() as kept:
        kept.house.queue("q")
        kept.house.sink("s")
        kept.house.bind("s", "q", "k")
        kept.disk.work()
    _, directory = open_kept(kept.disk.store, 0)
    async with open_house(directory):
        assert directory.route("s", "k", dict).queues == (directory.queues["q"].ref,)
        assert directory.route("s", "other", dict).queues == ()


async def test_what_is_deleted_is_gone_with_its_bindings() -> None:
    async with open_kept_house() as kept:
        house = kept.house
        for name in ("q", "r"):
            house.queue(name)
        for name in ("s", "t"):
            house.sink(name)
            for queue in ("q", "r"):
                house.bind(name, queue)
        house.bind_sinks("s", "t")
        kept.disk.work()
        house.delete("q")
        kept.disk.work()
        assert kept_in(kept.disk.store) == (["s", "t"], ["r"], [("s", "r"), ("s", "t"), ("t", "r")])
        delete_sink(house, "t")
        kept.disk.work()
        assert kept_in(kept.disk.store) == (["s"], ["r"], [("s", "r")])


async def test_what_goes_by_itself_is_gone_from_the_store() -> None:
    async with open_kept_house() as kept:
        house = kept.house
        queue = house.queue("q", QueueOptions(auto_delete=True))
        house.sink("s", auto_delete=True)
        house.bind("s", "q")
        kept.disk.work()
        feed = house.feed(queue, house.consumer())
        close(feed)
        kept.disk.work()
        assert kept_in(kept.disk.store) == ([], [], [])


async def test_what_was_declared_again_has_nothing_of_its_predecessor() -> None:
    async with open_kept_house() as kept:
        publish(kept.house.queue("q"), b"1", head=KEPT)
        kept.disk.work()
        kept.house.delete("q")
        kept.house.queue("q", QueueOptions(max_length=1))
        kept.disk.work()
    _, directory = open_kept(kept.disk.store, 0)
    queue = directory.queues["q"]
    assert (queue.backlog.paged, queue.options.max_length) == (0, 1)


async def test_whoever_declares_or_deletes_something_durable_can_wait_for_the_disk() -> None:
    async with open_kept_house() as kept:
        house, keeping, disk = kept.house, kept.keeping, kept.disk
        house.queue("t", TRANSIENT_QUEUE)
        house.sink("u", durable=False)
        house.bind("u", "t")
        assert not keeping.notes

        def is_waited_for() -> bool:
            waited = keeping.noted > disk.journal.committed
            disk.work()
            return waited and keeping.noted == disk.journal.committed

        for declare in (lambda: house.queue("q"), lambda: house.sink("s"), lambda: house.bind("s", "q")):
            declare()
            said, notes = disk.journal.said, keeping.notes
            declare()  # it is there, but not on disk
            assert (disk.journal.said, keeping.notes) == (said, notes + 1)
            assert is_waited_for()
            declare()
            assert not is_waited_for()
        house.bind("s", "t")
        assert not is_waited_for()
        delete_sink(house, "s")
        assert is_waited_for()
        house.delete("q")
        assert is_waited_for()
        house.delete("t")
        assert not is_waited_for()


async def test_what_a_transient_queue_has_on_disk_goes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triomq.core.backlog.tail._SPILL", 1)
    async with open_kept_house(queue_memory=ONE) as kept:
        queue = kept.house.queue("t", TRANSIENT_QUEUE)
        for content in (b"1", b"2", b"3"):
            publish(queue, content, head=TRANSIENT)
        kept.disk.work()
        number = backlog_of(queue).queue
        assert list(kept.disk.contents(number, spilled=True).values()) == [b"2", b"3"]
        kept.house.domain.ask_nowait(DeleteQueue("t", kept.house.session))
        kept.disk.work()
        assert kept.disk.contents(number, spilled=True) == {}


async def test_domains_are_apart() -> None:
    store = MemoryStore()
    for domain in ("a", "b"):
        disk, directory = open_kept(store, 0, domain)
        async with open_house(directory) as house:
            house.queue("q", QueueOptions(max_length=ord(domain)))
            house.sink("s")
            house.bind("s", "q", domain)
            disk.work()
    assert recovered_domains(Keeping(Disk(store).journal)) == ["a", "b"]
    for domain in ("a", "b"):
        directory = open_kept(store, 0, domain)[1]
        assert directory.queues["q"].declared.max_length == ord(domain)
        assert [binding.key for binding in directory.sinks["s"].bindings] == [domain]


async def test_a_domain_is_known_by_anything_in_it() -> None:
    disk = Disk(MemoryStore())
    disk.journal.add(Put(Kind.SINK, encode_key("d", "s"), encode_options(SinkOptions())))
    disk.journal.add(Put(Kind.JOB, b"job", b""))
    disk.work()
    assert recovered_domains(Keeping(Disk(disk.store).journal)) == ["d"]


def test_before_the_store_is_open_nothing_is_known() -> None:
    keeping = Keeping(Journal())
    directory = Directory("d", keeping=keeping)
    recover(directory)
    recover(Directory("d"))
    assert recovered_domains(keeping) == []
    assert (directory.sinks, directory.queues) == ({}, {})


async def test_a_binding_that_leads_nowhere_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async with open_kept_house() as kept:
        kept.house.queue("q")
        kept.house.sink("s")
        kept.house.bind("s", "q")
        kept.disk.work()
    store = kept.disk.store
    store.commit([Batch(store.committed + 1, [DeleteQueueThere(1)])])
    assert kept_in(store) == (["s"], [], [])
    assert "led nowhere" in caplog.text


async def test_a_queue_in_another_life_has_what_the_store_has() -> None:
    async with open_kept_house() as kept:
        queue = kept.house.queue("q")
        publish(queue, b"1", b"22", b"333", head=KEPT)
        publish(queue, b"4444", head=TRANSIENT)
        kept.disk.work()
    async with open_kept_house(kept.disk.store) as again:
        statistics = again.house.directory.queues["q"].statistics()
        assert (statistics.ready, statistics.ready_bytes) == (3, 6)
        assert again.house.queue("new").backlog.queue == 2  # type: ignore[union-attr]


def test_the_size_of_what_is_settled_in_part_is_about_right() -> None:
    disk = Disk(MemoryStore())
    disk.journal.add(DeclareQueue(1, encode_key("house", "q"), encode_options(QueueOptions())))
    disk.journal.append(1, 1, b"", [b"11", b"22", b"33", b"44"], 8)
    disk.work()
    disk.journal.settle(1, 2)
    disk.work()
    backlog = open_kept(disk.store, 0)[1].queues["q"].backlog
    assert (backlog.paged, backlog.paged_bytes) == (3, 6)
