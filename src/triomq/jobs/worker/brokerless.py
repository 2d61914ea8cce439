"""Jobs that run here and come from no broker: a list of calls in, what has become of each out.

    run(calls) ──▶ AsyncSlots     async jobs
               └─▶ ChildSet       sync jobs, in a process that can be killed ──▶ outcomes, in the order of the calls

It is what a worker has behind its pool, so that jobs behave alike: a timeout ends one job in stages, a crash is the end
of the job that ran and of no other. What only a broker can do is not there: retries, limits, priorities, children.
"""

import os
import time
from collections.abc import Sequence
from math import inf
from typing import Literal

import msgspec
import trio

from triomq.errors import JobError
from triomq.jobs.child.execution import Ending, Task
from triomq.jobs.child.program import ChildSetUp
from triomq.jobs.child.tokens import ChildAnswer, Kind
from triomq.jobs.failures import describe
from triomq.jobs.registry import Jobs
from triomq.jobs.running import RunningJob
from triomq.jobs.worker.children import ChildSet, Ends
from triomq.jobs.worker.pooled import JobKind, PooledJob
from triomq.jobs.worker.process import Child, search_path
from triomq.jobs.worker.slots import AsyncSlots


class LocalCall(msgspec.Struct, frozen=True, array_like=True):
    """A call to be run.

    Args:
        id: What the job sees as its id.
        payload: What is called, as on the wire.
        timeout: Seconds that it may run; 0 for those of its decorator.
        attempt: How often it was begun, this time included.
    """

    id: str
    payload: bytes
    timeout: float = 0.0
    attempt: int = 1


class LocalOutcome(msgspec.Struct, frozen=True):
    """What has become of a call.

    Args:
        message: Of its REPLY; empty if there is an ending.
        ending: Why it has no result.
        seconds: How long it ran.
        ended: Unix time.
        pid: The process that it ran in; 0 if it did not begin.
    """

    message: bytes = b""
    ending: Ending | None = None
    seconds: float = 0.0
    ended: float = 0.0
    pid: int = 0


class _LocalJob(PooledJob):
    """A call that is here, with its place among the calls."""

    __slots__ = ("_began", "_running", "calls", "pid", "place", "seconds")

    def __init__(self, calls: "_Calls", place: int, kind: JobKind, task: Task) -> None:
        self._began = self.seconds = 0.0
        self.pid = 0
        self.calls = calls
        self.place = place
        super().__init__(None, None, kind, task, inf)  # type: ignore[arg-type]  # no broker, so no lane

    @property
    def running(self) -> RunningJob | None:  # in slots it is there while the job runs
        """The run in a slot, whose begin and end are timed."""
        return self._running

    @running.setter
    def running(self, running: RunningJob | None) -> None:
        now = trio.current_time()
        if running is not None:
            self._began, self.pid = now, os.getpid()
        elif self._began:
            self.seconds = now - self._began
        self._running = running


class _Calls:
    """A list of calls, and what has become of them."""

    def __init__(self, count: int) -> None:
        self.outcomes: list[LocalOutcome | None] = [None] * count
        self.left = count
        self.done = trio.Event()

    def end(self, place: int, outcome: LocalOutcome) -> None:
        """Write down one."""
        self.outcomes[place] = outcome
        self.left -= 1
        if not self.left:
            self.done.set()


class BrokerlessRunner:
    """Runs calls for as long as ``serve`` does; any number of lists at a time.

    Args:
        jobs: The registry.
        target: The same, as child processes find it.
        processes: How many these are.
        concurrency: How many async jobs run at a time.
    """

    def __init__(self, jobs: Jobs, target: str, *, processes: int, concurrency: int) -> None:
        self._jobs = jobs
        self._kinds = {definition.name: JobKind(definition) for definition in jobs.definitions.values()}
        has_sync = not all(definition.is_async for definition in jobs.definitions.values())
        self._ends = _LocalEnds()
        self._children = _TimedChildren(ChildSetUp(search_path(), target, ""), processes * has_sync, self._ends)
        self._slots = AsyncSlots(concurrency, self._ends, "here", jobs.middleware)

    async def serve(self) -> None:
        """Have processes and slots until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._slots.run)
            if self._children.children:
                nursery.start_soon(self._children.watch)
            for child in self._children.children:
                nursery.start_soon(child.run)

    async def run(self, calls: Sequence[LocalCall]) -> list[LocalOutcome]:
        """Run calls, and return what has become of each, in their order."""
        given = _Calls(len(calls))
        for_slots: list[PooledJob] = []
        for_children: list[PooledJob] = []
        for place, call in enumerate(calls):
            try:
                kind = self._kinds[self._jobs.definition_of(call.payload).name]
            except JobError as error:
                failure = describe(error)
                ending = Ending("failed", failure.type, failure.message, retry=False)
                given.end(place, LocalOutcome(ending=ending, ended=time.time()))
                continue
            limit = call.timeout or kind.timeout
            task = Task(call.id, kind.definition.name, "", call.attempt, call.attempt, inf, limit, "", call.payload)
            job = _LocalJob(given, place, kind, task)
            (for_slots if kind.definition.is_async else for_children).append(job)
        self._slots.take(for_slots)
        if for_children:
            self._children.take(for_children)
        if given.left:
            await given.done.wait()
        return [outcome for outcome in given.outcomes if outcome is not None]


class _TimedChildren(ChildSet):
    """Child processes, with the time that each job has taken, and where."""

    def __init__(self, set_up: ChildSetUp, size: int, ends: Ends) -> None:
        super().__init__(set_up, size, ends)
        self._pids: dict[Child, int] = {}
        self._spoke: dict[Child, float] = {}

    def child_ready(self, child: Child) -> None:
        """Remember its number, which is gone when it has died."""
        self._pids[child] = child.pid or 0
        self._spoke[child] = trio.current_time()
        super().child_ready(child)

    def child_answered(self, child: Child, answers: list[ChildAnswer[PooledJob]]) -> None:
        """Write down what each has taken."""
        self._spoke[child] = trio.current_time()
        for job, kind, seconds, _ in answers:
            if kind >= Kind.DONE and isinstance(job, _LocalJob):
                job.seconds, job.pid = seconds, self._pids[child]
        super().child_answered(child, answers)

    def child_ended(self, child: Child, not_begun: list[PooledJob], victim: PooledJob | None) -> None:
        """Write down what it has died of."""
        if isinstance(victim, _LocalJob):
            victim.pid = self._pids[child]
            victim.seconds = trio.current_time() - max(victim.queued, self._spoke[child])
        super().child_ended(child, not_begun, victim)


class _LocalEnds:
    """Hears how jobs end: ``children.Ends``."""

    def done(self, job: PooledJob, message: bytes) -> None:
        """Write down a result."""
        self._end(job, message, None)

    def failed(self, job: PooledJob, ending: Ending) -> None:
        """Write down why there is none."""
        self._end(job, b"", ending)

    def _end(self, job: PooledJob, message: bytes, ending: Ending | None) -> None:
        assert isinstance(job, _LocalJob)
        outcome = LocalOutcome(message, ending, job.seconds, time.time(), job.pid)
        job.calls.end(job.place, outcome)

    def reported(self, job: PooledJob, value: bytes, *, item: bool) -> None:
        """Nobody waits for progress."""

    async def wait_room(self, job: PooledJob) -> None:
        """There is room for what is dropped."""

    def give_back(self, jobs: list[PooledJob]) -> Literal[False]:
        """There is no broker that would take them."""
        return False

    def settled(self) -> None:
        """There is nobody to ask for more."""

    def settle_soon(self) -> None:
        """The same."""
