import os
import resource
import signal
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import trio

from triomq.errors import RestartLimitExceeded, StoreCorrupt, StoreError, StoreLocked, StoreUnwritable
from triomq.store import BodyRun, Reading, SqliteStore, decode_body
from triomq.store.hosting import BackUpStore, HostKind

from .harness import declare, harness, segments

either = pytest.mark.parametrize("host", ["process", "thread"])
in_a_process = pytest.mark.parametrize("host", ["process"])
"""For what has no meaning on a thread: that it is killed alone, or has limits of its own."""


@either
async def test_batches_are_there_after_a_restart(tmp_path: Path, host: HostKind) -> None:
    async with harness(tmp_path, host) as one:
        assert one.journal.recovered is not None
        assert one.journal.recovered.queues == {}
        declare(one.journal)
        one.journal.append(1, 1, b"head", [b"a", b"b"], 2)
        number = one.journal.open_batch
        await one.committed()
        assert one.journal.committed == number
    async with harness(tmp_path, host) as one:
        recovered = one.journal.recovered
        assert recovered is not None
        queue = recovered.queues[1]
        assert (queue.found.value, queue.found.next_id) == (b"options", 3)
        assert (queue.count, queue.size, queue.segments) == (2, 2, [])
        assert one.journal.open_batch == number + 1


@either
async def test_leaving_waits_until_everything_is_on_disk(tmp_path: Path, host: HostKind) -> None:
    async with harness(tmp_path, host) as one:
        declare(one.journal)
        one.journal.append(1, 1, b"head", [b"a"], 1)
    assert [segment.first for segment in segments(tmp_path)] == [1]


@either
async def test_batches_gather_while_others_are_on_their_way(tmp_path: Path, host: HostKind) -> None:
    async with harness(tmp_path, host) as one:
        declare(one.journal)
        for number in range(1, 301):
            one.journal.append(1, number, b"head", [b"x" * 100], 100)
            if number % 3 == 0:
                await trio.lowlevel.checkpoint()
        await one.committed()
        assert one.journal.pending_bytes == 0
        batches = one.journal.committed
    found = segments(tmp_path)
    assert sum(segment.count for segment in found) == 300
    assert len(found) <= batches < 100


@either
async def test_bodies_are_read_back(tmp_path: Path, host: HostKind) -> None:
    async with harness(tmp_path, host) as one:
        declare(one.journal)
        one.journal.append(1, 1, b"head", [b"a" * 300_000, b"b"], 300001)
        await one.committed()
        answer = await one.fetched(1, 7)
        assert isinstance(answer, Reading)
        assert answer.up_to == 7
        (segment,) = answer.segments
        (run,) = decode_body(segment.body)
        assert (run.offset, run.head, [len(content) for content in run.contents]) == (0, b"head", [300_000, 1])


@either
async def test_copy_is_made_while_the_store_is_in_use(tmp_path: Path, host: HostKind) -> None:
    target = tmp_path / "copy"
    async with harness(tmp_path / "store", host) as one:
        declare(one.journal)
        one.journal.append(1, 1, b"head", [b"a"], 1)
        await one.committed()
        assert await one.supervisor.ref.ask(BackUpStore(target)) is None
        one.journal.append(1, 2, b"head", [b"b"], 1)
        refused = await one.supervisor.ref.ask(BackUpStore(target))
        assert "is there already" in str(refused)
    assert [segment.first for segment in segments(target)] == [1]


@either
async def test_directory_that_is_in_use_is_an_error_that_names_its_user(tmp_path: Path, host: HostKind) -> None:
    async with harness(tmp_path, host) as one:
        with pytest.raises(StoreLocked, match=f"lock is held by process {one.supervisor.pid or os.getpid()}"):
            async with harness(tmp_path, host):
                pass


@either
async def test_broker_waits_for_the_one_that_leaves(tmp_path: Path, host: HostKind) -> None:
    async with trio.open_nursery() as nursery:
        store = SqliteStore(tmp_path)
        nursery.start_soon(leave_soon, store)
        async with harness(tmp_path, host, patience=5) as one:
            assert one.journal.is_open


async def leave_soon(store: SqliteStore) -> None:
    await trio.sleep(0.2)
    store.close()


@either
async def test_file_that_is_no_store_is_an_error_that_names_it(tmp_path: Path, host: HostKind) -> None:
    (tmp_path / "store.db").write_bytes(b"no database at all, but long enough to be looked at" * 100)
    with pytest.raises(StoreCorrupt, match=r"store\.db is damaged.*let it start on a backup"):
        async with harness(tmp_path, host):
            pass


@either
async def test_impossible_batch_ends_the_actor_with_the_reason(tmp_path: Path, host: HostKind) -> None:
    with pytest.raises(RestartLimitExceeded) as caught:
        await append_to_no_queue(tmp_path, host)
    assert isinstance(caught.value.__cause__, StoreError)
    text = str(caught.value.__cause__)
    assert (
        "a batch cannot be applied, which is an error of triomq; please report it: ValueError('queue 1 is not" in text
    )


async def append_to_no_queue(directory: Path, host: HostKind) -> None:
    async with harness(directory, host) as one:
        one.journal.append(1, 1, b"head", [b"a"], 1)
        await trio.sleep_forever()


