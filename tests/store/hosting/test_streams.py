"""Chunks on their way through a journal: gathered, committed, merged, and whole whenever a store is killed."""

import os
import signal
import socket
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
    ChunksSent,
    Journal,
    Operation,
    QueueDeclared,
    SqliteStore,
    assemble,
)
from triomq.store.frames import SendChunks
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


class Lent:
    """A socket that is lent to the store, and what the store says of it."""

    def __init__(self, journal: Journal, first: int) -> None:
        self.client, self._own = socket.socketpair()
        self.answers: list[ChunksSent | StoreError] = []
        self.answered = trio.Event()
        descriptor = os.dup(self._own.fileno())
        self.fetch = journal.send_chunks(descriptor, b"\x91", STREAM, first, ALL, ALL, self._note)

    def _note(self, answer: ChunksSent | StoreError) -> None:
        self.answers.append(answer)
        self.answered.set()

    async def answer(self) -> ChunksSent | StoreError:
        with trio.fail_after(60):
            await self.answered.wait()
        return self.answers[0]

    def __enter__(self) -> "Lent":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self._own.close()


def received(client: socket.socket) -> int:
    """Read one frame; return its size."""
    with client.makefile("rb") as file:
        return len(file.read(int.from_bytes(file.read(4), "big")))


@pytest.mark.parametrize("host", ["process", "thread"])
async def test_store_writes_to_a_socket_that_the_broker_keeps(tmp_path: Path, host: HostKind) -> None:
    async with harness(tmp_path, host) as one:
        log = Log(one.journal)
        log.append(10)
        await one.committed()
        for _ in range(2):
            with Lent(one.journal, first=3) as lent:
                answer = await lent.answer()
                assert isinstance(answer, ChunksSent)
                assert answer.is_whole
                data = lent.client.recv(1 << 20)
                assert (len(data), data[4:6]) == (answer.size, b"\x91\xc6")
                assert offsets(ChunksRead([data[10:]], 0)) == list(range(10))


async def test_store_that_is_killed_while_it_writes_leaves_half_a_message_and_says_so(tmp_path: Path) -> None:
    async with harness(tmp_path, "process") as one:
        log = Log(one.journal)
        log.append(10, size=1_000_000)
        await one.committed()
        with Lent(one.journal, first=0) as lent:
            await trio.to_thread.run_sync(lent.client.recv, 1)
            victim = one.supervisor.pid
            assert victim is not None
            os.kill(victim, signal.SIGKILL)
            answer = await lent.answer()
            assert isinstance(answer, ChunksSent)
            assert (answer.size, answer.is_whole) == (-1, False)
        with Lent(one.journal, first=9) as lent:
            assert await trio.to_thread.run_sync(received, lent.client) > 9_000_000
            answer = await lent.answer()
            assert isinstance(answer, ChunksSent)
            assert answer.is_whole


async def test_request_that_is_cancelled_before_it_is_sent_closes_its_descriptor(tmp_path: Path) -> None:
    journal = Journal()
    with Lent(journal, first=0) as lent:
        assert isinstance(lent.fetch.request, SendChunks)
        journal.cancel_fetch(lent.fetch)
        assert journal.take_descriptor(lent.fetch.request.number) is None
        assert journal.take_fetches() == []
