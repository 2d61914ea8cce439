"""The job that runs here, as its own code sees it; without Trio, as the processes of workers run it too."""

import time
from collections.abc import Callable
from contextvars import ContextVar, Token
from math import inf
from typing import Literal, TypeAlias

from triomq.errors import JobCancelled, JobTimedOut, NoRunningJob
from triomq.jobs.arguments import encode_value

Report: TypeAlias = Callable[[Literal["progress", "item"], bytes], None]
"""Takes progress, or an item of a stream, as JSON; it does not wait."""


def _drop(kind: str, value: bytes) -> None:
    pass


class RunningJob:
    """One attempt at a job; made by the worker that runs it, and found by ``current_job()``.

    Args:
        id: Of the job.
        name: What was called.
        queue: Where it came from.
        attempt: How often it was begun, this time included.
        attempts: How often it may be begun in all.
        deadline: When its caller wants it done, on ``clock``; jobs that it sends inherit that.
        limit: When this attempt is stopped, on ``clock``.
        clock: Seconds; ``trio.current_time`` in the nursery of a worker.
        trace: The traceparent that came with it.
        report: Takes its progress; the last of several reports may be the only one that arrives.
    """

    __slots__ = (
        "_clock",
        "attempt",
        "attempts",
        "deadline",
        "id",
        "is_cancelled",
        "limit",
        "name",
        "queue",
        "report",
        "trace",
    )

    def __init__(
        self,
        id: str,  # what users read
        name: str,
        *,
        queue: str = "default",
        attempt: int = 1,
        attempts: int = 1,
        deadline: float = inf,
        limit: float = inf,
        clock: Callable[[], float] = time.monotonic,
        trace: str = "",
        report: Report = _drop,
    ) -> None:
        self.id = id
        self.name = name
        self.queue = queue
        self.attempt = attempt
        self.attempts = attempts
        self.deadline = deadline
        self.limit = limit
        self.trace = trace
        self.report = report
        self.is_cancelled = False
        """Whether it is to stop; set by its worker. A sync function that does not look is ended with its process."""
        self._clock = clock

    def __repr__(self) -> str:
        """Show name, id and attempt."""
        return f"<RunningJob {self.name} {self.id}, attempt {self.attempt}>"

    @property
    def is_last_attempt(self) -> bool:
        """Whether it is not tried again if it fails now."""
        return self.attempt >= self.attempts

    @property
    def seconds_left(self) -> float:
        """Seconds until its time is up; infinite without a limit."""
        return self._until(min(self.deadline, self.limit))

    @property
    def seconds_for_children(self) -> float:
        """Seconds until its caller wants it done; infinite without a deadline."""
        return self._until(self.deadline)

    def _until(self, moment: float) -> float:
        return max(0.0, moment - self._clock()) if moment < inf else inf

    def check(self) -> None:
        """Raise if it is to stop; sync functions call this now and then, async ones are cancelled anyway.

        Raises:
            JobCancelled: It was cancelled.
            JobTimedOut: Its time is up.
        """
        if self.is_cancelled:
            raise JobCancelled(self.id, self.name)
        if not self.seconds_left:
            raise JobTimedOut(self.id, self.name)

    def progress(self, value: object) -> None:
        """Report how far it is, to those who iterate over ``Job.progress()``; this does not wait.

        Args:
            value: Anything that JSON can carry.

        Raises:
            WrongResult: It has no form in JSON.
        """
        self.report("progress", encode_value(value))


_current: ContextVar[RunningJob | None] = ContextVar("triomq_running_job", default=None)


def current_job() -> RunningJob:
    """Return the job that this code runs in.

    Raises:
        NoRunningJob: It runs in none.
    """
    found = _current.get()
    if found is None:
        raise NoRunningJob("no job runs here; call current_job() inside a function that a worker runs")
    return found


def find_current_job() -> RunningJob | None:
    """Return the job that this code runs in, if it runs in one."""
    return _current.get()


class running:  # noqa: N801  # it reads as a function, and is a third of the cost of one by ``contextmanager``
    """The block in which a job is the current one of this task, or of this thread, and of the tasks that it starts.

    Args:
        job: The job.
    """

    __slots__ = ("_job", "_token")

    def __init__(self, job: RunningJob) -> None:
        self._job = job

    def __enter__(self) -> None:
        self._token: Token[RunningJob | None] = _current.set(self._job)

    def __exit__(self, *error: object) -> None:
        _current.reset(self._token)
