"""A worker: a tree of actors that takes jobs from a broker and runs them.

    worker ─┬─ sender    a connection by which jobs send jobs
            ├─ pool      what there is to do; looks after what takes long
            ├─ slots     async jobs, in one nursery
            ├─ child.1 … sync jobs, each place with one process after the other
            └─ link.…    conversations with the broker: INFORM, heartbeats, KBAI, connecting again

All of them share what the pool knows. So if one crashes, which is a mistake of ours and never a job's, all are started
again (one_for_all): the links say goodbye, and the broker gives to other workers what had not been answered. That a
child process dies is no crash: its place starts the next one. Stopping goes from the links to the pool.
"""

import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio

from triomq.actors import Actor, Backoff, ChildSpec, Supervisor, open_system
from triomq.clients import EMQPConnector, open_emqp_worker
from triomq.errors import ConfigError, Disconnected, Refused
from triomq.jobs.connecting import Where, connector_of
from triomq.jobs.registry import Jobs
from triomq.jobs.schedules import register_schedules
from triomq.jobs.worker.pool import Lane, Pool, PoolStatistics
from triomq.jobs.worker.slots import SyncPlace
from triomq.process import require_python

_log = logging.getLogger("triomq.worker")

CONCURRENCY: Final = 100
"""Async jobs at a time, if nothing else is said: they wait for others most of the time."""

DEFAULT_WEIGHT: Final = 10
"""Of a queue without one, as released workers have it."""

_STOP: Final = 10.0
"""Seconds for processes to end when the worker does: the time of a kill, and of one that ends by itself."""


class Worker:
    """A worker that runs; made by ``open_worker``, ends with its block.

    Args:
        jobs: The registry.
        where: The broker.
        queues: Names, with weights.
        make_pool: Makes what has to be made anew after a crash.
        owner: Whose its schedules are.
        patient: Whether a broker that is not there is waited for.
    """

    def __init__(
        self,
        jobs: Jobs,
        where: str | EMQPConnector,
        queues: Mapping[str, int],
        make_pool: Callable[[], Pool],
        *,
        owner: str,
        patient: bool,
    ) -> None:
        self._jobs = jobs
        self.queues = queues
        """The queues that it serves, with their weights."""
        self._where = where
        self._make_pool = make_pool
        self._owner = owner
        self._patient = patient
        self._can_send = trio.Event()
        self._connected = trio.Event()
        self._failure: Disconnected | None = None
        self.pool = make_pool()
        self.supervisor = Supervisor(self._specs(), strategy="one_for_all")

    def statistics(self) -> PoolStatistics:
        """Return what has become of jobs so far."""
        return self.pool.statistics()

    async def wait_connected(self) -> None:
        """Wait until a broker knows it.

        Raises:
            Disconnected: No broker lets it in, and it is not patient.
        """
        await self._connected.wait()
        if self._failure is not None:
            raise self._failure

    async def drain(self) -> None:
        """Say goodbye, return what has not begun, and wait until all that runs has ended and is answered."""
        self.pool.leave()
        async with trio.open_nursery() as nursery:
            for lane in self.pool.lanes:
                if lane.worker is not None:
                    nursery.start_soon(lane.worker.leave)

    # Its tree

    def _specs(self) -> list[ChildSpec]:
        pool = self.pool
        specs = [
            ChildSpec(lambda: Running(self._connect_jobs), "sender", shutdown=_STOP),
            ChildSpec(self._new_pool, "pool"),
            ChildSpec(lambda: Running(self.pool.slots.run), "slots"),
        ]
        specs += [
            ChildSpec(partial(self._new_child, index), f"child.{index + 1}", shutdown=_STOP)
            for index in range(len(pool.children.children))
        ]
        specs += [
            ChildSpec(partial(self._new_link, index), f"link.{lane.name}", shutdown=_STOP)
            for index, lane in enumerate(pool.lanes)
        ]
        return specs

    def _new_pool(self) -> "Running":
        self.pool = self._make_pool()
        return Running(self.pool.run)

    def _new_child(self, index: int) -> "Running":
        return Running(self.pool.children.children[index].run)

    def _new_link(self, index: int) -> "Running":
        return Running(partial(self._talk, self.pool, self.pool.lanes[index]))

    def _lane_connected(self) -> None:
        if all(lane.worker for lane in self.pool.lanes):
            self._connected.set()

    async def _connect_jobs(self) -> None:
        """Let jobs send jobs, and tell the broker of the schedules."""
        if self._jobs.is_connected:
            await self._register()
            self._can_send.set()
            return
        backoff, failures = Backoff(), 1
        while True:
            try:
                async with self._jobs.connect_worker(self._where):
                    await self._register()
                    self._can_send.set()
                    await trio.sleep_forever()
            except Disconnected as error:
                failures += 1
                await self._failed_to_connect(error, backoff.delay(failures))

    async def _register(self) -> None:
        if self._jobs.schedules or self._owner:  # those that the code has no more end
            try:
                await register_schedules(self._jobs, self._owner)
            except Refused as error:
                _log.error("the broker refuses a schedule", extra={"fields": {"error": error}})

    async def _failed_to_connect(self, error: Disconnected, delay: float) -> None:
        if not self._patient and not self._connected.is_set():
            self._failure = error
            self._connected.set()
        _log.warning("no broker yet", extra={"fields": {"error": error}})
        await trio.sleep(delay)

    async def _talk(self, pool: Pool, lane: Lane) -> None:
        """Have a conversation about some queues, for ever."""
        await self._can_send.wait()
        backoff, failures = Backoff(), 1
        while True:
            try:
                async with open_emqp_worker(self._where, lane.queues, slots=0) as lane.worker:
                    self._lane_connected()
                    failures = 1
                    pool.settled()
                    while jobs := await lane.worker.receive():
                        pool.take(lane, jobs)
                    await trio.sleep_forever()  # it is leaving, and answers still go out
            except Disconnected as error:
                failures += 1
                await self._failed_to_connect(error, backoff.delay(failures))
            finally:
                pool.lost_connection(lane)