@in_a_process
@pytest.mark.parametrize("size", [1000, 70_000])
async def test_store_that_is_killed_is_started_again_and_nothing_is_lost_or_doubled(
    tmp_path: Path, host: HostKind, size: int
) -> None:
    async with harness(tmp_path, host) as one:
        declare(one.journal)
        first = 1
        for _ in range(5):
            victim = one.supervisor.pid
            for _ in range(40):
                contents = [number.to_bytes(4, "big") * (size // 4) for number in range(first, first + 5)]
                one.journal.append(1, first, b"head", contents, 5 * size)
                first += 5
                await trio.lowlevel.checkpoint()
            assert victim is not None
            os.kill(victim, signal.SIGKILL)
            await one.committed()
            assert one.supervisor.pid != victim
        answer = await one.fetched(1, 2)
        assert isinstance(answer, Reading)
        assert [segment.first for segment in answer.segments] == [1]
    ids = [segment.first + position for segment in segments(tmp_path) for position in segment.unsettled()]
    assert ids == list(range(1, first))
    with closing(SqliteStore(tmp_path, patience=0)) as store:
        found = store.read(1, 1, first, 1 << 30).segments
    bodies = [content for segment in found for run in decode_body(segment.body) for content in run.contents]
    assert bodies == [number.to_bytes(4, "big") * (size // 4) for number in range(1, first)]


@in_a_process
async def test_spilled_messages_outlive_a_kill_of_the_store_alone(tmp_path: Path, host: HostKind) -> None:
    async with harness(tmp_path, host) as one:
        declare(one.journal)
        one.journal.spill(1, 1, [BodyRun(0, b"head", [b"a"])], 1)
        await one.committed()
        victim = one.supervisor.pid
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        answer = await one.fetched(1, 2)
        assert isinstance(answer, Reading)
        assert [(segment.first, segment.spilled) for segment in answer.segments] == [(1, True)]


@in_a_process
async def test_the_process_ends_by_itself_when_its_broker_is_killed(tmp_path: Path, host: HostKind) -> None:
    command = [sys.executable, str(Path(__file__).parent / "broker.py"), str(tmp_path)]
    async with trio.open_nursery() as nursery:
        start = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, check=False)
        broker: trio.Process = await nursery.start(start)
        assert broker.stdout is not None
        pid = int(await broker.stdout.receive_some())
        store = os.pidfd_open(pid)
        broker.kill()
    async with harness(tmp_path, host, patience=5) as one:  # waits for the other's lock
        recovered = one.journal.recovered
        assert recovered is not None
        assert recovered.queues[1].count
    with trio.fail_after(60):
        await trio.lowlevel.wait_readable(store)  # it has ended
    os.close(store)


@in_a_process
async def test_disk_that_takes_no_more_is_waited_for(tmp_path: Path, host: HostKind) -> None:
    async with harness(tmp_path, host) as one:
        faults: list[StoreError | None] = []
        failed = trio.Event()
        one.journal.on_fault(faults.append)
        one.journal.on_fault(lambda fault: failed.set())
        declare(one.journal)
        await one.committed()
        assert one.supervisor.pid is not None
        size = (tmp_path / "store.db-wal").stat().st_size
        _, hard = resource.prlimit(one.supervisor.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        one.journal.append(1, 1, b"head", [b"a" * 100_000], 100000)
        before = one.journal.committed
        with trio.fail_after(60):
            await failed.wait()
        assert isinstance(faults[0], StoreUnwritable)  # a limit is no full disk, but as much in the way
        assert (one.journal.committed, one.journal.fault) == (before, faults[0])
        one.journal.append(1, 2, b"head", [b"b"], 1)
        resource.prlimit(one.supervisor.pid, resource.RLIMIT_FSIZE, (hard, hard))
        await one.committed()
        assert faults[1:] == [None]
    assert [segment.first for segment in segments(tmp_path)] == [1, 2]


@in_a_process
async def test_processes_that_end_one_after_the_other_are_an_error(
    tmp_path: Path, host: HostKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    false = tmp_path / "python3"
    false.symlink_to("/bin/false")
    monkeypatch.setattr(sys, "executable", str(false))
    monkeypatch.setattr("triomq.store.hosting.supervisor._PAUSE", 0.01)
    with pytest.raises(StoreError, match="has ended 6 times without having committed anything"):
        async with harness(tmp_path, host):
            pass


async def test_broker_without_descriptors_for_a_new_process_goes_on_and_tries_again(tmp_path: Path) -> None:
    faults: list[StoreError | None] = []
    async with harness(tmp_path, "process") as one:
        declare(one.journal)
        await one.committed()
        changed = trio.Event()
        one.journal.on_fault(faults.append)
        one.journal.on_fault(lambda fault: changed.set())
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert one.supervisor.pid is not None
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))  # those that are open stay open
        try:
            os.kill(one.supervisor.pid, signal.SIGKILL)
            with trio.fail_after(60):
                await changed.wait()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        one.journal.append(1, 1, b"head", [b"a"], 1)
        await one.committed()
    assert isinstance(faults[0], StoreUnwritable)
    assert "cannot be started (Too many open files)" in str(faults[0])
    assert faults[1:] == [None]
    assert [segment.first for segment in segments(tmp_path)] == [1]
