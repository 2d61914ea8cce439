"""Streams in a broker with a store: what is on disk may be read, and comes back."""

from collections.abc import Sequence

import pytest
import trio

from core.durable import PERSISTENT, TRANSIENT, DurableHarness, open_durable_harness
from core.harness import Consumer, publish, settle
from core.streams.test_stream import declare, offsets, read
from memory_store import MemoryStore
from triomq.chunks import Columns, read_chunk_head
from triomq.core import (
    AskBounds,
    Browse,
    CloseFeed,
    FromOffset,
    NotResident,
    OutOfRange,
    Publish,
    QueueOptions,
    QueueState,
    ReadRange,
    Receipt,
    RecordRange,
    SetPosition,
    Since,
    Start,
    StreamOptions,
    read_records,
)
from triomq.store import ChunkAppended

SMALL = 50_000
"""A memory for streams of which most is on disk."""


def append(state: QueueState, *contents: bytes, at: float | None = None) -> None:
    if at is not None:
        state.backlog.wall = lambda: at  # type: ignore[attr-defined]
    publish(state, *contents, head=PERSISTENT)


def values(chunks: Sequence[bytes]) -> list[bytes]:
    return [bytes(record.value) for chunk in chunks for record in Columns(chunk).records()]


async def fetch(durable: DurableHarness, state: QueueState, first: int, *, since: int = 0) -> RecordRange:
    """Read a range while the disk works."""
    found: list[RecordRange] = []

    async def read_them() -> None:
        micros = since * 1_000_000
        found.append(await read_records(state, first, most_records=1 << 30, most_bytes=1, since=micros))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_them)
        await trio.testing.wait_all_tasks_blocked()
        durable.disk.work()
    return found[0]


async def test_nobody_reads_a_record_before_it_is_on_disk(durable: DurableHarness) -> None:
    state = declare(durable.harness)
    _, consumer = read(durable.harness, state)
    arrived: list[bool] = []
    state.when_arrived(lambda: arrived.append(True))
    append(state, b"0", b"1")
    durable.disk.take()
    durable.disk.write()
    assert not consumer.batches
    assert state.ref.ask_nowait(AskBounds()).stop == 0
    found = state.ref.ask_nowait(ReadRange(0, 10, 10))
    assert found is not None
    assert not found.chunks
    assert not arrived
    durable.disk.answer()
    assert consumer.take() == [b"0", b"1"]
    assert arrived
    assert state.ref.ask_nowait(AskBounds()).stop == 2


async def test_runs_of_a_batch_are_one_chunk(durable: DurableHarness) -> None:
    state = declare(durable.harness)
    for number in range(10):
        append(state, b"%d" % number, at=1.0)
    durable.disk.work()
    assert len(state.ref.ask_nowait(ReadRange(0, 10, 1000)).chunks) == 1  # type: ignore[union-attr]
    operations = [each for each in _operations(durable) if isinstance(each, ChunkAppended)]
    assert [(each.first, each.count) for each in operations] == [(0, 10)]


def _operations(durable: DurableHarness) -> list[object]:
    return [each for each in durable.disk.store._queues.values() for each in each.chunks.values()]


async def test_transient_records_wait_for_the_disk_too(durable: DurableHarness) -> None:
    state = declare(durable.harness)
    receipt = Receipt(1, 1, 1, lambda: None)
    publish(state, b"x", head=TRANSIENT, receipt=receipt)
    assert receipt.number > durable.disk.journal.committed
    durable.disk.work()
    assert receipt.number <= durable.disk.journal.committed


async def test_records_offsets_and_identity_outlive_a_restart() -> None:
    store = MemoryStore()
    async with open_durable_harness(store) as durable:
        state = declare(durable.harness)
        append(state, b"0", b"1", at=100.0)
        append(state, b"2", at=200.0)
        durable.disk.work()
        append(state, b"lost")
        identity = state.ref.ask_nowait(AskBounds()).identity
    async with open_durable_harness(store) as durable:
        state = durable.harness.directory.queues["s"]
        bounds = state.ref.ask_nowait(AskBounds())
        assert (bounds.identity, bounds.first, bounds.stop, bounds.last_time) == (identity, 0, 3, 200_000_000)
        _, consumer = read(durable.harness, state)
        _, second = read(durable.harness, state, FromOffset(1))
        _, since = read(durable.harness, state, Since(150.0))
        _, last = read(durable.harness, state, Start.LAST)
        append(state, b"3", at=50.0)
        durable.disk.work()
        assert consumer.take() == [b"0", b"1", b"2", b"3"]
        assert second.take() == [b"1", b"2", b"3"]
        assert since.take() == [b"2", b"3"]
        assert last.take() == [b"2", b"3"]
        assert state.ref.ask_nowait(AskBounds()).last_time == 200_000_000


