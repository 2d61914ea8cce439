import pytest
import trio
import trio.testing

from core.durable import DurableHarness, open_durable_harness
from core.harness import Harness, publish, ready
from core.streams.test_stored import append
from core.streams.test_stream import declare, read
from memory_store import MemoryStore
from triomq.chunks import RecordRun, encode_chunk
from triomq.core import (
    EVERYTHING,
    AskBounds,
    DeclareStream,
    Forbidden,
    Overflow,
    Permissions,
    Properties,
    Publisher,
    QueueFull,
    QueueOptions,
    StageKey,
    Stages,
    StreamOptions,
    encode_core,
    stages_of,
)
from triomq.errors import LimitExceeded, PreconditionFailed, UnknownStage, Unroutable

KEY = StageKey("", "query", 7)


def chunk(*values: bytes, key: bytes | list[bytes] = b"s", properties: bytes = b"", codec: int = 0) -> bytes:
    return encode_chunk(0, 0, [RecordRun(codec, b"ignored", key, properties, values)])


def staged(harness: Harness, *chunks: bytes, key: StageKey = KEY) -> tuple[Stages, Publisher]:
    stages = stages_of(harness.directory)
    for part, each in enumerate(chunks):
        stages.stage(key, part, 0, each)
    return stages, Publisher(harness.directory, EVERYTHING, harness.system.turn)


async def test_nothing_is_seen_before_the_commit(harness: Harness) -> None:
    state = declare(harness)
    _, consumer = read(harness, state)
    stages, publisher = staged(harness, chunk(b"0", b"1"), chunk(b"2", properties=encode_core(Properties(type="t"))))
    stages.stage(KEY, 0, 0, chunk(b"1a"))
    stages.stage(KEY, 0, 1, chunk(b"another attempt"))
    assert not consumer.batches
    await stages.commit(publisher, KEY, {0: 0, 1: 0})
    assert consumer.take() == [b"0", b"1", b"1a", encode_core(Properties(type="t")) + b"2"]
    assert stages.size == 0
    assert stages.last_batch("", "query") == 7


async def test_repeated_commit_publishes_nothing(harness: Harness) -> None:
    state = declare(harness)
    stages, publisher = staged(harness, chunk(b"0"))
    await stages.commit(publisher, KEY, {0: 0})
    await stages.commit(publisher, KEY, {0: 0})
    stages.stage(KEY, 0, 0, chunk(b"late"))  # a task that was started twice
    assert stages.size == 0
    await stages.commit(publisher, KEY._replace(batch=3), {0: 9})
    assert state.ref.ask_nowait(AskBounds()).stop == 1


