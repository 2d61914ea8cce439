"""The book of a domain's jobs: which are known, where each is in its life, and what its next step is.

    REQUEST ──> accept ─┬─ known, or its unique key is held: nothing is published, ACK
                        └─ entered; published in the same turn
    delivery ─> admit ──┬─ expired, cancelled, or done already: its message is settled unstarted
                        ├─ no place of its key: parked, see ``parking``
                        └─ runs: to the worker ──> ``attempts``, what becomes of it
    CANCEL, time, a queue that lets go of messages ──> ``endings``

Rules:

- The book decides, and owners of messages act: whoever asks it publishes, settles and answers in the same turn. Only
  what is parked, or is not to run, is settled here. So what is recorded is in one batch with what happened.
- Messages carry all that is needed to do their jobs. After a restart a job is unknown until its message comes out
  (``Register.recall``), except for what must be looked up without the message: see ``records``.
- An attempt is any beginning, whatever came of it. What a worker says of an attempt that is not the present one counts
  for nothing: its job went elsewhere meanwhile.

Tried and dropped: a record for each job (7 µs of the store's process a job, for nothing that its message does not say);
an actor of its own (an ask for each step costs more than the step).
"""

import random
import time
from collections.abc import Callable
from typing import Final

import msgspec

from triomq.core import Batch, Outcome, Shares, settle
from triomq.endpoints.jobs.attempts import Attempts
from triomq.endpoints.jobs.endings import Endings
from triomq.endpoints.jobs.followers import Followers
from triomq.endpoints.jobs.hold import Held, Hold
from triomq.endpoints.jobs.job import OVER, BookedJob, JobSender, Runner
from triomq.endpoints.jobs.records import NoRecords, Records
from triomq.endpoints.jobs.register import Register
from triomq.endpoints.jobs.terms import PLAIN
from triomq.endpoints.jobs.verdicts import Standing
from triomq.errors import AccessRefused

_NOBODY: Final = JobSender("")


