import msgspec
import pytest
import trio
import trio.testing

from core.durable import DurableHarness, open_durable_harness
from core.harness import Harness, publish, ready
from core.streams.test_stored import append, fetch, values
from core.streams.test_stream import declare, read
from core.topology.test_observer import observing_messages
from memory_store import MemoryStore
from triomq.chunks import Columns, RecordRun, StreamRecord, encode_chunk, merge_chunks
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
    QueueState,
    ReadRange,
    SinkKind,
    StageKey,
    Stages,
    StageTarget,
    StreamOptions,
    encode_core,
    stages_of,
)
from triomq.core.persistence.keyed_records import KeyedRecords
from triomq.core.streams.publishers import NAME, NUMBER
from triomq.core.topology.shares import WRITERS
from triomq.errors import LimitExceeded, PreconditionFailed, UnknownStage, Unroutable
from triomq.properties import EXPIRES_MARK, PERSISTENT_MARK, PRIORITY_MARK
from triomq.store import RecordKind

DEFAULT = StageTarget("", is_sink=True)
RUN = RecordRun(0, b"", b"s", b"", [b"value"])
KEY = StageKey(DEFAULT, "query", 7)
PLACE = 1024
"""Bytes that a chunk counts for beside its own."""


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
    assert stages.last_batch(DEFAULT, "query") == 7


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
    key = StageKey(StageTarget("orders"), "query", 1)
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
    assert stages.last_batch(DEFAULT, "query") == -1
    harness.delete("full")
    with pytest.raises(Unroutable, match="'full' reaches no queue"):
        await stages.commit(publisher, KEY, {0: 0, 1: 0})
    harness.queue("full")
    await stages.commit(publisher, KEY, {0: 0, 1: 0})
    assert ready(harness.directory.queues["full"]) == [b"1"]


@pytest.mark.parametrize("target", [StageTarget("q"), StageTarget("parts"), StageTarget("bound", is_sink=True)])
async def test_batch_is_committed_however_often_queues_of_others_come_and_go(
    harness: Harness, target: StageTarget
) -> None:
    harness.queue()
    harness.domain.ask_nowait(DeclareStream("parts", QueueOptions(stream=StreamOptions()), harness.session, 2))
    harness.sink("bound", SinkKind.TOPIC)
    harness.bind("bound", "q", "#")
    keys = [b"%d" % (number % 50) for number in range(12_000)]
    key = StageKey(target, "query", 1)
    stages, publisher = staged(harness, chunk(*keys, key=keys), key=key)

    async def come_and_go() -> None:
        while True:
            harness.queue("replies")
            await trio.lowlevel.checkpoint()
            harness.delete("replies")
            await trio.lowlevel.checkpoint()

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(come_and_go)
            await stages.commit(publisher, key, {0: 0})
            nursery.cancel_scope.cancel()
    assert stages.last_batch(target, "query") == 1


async def test_aborted_parts_leave_nothing(harness: Harness) -> None:
    declare(harness)
    stages, publisher = staged(harness, chunk(b"0"))
    for part in range(1, 4):
        stages.stage(KEY, part, 0, chunk(b"1"))
        stages.abort(KEY, part, 0)
    with pytest.raises(UnknownStage, match="part 2"):
        await stages.commit(publisher, KEY, {0: 0, 2: 0})
    assert list(stages._batches[KEY].parts) == [0]


_DEEP = b"\x81\xa7headers\x81\xa1a"


@pytest.mark.parametrize(
    "properties",
    [
        _DEEP + b"\xd4\x01x",  # a decimal that is none
        _DEEP + b"\xd4\x01\xff",
        _DEEP + b"\xd4\x02x",  # a time that is none
        _DEEP + b"\xd4\x07x",  # an extension that is none
        _DEEP + b"\x91" * 100 + b"\x01",
        _DEEP + b"\x91" * 100_000 + b"\x01",
    ],
    ids=["decimal", "no-text", "time", "extension", "deep", "deeper"],
)
async def test_properties_that_no_reader_could_use_are_refused(harness: Harness, properties: bytes) -> None:
    stages = stages_of(harness.directory)
    with pytest.raises(PreconditionFailed, match=r"(properties|header) of a record"):
        stages.stage(KEY, 0, 0, chunk(b"0", properties=properties))


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
    assert stages.size == len(chunk(b"1")) + PLACE
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
    with pytest.raises(LimitExceeded, match="bytes that are staged"):
        stages.stage(KEY._replace(batch=20), 0, 0, large)
    harness.directory.memory.mark = 1
    harness.directory.memory.measure()
    assert harness.directory.memory.held > 200 * 1024 * 1024


