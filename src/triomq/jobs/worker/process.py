"""One place for a child process: start one, read what it answers, stop a job in it in stages, start the next one.

    spawn ──▶ READY ──▶ jobs … ──▶ a job's time is up ──▶ SIGUSR1 ──▶ SIGUSR2 ──▶ SIGKILL ──▶ spawn
                 │                 or it is cancelled      cancel    terminate      kill
                 └── the process dies by itself ──▶ its victim is lost ──▶ spawn

- Before a job is stopped, those behind it are taken back, so that no signal meets another job.
- The place is free when the process is: a job that ends in time leaves it as it was, one that had to be terminated
  takes it along, as nobody knows in what state its modules are.
- Children are new interpreters, never forks: a fork of a program with threads and an event loop inherits their locks.
- A process that dies before it has run a job is started again later and later, so that a module that cannot be imported
  does not take a whole core.
"""

import logging
import os
import signal
import subprocess
import sys
from math import inf
from typing import Final, Protocol

import msgspec
import trio

from triomq.actors import Backoff
from triomq.jobs.child.execution import Ending, over_time
from triomq.jobs.child.program import ChildSetUp
from triomq.jobs.child.tokens import ChildAnswer, ChildPipes, Kind
from triomq.jobs.worker.means import ENOUGH, SLOW
from triomq.jobs.worker.pooled import PooledJob
from triomq.process import has_own_modules, python_command, python_environment

_log = logging.getLogger("triomq.worker")

GRACE: Final = 5.0
"""Seconds from the moment at which a job is to stop until its process is killed, if nothing else is said."""

_TO_LOOK: Final = 0.2
"""The share of these that it has to see by itself that it is to stop, before an error is raised in it."""

_END: Final = 2.0
"""Seconds that an idle child has to end by itself."""

_SEVERAL: Final = 8
"""Jobs that a child must have for its answers to be gathered: a timer costs as much as being woken by two of them."""


class ChildOwner(Protocol):
    """Hears of children."""

    def child_ready(self, child: "Child") -> None:
        """A child takes jobs."""

    def child_answered(self, child: "Child", answers: list[ChildAnswer[PooledJob]]) -> None:
        """A child has said something about its jobs."""

    async def wait_room(self, job: PooledJob) -> None:
        """Wait until the reader of a job's items has taken enough of them."""

    def child_ended(self, child: "Child", not_begun: list[PooledJob], victim: PooledJob | None) -> None:
        """A child has died; what it had answered came before."""