async def test_what_is_out_of_memory_is_read_for_each_reader() -> None:
    async with open_durable_harness(queue_memory=SMALL) as durable:
        state = declare(durable.harness)
        for number in range(100):
            append(state, b"%d" % number + bytes(5_000), at=number)
            durable.disk.work()
        assert state.backlog.buffered_bytes < 2 * SMALL
        consumers = [read(durable.harness, state, FromOffset(start), messages=60)[1] for start in (0, 33, 98)]
        for _ in range(30):
            durable.disk.work()
            for consumer in consumers:
                for batch in consumer.batches:
                    settle(batch)
        for start, consumer in zip((0, 33, 98), consumers, strict=True):
            assert offsets(consumer) == list(range(start, 100))


async def test_range_is_read_from_the_store_or_from_memory() -> None:
    async with open_durable_harness(queue_memory=SMALL) as durable:
        state = declare(durable.harness)
        for number in range(100):
            append(state, b"%d" % number + bytes(5_000), at=number)
            durable.disk.work()
        assert state.ref.ask_nowait(ReadRange(3, 1, 1)) is None
        old, new = await fetch(durable, state, 3), await fetch(durable, state, 99)
        assert values(old.chunks)[0].startswith(b"3\0")
        assert values(new.chunks)[0].startswith(b"99\0")


async def test_dropped_records_are_gone_from_the_disk_too() -> None:
    store = MemoryStore()
    async with open_durable_harness(store, SMALL) as durable:
        state = declare(durable.harness, max_bytes=200_000)
        for number in range(100):
            append(state, bytes(5_000), at=number)
            durable.disk.work()
        first = state.ref.ask_nowait(AskBounds()).first
        assert first > 50
        with pytest.raises(OutOfRange):
            await read_records(state, first - 1, most_records=1, most_bytes=1)
        durable.disk.work()
    async with open_durable_harness(store) as durable:
        bounds = durable.harness.directory.queues["s"].ref.ask_nowait(AskBounds())
        assert (bounds.first, bounds.stop) == (first, 100)


async def test_position_of_a_group_outlives_a_restart_and_a_deletion_forgets_it() -> None:
    store = MemoryStore()
    async with open_durable_harness(store) as durable:
        state = declare(durable.harness)
        append(state, *[b"x"] * 10)
        number = state.ref.ask_nowait(SetPosition("g", 4))
        durable.disk.work()
        assert durable.disk.journal.committed >= number
    async with open_durable_harness(store) as durable:
        state = durable.harness.directory.queues["s"]
        assert _lags(state) == {"g": 6}
        durable.harness.delete("s")
        declare(durable.harness)
        durable.disk.work()
    async with open_durable_harness(store) as durable:
        state = durable.harness.directory.queues["s"]
        assert _lags(state) == {}
        assert state.statistics().ready == 0


def _lags(state: QueueState) -> dict[str, int]:
    stream = state.statistics().stream
    assert stream is not None
    return stream.lags


async def test_delayed_records_come_when_they_are_due_also_after_a_restart(autojump_clock: object) -> None:
    store = MemoryStore()
    async with open_durable_harness(store) as durable:
        state = declare(durable.harness)
        state.ref.tell_nowait(Publish(PERSISTENT, [b"late"], 4, delay=0.5))
        durable.disk.work()
    async with open_durable_harness(store) as durable:
        state = durable.harness.directory.queues["s"]
        _, consumer = read(durable.harness, state)
        for _ in range(3):
            await trio.sleep(1)
            durable.disk.work()
        assert consumer.take() == [b"late"]


async def test_crashed_stream_repeats_what_its_readers_were_reading() -> None:
    async with open_durable_harness(queue_memory=SMALL) as durable:
        state = declare(durable.harness)
        for number in range(50):
            append(state, bytes(5_000), at=number)
            durable.disk.work()
        read(durable.harness, state)
        await durable.harness.crash(state)
        durable.disk.work()
        _, consumer = read(durable.harness, state)
        for _ in range(20):
            durable.disk.work()
            await trio.lowlevel.checkpoint()
        assert offsets(consumer) == list(range(50))