class Running(Actor):
    """An actor that does one thing for as long as it lives.

    Args:
        function: What it does; if it raises, that is a crash.
    """

    def __init__(self, function: Callable[[], Awaitable[None]]) -> None:
        self._function = function

    async def run(self) -> None:
        """Run it beside the mailbox."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._function)
            await super().run()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_worker(
    jobs: Jobs,
    where: Where,
    *,
    queues: Sequence[str] | Mapping[str, int] | None = None,
    concurrency: int = CONCURRENCY,
    processes: int = 0,
    target: str = "",
    sync_place: SyncPlace = "here",
    owner: str = "",
    patient: bool = False,
    log_failures: bool = False,
) -> AsyncIterator[Worker]:
    """Run jobs until the block is left; then what has begun ends first, and the rest goes back to the broker.

    Args:
        jobs: The registry: nothing else is ever run.
        where: ``emqp://host:port``, or a broker of this program.
        queues: The queues to serve, with weights if they differ: a worker takes from those with the highest first. By
            default those that the registry names.
        concurrency: How many jobs run at a time in the nursery.
        processes: How many processes there are for sync jobs.
        target: Where these find the registry: ``module:name``. By default it is looked for in the modules that are
            imported.
        sync_place: Where sync jobs run without processes: ``here``, which stops the loop meanwhile, or in a ``thread``.
        owner: Whose the schedules of the registry are: those that this owner has no more are ended.
        patient: Whether to wait for a broker that is not there yet.
        log_failures: Whether to log a line for each job that has no result, as ``triomq worker`` does.

    Raises:
        ConfigError: The registry has a mistake, or cannot be found by processes, or no interpreter is known for these.
        Disconnected: No broker lets us in.
    """
    jobs.check()
    if processes and not target:
        target = find_target(jobs)
    if processes and not all(definition.is_async for definition in jobs.definitions.values()):
        require_python()
    if queues is None:
        queues = sorted(jobs.queues)
    weights = queues if isinstance(queues, Mapping) else dict.fromkeys(queues, DEFAULT_WEIGHT)
    if not weights:
        raise ConfigError("there is no queue to serve: the registry has no job; write @jobs.job before a function")
    make_pool = partial(
        Pool,
        jobs,
        weights,
        concurrency=concurrency,
        processes=processes,
        target=target,
        broker=where if isinstance(where, str) else "",
        sync_place=sync_place,
        log_failures=log_failures,
    )
    worker = Worker(jobs, await connector_of(where), weights, make_pool, owner=owner, patient=patient)
    async with open_system(supervisor=worker.supervisor):
        if not patient:
            await worker.wait_connected()
        yield worker
        await worker.drain()


def find_target(jobs: Jobs) -> str:
    """Return ``module:name`` of a registry among the modules that are imported.

    Raises:
        ConfigError: It is in none, or in the program's main module, which processes cannot import.
    """
    for module_name, module in list(sys.modules.items()):
        if module_name not in ("__main__", "__mp_main__"):  # the second one is multiprocessing's name for the first
            for name, value in list(vars(module).items()):
                if value is jobs:
                    return f"{module_name}:{name}"
    raise ConfigError(
        "no module that child processes could import has this registry; put it at the top level of a module of its own"
    )
