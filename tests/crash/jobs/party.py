"""A broker, its workers and a client, of which all but the client are killed."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import trio

import triomq
from ports import free_port
from triomq import open_broker
from triomq.clients.emqp.connection import EMQPConnection
from triomq.clients.emqp.opening import open_emqp
from triomq.endpoints.jobs.hold import HOLD_SECONDS
from triomq.errors import NoSuchQueue
from triomq.protocols.emqp import ENDED, Extension, make_headers

from ..harness import START, Life
from .oracle import LIMIT, JobOracle
from .task import QUEUE, URL, Task, call_of, shown

WORKERS, POOLS, SLOTS = 2, 1, 8

WINDOW = 200
"""Jobs that have not ended, as far as the client knows: enough that workers are busy."""

WORKER, POOL = "crash.jobs.worker", "crash.jobs.pool"

DEAD = "jobs.dead"
"""The queue of jobs that were given up."""

PATIENCE = 90.0
"""Seconds in which no job ends until those that are missing count as lost: a worker counts as gone after 15, a job that
was out when the broker was killed is held for 10, and three deaths are given."""


class Party:
    """All processes of a run; opened by ``open_party``."""

    def __init__(self, directory: Path, chance: random.Random, nursery: trio.Nursery) -> None:
        self._directory = directory / "store"
        self._log = directory / "log"
        self._nursery = nursery
        self.chance = chance
        self.oracle = JobOracle(self._log)
        self.life: Life | None = None
        self.workers: list[tuple[str, trio.Process]] = []
        self.said = b""
        self._port = free_port()
        self.started_at = 0.0
        """When the last broker did."""

    # Processes

    async def _open(self, module: str, *arguments: str, output: int = subprocess.DEVNULL) -> trio.Process:
        home = str(Path(triomq.__file__).parents[1])
        return await trio.lowlevel.open_process(
            [sys.executable, "-m", module, *arguments],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONPATH": home},
            stdin=subprocess.DEVNULL,
            stdout=output,
        )

    async def start_broker(self) -> None:
        """Start the next broker, and wait until it listens."""
        process = await self._open("crash.jobs.broker", str(self._directory), str(self._port), output=subprocess.PIPE)
        assert process.stdout is not None
        line = b""
        with trio.fail_after(START):
            while not line.endswith(b"\n"):
                data = await process.stdout.receive_some()
                assert data, "the broker did not start"
                line += data
        self._port = int(line.split()[1])
        self.started_at = trio.current_time()
        self.life = Life(process, self._port, 0)

    async def start_worker(self, module: str) -> None:
        """Start another worker."""
        slots = [str(SLOTS)] if module == WORKER else []
        self.workers.append((module, await self._open(module, str(self._port), str(self._log), *slots)))

    async def kill_worker(self) -> None:
        """Kill a worker, and start another one like it."""
        module, worker = self.workers.pop(self.chance.randrange(len(self.workers)))
        children = children_of(worker.pid)
        self._dies(worker.pid, *children)
        worker.kill()
        await worker.wait()
        for child in children:
            await self._wait_gone(child)
        await self.start_worker(module)

    async def kill_job(self) -> None:
        """Kill the process of a job."""
        children = [child for module, worker in self.workers if module == POOL for child in children_of(worker.pid)]
        if children:
            child = self.chance.choice(children)
            self._dies(child)
            os.kill(child, signal.SIGKILL)
            await self._wait_gone(child)

    def _dies(self, *processes: int) -> None:
        """Note when a process was killed: that it is gone is seen later, when its jobs may be elsewhere already."""
        for process in processes:
            self.oracle.deaths[process] = time.monotonic()

    async def _wait_gone(self, process: int) -> None:
        """Wait until a process that is not our own child is gone: with its parent a job's process ends by itself."""
        with trio.fail_after(START):
            while is_alive(process):  # noqa: ASYNC110  # nobody tells
                await trio.sleep(0.01)

    async def kill_broker(self) -> None:
        """Kill the broker, and start the next one."""
        assert self.life is not None
        self.life.kill_broker()
        await self.life.process.wait()
        await self.start_broker()

    async def kill_store(self) -> None:
        """Kill the store's process, which the broker starts again."""
        assert self.life is not None
        if (store := self.life.store) is not None:
            os.kill(store, signal.SIGKILL)

    async def kill_all(self) -> None:
        """Kill the broker, its store and a worker at the same moment."""
        await self.kill_store()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.kill_broker)
            nursery.start_soon(self.kill_worker)

    async def close(self) -> None:
        """Leave no process behind."""
        workers = [worker for _, worker in self.workers]
        for process in (*workers, *((self.life.process,) if self.life is not None else ())):
            process.kill()
            await process.wait()

    # Jobs

    async def send(self, number: int, client: EMQPConnection, make: Callable[[int, random.Random], Task]) -> None:
        """Send a job; it counts when it was accepted."""
        task = make(number, self.chance)
        limit = LIMIT if task.key else 0
        extension = Extension(unique=task.unique, key=task.key, limit=limit, retries=task.failures, backoff=(10, 100))
        request = client.begin(QUEUE, call_of(task), _GUARANTEE, extension)
        await request.accepted()
        if request.duplicate_of:
            self.oracle.duplicates += 1
        else:
            self.oracle.accepted[shown(request.id)] = task

    async def wait_done(self, count: int) -> None:
        """Wait until so many more jobs are done, or for long."""
        done = len(self.oracle.accepted) - len(self.oracle.missing())
        with trio.move_on_after(START):
            while len(self.oracle.accepted) - len(self.oracle.missing()) < done + count:  # noqa: ASYNC110  # only the log says so
                await trio.sleep(0.01)

    async def wait_room(self, most: int) -> int:
        """Wait until so few jobs are missing, or nothing has happened for long; return how many are."""
        before, since = -1, trio.current_time()
        while len(missing := self.oracle.missing()) > most and trio.current_time() - since < PATIENCE:
            if len(missing) != before:
                before, since = len(missing), trio.current_time()
            await trio.sleep(0.05)
        return len(missing)

    async def settle(self, client: EMQPConnection) -> None:
        """Wait until the broker knows that all jobs have ended, and has that on disk, as a job that comes later is."""
        last = [job.encode("latin-1") for job in list(self.oracle.accepted)[-2 * WINDOW :]]
        with trio.move_on_after(PATIENCE):
            while {found.state.state for found in (await client.states(last)).values()} - {*ENDED, "unknown"}:  # noqa: ASYNC110  # the broker has to be asked
                await trio.sleep(0.05)
            fence = client.begin("fence", call_of(Task(0, 0)), _GUARANTEE)  # to the default queue, which nobody serves
            await fence.accepted()

    async def look(self) -> tuple[list[str], int]:
        """Return the dead letters, by their jobs, and how many messages are left, from the store itself."""
        await self.close()
        async with open_broker(data_dir=self._directory) as broker:
            left = (await broker.queue(QUEUE).statistics()).ready
            try:
                letters = await broker.queue(DEAD).browse(limit=1_000_000)
            except NoSuchQueue:
                letters = []
        return [str((letter.properties.headers or {})["x-job-id"]) for letter in letters], left