async def test_what_could_not_be_read_is_read_when_the_disk_is_well(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_durable_harness(queue_memory=SMALL) as durable:
        state = declare(durable.harness)
        for number in range(50):
            append(state, bytes(5_000), at=number)
            durable.disk.work()
        _, consumer = read(durable.harness, state)
        closed, _ = read(durable.harness, state)
        for _ in range(3):
            durable.disk.fail_fetches()
            with pytest.raises(NotResident):
                state.ref.ask_nowait(Browse(-1, 1))
            assert not consumer.batches
            await trio.sleep(6)
        state.ref.tell_nowait(CloseFeed(closed))
        for _ in range(20):
            durable.disk.work()
            await trio.lowlevel.checkpoint()
        assert offsets(consumer) == list(range(50))
        assert len(state.ref.ask_nowait(Browse(-1, 1))) == 1
    assert 3 <= len([each for each in caplog.records if "cannot be read" in each.message]) <= 6


async def test_transient_stream_is_in_memory_alone_and_bounded() -> None:
    async with open_durable_harness() as durable:
        options = QueueOptions(durable=False, stream=StreamOptions())
        state = durable.harness.queue("t", options)
        _, consumer = read(durable.harness, state)
        append(state, b"x")
        assert consumer.take() == [b"x"]
        assert state.backlog.segments.limits.size > 0  # type: ignore[attr-defined]
        durable.harness.delete("t")
        durable.disk.work()


async def test_readers_far_behind_hold_no_more_than_a_read_each() -> None:
    async with open_durable_harness(queue_memory=SMALL) as durable:
        state = declare(durable.harness)
        for number in range(200):
            append(state, bytes(5_000), at=number)
            durable.disk.work()
        consumers: list[Consumer] = [read(durable.harness, state, messages=1)[1] for _ in range(5)]
        durable.disk.work()
        durable.disk.collect_fetches()
        assert not durable.disk.fetches  # each has what it needs, and asks for no more
        assert [offsets(consumer) for consumer in consumers] == [[0]] * 5


async def test_what_is_not_on_disk_yet_does_not_give_way() -> None:
    async with open_durable_harness() as durable:
        state = declare(durable.harness, max_length=8)
        for number in range(20):
            append(state, b"x", at=number)
        assert state.ref.ask_nowait(AskBounds()).first == 0
        durable.disk.work()
        bounds = state.ref.ask_nowait(AskBounds())
        assert 12 <= bounds.first < bounds.stop == 20


async def test_record_that_is_too_old_and_not_on_disk_keeps_no_clock_busy(autojump_clock: object) -> None:
    async with open_durable_harness() as durable:
        state = durable.harness.queue("s", QueueOptions(stream=StreamOptions(max_age=4.0)))
        for number in range(20):
            append(state, b"x", at=number)
        await trio.testing.wait_all_tasks_blocked()  # the clock of the domain waits
        durable.disk.work()
        assert state.ref.ask_nowait(AskBounds()).first >= 14


async def test_browser_reads_what_is_not_in_memory() -> None:
    async with open_durable_harness(queue_memory=SMALL) as durable:
        state = declare(durable.harness)
        for number in range(100):
            append(state, b"%d" % number + bytes(5_000), at=number)
            durable.disk.work()
        seen: list[int] = []
        while True:
            try:
                page = state.ref.ask_nowait(Browse(seen[-1] if seen else -1, 30))
            except NotResident:
                durable.disk.work()
                continue
            if not page:
                break
            seen += [entry.id for entry in page]
        assert seen == list(range(100))


async def test_range_since_a_time_passes_over_what_is_older() -> None:
    async with open_durable_harness(queue_memory=SMALL) as durable:
        state = declare(durable.harness)
        for number in range(100):
            append(state, b"%d" % number + bytes(5_000), at=number)
            durable.disk.work()
        assert values((await fetch(durable, state, 0, since=20)).chunks)[0].startswith(b"20\0")
        newest = await fetch(durable, state, 0, since=99)  # only in memory
        assert newest.chunks
        assert 50 < read_chunk_head(newest.chunks[0]).first <= 99