class Child:
    """A place for one child process; made by its pool, which gives it jobs while ``is_ready``.

    Args:
        set_up: What the process has to know.
        owner: Hears of it.
    """

    def __init__(self, set_up: ChildSetUp, owner: ChildOwner) -> None:
        self._set_up = set_up
        self._owner = owner
        self._process: trio.Process | None = None
        self._pipes: ChildPipes[PooledJob] | None = None
        self._must_write = trio.Event()
        self._backoff = Backoff()
        self._has_served = False
        self._stages: list[tuple[float, signal.Signals]] = []
        self.is_ready = False
        """Whether it may be given jobs."""
        self.began = inf
        """When the first of its jobs began, at the latest."""
        self.load = 0.0
        """Seconds that its jobs are expected to take."""
        self.ended: str = ""
        """How the last process ended."""

    @property
    def pid(self) -> int | None:
        """The number of the process that there is now."""
        return self._process.pid if self._process else None

    @property
    def held(self) -> int:
        """How many jobs it has."""
        return self._pipes.held if self._pipes else 0

    @property
    def running(self) -> PooledJob | None:
        """The job that runs, or is the next one to."""
        return self._pipes.first if self._pipes else None

    @property
    def jobs(self) -> list[PooledJob]:
        """All its jobs, in order."""
        return self._pipes.jobs if self._pipes else []

    @property
    def size(self) -> int:
        """The bytes of its jobs."""
        return self._pipes.size if self._pipes else 0

    def is_slow(self, now: float) -> bool:
        """Whether one job has had it for long."""
        return now - self.began >= SLOW

    # What the pool does with it

    def give(self, jobs: list[tuple[PooledJob, bytes]], now: float) -> None:
        """Give it jobs that it has room for."""
        assert self._pipes is not None
        if not self._pipes.held:
            self.began = now
        self._pipes.give(jobs)
        if self._pipes.is_writing:
            self._must_write.set()

    def take_back(self) -> list[PooledJob]:
        """Return the jobs that it has not begun."""
        jobs = self._pipes.take_back() if self._pipes else []
        for job in jobs:
            self.load -= job.cost
        if not self.held:  # it had begun none of them
            self.began, self.load = inf, 0.0
        return jobs

    def next_look(self) -> float:
        """Return when ``look`` has something to do."""
        if self._stages:
            return self._stages[0][0]
        job = self.running
        if job is None:
            return inf
        slow = self.began + SLOW if self.held > 1 else inf
        return min(slow, self._limit(job))

    def look(self, now: float) -> list[PooledJob]:
        """Do what is due; return jobs that were taken back."""
        self.hear()
        if self._stages:
            self._next_stage(now)
            return []
        job = self.running
        if job is None:
            return []
        if now >= self._limit(job):
            is_expired = now >= job.deadline
            return self.stop_job(job, over_time(job.task.timeout, is_expired=is_expired), GRACE, now)
        return self.take_back() if self.held > 1 and self.is_slow(now) else []

    def stop_job(self, job: PooledJob, reason: Ending, grace: float, now: float) -> list[PooledJob]:
        """Stop the job that runs, in stages; return those behind it, which are taken back.

        Args:
            job: The one that runs.
            reason: Its answer, unless it ends by itself before.
            grace: Seconds until its process is killed.
            now: The time.
        """
        back = self.take_back()
        if self.running is not job or self._stages:
            return back
        self.is_ready = False
        job.reason = reason
        self._stages = [(now + grace * _TO_LOOK, signal.SIGUSR2), (now + grace, signal.SIGKILL)]
        self._signal(signal.SIGUSR1)
        return back

    def hear(self) -> None:
        """Read what it has answered, ahead of its reader."""
        if self._pipes is not None:
            self._heard(self._pipes.read() or [])

    def finish(self) -> None:
        """Let it end, once it has done what it holds."""
        self.is_ready = False
        if self._pipes is not None:
            self._pipes.finish()

    # Its life

    async def run(self) -> None:
        """Have a process there, one after the other, until cancelled."""
        failures = 0
        while True:
            await self._live()
            failures = 0 if self._has_served else failures + 1
            await trio.sleep(self._backoff.delay(failures))

    async def _live(self) -> None:
        """Start a process, and serve it until it dies."""
        self._has_served = False
        pipes: ChildPipes[PooledJob] = ChildPipes()
        process = None
        try:
            process = await self._spawn(pipes)
            if process is None:
                return
            self._process, self._pipes = process, pipes
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read, pipes)
                nursery.start_soon(self._write, pipes)
                await process.wait()
                nursery.cancel_scope.cancel()
        finally:
            if process is not None:
                with trio.CancelScope(shield=True):
                    await self._end(process, pipes)
                self._died(process, pipes)
            pipes.close()

    async def _spawn(self, pipes: ChildPipes[PooledJob]) -> trio.Process | None:
        try:
            command = python_command("triomq.jobs.child.program", *map(str, pipes.child))
            process = await trio.lowlevel.open_process(
                command, pass_fds=pipes.child, stdin=subprocess.DEVNULL, env=python_environment()
            )
        except OSError as error:
            _log.error("no process for sync jobs", extra={"fields": {"error": error}})
            return None
        finally:
            pipes.started()
        pipes.set_up(msgspec.msgpack.encode(self._set_up))
        return process

    async def _end(self, process: trio.Process, pipes: ChildPipes[PooledJob]) -> None:
        """See to it that a process ends: by itself if it is idle, else at once."""
        self.is_ready = False  # others that end now have jobs that they have not begun
        if process.returncode is None and not pipes.held:
            pipes.finish()
            with trio.move_on_after(_END):
                await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()

    def _died(self, process: trio.Process, pipes: ChildPipes[PooledJob]) -> None:
        status = process.returncode
        self.ended = f"ended by {_name_of_signal(-status)}" if status and status < 0 else f"ended with code {status}"
        self.is_ready = False
        self._heard(pipes.read_last())  # first: what it has answered in its last moment is done
        self._process = self._pipes = None
        self._stages = []
        self.began, self.load = inf, 0.0
        self._owner.child_ended(self, pipes.take_back(), pipes.victim())

    async def _read(self, pipes: ChildPipes[PooledJob]) -> None:
        while True:
            await trio.lowlevel.wait_readable(pipes.results)
            answers = pipes.read()
            if answers is None:  # it has closed its end, and is about to die
                return
            self._heard(answers)
            job = self.running
            if job is not None and job.items is not None:
                await self._owner.wait_room(job)
            elif self.held >= _SEVERAL:  # its next answers are handled together
                await trio.sleep(min(self.load / 2, ENOUGH))

    def _heard(self, answers: list[ChildAnswer[PooledJob]]) -> None:
        if not answers:
            return
        if self._stages and any(answer.kind >= Kind.DONE for answer in answers):
            self._job_stopped()
        if answers[0].job is None:
            self._greeted(answers.pop(0))
        for answer in answers:
            if answer.kind >= Kind.DONE and answer.job is not None:
                self.load -= answer.job.cost
                self._has_served = True
        if self.held:
            self.began = trio.current_time()
        else:
            self.began, self.load = inf, 0.0
        if answers:
            self._owner.child_answered(self, answers)

    def _greeted(self, answer: ChildAnswer[PooledJob]) -> None:
        if answer.kind == Kind.READY:
            self.is_ready = True
            self._owner.child_ready(self)
            return
        for line in answer.body.decode("utf-8", "replace").splitlines():
            _log.error("the registry cannot be imported", extra={"fields": {"trouble": line}})

    async def _write(self, pipes: ChildPipes[PooledJob]) -> None:
        while True:
            while pipes.is_writing:
                await trio.lowlevel.wait_writable(pipes.jobs_end)
                pipes.write()
            await self._must_write.wait()
            self._must_write = trio.Event()

    # Stages

    def _limit(self, job: PooledJob) -> float:
        return min(self.began + job.task.timeout, job.deadline)

    def _next_stage(self, now: float) -> None:
        while self._stages and now >= self._stages[0][0]:
            _, number = self._stages.pop(0)
            self._signal(number)

    def _job_stopped(self) -> None:
        """Leave the process as it is if its job has ended by itself; else let it end."""
        is_cancelled_only = len(self._stages) == 2
        self._stages = []
        if is_cancelled_only:
            self.is_ready = True
        else:
            self.finish()
            self._stages = [(trio.current_time() + _END, signal.SIGKILL)]

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)


def search_path() -> list[str]:
    """Return where this program finds modules, whatever folder a child is in; empty for its own."""
    return [] if has_own_modules() else [os.path.abspath(place) for place in sys.path]


def _name_of_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