def children_of(process: int) -> list[int]:
    """Return the children of a process."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def is_alive(process: int) -> bool:
    """Return whether a process runs, and is not only waited for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


_GUARANTEE = make_headers(guarantee=True)

KILLS: Mapping[str, Callable[[Party], Awaitable[None]]] = {
    "a worker": Party.kill_worker,
    "a job's process": Party.kill_job,
    "the broker": Party.kill_broker,
    "the store": Party.kill_store,
    "broker, store and a worker": Party.kill_all,
}


@asynccontextmanager
async def open_party(directory: Path, seed: int) -> AsyncIterator[Party]:
    """Start a broker and its workers."""
    async with trio.open_nursery() as nursery:
        party = Party(directory, random.Random(seed), nursery)
        try:
            await party.start_broker()
            for module in (*[WORKER] * WORKERS, *[POOL] * POOLS):
                await party.start_worker(module)
            yield party
        finally:
            with trio.CancelScope(shield=True):
                await party.close()


async def run(
    directory: Path, kills: Sequence[str], seed: int, make: Callable[[int, random.Random], Task], work: int = 500
) -> tuple[JobOracle, list[str]]:
    """Kill again and again under load; return what is known, and what is wrong.

    Args:
        directory: For the store and the log.
        kills: Whom to kill, as in ``KILLS``, one after the other.
        seed: Of what is left to chance here.
        make: Makes a job, by its number.
        work: Jobs that are done between two kills, at most.
    """
    async with open_party(directory, seed) as party:
        async with open_emqp(URL.format(party._port)) as client:
            is_over = False
            async with trio.open_nursery() as sending:

                async def send_all() -> None:
                    number = 0
                    while not is_over:
                        await party.wait_room(WINDOW)
                        async with trio.open_nursery() as nursery:
                            for _ in range(20):
                                number += 1
                                nursery.start_soon(party.send, number, client, make)

                sending.start_soon(send_all)
                for kill in kills:
                    await party.wait_done(party.chance.randint(1, work))
                    await KILLS[kill](party)
                    party.oracle.kills[kill] += 1
                    print(party.oracle, flush=True)
                await party.wait_done(work)
                is_over = True
            await party.wait_room(0)
            await party.settle(client)
            await trio.sleep_until(party.started_at + HOLD_SECONDS + 2)  # what was done is held until then, and dropped
        dead, left = await party.look()
        return party.oracle, list(party.oracle.problems(dead, left))
