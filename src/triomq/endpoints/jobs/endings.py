"""Ends of jobs that no worker brings about: cancelled, expired, with their parent's attempt, with their message.

- A job that waits, and is cancelled or has waited for too long, stays in its queue, as there is no way to it there, and
  is dropped on its way out. Its requester is answered at once.
- A job's children belong to its attempt. When that ends in any way but ``ok`` they are cancelled, with their own
  children. A child that comes later is cancelled when it comes.
- A queue may let go of messages: it is purged or deleted, they are too many or have come back too often, their time to
  live is over. Their jobs end with them, and their requesters hear that; unless the messages go on as dead letters, for
  then the jobs do too, where those go.
- A consumer of another wire may take a message, and the book is not told of that. Such a job is forgotten when its
  queue turns out to be empty: when somebody wants its unique key, or at the next ``sweep``.
"""

from collections.abc import Callable, Iterable
from typing import Final, Literal

from triomq.core import Outcome, settle
from triomq.endpoints.jobs.hold import Hold
from triomq.endpoints.jobs.job import OVER, BookedJob, End
from triomq.endpoints.jobs.register import Register

_AT_ONCE: Final = 1_000
"""Jobs that expire in one turn: some 5 ms, with their answers."""

_PATIENCE: Final = 1.0
"""Seconds until a job is looked at again that runs beyond its deadline."""

_SETTLED: Final = 1.0
"""Seconds after which what was published is in its queue for certain, be the turns ever so long."""