async def test_stages_have_a_part_of_a_small_memory(harness: Harness) -> None:
    state = declare(harness)
    harness.directory.memory.set_mark(400_000)
    stages, publisher = staged(harness, chunk(bytes(90_000)))
    with pytest.raises(LimitExceeded, match="100000 are all that can be"):
        stages.stage(KEY, 1, 0, chunk(bytes(20_000)))
    harness.directory.memory.measure()
    await stages.commit(publisher, KEY, {0: 0})  # does not wait for memory that its own stages have
    assert state.ref.ask_nowait(AskBounds()).stop == 1


async def test_very_small_chunks_count_for_what_they_take(harness: Harness) -> None:
    stages = stages_of(harness.directory)
    keys = [KEY._replace(batch=batch) for batch in range(69)]
    for key in keys:
        stages.stage(key, 0, 0, chunk(b""), most=20_000)
    with pytest.raises(LimitExceeded, match="80000 are all that can be"):
        stages.stage(KEY._replace(batch=69), 0, 0, chunk(b""), most=20_000)


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
    monkeypatch.setattr("triomq.core.streams.staging.WRITERS", msgspec.structs.replace(WRITERS, most=2))
    names = [KEY._replace(writer=name) for name in ("a", "b", "c")]
    stages = stages_of(harness.directory)
    publisher = Publisher(harness.directory, EVERYTHING, harness.system.turn)
    for time, key in enumerate([names[0], names[1], names[0]._replace(batch=9)]):
        stages.wall = lambda time=time: 100.0 + time  # type: ignore[misc]
        stages.stage(key, 0, 0, chunk(b"0"))
        await stages.commit(publisher, key, {0: 0})
    stages.stage(names[2], 0, 0, chunk(b"0"))
    with pytest.raises(LimitExceeded, match="2 writers that have committed within a week"):
        await stages.commit(publisher, names[2], {0: 0})
    stages.wall = lambda: 101.0 + 7 * 24 * 3600
    await stages.commit(publisher, names[2], {0: 0})
    assert [stages.last_batch(DEFAULT, name) for name in "abc"] == [9, -1, 7]


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
        assert stages.last_batch(DEFAULT, "query") == 7
        await committed(durable, stages, publisher, KEY)
        assert harness.directory.queues["s"].ref.ask_nowait(AskBounds()).stop == 2
        with pytest.raises(UnknownStage):
            await stages.commit(publisher, KEY._replace(batch=8), {0: 0})


async def test_writers_of_stores_that_knew_sinks_alone_are_remembered() -> None:
    store = MemoryStore()
    async with open_durable_harness(store) as durable:
        declare(durable.harness)
        KeyedRecords(durable.harness.directory, RecordKind.WRITER).put(("", "query"), msgspec.msgpack.encode((7, 1)))
        await trio.testing.wait_all_tasks_blocked()
        durable.disk.work()
    async with open_durable_harness(store) as durable:
        assert stages_of(durable.harness.directory).last_batch(DEFAULT, "query") == 7


# Chunks as they are, and records one by one


async def commit_into(harness: Harness, target: str, *chunks: bytes, is_sink: bool = False) -> None:
    key = StageKey(StageTarget(target, is_sink=is_sink), "into", stages_of(harness.directory).size + 1)
    stages, publisher = staged(harness, *chunks, key=key)
    await stages.commit(publisher, key, dict.fromkeys(range(len(chunks)), 0))


def records(state: QueueState) -> list[StreamRecord]:
    found = state.ref.ask_nowait(ReadRange(0, 1000, 1 << 20))
    assert found is not None
    return [record for data in found.chunks for record in Columns(data).records()]


async def test_stream_takes_chunks_among_what_is_published(harness: Harness) -> None:
    state = declare(harness)
    publish(state, b"0")
    _, consumer = read(harness, state)
    await commit_into(harness, "s", chunk(b"1", b"2", key=[b"a", b"b"]))
    publish(state, b"3")
    assert consumer.take() == [b"0", b"1", b"2", b"3"]
    assert [(each.offset, each.value) for each in records(state)] == [(n, b"%d" % n) for n in range(4)]
    assert [each.key for each in records(state)][1:3] == [b"a", b"b"]
    times = [each.time for each in records(state)]
    assert times == sorted(times)