async def test_two_commits_at_once_publish_once(harness: Harness) -> None:
    state = declare(harness)
    stages, publisher = staged(harness, chunk(b"0"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stages.commit, publisher, KEY, {0: 0})
        nursery.start_soon(stages.commit, publisher, KEY, {0: 0})
    assert state.ref.ask_nowait(AskBounds()).stop == 1


async def test_records_go_to_partitions_by_their_keys(harness: Harness) -> None:
    options = QueueOptions(stream=StreamOptions())
    parts = harness.domain.ask_nowait(DeclareStream("orders", options, harness.session, 3))
    key = StageKey("orders", "query", 1)
    keys = [b"key-%d" % (number % 30) for number in range(300)]
    stages, publisher = staged(harness, chunk(*keys, key=keys), key=key)
    await stages.commit(publisher, key, {0: 0})
    assert sum(part.ref.ask_nowait(AskBounds()).stop for part in parts) == 300
    found = [set(read(harness, part)[1].take()) for part in parts]
    assert sum(map(len, found)) == 30


async def test_one_queue_that_refuses_refuses_all(harness: Harness) -> None:
    stream = declare(harness)
    full = harness.queue("full", QueueOptions(max_length=1, overflow=Overflow.REJECT_PUBLISH))
    publish(full, b"there")
    stages, publisher = staged(harness, chunk(b"0"), chunk(b"1", key=b"full"))
    with pytest.raises(QueueFull, match="'full'"):
        await stages.commit(publisher, KEY, {0: 0, 1: 0})
    assert stream.ref.ask_nowait(AskBounds()).stop == 0
    assert ready(full) == [b"there"]
    assert stages.last_batch("", "query") == -1
    harness.delete("full")
    with pytest.raises(Unroutable, match="'full' reaches no queue"):
        await stages.commit(publisher, KEY, {0: 0, 1: 0})
    harness.queue("full")
    await stages.commit(publisher, KEY, {0: 0, 1: 0})
    assert ready(harness.directory.queues["full"]) == [b"1"]


async def test_right_to_write_is_asked_again_at_the_commit(harness: Harness) -> None:
    declare(harness)
    stages, _ = staged(harness, chunk(b"0"))

    class Nothing(Permissions):
        def may_write(self, sink: str) -> bool:
            return False

    publisher = Publisher(harness.directory, Nothing(), harness.system.turn)  # type: ignore[misc]
    with pytest.raises(Forbidden):
        await stages.commit(publisher, KEY, {0: 0})


async def test_what_is_not_staged_is_not_committed(harness: Harness) -> None:
    declare(harness)
    stages, publisher = staged(harness, chunk(b"0"))
    with pytest.raises(UnknownStage, match="attempt 1 at part 0 of batch 7"):
        await stages.commit(publisher, KEY, {0: 1})
    stages.abort(KEY, 0, 5)
    stages.abort(KEY, 0, 0)
    stages.abort(KEY)
    with pytest.raises(UnknownStage):
        await stages.commit(publisher, KEY, {0: 0})
    assert stages.size == 0


async def test_stages_expire(harness: Harness, autojump_clock: object) -> None:
    declare(harness)
    stages, publisher = staged(harness, chunk(b"0"))
    await trio.sleep(1800)
    stages.stage(KEY._replace(batch=8), 0, 0, chunk(b"1"))
    await trio.sleep(1801)
    assert stages.size == len(chunk(b"1"))
    await trio.sleep(1800)
    assert stages.size == 0
    with pytest.raises(UnknownStage):
        await stages.commit(publisher, KEY, {0: 0})


async def test_quota_of_a_batch_and_of_all(harness: Harness) -> None:
    stages = stages_of(harness.directory)
    large = chunk(bytes(33 * 1024 * 1024))
    stages.stage(KEY, 0, 0, large)
    with pytest.raises(LimitExceeded, match="a batch may have"):
        stages.stage(KEY, 0, 0, large)
    for batch in range(8, 14):
        stages.stage(KEY._replace(batch=batch), 0, 0, large)
    with pytest.raises(LimitExceeded, match="all together"):
        stages.stage(KEY._replace(batch=20), 0, 0, large)
    harness.directory.memory.mark = 1
    harness.directory.memory.measure()
    assert harness.directory.memory.held > 200 * 1024 * 1024


@pytest.mark.parametrize(
    "wrong", [b"no chunk", chunk(b"x", codec=1), chunk(b"x", properties=b"\xc1"), chunk(b"x")[:-1] + b"!"]
)
async def test_chunk_that_no_reader_could_read_is_refused(harness: Harness, wrong: bytes) -> None:
    with pytest.raises(PreconditionFailed):
        stages_of(harness.directory).stage(KEY, 0, 0, wrong)


async def test_writer_that_was_not_seen_for_long_gives_way_to_another(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(harness)
    monkeypatch.setattr("triomq.core.streams.staging.MOST_WRITERS", 2)
    names = [KEY._replace(writer=name) for name in ("a", "b", "c")]
    stages = stages_of(harness.directory)
    publisher = Publisher(harness.directory, EVERYTHING, harness.system.turn)
    for time, key in enumerate([names[0], names[1], names[0]._replace(batch=9)]):
        stages.wall = lambda time=time: 100.0 + time  # type: ignore[misc]
        stages.stage(key, 0, 0, chunk(b"0"))
        await stages.commit(publisher, key, {0: 0})
    stages.stage(names[2], 0, 0, chunk(b"0"))
    with pytest.raises(LimitExceeded, match="2 writers have committed within a week"):
        await stages.commit(publisher, names[2], {0: 0})
    stages.wall = lambda: 101.0 + 7 * 24 * 3600
    await stages.commit(publisher, names[2], {0: 0})
    assert [stages.last_batch("", name) for name in "abc"] == [9, -1, 7]


async def committed(durable: DurableHarness, stages: Stages, publisher: Publisher, key: StageKey) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stages.commit, publisher, key, {0: 0})
        await trio.testing.wait_all_tasks_blocked()
        durable.disk.work()


async def test_commit_and_its_number_are_on_disk_together() -> None:
    store = MemoryStore()
    async with open_durable_harness(store) as durable:
        state = declare(durable.harness)
        queue = durable.harness.queue("q")
        append(state, b"before")
        stages, publisher = staged(durable.harness, chunk(b"0", b"q", key=[b"s", b"q"]))
        await committed(durable, stages, publisher, KEY)
        stages.stage(KEY._replace(batch=8), 0, 0, chunk(b"lost"))
        assert ready(queue) == [b"q"]
    async with open_durable_harness(store) as durable:
        harness = durable.harness
        assert harness.directory.queues["s"].ref.ask_nowait(AskBounds()).stop == 2
        assert harness.directory.queues["q"].ready_count() == 1
        stages, publisher = staged(harness, chunk(b"again"))
        assert stages.last_batch("", "query") == 7
        await committed(durable, stages, publisher, KEY)
        assert harness.directory.queues["s"].ref.ask_nowait(AskBounds()).stop == 2
        with pytest.raises(UnknownStage):
            await stages.commit(publisher, KEY._replace(batch=8), {0: 0})
