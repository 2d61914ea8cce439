import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path

import pytest
import trio
from tests.jobs.worker import work

from triomq.jobs.child.execution import Ending, Task
from triomq.jobs.child.program import ChildSetUp
from triomq.jobs.worker.children import ChildSet
from triomq.jobs.worker.pooled import JobKind, PooledJob
from triomq.jobs.worker.process import search_path

KINDS = {name: JobKind(definition) for name, definition in work.jobs.definitions.items()}


def make_job(name: str, *args: object, timeout: float = inf, deadline: float = inf) -> PooledJob:
    definition = work.jobs.definitions[name]
    payload = definition.encode(args, {})
    limit = min(timeout, definition.options.timeout or inf)
    task = Task(f"{name}-{id(payload)}", name, "default", 1, 1, inf, limit, "", payload)
    return PooledJob(None, None, JobKind(definition), task, deadline)  # type: ignore[arg-type]  # no broker sent it


class Recorder:
    """What became of jobs, as a pool would answer it."""

    def __init__(self) -> None:
        self.results: dict[PooledJob, bytes] = {}
        self.endings: dict[PooledJob, Ending] = {}
        self.reports: list[tuple[bytes, bool]] = []
        self.given_back: list[PooledJob] = []
        self.takes_back = False
        self.answers: Counter[PooledJob] = Counter()
        self.changed = trio.Event()

    def done(self, job: PooledJob, message: bytes) -> None:
        self.answers[job] += 1
        self.results[job] = message

    def failed(self, job: PooledJob, ending: Ending) -> None:
        self.answers[job] += 1
        self.endings[job] = ending

    def reported(self, job: PooledJob, value: bytes, *, item: bool) -> None:
        self.reports.append((value, item))

    async def wait_room(self, job: PooledJob) -> None:
        await trio.lowlevel.checkpoint()

    def give_back(self, jobs: list[PooledJob]) -> bool:
        self.given_back += jobs if self.takes_back else []
        return self.takes_back

    def settle_soon(self) -> None:
        self.settled()

    def settled(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def wait_answered(self, *jobs: PooledJob) -> None:
        with trio.fail_after(60):
            while any(job not in self.answers for job in jobs):
                await self.changed.wait()

    async def wait_given_back(self, count: int) -> None:
        with trio.fail_after(60):
            while len(self.given_back) < count:
                await self.changed.wait()


class Fifos:
    """Handshakes with jobs in other processes."""

    def __init__(self, folder: Path) -> None:
        self.begun = str(folder / "begun")
        self.go = str(folder / "go")
        os.mkfifo(self.begun)
        os.mkfifo(self.go)

    async def wait_begun(self) -> None:
        def read() -> None:
            with open(self.begun) as file:
                file.read()

        with trio.fail_after(60):
            await trio.to_thread.run_sync(read)

    async def say_go(self) -> None:
        def write() -> None:
            with open(self.go, "w") as file:
                file.write("gone on")

        with trio.fail_after(60):
            await trio.to_thread.run_sync(write)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def fifos(tmp_path: Path) -> Fifos:
    return Fifos(tmp_path)


@asynccontextmanager
async def running_children(ends: Recorder, size: int = 1) -> AsyncIterator[ChildSet]:
    children = ChildSet(ChildSetUp(search_path(), "tests.jobs.worker.work:jobs", ""), size, ends)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(children.watch)
        for child in children.children:
            nursery.start_soon(child.run)
        with trio.fail_after(60):
            while not all(child.is_ready for child in children.children):
                await ends.changed.wait()
        yield children
        nursery.cancel_scope.cancel()
