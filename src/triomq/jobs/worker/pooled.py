"""A job that a worker has taken, from its arrival to its answer."""

from math import inf
from typing import TYPE_CHECKING

from triomq.jobs.child.execution import Ending, Task
from triomq.jobs.running import RunningJob
from triomq.jobs.worker.means import Mean

if TYPE_CHECKING:
    import trio

    from triomq.clients import EMQPJob
    from triomq.jobs.definition import JobDefinition
    from triomq.jobs.worker.pool import Items, Lane


class JobKind:
    """A job of the registry, and how long it takes here."""

    __slots__ = ("definition", "mean", "timeout")

    def __init__(self, definition: "JobDefinition") -> None:
        self.definition = definition
        self.mean = Mean()
        self.timeout = definition.options.timeout or inf


class PooledJob:
    """One job; made by the pool when it arrives, forgotten with its answer.

    Args:
        job: As the broker has sent it.
        lane: Whence it came.
        kind: What is called.
        task: The same for where it runs.
        deadline: When it has to be done, on Trio's clock.
    """

    __slots__ = ("cost", "deadline", "items", "job", "kind", "lane", "queued", "reason", "running", "scope", "task")

    def __init__(self, job: "EMQPJob", lane: "Lane", kind: JobKind, task: Task, deadline: float) -> None:
        self.job = job
        self.lane = lane
        self.kind = kind
        self.task = task
        self.deadline = deadline
        self.queued = 0.0  # when it came to the end, or back to the front, of those that wait here
        self.cost = 0.0  # seconds that it was expected to take when it was given to a child
        self.reason: Ending | None = None  # why it is being stopped
        self.running: RunningJob | None = None  # since it has begun in the nursery
        self.scope: trio.CancelScope | None = None
        self.items: Items | None = None  # of a stream

    def forget_run(self) -> None:
        """Drop what it needed while it ran; these know the job, so that only a collection of garbage would free all."""
        self.running = self.scope = None
