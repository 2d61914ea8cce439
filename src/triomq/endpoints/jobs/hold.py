"""Jobs that workers may still have, though the broker has forgotten that they do: after a kill, or a long silence.

    restart ── begin: each job that was perhaps with a worker ──> held, with its place of its key
    INFORM ``running`` ── claim ──> the worker that has it: its message is adopted when it comes out
    its message comes out ── arrive ─┬─ claimed: adopted, and its attempt goes on
                                     └─ not yet: parked
    10 s are over ── release ──> what nobody has claimed goes back to its place, and out again as another attempt

Rules:

- Workers go on while their broker is away. Without a hold each job that was out would begin a second time at once, and
  limits would count from nothing.
- After a restart a job counts as perhaps out if its message is marked as delivered. Marks are up to an id, so that what
  was parked, or had come back, is held as well: it begins 10 s later than it could. Marks follow deliveries by the
  milliseconds of a commit; what was sent in the last of these is not held and may begin again at once, unless its
  worker has claimed it by then.
- A claim counts if nobody has begun a later attempt. A worker whose claim does not count is told to end the job, and
  what it says of it is late. Workers name what they have answered lately too, so that several may claim a job, each
  another attempt of it: the latest counts, in whatever order they come. The message itself says which attempts are
  over, as earlier messages of the job had them; then it waits for no word about those.
- A job that is held has its place of its key, and whoever claims it takes that over. Since marks may be missing, no job
  with a limit begins during a hold that follows a restart. So limits hold across that.
- A claimed job may be answered before its message comes out. The answer waits for that, so that it goes the way of all.
- Nothing of this is on disk. A kill during the hold begins another one.
"""

from collections.abc import Callable, Iterator
from math import inf
from typing import Final

import msgspec

from triomq.core import Batch, Outcome, settle
from triomq.endpoints.jobs.job import OVER, BookedJob, Runner

HOLD_SECONDS: Final = 10.0
"""Seconds after a restart until what was out goes out again: a worker looks for its broker every few seconds, and takes
longer where the machine is busy. Whoever waits for a job of a worker that died as well waits that much longer."""

ANSWER_SECONDS: Final = 600.0
"""Seconds for which an answer waits for its message, which may stand behind many others."""


class Held(msgspec.Struct, eq=False):
    """A job that a worker may still have.

    Args:
        job: The job; of one that is only known from its worker there is its id alone.
        attempt: The last attempt that may have begun.
        until: Unix time until which it is held.
        runner: Who says that it has it.
        answer: What that has answered; None while it has not.
        batch: Where its message is, if that has come out.
        position: Where in it.
    """

    job: BookedJob
    attempt: int
    until: float
    runner: Runner | None = None
    answer: object | None = None
    batch: Batch | None = None
    position: int = 0

    @property
    def is_out(self) -> bool:
        """Whether its message has come out, and its queue has not taken it back."""
        return self.batch is not None and self.batch.left > 0 and self.batch.contents[self.position] is not None