class Endings:
    """How one domain's jobs end without a worker; made by its book.

    Args:
        register: The jobs.
        hold: Those that workers may still have.
        is_empty: Whether there is no message of a job in a queue, or no such queue.
    """

    def __init__(self, register: Register, hold: Hold, is_empty: Callable[[str], bool]) -> None:
        self._register = register
        self._hold = hold
        self._is_empty = is_empty

    def end(self, job: BookedJob, end: End, *, answered: bool = False, answer: object = None) -> None:
        """End a job, and cancel what it has sent; its requester may be answered by whom this was called."""
        descendants = self._register.descendants(job)
        self._register.close(job, end, answered=answered, answer=answer)
        self.cancel_all(descendants)

    def cancel(self, job: BookedJob, *, tree: bool = False, grace: float | None = None) -> bool:
        """End a job: at once if it waits, or by its worker's answer.

        Args:
            job: The job.
            tree: Whether its children are cancelled at once too, and not only when it has ended so.
            grace: Seconds that its worker has for it; None leaves that to the worker.

        Returns:
            Whether it has ended.
        """
        descendants = self._register.descendants(job)
        has_ended = self._cancel(job, grace)
        if tree or has_ended:
            self.cancel_all(descendants, grace)
        return has_ended

    def cancel_all(self, jobs: list[BookedJob], grace: float | None = None) -> None:
        """Cancel those of some jobs that have not ended."""
        for job in jobs:
            if self._register.jobs.get(job.id) is job:  # what is told of the end of one may end others
                self._cancel(job, grace)

    def _cancel(self, job: BookedJob, grace: float | None) -> bool:
        """Cancel one job; return whether it has ended."""
        if job.stage == "cancelling" or job.stage in OVER:
            return job.stage != "cancelling"
        if job.runner is not None:
            if job.runner.cancel(job, grace):
                job.stage = "cancelling"
                job.since = self._register.tick()
                self._register.followers.tell(job)
                return False
            # Its worker does not know how: it goes on, and nobody waits for it.
            self._register.close(job, "cancelled", answered=False)
            return True
        self._end_waiting(job, "cancelled")
        return True

    def _end_waiting(self, job: BookedJob, end: Literal["cancelled", "expired"]) -> None:
        """End a job that is in its queue, or parked."""
        register = self._register
        parked = register.parking.take(job)
        if parked is not None:
            settle(parked.batch, Outcome.ACCEPT, (parked.position,))
            register.close(job, end, answered=False)
            return
        job.stage = end
        job.since = register.tick()
        register.relations.free_unique(job)
        if job.durable:
            register.records.write(job)
        register.report(job, end, answered=False)

    def leave_queue(self, job: BookedJob, end: End) -> None:
        """Forget a job that has ended before, since its message has left its queue at last."""
        self._register.remove(job)
        self._register.tick()
        self._register.ended.add(job.id, end, job.user)

    def requester_left(self, requester: bytes) -> None:
        """Cancel the jobs that are tied to a requester."""
        for name in self._register.relations.tied_to(requester):
            job = self._register.jobs.get(name)
            if job is not None:
                self.cancel(job, tree=True)

    # Time

    def expire(self) -> None:
        """End jobs that wait, and whose deadline has come; to be called at ``Deadlines.next``."""
        deadlines, now = self._register.deadlines, self._register.now()
        for job in deadlines.take_due(now, _AT_ONCE):
            if self._register.jobs.get(job.id) is not job or job.stage in OVER:
                continue  # it was cancelled, or ended with another one
            if job.runner is not None or job in self._hold:  # its worker ends it, or loses it: then it waits again
                deadlines.add(job, now + _PATIENCE)
                continue
            descendants = self._register.descendants(job)
            self._end_waiting(job, "expired")
            self.cancel_all(descendants)

    # Messages that have vanished

    def removed(self, jobs: Iterable[bytes], end: End, *, goes_on: bool = False) -> None:
        """End jobs whose messages their queue has let go of.

        Args:
            jobs: Their ids.
            end: How.
            goes_on: Whether their messages are somewhere else now, so that they are forgotten here and have no end yet.
        """
        known = [found for job in jobs if (found := self._register.jobs.get(job)) is not None]
        vanished = [job for job in known if not self._is_out(job)]
        for job in vanished:
            if self._register.jobs.get(job.id) is job:  # the end of one may end others
                self._vanish(job, end, goes_on=goes_on)

    def emptied(self, queue: str, *, goes_on: bool = False) -> None:
        """End the jobs of a queue that has let go of all messages that nobody has."""
        jobs = [job.id for job in self._register.jobs.values() if job.queue == queue]
        self.removed(jobs, "cancelled", goes_on=goes_on)

    def _is_out(self, job: BookedJob) -> bool:
        """Return whether a job is somewhere else than in its queue; one that runs goes on, whatever becomes of that."""
        if job.runner is None:
            return self._register.parking.is_out(job) or self._hold.is_out(job)
        if self._hold.has(job.id, job.runner):
            return False
        if not job.runner.holds(job):  # its queue had taken it back
            self._register.unrepeatable.add(job.id)
        return True

    def _vanish(self, job: BookedJob, end: End, *, goes_on: bool) -> None:
        self._register.counts["vanished"] += 1
        if job.runner is not None:  # its worker has claimed it, and cannot be answered without its message
            job.runner.cancel(job, None)
        self._hold.forget(job)
        if goes_on:
            self._register.remove(job)
        elif (over := OVER.get(job.stage)) is not None:
            self.leave_queue(job, over)
        else:
            self.end(job, end)

    def has_vanished(self, holder: bytes, since: float) -> bool:
        """Return whether the holder of a unique key has lost its message; it is forgotten then."""
        job = self._register.jobs[holder]
        if job.runner is not None or self._register.now() - since < _SETTLED or not self._is_empty(job.queue):
            return False
        self._forget(job)
        return True

    def sweep(self) -> int:
        """Forget jobs whose queues are empty, or gone; return how many. To be called now and then, in its own turn.

        A queue that holds anything is passed over.
        """
        jobs = self._register.jobs
        empty = {queue for queue in {job.queue for job in jobs.values()} if self._is_empty(queue)}
        vanished = (
            [job for job in self._register.jobs.values() if job.queue in empty and job.runner is None] if empty else []
        )
        for job in vanished:
            if job.id in self._register.jobs:
                self._forget(job)
        return len(vanished)

    def _forget(self, job: BookedJob) -> None:
        self._register.counts["vanished"] += 1
        self._register.remove(job)
