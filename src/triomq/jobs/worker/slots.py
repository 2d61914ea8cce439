"""The slots for async jobs: tasks that run one job after the other, so that a job costs no spawn (33 µs, not 50).

A slot that has nothing to do is parked, and the one that was parked last, whose memory is still in the processor's
caches, is the first to come for what waits. Slots are started as they are needed, up to a limit.

- A slot that takes a job has one other slot come for the next one. If the job waits for something, that one goes on
  with what is left; if not, the first slot has done it all before the other one runs. So jobs that never wait cost no
  wake-up each (a twentieth of what they take).
- A slot looks at the loop after a millisecond of jobs that never waited: heartbeats must not wait for them.
- Jobs run in the slot's own cancel scope, one after the other, until one of them is cancelled: then the slot has a new
  one. The scope decides whose a cancellation is, so that it must be left before the job is answered.
- A job that is to stop is cancelled. If it goes on all the same, its slot is not free, and nothing can end it but the
  end of the worker: async jobs share one thread.
- The same slots run sync jobs in a worker that has no child processes: in the thread of its nursery, or in threads.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import aclosing
from functools import partial
from math import inf
from typing import Literal, TypeAlias, cast

import trio

from triomq.jobs.child.execution import EXPIRED, Ending, ending_for, ending_of, over_time, with_middleware
from triomq.jobs.middleware import Middleware
from triomq.jobs.running import RunningJob, running
from triomq.jobs.worker.children import Ends
from triomq.jobs.worker.means import Mean
from triomq.jobs.worker.pooled import PooledJob

SyncPlace: TypeAlias = Literal["here", "thread"]
"""Where sync jobs run that run in no process."""

_LONG = 0.001
"""Seconds without a look at the loop."""


class _Slot:
    """What one task does, until a job is cancelled in its scope: to open a scope for each takes a tenth of a job."""

    __slots__ = ("began", "job", "scope")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.job: PooledJob | None = None  # that runs
        self.began = 0.0


class AsyncSlots:
    """All slots of a worker; made by its pool, run in one nursery.

    Args:
        most: How many jobs may run at a time.
        ends: Hears how they end.
        sync_place: Where sync jobs run.
        middleware: What is called around each job.
    """

    def __init__(self, most: int, ends: Ends, sync_place: SyncPlace, middleware: tuple[Middleware, ...]) -> None:
        self._most = most
        self._ends = ends
        self._sync_place = sync_place
        self._middleware = middleware
        self._waiting: deque[PooledJob] = deque()
        self._parked: list[trio.lowlevel.Task] = []
        self._nursery: trio.Nursery | None = None
        self._started = 0
        self._is_coming = False  # whether a slot will look at what waits before anything else runs in it
        self._threads = trio.CapacityLimiter(most)
        self._mean = Mean()
        self._looked = 0.0
        self.held = 0
        """Jobs that are here and not answered."""

    @property
    def credit(self) -> int:
        """How many jobs there should be here."""
        return self._most + self._mean.worth(self._most)

    async def run(self) -> None:
        """Have slots until cancelled."""
        try:
            async with trio.open_nursery() as self._nursery:
                self._fill()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    def take(self, jobs: list[PooledJob]) -> None:
        """Take jobs that have arrived."""
        self.held += len(jobs)
        self._waiting += jobs
        self._fill()

    def cancel(self, job: PooledJob, reason: Ending) -> None:
        """Stop a job, whether it has begun or not."""
        if job in self._waiting:
            self._waiting.remove(job)
            self._failed(job, reason)
            self._ends.settled()
            return
        job.reason = reason
        if job.running is not None:
            job.running.is_cancelled = True
        if job.scope is not None:
            job.scope.cancel()

    def take_back(self, most: int) -> list[PooledJob]:
        """Return the last of the jobs that wait, at most so many."""
        jobs = [self._waiting.pop() for _ in range(min(most, len(self._waiting)))]
        self.held -= len(jobs)
        return jobs[::-1]

    def take_all_back(self) -> list[PooledJob]:
        """Return all jobs that were not begun, for the broker: the worker is leaving."""
        jobs = list(self._waiting)
        self._waiting.clear()
        self.held -= len(jobs)
        return jobs

    def _fill(self) -> None:
        """Have a slot come for what waits, unless one is on its way."""
        if not self._waiting or self._is_coming:
            return
        if self._parked:
            self._is_coming = True
            trio.lowlevel.reschedule(self._parked.pop())
        elif self._started < self._most and self._nursery is not None:
            self._started += 1
            self._is_coming = True
            self._nursery.start_soon(self._slot, name="slot")

    async def _slot(self) -> None:
        """Run jobs until cancelled."""
        while True:
            slot = _Slot()
            ending = None
            try:
                with slot.scope:
                    await self._work(slot)
            except BaseException as error:
                if slot.job is None or _is_the_end(error):
                    raise
                ending = _ending_of(error, slot.job)
            if slot.job is not None:
                self._count(slot)
                if slot.scope.cancelled_caught:
                    ending = _over(slot.job)
                assert ending is not None
                self._failed(slot.job, ending)

    async def _work(self, slot: _Slot) -> None:
        """Run jobs until one is cancelled."""
        waiting, scope = self._waiting, slot.scope
        while not scope.cancel_called:
            self._is_coming = False
            while waiting and not scope.cancel_called:
                slot.job = job = waiting.popleft()
                self._fill()
                slot.began = time.perf_counter()
                await self._run(job, scope)
                now = self._count(slot)
                slot.job = None
                if waiting and now - self._looked > _LONG:
                    self._ends.settle_soon()
                    await trio.lowlevel.checkpoint()
                    self._looked = time.perf_counter()
            self._ends.settle_soon()
            await self._park()

    def _count(self, slot: _Slot) -> float:
        """Count how long a job took; return the time."""
        assert slot.job is not None
        now = time.perf_counter()
        slot.job.kind.mean.add(now - slot.began)
        self._mean.add(now - slot.began)
        return now

    async def _park(self) -> None:
        task = trio.lowlevel.current_task()
        self._parked.append(task)

        def abort(raise_cancel: object) -> trio.lowlevel.Abort:
            self._parked.remove(task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def _run(self, job: PooledJob, scope: trio.CancelScope) -> None:
        """Run a job, and answer; what it raises goes no further, but for its cancellation."""
        now = trio.current_time()
        if job.deadline <= now:
            self._failed(job, EXPIRED)
            return
        task = job.task
        limit = min(job.deadline, now + task.timeout)
        job.running = RunningJob(
            task.id,
            task.name,
            queue=task.queue,
            attempt=task.attempt,
            attempts=task.attempts,
            deadline=job.deadline,
            limit=limit,
            clock=trio.current_time,
            trace=task.trace,
            report=partial(self._reported, job),
        )
        job.scope = scope
        if limit < inf:
            scope.deadline = limit
        message = b""
        ending: Ending | None = None
        try:
            with running(job.running), with_middleware(self._middleware, job.kind.definition, job.running):
                message = await self._result(job)
        except BaseException as error:
            if _is_the_end(error):
                raise  # the scope knows whose cancellation it is
            ending = _ending_of(error, job)
        if limit < inf:
            scope.deadline = inf
        if ending is None:
            self.held -= 1
            job.forget_run()
            self._ends.done(job, message)
        else:
            self._failed(job, ending)

    async def _result(self, job: PooledJob) -> bytes:
        """Return the message of the reply."""
        definition = job.kind.definition
        call = definition.bind(job.task.payload)
        if definition.is_async:
            value = call.run()
            if not definition.is_stream:
                return definition.encode_result(await cast("Awaitable[object]", value))
            async with aclosing(cast("AsyncIterator[object]", value)) as items:  # type: ignore[type-var]  # a generator
                async for item in items:
                    self._ends.reported(job, definition.encode_item(item), item=True)
                    await self._ends.wait_room(job)
            return definition.encode_result(None)
        if self._sync_place == "thread":
            assert job.running is not None
            report = job.running.report
            job.running.report = lambda kind, value: trio.from_thread.run_sync(report, kind, value)
            return await trio.to_thread.run_sync(_sync_result, job, limiter=self._threads)
        return _sync_result(job)

    def _reported(self, job: PooledJob, kind: Literal["progress", "item"], value: bytes) -> None:
        self._ends.reported(job, value, item=kind == "item")

    def _failed(self, job: PooledJob, ending: Ending) -> None:
        self.held -= 1
        job.forget_run()
        self._ends.failed(job, ending_for(job.reason, ending))


def _sync_result(job: PooledJob) -> bytes:
    """Run a sync job in this thread."""
    definition = job.kind.definition
    assert job.running is not None
    value = definition.bind(job.task.payload).run()
    if definition.is_stream:
        for item in cast("Iterable[object]", value):
            job.running.report("item", definition.encode_item(item))
        value = None
    return definition.encode_result(value)


def _over(job: PooledJob) -> Ending:
    """Return why a job was cancelled."""
    if job.reason is not None:
        return job.reason
    assert job.running is not None
    return over_time(job.task.timeout, is_expired=job.running.limit >= job.deadline)


def _ending_of(error: BaseException, job: PooledJob) -> Ending:
    return ending_of(error, job.kind.definition, is_cancelled=job.reason is not None)


def _is_the_end(error: BaseException) -> bool:
    """Whether an error is the worker's own end, and not its job's."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_the_end, error.exceptions))
    return isinstance(error, trio.Cancelled | KeyboardInterrupt)
