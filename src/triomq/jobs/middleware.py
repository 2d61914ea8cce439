"""What a program does around all of its jobs: logs, traces, metrics, a session of a database.

caller: f.send() ─ before_enqueue ──> broker ──> worker: before ─ the function ─┬─ after
├─ retried: another attempt follows
└─ failed: none does
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from triomq.jobs.definition import JobDefinition
from triomq.jobs.orders import JobOrder
from triomq.jobs.running import RunningJob

logger: Final = logging.getLogger("triomq.jobs")


class Middleware:
    """What is called around each job; derive from it, and give instances to ``Jobs(middleware=[…])``.

    Functions do not wait. Those of a worker are called where the job runs, so in a process for a sync one, with the
    job as ``current_job()``. Several are called in their order, and on the way back in the opposite one. What they
    raise is the caller's, or the job's, error.
    """

    def before_enqueue(self, order: JobOrder) -> JobOrder:
        """Return what is sent: the order, or another one made by ``msgspec.structs.replace``; raise to refuse it.

        Of a schedule, whose jobs the broker makes, it is asked once in each worker that starts: what it returns holds
        for all of them, but for a trace, and what it raises keeps the worker from starting.
        """
        return order

    def before(self, job: RunningJob) -> None:
        """A job begins."""

    def after(self, job: RunningJob) -> None:
        """A job has ended well."""

    def failed(self, job: RunningJob, error: BaseException) -> None:
        """A job has failed, or was cancelled or timed out, for good."""

    def retried(self, job: RunningJob, error: BaseException) -> None:
        """A job has failed, and will be tried again."""


class LogJobs(Middleware):
    """Log the begin and the end of each job, with its name, id, attempt and trace as fields of the record.

    Args:
        level: Of records about what goes well.
    """

    def __init__(self, level: int = logging.INFO) -> None:
        self._level = level

    def before(self, job: RunningJob) -> None:
        """Log that it begins."""
        self._log(self._level, "job begins", job)

    def after(self, job: RunningJob) -> None:
        """Log that it is done."""
        self._log(self._level, "job done", job)

    def failed(self, job: RunningJob, error: BaseException) -> None:
        """Log why, with the traceback."""
        self._log(logging.ERROR, "job failed", job, error)

    def retried(self, job: RunningJob, error: BaseException) -> None:
        """Log why, without the traceback."""
        self._log(logging.WARNING, f"job will be tried again: {error!r:.200}", job)

    def _log(self, level: int, text: str, job: RunningJob, error: BaseException | None = None) -> None:
        fields = {"job": job.name, "job_id": job.id, "attempt": job.attempt, "queue": job.queue, "trace": job.trace}
        logger.log(level, text, extra=fields, exc_info=error)


@contextmanager
def around(middleware: Sequence[Middleware], definition: JobDefinition, job: RunningJob) -> Iterator[None]:
    """Call what is to be called around one attempt; a worker runs the function in this block, and sees its errors.

    Args:
        middleware: Of the ``Jobs``.
        definition: What is called.
        job: The attempt.
    """
    begun: list[Middleware] = []
    try:
        for each in middleware:
            each.before(job)
            begun.append(each)
        yield
    except BaseException as error:
        is_last = job.is_last_attempt or not definition.is_worth_retry(error)
        for each in reversed(begun):
            (each.failed if is_last else each.retried)(job, error)
        raise
    for each in reversed(begun):
        each.after(job)
