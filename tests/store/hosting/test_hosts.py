import os
import signal
import sys
from pathlib import Path
from unittest.mock import ANY

import pytest
import trio

from triomq.store.frames import StoreFrameReader, StoreOpened
from triomq.store.hosting import HostKind, StoreSettings
from triomq.store.hosting.hosts import open_host


@pytest.mark.parametrize("kind", ["process", "thread"])
async def test_host_opens_the_store_and_ends_with_its_block(tmp_path: Path, kind: HostKind) -> None:
    for _ in range(2):  # the lock is free again when the block is left
        async with open_host(StoreSettings(tmp_path, kind, patience=0)) as host:
            assert StoreFrameReader().feed(bytes(await host.stream.receive_some())) == [StoreOpened(0, [], ANY)]
            assert (host.pid is None) is (kind == "thread")


async def test_process_finds_triomq_wherever_the_program_found_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "triomq.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    async with open_host(StoreSettings(tmp_path / "store", "process", patience=0)) as host:
        assert StoreFrameReader().feed(bytes(await host.stream.receive_some())) == [StoreOpened(0, [], ANY)]


async def test_process_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triomq.store.hosting.hosts._GRACE", 0.1)
    async with open_host(StoreSettings(tmp_path, "process", patience=0)) as host:
        await host.stream.receive_some()
        assert host.pid is not None
        os.kill(host.pid, signal.SIGSTOP)
    with pytest.raises(ProcessLookupError):
        os.kill(host.pid, 0)


async def test_process_that_cannot_start_is_a_stream_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    false = tmp_path / "python3"
    false.symlink_to("/bin/false")
    monkeypatch.setattr(sys, "executable", str(false))
    async with open_host(StoreSettings(tmp_path, "process", patience=0)) as host:
        with trio.fail_after(60):
            assert await host.stream.receive_some() == b""