class Hold:
    """The jobs of one domain that are held; made by its book.

    Args:
        now: Gives the Unix time.
        occupy: Gives a job a place of its key, be there one or not.
        leave: Takes it back.
    """

    def __init__(
        self, now: Callable[[], float], *, occupy: Callable[[BookedJob], None], leave: Callable[[BookedJob], None]
    ) -> None:
        self._now = now
        self._occupy = occupy
        self._leave = leave
        self._opened = now()
        self._is_over = False  # what workers of an earlier life may claim; it is looked at once after that
        self._held: dict[bytes, Held] = {}
        self.on_cancelled: Callable[[BookedJob], object] | None = None
        """Called with a job that its worker was asked to end, and has let go of instead: it is to be cancelled."""
        self.is_after_restart = False
        """Whether the broker had jobs before it was restarted, and the hold for that is not over."""
        self.is_begun = False
        """Whether it is known what was out; set by whom it is known to."""
        self.claimed = 0
        """How many jobs went on with their workers."""
        self.released = 0
        """How many nobody has claimed in time."""

    def __bool__(self) -> bool:
        """Return whether any job is held, or may have to be: otherwise nobody need ask."""
        return bool(self._held) or self.is_after_restart

    def __len__(self) -> int:
        """Count the jobs."""
        return len(self._held)

    def __iter__(self) -> Iterator[Held]:
        """Yield the jobs."""
        return iter(self._held.values())

    @property
    def is_open(self) -> bool:
        """Whether workers of an earlier life may still come back."""
        return self._now() < self._opened + HOLD_SECONDS

    @property
    def until(self) -> float:
        """When the first of them is not held any longer, by Unix time; infinity for never.

        Jobs come to be held at any time while workers of an earlier life may come, and nobody is told of that: so the
        end of this time is one to look at in any case.
        """
        end = inf if self._is_over else self._opened + HOLD_SECONDS
        return min(end, min((held.until for held in self._held.values()), default=inf))

    def begin(self, job: BookedJob, attempt: int) -> None:
        """Hold a job that was perhaps out with a worker when the broker ended.

        Args:
            job: As the book has it.
            attempt: The last attempt that may have begun.
        """
        self._held[job.id] = Held(job, attempt, self._opened + HOLD_SECONDS)
        if job.terms.key:
            self._occupy(job)
        job.attempt = attempt

    def claim(self, job: BookedJob, attempt: int, runner: Runner) -> Held | None:
        """Have a job go on with the worker that says it has it.

        Args:
            job: As the book has it; a new one, if it has none.
            attempt: Which attempt it is.
            runner: The worker.

        Returns:
            None if the claim does not count: the job has gone elsewhere, or ended. Otherwise what is held of it; if its
            message has come out it is the runner's now, and held no more.
        """
        held = self._held.get(job.id)
        last = job.attempt if held is None else held.attempt
        if held is not None and held.runner is not None:
            if attempt <= last or held.job.stage != "running" or job.stage in OVER:
                return None
            self._dismiss(held)
        elif attempt < last or job.stage != "queued" or job.runner is not None:
            return None
        if held is None:
            held = self._held[job.id] = Held(job, attempt, inf)
            if job.terms.key:
                self._occupy(job)
        held.runner, held.attempt, held.until = runner, attempt, inf
        self._run(held)
        self.claimed += 1
        if held.is_out:
            del self._held[job.id]
        else:
            held.batch = None
        return held

    def arrive(self, job: BookedJob, batch: Batch, position: int, over: int) -> Held | None:
        """Ask for a job whose message has come out of its queue, before it is admitted.

        Args:
            job: As the book has it.
            batch: Where its message is.
            position: Where in it.
            over: How many attempts earlier messages of it had.

        Returns:
            None if it is not held; otherwise it is not to begin now. If it has a runner, that goes on with it, and it
            is held no more; else it is parked here.
        """
        held = self._held.get(job.id)
        if held is not None and held.runner is not None and (held.attempt <= over or job.stage in OVER):
            self._dismiss(held)
            self._end(held)
            self._stop(held)
            held = None
        if held is None:
            if not (job.terms.limit and job.stage == "queued" and self.is_after_restart and self.is_open):
                return None
            held = self._held[job.id] = Held(job, job.attempt, self._opened + HOLD_SECONDS)
            self._occupy(job)
        held.attempt = max(held.attempt, over + 1)
        if held.job is not job:
            self._learn(held, job)
        if held.is_out:  # a copy of its message: its requester has sent it again
            settle(batch, Outcome.ACCEPT, (position,))
            return held
        if held.job.stage in OVER or held.until <= self._now():
            self._end(held)
            return None
        held.batch, held.position = batch, position
        if held.runner is not None:
            del self._held[job.id]
        return held

    @staticmethod
    def _dismiss(held: Held) -> None:
        """Have the worker that has claimed a job end it, since that was an attempt before the present one."""
        assert held.runner is not None
        if held.answer is None:
            held.runner.cancel(held.job, None)
        held.answer = None

    def _learn(self, held: Held, job: BookedJob) -> None:
        """Take a job as its message has it, of which only its worker had told."""
        held.job = job
        if job.terms.key:
            self._occupy(job)
        if held.runner is not None:
            self._run(held)

    def answered(self, job: bytes, attempt: int, runner: Runner, answer: object) -> bool:
        """Note what a worker says of a job that it has claimed, before its message has come out.

        Args:
            job: Its id.
            attempt: Of which attempt it says that; 0 if it does not say.
            runner: The worker.
            answer: What it says.

        Returns:
            Whether the answer waits for the message; if not, it is none of a claimed job.
        """
        held = self._held.get(job)
        if held is None or held.runner is not runner or attempt not in (0, held.attempt) or held.answer is not None:
            return False
        held.answer, held.until = answer, self._now() + ANSWER_SECONDS
        return True

    def gone(self, runner: Runner) -> None:
        """Forget the claims of a worker that has gone; what it has answered stays."""
        for held in [held for held in self._held.values() if held.runner is runner and held.answer is None]:
            held.runner, held.until = None, self._opened + HOLD_SECONDS
            self._stop(held)
            if held.until <= self._now():
                self._end(held)

    def returned(self, job: bytes, runner: Runner) -> None:
        """Forget the claim of a worker that gives the job back."""
        held = self._held.get(job)
        if held is not None and held.runner is runner and held.answer is None:
            held.runner = None
            self._end(held)
            self._stop(held)

    def has(self, job: bytes, runner: Runner) -> bool:
        """Return whether a worker has claimed a job whose message has not come out yet."""
        held = self._held.get(job)
        return held is not None and held.runner is runner and held.answer is None

    def __contains__(self, job: BookedJob) -> bool:
        """Return whether a job is held."""
        return job.id in self._held

    def is_out(self, job: BookedJob) -> bool:
        """Return whether the message of a job that is held has come out, and its queue has not taken it back."""
        held = self._held.get(job.id)
        return held is not None and held.is_out

    def forget(self, job: BookedJob) -> None:
        """Hold a job no longer that has ended; a runner gives its place back by itself."""
        held = self._held.pop(job.id, None)
        if held is not None and held.runner is None and job.terms.key:
            self._leave(job)

    def waits_for(self, runner: Runner) -> bool:
        """Return whether a worker has yet to answer a job that it has claimed."""
        return any(held.runner is runner and held.answer is None for held in self._held.values())

    def release(self) -> int:
        """Let those go out again that nobody has claimed in time, and return how many; to be called at ``until``."""
        now = self._now()
        self._is_over = not self.is_open
        self.is_after_restart = self.is_after_restart and not self._is_over
        due = [held for held in self._held.values() if held.until <= now]
        for held in due:
            if self._held.get(held.job.id) is held:  # what goes back may come out at once, and others with it
                self._end(held)
                if held.is_out:
                    assert held.batch is not None
                    settle(held.batch, Outcome.RETURN, (held.position,))
        self.released += len(due)
        return len(due)

    def _end(self, held: Held) -> None:
        """Hold a job no longer."""
        del self._held[held.job.id]
        if held.answer is not None:  # its message has never come
            self._stop(held)
        if held.job.terms.key:
            self._leave(held.job)

    def _stop(self, held: Held) -> None:
        """Have a job wait again; one that was being cancelled does not begin any more."""
        job = held.job
        is_cancelled = job.stage == "cancelling"
        job.stage, job.runner, job.since = "queued", None, self._now()
        if is_cancelled and self.on_cancelled is not None:
            self.on_cancelled(job)

    def _run(self, held: Held) -> None:
        """Have a job run with the worker that says it has it."""
        held.job.stage, held.job.attempt, held.job.runner = "running", held.attempt, held.runner
        held.job.since = self._now()
