"""A broker with a trace log: files are there when it has ended, and its process may die meanwhile."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed; pip install 'triomq[trace]'")

import pyarrow.parquet as pq  # noqa: E402

from triomq.app import Broker, open_broker  # noqa: E402
from triomq.core import OpenFeed  # noqa: E402
from triomq.tracelog import Trace, TraceSupervisor  # noqa: E402


def rows_in(folder: Path, *columns: str) -> list[tuple[object, ...]]:
    tables = [pq.read_table(path, partitioning=None) for path in sorted(folder.rglob("trace-*.parquet"))]
    columns = columns or ("kind", "queue", "msg_id")
    return [row for table in tables for row in zip(*(table[name].to_pylist() for name in columns), strict=True)]


def supervisor_of(broker: Broker) -> TraceSupervisor:
    actor = broker._tree.top.children["trace"].actor
    assert isinstance(actor, TraceSupervisor)
    return actor


async def test_what_happened_is_in_files_when_the_broker_has_ended(tmp_path: Path) -> None:
    async with open_broker(trace=Trace(str(tmp_path))) as broker:
        await broker.declare_queue("orders")
        await broker.publish("", "orders", b"1")
        async with broker.queue("orders").open_feed() as feed:
            async for delivery in feed:
                delivery.accept()
                break
    assert rows_in(tmp_path) == [("queued", "orders", 1), ("delivered", "orders", 1), ("accepted", "orders", 1)]
    assert rows_in(tmp_path, "protocol", "session") == [("local", 1), ("local", None), (None, None)]


async def test_process_that_dies_is_replaced_and_what_it_had_is_lost(tmp_path: Path) -> None:
    async with open_broker(trace=Trace(str(tmp_path))) as broker:
        await broker.declare_queue("orders")
        supervisor = supervisor_of(broker)
        first = supervisor.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        with trio.fail_after(100):
            while supervisor.pid in (None, first):  # noqa: ASYNC110  # it happens in another process
                await trio.sleep(0.05)
        await broker.publish("", "orders", b"1")
    assert rows_in(tmp_path)[-1] == ("queued", "orders", 1)


async def test_domain_that_is_added_is_traced_too(tmp_path: Path) -> None:
    async with open_broker(trace=Trace(str(tmp_path))) as broker:
        domain = await broker.add_domain("other")
        await domain.declare_queue("q")
        await domain.publish("", "q", b"1")
    assert rows_in(tmp_path) == [("queued", "q", 1)]


async def test_actor_that_is_restarted_is_in_the_log_with_its_error(tmp_path: Path) -> None:
    async with open_broker(trace=Trace(str(tmp_path))) as broker:
        await broker.declare_queue("orders")
        queue = broker.directory.queues["orders"].ref
        queue.tell_nowait(OpenFeed(None))  # type: ignore[arg-type]  # it crashes of that
        await queue.wait_running()
    kind, path, error = rows_in(tmp_path, "kind", "consumer", "error")[-1]
    assert (kind, path) == ("actor-restarted", queue.path)
    assert str(error).startswith("AttributeError: ")


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


class Broken:
    def __getattr__(self, name: str) -> object:
        raise Mute


async def test_error_that_has_no_text_leaves_the_log_alone(tmp_path: Path) -> None:
    async with open_broker(trace=Trace(str(tmp_path))) as broker:
        await broker.declare_queue("orders")
        queue, supervisor = broker.directory.queues["orders"].ref, supervisor_of(broker)
        queue.tell_nowait(OpenFeed(Broken()))  # type: ignore[arg-type]  # it crashes of that
        await queue.wait_running()
        assert supervisor_of(broker) is supervisor
    assert rows_in(tmp_path, "kind", "error")[-1] == ("actor-restarted", "Mute: no text, since that raises ValueError")


def test_broker_that_is_killed_leaves_whole_files_with_what_it_has_sent(tmp_path: Path) -> None:
    program = """
import os, signal, sys, trio
from triomq import Trace, open_broker

async def main():
    async with open_broker(trace=Trace(sys.argv[1])) as broker:
        await broker.declare_queue("orders")
        await broker.publish("", "orders", b"1")
        broker._tree.recorder.outbox.flush()
        await broker.publish("", "orders", b"2")
        os.kill(os.getpid(), signal.SIGKILL)

trio.run(main)
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 100
    while not rows_in(tmp_path) and time.monotonic() < deadline:
        os.sched_yield()  # the process has to write yet
    assert rows_in(tmp_path) == [("queued", "orders", 1)]
    assert not list(tmp_path.rglob(".*"))