class JobBook:
    """The jobs of one domain; outlives the endpoints that ask it.

    Args:
        now: Gives the Unix time.
        records: What is on disk.
        chance: Gives a number from 0 to 1.
        is_empty: Whether there is no message of a job in a queue, or no such queue.
        followers: Who hears of changes; those of ``follow`` alone by default.
        shares: Counts what users have of the domain's pools.

    Raises:
        StoreCorrupt: A record of the store is none.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.time,
        *,
        records: Records | None = None,
        chance: Callable[[], float] = random.random,
        is_empty: Callable[[str], bool] = bool,
        followers: Followers | None = None,
        shares: Shares | None = None,
    ) -> None:
        self.register = Register(now, records or NoRecords(), followers, shares)
        self.parking = self.register.parking
        self.hold = Hold(now, occupy=self.parking.occupy, leave=self.parking.leave)
        self.endings = Endings(self.register, self.hold, is_empty)
        self.hold.on_cancelled = self.endings.cancel
        self.attempts = Attempts(self.register, self.endings, chance)
        self.jobs = self.register.jobs
        """All that have not ended, by id."""
        self._now = now
        self._ended = self.register.ended
        self._followers = self.register.followers

    # Acceptance

    def accept(self, job: BookedJob) -> Standing | None:
        """Enter a job that is to be published in this turn; if that fails, ``withdraw`` it.

        Args:
            job: Its terms may be changed: no deadline is later than that of its parent.

        Returns:
            None if it is entered; otherwise what is there in its place, and nothing is to be published.

        Raises:
            AccessRefused: Its id is that of another user's job.
            ShareReached: Its user holds as many unique keys as it may.
        """
        if job.id in self.jobs or self._ended.get(job.id) is not None:
            return self._again(job)
        if job.terms is not PLAIN:
            standing = self._look_at_terms(job)
            if standing is not None:
                return standing
            self.register.enter(job)
            if job.durable and (job.terms.unique or job.terms.parent[1]):
                self.register.records.write(job)
        else:
            self.jobs[job.id] = job
        return None

    def _again(self, job: BookedJob) -> Standing:
        found = self.jobs.get(job.id)
        user = self._ended.user(job.id) if found is None else found.user
        if user != job.user:
            raise AccessRefused("there is a job with this id, which is another user's; choose ids that are unique")
        if found is None:
            return Standing(job.id, self._ended.get(job.id))
        return Standing(job.id, OVER.get(found.stage))

    def _look_at_terms(self, job: BookedJob) -> Standing | None:
        """Return what keeps a job from being entered."""
        terms = job.terms
        relations = self.register.relations
        holder = relations.holder(job) if terms.unique else None
        if holder is not None and not self.endings.has_vanished(*holder):
            self.register.counts["duplicate"] += 1
            return Standing(holder[0], None)
        if terms.unique:
            relations.require_room(job)
        name, attempt = terms.parent
        if not attempt:
            return None
        parent, end = self.jobs.get(name), self._ended.get(name)
        if (end is not None and end != "ok") or (parent is not None and not _is_running(parent, attempt)):
            self.register.counts["cancelled"] += 1
            self.register.tick()
            self._ended.add(job.id, "cancelled", job.user)
            return Standing(job.id, "cancelled")
        if parent is not None and parent.terms.deadline:
            deadline = min(terms.deadline or parent.terms.deadline, parent.terms.deadline)
            job.terms = msgspec.structs.replace(terms, deadline=deadline)
        return None

    def withdraw(self, job: bytes) -> None:
        """Forget a job that could not be published."""
        found = self.jobs.get(job)
        if found is not None:
            self.register.remove(found)

    # The way out

    def admit(self, job: BookedJob, attempt: int, runner: Runner, batch: Batch, position: int) -> bool:
        """Begin an attempt, if it may begin.

        Args:
            job: Whose message it is.
            attempt: Which attempt it would be.
            runner: Who would have it.
            batch: Where its message is.
            position: Where in it.

        Returns:
            Whether the worker is to get it. If not, it is no business of the worker's any more: it has been parked or
            settled, and the worker has room for another one.
        """
        terms = job.terms
        if job.stage != "queued" or terms is not PLAIN:
            if not self._may_begin(job, batch, position):
                return False
            if terms.key and not self.parking.enter(job):
                self.register.counts["parked"] += 1
                self.parking.park(job, batch, position)
                job.since = self.register.moment
                self._followers.tell(job)
                return False
        job.stage = "running"
        job.since = self.register.moment
        job.attempt = attempt
        job.runner = runner
        if attempt > 1:  # the end of the last one may have gone unseen
            self.endings.cancel_all(self.register.descendants(job, attempt - 1))
        if self._followers.by_job:
            self._followers.tell(job)
        return True

    def _may_begin(self, job: BookedJob, batch: Batch, position: int) -> bool:
        """Return whether a job is to run at all; if not, settle its message."""
        is_out = job.runner.holds(job) if job.runner is not None else self.parking.is_out(job)
        if not is_out:  # else this is a copy of its message
            if (end := OVER.get(job.stage)) is not None:
                self.endings.leave_queue(job, end)
            elif job.stage == "cancelling":
                self.endings.end(job, "cancelled")
            elif 0 < job.terms.deadline <= self._now():
                self.endings.end(job, "expired")
            else:
                if job.runner is not None:
                    self.register.leave_place(job)
                return True
        settle(batch, Outcome.ACCEPT, (position,))
        return False

    def claim(self, job: bytes, attempt: int, runner: Runner) -> Held | None:
        """Have a job go on with a worker that says it has it; see ``Hold.claim``."""
        found = self.jobs.get(job)
        if found is None:
            if self._ended.get(job) is not None or not self.hold.is_open:
                return None
            found = BookedJob(job, "", _NOBODY)  # its message has not come out yet, and may be none
        return self.hold.claim(found, attempt, runner)


def _is_running(job: BookedJob, attempt: int) -> bool:
    return job.attempt == attempt and job.stage == "running"