async def test_chunk_of_a_client_gets_the_heads_that_the_broker_writes(harness: Harness) -> None:
    state = declare(harness)
    expiring = encode_core(Properties(expiration=1.0))
    await commit_into(harness, "s", chunk(b"0"), chunk(b"1", properties=expiring))
    marks = [(each.sink, each.mark) for each in records(state)]
    assert marks == [(b"", PERSISTENT_MARK), (b"", PERSISTENT_MARK | EXPIRES_MARK)]


async def test_large_chunk_is_cut_for_those_who_read_it(harness: Harness) -> None:
    state = declare(harness)
    sent = [b"%1000d" % number for number in range(1500)]
    await commit_into(harness, "s", chunk(*sent))
    found = state.ref.ask_nowait(ReadRange(0, 10_000, 1 << 30))
    assert found is not None
    assert max(map(len, found.chunks)) < 300_000
    assert values(found.chunks) == sent


async def test_times_that_a_client_gives_count_for_nothing(harness: Harness) -> None:
    state = declare(harness)
    future = merge_chunks([encode_chunk(0, 1, [RUN]), encode_chunk(1, 1 << 60, [RUN])])
    await commit_into(harness, "s", future)
    publish(state, b"now")
    assert len({each.time // 1_000_000_000 for each in records(state)}) == 1


async def test_records_with_and_without_priority_are_one_run(harness: Harness) -> None:
    state, queue = declare(harness), harness.queue("q", QueueOptions(max_priority=5))
    urgent = encode_core(Properties(priority=3))
    mixed = encode_chunk(0, 0, [RecordRun(0, b"", b"k", [urgent, b"", urgent], [b"0", b"1", b"2"])])
    await commit_into(harness, "s", mixed)
    await commit_into(harness, "q", mixed)
    found = state.ref.ask_nowait(ReadRange(0, 1000, 1 << 20))
    assert found is not None
    columns = Columns(found.chunks[0])
    assert (len(columns.run_counts), columns.values.each()) == (1, [b"0", b"1", b"2"])
    assert columns.run_heads[0].mark == PERSISTENT_MARK | PRIORITY_MARK  # some of them have one
    assert ready(queue) == [urgent + b"0", urgent + b"2", b"1"]


async def test_short_runs_are_published_as_one(harness: Harness) -> None:
    queue = harness.queue("q")
    urgent = encode_core(Properties(priority=3))
    runs = [
        encode_chunk(
            number * 8,
            0,
            [RecordRun(0, b"", b"ab"[number % 2 :][:1], urgent * (number % 3 == 0), [b"%d" % number] * 8)],
        )
        for number in range(9)
    ]
    await commit_into(harness, "q", merge_chunks(runs))
    found = [(entry.message.head.routing_key, entry.message.content) for entry in queue.backlog.entries()]
    assert found[::8] == [("ab"[number % 2], urgent * (number % 3 == 0) + b"%d" % number) for number in range(9)]
    assert len(found) == 72


async def test_records_keep_their_keys_in_a_queue(harness: Harness) -> None:
    queue = harness.queue("q")
    await commit_into(harness, "q", chunk(b"0", b"1", b"2", key=[b"a", b"b", b"a"]))
    heads = [entry.message.head.routing_key for entry in queue.backlog.entries()]
    assert heads == ["a", "b", "a"]
    assert ready(queue) == [b"0", b"1", b"2"]


async def test_stream_that_stores_once_looks_at_each_record(harness: Harness) -> None:
    state = harness.queue("s", QueueOptions(stream=StreamOptions(deduplicate=True)))
    named = encode_core(Properties(headers={NAME: "p", NUMBER: 1}))
    await commit_into(harness, "s", chunk(b"0", b"again", properties=named))
    assert [each.value for each in records(state)] == [b"0"]


async def test_messages_are_observed_that_come_in_chunks(harness: Harness) -> None:
    declare(harness)
    observer = observing_messages(harness)
    await commit_into(harness, "s", chunk(b"0", b"1"))
    assert observer.take() == [("published", "s", [b"0", b"1"], ["s"])]


# Writers, attempts and limits


async def test_writer_without_a_name_is_not_remembered(harness: Harness) -> None:
    state = declare(harness)
    key = StageKey(StageTarget("s"), "", 7)
    for _ in range(2):
        stages, publisher = staged(harness, chunk(b"0"), key=key)
        await stages.commit(publisher, key, {0: 0})
        with pytest.raises(UnknownStage):
            await stages.commit(publisher, key, {0: 0})
    assert state.ref.ask_nowait(AskBounds()).stop == 2
    assert stages.last_batch(key.target, "") == -1


async def test_two_commits_of_an_unnamed_writer_at_once_publish_once(harness: Harness) -> None:
    state = declare(harness)
    key = StageKey(StageTarget("s"), "", 7)
    stages, publisher = staged(harness, chunk(b"0"), key=key)
    with pytest.RaisesGroup(UnknownStage):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stages.commit, publisher, key, {0: 0})
            nursery.start_soon(stages.commit, publisher, key, {0: 0})
            await trio.testing.wait_all_tasks_blocked()
    assert state.ref.ask_nowait(AskBounds()).stop == 1


async def test_two_latest_attempts_at_a_part_stay(harness: Harness) -> None:
    state = declare(harness)
    stages, publisher = staged(harness)
    for attempt in (11, 12, 13):
        stages.stage(KEY, 0, attempt, chunk(b"%d" % attempt))
    assert stages.size == 2 * (len(chunk(b"11")) + PLACE)
    with pytest.raises(UnknownStage):
        await stages.commit(publisher, KEY, {0: 11})
    await stages.commit(publisher, KEY, {0: 12})
    assert [each.value for each in records(state)] == [b"12"]


async def test_batch_that_a_killed_program_left_behind_may_be_staged_again(harness: Harness) -> None:
    stages = stages_of(harness.directory)
    large = chunk(bytes(20 * 1024 * 1024))
    for attempt in (1, 2, 3):
        for part in range(3):
            stages.stage(KEY, part, attempt, large)
    with pytest.raises(LimitExceeded):
        stages.stage(KEY, 3, 3, large)
    stages.abort(KEY, 0, 2)
    stages.abort(KEY, 0, 3)
    stages.stage(KEY, 3, 3, large)


async def test_small_chunk_does_not_become_very_large_in_a_queue(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, key = harness.queue("q"), StageKey(StageTarget("q"), "query", 1)
    properties = encode_core(Properties(type="t" * 100_000))
    with pytest.raises(PreconditionFailed, match="have 100014000 bytes if each record has its own"):
        stages_of(harness.directory).stage(key, 0, 0, chunk(*[b""] * 1000, properties=properties, key=b"kkk"))
    monkeypatch.setattr("triomq.core.streams.prepared.MOST_INTO_QUEUES", 15_000_000)
    stages, publisher = staged(harness, *[chunk(*[b""] * 100, properties=properties)] * 2, key=key)
    with pytest.raises(LimitExceeded, match="more than 15000000 bytes when each of its records has its own"):
        await stages.commit(publisher, key, {0: 0, 1: 0})
    assert queue.backlog.ready == 0


async def test_chunk_of_too_many_records_is_refused(harness: Harness) -> None:
    with pytest.raises(PreconditionFailed, match="131073 records; one that is staged has 131072 at most: cut it"):
        stages_of(harness.directory).stage(KEY, 0, 0, chunk(*[b""] * 131_073))


@pytest.mark.parametrize("key", [b"k" * 256, [b"k", b"k" * 256]])
async def test_key_that_no_consumer_could_be_sent_is_refused(harness: Harness, key: bytes | list[bytes]) -> None:
    with pytest.raises(PreconditionFailed, match="a key of 256 bytes; keys have at most 255"):
        stages_of(harness.directory).stage(KEY, 0, 0, chunk(b"1", b"2", key=key))
    stages_of(harness.directory).stage(KEY, 0, 0, chunk(b"1", key=b"k" * 255))


async def test_chunks_are_on_disk_with_the_commit() -> None:
    store = MemoryStore()
    key = StageKey(StageTarget("s"), "query", 1)
    async with open_durable_harness(store) as durable:
        state = declare(durable.harness)
        append(state, b"before")
        stages, publisher = staged(durable.harness, chunk(b"0", b"1", key=[b"a", b"b"]), key=key)
        await committed(durable, stages, publisher, key)
        append(state, b"behind")
        await trio.testing.wait_all_tasks_blocked()
        durable.disk.work()
        assert [each.value for each in records(state)] == [b"before", b"0", b"1", b"behind"]
    async with open_durable_harness(store) as durable:
        state = durable.harness.directory.queues["s"]
        found = [chunk for offset in (0, 1, 3) for chunk in (await fetch(durable, state, offset)).chunks]
        assert values(found) == [b"before", b"0", b"1", b"behind"]
