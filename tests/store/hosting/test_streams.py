"""Chunks on their way through a journal: gathered, committed, merged, and whole whenever a store is killed."""

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest
import trio

from triomq.chunks import Columns, RecordRun, encode_chunk
from triomq.errors import StoreError
from triomq.store import (
    ChunkAppended,
    ChunksMerged,
    ChunksRead,
    Journal,
    Operation,
    QueueDeclared,
    SqliteStore,
    assemble,
)
from triomq.store.hosting import HostKind

from .harness import Harness, harness

STREAM = 7
ALL = 1 << 40


class Log:
    """A stream as a broker has it: one open chunk for each batch."""

    def __init__(self, journal: Journal) -> None:
        self.queue = STREAM
        self.next = 0
        self.chunks = 0
        self._journal = journal
        self._values: list[bytes] = []
        journal.add(QueueDeclared(STREAM, b"stream", b""))

    def append(self, count: int, size: int = 100) -> None:
        if not self._values:
            self._journal.add_open(self)
        for _ in range(count):
            self._values.append(self.next.to_bytes(8, "big") + bytes(size))
            self.next += 1
        self._journal.grow(count * size)

    def finish(self) -> Operation | None:
        values, self._values = self._values, []
        first = self.next - len(values)
        body = encode_chunk(first, first, [RecordRun(0, b"orders", b"", b"", values)])
        self.chunks += 1
        return ChunkAppended(queue=STREAM, first=first, count=len(values), time=first, body=body)


def offsets(found: ChunksRead) -> list[int]:
    """Return what the values of chunks say that their offsets are, after comparing it with the chunks' own."""
    records = [record for chunk in found.chunks for record in Columns(chunk).records()]
    own = [int.from_bytes(record.value[:8], "big") for record in records]
    assert own == [record.offset for record in records]
    return own


async def fetched(one: Harness, first: int = 0, max_bytes: int = ALL) -> ChunksRead:
    answers: list[ChunksRead | StoreError] = []
    done = trio.Event()

    def note(answer: ChunksRead | StoreError) -> None:
        answers.append(answer)
        done.set()

    one.journal.fetch_chunks(STREAM, first, ALL, max_bytes, note)
    with trio.fail_after(60):
        await done.wait()
    assert isinstance(answers[0], ChunksRead)
    return answers[0]


@pytest.mark.parametrize("host", ["process", "thread"])
async def test_all_runs_of_a_batch_are_one_chunk(tmp_path: Path, host: HostKind) -> None:
    async with harness(tmp_path, host) as one:
        log = Log(one.journal)
        for _ in range(300):
            log.append(3)
        assert one.journal.pending_bytes >= 90_000
        await one.committed()
        assert one.journal.pending_bytes == 0
        assert log.chunks < 20
        assert offsets(await fetched(one)) == list(range(900))
    async with harness(tmp_path, host) as one:
        recovered = one.journal.recovered
        assert recovered is not None
        queue = recovered.queues[STREAM]
        assert (sum(each.count for each in queue.chunks), queue.found.next_id - 1) == (900, 900)


@pytest.mark.parametrize("host", ["process", "thread"])
async def test_small_chunks_are_merged_though_nothing_more_is_appended(tmp_path: Path, host: HostKind) -> None:
    async with harness(tmp_path, host) as one:
        log = Log(one.journal)
        for _ in range(20):
            log.append(1)
            await one.committed()
        one.journal.add(ChunksMerged(STREAM, 0, log.next))
        await one.committed()
        while len((found := await fetched(one)).chunks) > 1:
            await trio.lowlevel.checkpoint()
        assert offsets(found) == list(range(20))


@pytest.mark.parametrize("size", [10, 50_000])
async def test_killed_store_has_each_record_once_and_at_its_offset(tmp_path: Path, size: int) -> None:
    async with harness(tmp_path, "process") as one:
        log, merged = Log(one.journal), 0
        for _ in range(6):
            victim = one.supervisor.pid
            for _ in range(25):
                log.append(2, size)
                await trio.lowlevel.checkpoint()
                one.journal.add(ChunksMerged(STREAM, merged, log.next))
            merged = log.next
            assert victim is not None
            os.kill(victim, signal.SIGKILL)
            await one.committed()
            assert one.supervisor.pid != victim
            assert offsets(await fetched(one)) == list(range(log.next))
    with closing(SqliteStore(tmp_path, patience=0)) as store:
        assert offsets(store.read_chunks(STREAM, 0, ALL, ALL)) == list(range(log.next))
        assert sum(each.count for each in assemble(store.recover()).queues[STREAM].chunks) == log.next
