"""What becomes of an attempt: by its worker's word, by its worker's death, or as its worker gives it back.

REPLY ────> finish ─┬─ of an attempt that is not the present one: late
├─ failed, and may be tried again: after a pause, which doubles
└─ ended
death ────> gone, ──┬─ requeued, marked
crashed └─ one too many: ended, ``lost``
RETURN ───> returned: back to its place, and the attempt does not count
"""

from collections.abc import Callable
from typing import Final

from triomq.endpoints.jobs.endings import Endings
from triomq.endpoints.jobs.job import BookedJob, End, Runner
from triomq.endpoints.jobs.register import Register
from triomq.endpoints.jobs.verdicts import ENDS, LATE, REQUEUED, Fate

MOST_CRASHES: Final = 3
"""Processes that may die of a job, by its worker's word: after that it would kill the next one too."""

MOST_LOST_WORKERS: Final = 10
"""Workers that may die while they have a job. Each dies with all the jobs that it has, begun or not, and at most one of
them is why: so it takes more of these than of crashes until a job is not given to the next worker."""

_RETRIED: Final = ("failed", "timed-out")
"""Ends that are worth another attempt, if the job has any left."""

_OK: Final = ENDS["ok"]


class Attempts:
    """The attempts of one domain's jobs; made by its book.

    Args:
        register: The jobs.
        endings: Ends them.
        chance: Gives a number from 0 to 1.
    """

    def __init__(self, register: Register, endings: Endings, chance: Callable[[], float]) -> None:
        self._register = register
        self._endings = endings
        self._chance = chance

    def finish(
        self, job: BookedJob, attempt: int, runner: Runner, end: End, *, retry: bool = True, answer: object = None
    ) -> Fate:
        """Note what a worker says of an attempt, or that its time is over.

        Args:
            job: The job.
            attempt: Which one.
            runner: Who had it.
            end: How it has ended.
            retry: Whether another one may help.
            answer: What the worker has said, for those who follow the job.
        """
        if job.attempt != attempt or job.runner is not runner:
            self._register.counts["late"] += 1
            return LATE
        if end == "ok":
            register = self._register
            register.remove(job)
            register.ended.add(job.id, end, job.user)
            register.counts[end] += 1
            if register.followers.by_job:
                register.followers.tell(job, end, answer)
            return _OK
        if job.stage == "cancelling":
            end = "cancelled"
        elif retry and end in _RETRIED and attempt <= job.terms.retries and job.id not in self._register.unrepeatable:
            pause = job.terms.pause_after(attempt, self._chance())
            due = self._register.now() + pause
            if not 0 < job.terms.deadline <= due:
                return self._retry(job, pause, due, end, answer)
        self._endings.end(job, end, answered=True, answer=answer)
        return ENDS[end]

    def _retry(self, job: BookedJob, pause: float, due: float, failed: End, answer: object) -> Fate:
        self._register.leave_place(job)
        self._endings.cancel_all(self._register.descendants(job, job.attempt))
        job.due = due
        self._register.counts["retried"] += 1
        self._register.followers.tell(job, answer=answer, failed=failed)
        return Fate(again_after=pause)

    def crashed(self, job: BookedJob, attempt: int, runner: Runner) -> Fate:
        """Note that a job's process has died of it, which its worker says; counted as long as this broker lives.

        Args:
            job: The job.
            attempt: Which of its attempts it was.
            runner: Who has it.
        """
        crashes = self._register.crashes.get(job.id, 0) + 1
        is_last = crashes >= MOST_CRASHES or job.id in self._register.unrepeatable
        fate = self._killed(job, attempt, runner, is_last=is_last)
        if fate is REQUEUED:
            self._register.crashes[job.id] = crashes
        return fate

    def gone(self, job: BookedJob, attempt: int, runner: Runner, deaths: int, *, goes_on: bool = False) -> Fate:
        """Note that a worker has died with a job.

        Args:
            job: The job.
            attempt: Which of its attempts it was.
            runner: Who had it.
            deaths: How many workers have died with it, this one among them.
            goes_on: Whether it is the broker that goes, and the worker goes on: nothing counts against the job then.
        """
        is_last = deaths >= MOST_LOST_WORKERS or job.id in self._register.unrepeatable
        return self._killed(job, attempt, runner, is_last=is_last and not goes_on)

    def _killed(self, job: BookedJob, attempt: int, runner: Runner, *, is_last: bool) -> Fate:
        if job.attempt != attempt or job.runner is not runner:
            self._register.counts["late"] += 1
            return LATE
        if job.stage == "cancelling" or is_last:
            end: End = "cancelled" if job.stage == "cancelling" else "lost"
            self._endings.end(job, end, answered=True)
            return ENDS[end]
        self._register.leave_place(job)
        self._endings.cancel_all(self._register.descendants(job, job.attempt))
        self._register.counts["requeued"] += 1
        self._register.followers.tell(job, failed="lost")
        return REQUEUED

    def returned(self, job: BookedJob, attempt: int, runner: Runner) -> Fate:
        """Note that a worker has put a job back which it has not begun; the attempt does not count."""
        if job.attempt != attempt or job.runner is not runner:
            self._register.counts["late"] += 1
            return LATE
        if job.stage == "cancelling" or job.id in self._register.unrepeatable:
            self._endings.end(job, "cancelled", answered=True)
            return ENDS["cancelled"]
        self._register.leave_place(job)
        job.attempt = attempt - 1
        self._register.followers.tell(job)
        return REQUEUED
