"""Killing a process cannot show that something was not synced: what it wrote is with the system already."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import trio

from triomq.errors import StoreError, StoreUnwritable

from .harness import declare, harness, segments

COMPILER = shutil.which("cc")
SOURCE = Path(__file__).parents[1] / "sync_shim.c"

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    return library


async def test_batches_are_not_confirmed_while_syncing_fails(
    tmp_path: Path, shim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = tmp_path / "fails"
    monkeypatch.setenv("LD_PRELOAD", str(shim))
    monkeypatch.setenv("TRIOMQ_TEST_SYNC_FAILS", str(fails))
    faults: list[StoreError | None] = []
    async with harness(tmp_path / "store", "process") as one:
        declare(one.journal)
        await one.committed()
        before = one.journal.committed
        fails.touch()
        attempts = trio.Event()
        one.journal.on_fault(faults.append)
        one.journal.on_fault(lambda fault: attempts.set())
        one.journal.append(1, 1, b"head", [b"a"], 1)
        one.journal.append(1, 2, b"head", [b"b"], 1)
        with trio.fail_after(60):
            await attempts.wait()
        assert isinstance(faults[0], StoreUnwritable)
        assert one.journal.committed == before
        fails.unlink()
        await one.committed()
    assert faults[1:] == [None]
    assert [segment.count for segment in segments(tmp_path / "store")] == [2]


async def test_sync_that_failed_leaves_nothing_behind_the_end_of_the_log(
    tmp_path: Path, shim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left there by several of them would look like damage after a kill."""
    fails, log = tmp_path / "fails", tmp_path / "store" / "store.db-wal"
    monkeypatch.setenv("LD_PRELOAD", str(shim))
    monkeypatch.setenv("TRIOMQ_TEST_SYNC_FAILS", str(fails))
    async with harness(tmp_path / "store", "process") as one:
        declare(one.journal)
        one.journal.append(1, 1, b"head", [bytes(500_000)], 500_000)
        await one.committed()
        assert log.stat().st_size > 500_000
        fails.touch()
        failed = trio.Event()
        one.journal.on_fault(lambda fault: failed.set())
        one.journal.append(1, 2, b"head", [b"a"], 1)
        with trio.fail_after(60):
            await failed.wait()
        fails.unlink()
        await one.committed()
        assert log.stat().st_size < 500_000
    assert [segment.first for segment in segments(tmp_path / "store")] == [1, 2]


async def test_no_answer_leaves_before_the_sync_that_covers_it(
    tmp_path: Path, shim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace"
    async with harness(tmp_path / "store", "process") as one:
        declare(one.journal)
    monkeypatch.setenv("LD_PRELOAD", str(shim))
    monkeypatch.setenv("TRIOMQ_TEST_TRACE", str(trace))
    async with harness(tmp_path / "store", "process") as one:
        begin = trace.stat().st_size
        for number in range(1, 100):
            one.journal.append(1, number, b"head", [b"x" * 20_000], 20000)
            await one.committed()
        noted = trace.read_text()[begin:]  # w for a write to a file, s for a sync, c for what is sent to the broker
    assert noted.count("c") == 99
    assert re.fullmatch("([ws]*swc)+", noted)  # the last write is the mark's, which nothing syncs
