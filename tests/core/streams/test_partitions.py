import pytest

from core.durable import PERSISTENT, open_durable_harness
from core.harness import HEAD, Harness, publish
from core.streams.test_stream import read
from memory_store import MemoryStore
from triomq.core import (
    AskBounds,
    DeclareStream,
    DeleteQueue,
    DeleteSink,
    DeleteStream,
    Inequivalent,
    NoSuchQueue,
    PartOfStream,
    Publish,
    QueueOptions,
    QueueState,
    StreamOptions,
    Target,
    Unbind,
    make_binding,
    partitions_of,
)
from triomq.errors import PreconditionFailed

OPTIONS = QueueOptions(stream=StreamOptions())


def declare(harness: Harness, partitions: int = 4, name: str = "orders") -> list[QueueState]:
    return list(harness.domain.ask_nowait(DeclareStream(name, OPTIONS, harness.session, partitions)))


def names(queues: list[QueueState]) -> list[str]:
    return [queue.name for queue in queues]


async def test_partitions_share_what_is_published_by_key(harness: Harness) -> None:
    parts = declare(harness)
    assert names(parts) == ["orders-0", "orders-1", "orders-2", "orders-3"]
    for number in range(400):
        key = f"key-{number % 40}"
        for queue in harness.directory.route("orders", key, dict).queues:
            queue.tell_nowait(Publish(HEAD, [key.encode()], len(key)))
    counts = [part.ref.ask_nowait(AskBounds()).stop for part in parts]
    assert sum(counts) == 400
    assert min(counts) >= 10
    for part in parts:
        _, consumer = read(harness, part)
        assert len(set(consumer.take())) == part.ref.ask_nowait(AskBounds()).stop // 10


async def test_stream_without_partitions_is_its_own_only_one(harness: Harness) -> None:
    [alone] = declare(harness, 0, "s")
    assert names(partitions_of(harness.directory, "s")) == ["s"]
    assert alone.name == "s"
    assert partitions_of(harness.directory, "other") == []
    assert names(partitions_of(harness.directory, "orders-0")) == []


async def test_number_of_partitions_is_fixed(harness: Harness) -> None:
    declare(harness, 3)
    assert names(declare(harness, 3)) == names(partitions_of(harness.directory, "orders"))
    for count in (0, 2, 4):
        with pytest.raises(Inequivalent, match="partitions of 'orders' is 3"):
            declare(harness, count)
    with pytest.raises(PreconditionFailed, match="1 to 256"):
        declare(harness, 257, "wide")


async def test_stream_is_deleted_as_a_whole_and_not_in_parts(harness: Harness) -> None:
    declare(harness, 2)
    binding = make_binding("orders", Target.QUEUE, "orders-1", "1")
    for request in (
        DeleteQueue("orders-1", harness.session),
        DeleteSink("orders"),
        Unbind(binding, harness.session),
    ):
        with pytest.raises(PartOfStream, match="belongs to the partitioned stream 'orders'"):
            harness.domain.ask_nowait(request)
    with pytest.raises(NoSuchQueue):
        harness.directory.queue("orders", harness.session)
    assert harness.domain.ask_nowait(DeleteStream("orders", harness.session))
    assert not harness.domain.ask_nowait(DeleteStream("orders", harness.session))
    assert "orders" not in harness.directory.sinks
    declare(harness, 3)


async def test_nothing_is_left_of_a_stream_that_could_not_be_declared_as_a_whole(harness: Harness) -> None:
    harness.queue("orders-2")
    with pytest.raises(Inequivalent):
        declare(harness)
    assert list(harness.directory.queues) == ["orders-2"]
    assert "orders" not in harness.directory.sinks


async def test_partitioned_stream_outlives_a_restart() -> None:
    store = MemoryStore()
    async with open_durable_harness(store) as durable:
        parts = declare(durable.harness, 2)
        publish(parts[1], b"x", head=PERSISTENT)
        durable.disk.work()
    async with open_durable_harness(store) as durable:
        parts = partitions_of(durable.harness.directory, "orders")
        assert [part.ref.ask_nowait(AskBounds()).stop for part in parts] == [0, 1]
        assert names(declare(durable.harness, 2)) == names(parts)
        with pytest.raises(PartOfStream):
            durable.harness.domain.ask_nowait(DeleteQueue("orders-0", durable.harness.session))
