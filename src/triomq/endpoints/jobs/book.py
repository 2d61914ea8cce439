"""The book of a domain's jobs: which are known, where each is in its life, and what its next step is.

    REQUEST ──> accept ─┬─ known, or its unique key is held: nothing is published, ACK
                        └─ entered; published in the same turn
    delivery ─> admit ──┬─ expired, cancelled, or done already: its message is settled unstarted
                        ├─ no place of its key: parked, see ``parking``
                        └─ runs: to the worker
    REPLY ────> finish ─┬─ of an attempt that is not the present one: dropped
                        ├─ failed, and may be tried again: published with a delay and settled, in one turn
                        └─ ended
    death ────> gone, ──┬─ requeued, marked
                crashed └─ one too many: ended, ``lost``

Rules:

- The book decides, and owners of messages act: whoever asks it publishes, settles and answers in the same turn. Only
  what is parked, or is not to run, is settled here. So what is recorded is in one batch with what happened.
- Messages carry all that is needed to do their jobs. After a restart a job is unknown until its message comes out
  (``recall``), except for what must be looked up without the message: see ``records``.
- An attempt is any beginning, whatever came of it. What a worker says of an attempt that is not the present one counts
  for nothing: its job went elsewhere meanwhile.
- A cancelled job that waits stays in its queue, as there is no way to it there, and is dropped on its way out. Its
  requester is answered at once.
- A job's children belong to its attempt. When that ends in any way but ``ok`` they are cancelled, with their own
  children. A child that comes later is cancelled when it comes.
- Messages may leave their queues unseen by the book (a purge, a queue's limits). Their jobs are forgotten when their
  queue turns out to be empty: when somebody wants the unique key of one, or at the next ``sweep``.

Tried and dropped: a record for each job (7 µs of the store's process a job, for nothing that its message does not say);
an actor of its own (an ask for each step costs more than the step).
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import msgspec

from triomq.core import Batch, Outcome, settle
from triomq.endpoints.jobs.ended import EndedJobs
from triomq.endpoints.jobs.followers import Follower, Followers
from triomq.endpoints.jobs.hold import Held, Hold
from triomq.endpoints.jobs.job import BookedJob, End, Runner
from triomq.endpoints.jobs.parking import Parking
from triomq.endpoints.jobs.records import NoRecords, RecordedJobs, Records
from triomq.endpoints.jobs.relations import Relations
from triomq.endpoints.jobs.terms import PLAIN
from triomq.endpoints.jobs.verdicts import ENDS, LATE, REQUEUED, Fate, JobSummary, Standing
from triomq.errors import AccessRefused

MOST_CRASHES: Final = 3
"""Processes that may die of a job, by its worker's word: after that it would kill the next one too."""

MOST_LOST_WORKERS: Final = 10
"""Workers that may die while they have a job. Each dies with all the jobs that it has, begun or not, and at most one of
them is why: so it takes more of these than of crashes until a job is not given to the next worker."""

_RETRIED: Final = ("failed", "timed-out")
"""Ends that are worth another attempt, if the job has any left."""


_OK: Final = ENDS["ok"]

_ANY: Final = 1 << 62

_SETTLED: Final = 1.0
"""Seconds after which what was published is in its queue for certain, be the turns ever so long."""

Ending: TypeAlias = Callable[[BookedJob, End], None]


class JobBook:
    """The jobs of one domain; outlives the endpoints that ask it.

    Args:
        now: Gives the Unix time.
        records: What is on disk.
        chance: Gives a number from 0 to 1.
        is_empty: Whether there is no message of a job in a queue, or no such queue.

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
    ) -> None:
        self.jobs: dict[bytes, BookedJob] = {}
        """All that have not ended, by id."""
        self.ended = EndedJobs(now)
        self.counts: Counter[str] = Counter()
        """How often what has happened: ends, ``retried``, ``requeued``, ``late``, ``duplicate``, ``parked``."""
        self.followers = Followers()
        self.on_end: Ending | None = None
        """Called when a job has ended without a word from a worker: it is to be answered."""
        self.parking = Parking(now)
        self.hold = Hold(now, occupy=self.parking.occupy, leave=self.parking.leave)
        self._now = now
        self._chance = chance
        self._is_empty = is_empty
        self._records = RecordedJobs(records or NoRecords())
        self.relations = Relations()
        self.streamed: set[bytes] = set()
        """Jobs of which items have gone out: they are not begun again, as their reader would get those twice."""
        self._crashes: dict[bytes, int] = {}  # processes that have died of a job
        for job in self._records.recover():
            self._enter(job)

    # Acceptance

    def accept(self, job: BookedJob) -> Standing | None:
        """Enter a job that is to be published in this turn; if that fails, ``withdraw`` it.

        Args:
            job: Its terms may be changed: no deadline is later than that of its parent.

        Returns:
            None if it is entered; otherwise what is there in its place, and nothing is to be published.

        Raises:
            AccessRefused: Its id is that of another user's job.
        """
        if job.id in self.jobs or self.ended.get(job.id) is not None:
            return self._again(job)
        if job.terms is not PLAIN:
            standing = self._look_at_terms(job)
            if standing is not None:
                return standing
            self._enter(job)
            if job.durable and (job.terms.unique or job.terms.parent[1]):
                self._records.write(job)
        else:
            self.jobs[job.id] = job
        return None

    def _again(self, job: BookedJob) -> Standing:
        found = self.jobs.get(job.id)
        if found is not None and found.user != job.user:
            raise AccessRefused("there is a job with this id, which is another user's; choose ids that are unique")
        if found is None:
            return Standing(job.id, self.ended.get(job.id))
        return Standing(job.id, "cancelled" if found.stage == "cancelled" else None)

    def _look_at_terms(self, job: BookedJob) -> Standing | None:
        """Return what keeps a job from being entered."""
        terms = job.terms
        holder = self.relations.holder(terms.unique) if terms.unique else None
        if holder is not None and not self._has_vanished(*holder):
            self.counts["duplicate"] += 1
            return Standing(holder[0], None)
        name, attempt = terms.parent
        if not attempt:
            return None
        parent, end = self.jobs.get(name), self.ended.get(name)
        if (end is not None and end != "ok") or (parent is not None and not _is_running(parent, attempt)):
            self.counts["cancelled"] += 1
            self.ended.add(job.id, "cancelled")
            return Standing(job.id, "cancelled")
        if parent is not None and parent.terms.deadline:
            deadline = min(terms.deadline or parent.terms.deadline, parent.terms.deadline)
            job.terms = msgspec.structs.replace(terms, deadline=deadline)
        return None

    def _enter(self, job: BookedJob) -> None:
        """Enter a job under all that it may be looked for by."""
        self.jobs[job.id] = job
        if job.terms is not PLAIN:
            self.relations.enter(job, self._now())

    def withdraw(self, job: bytes) -> None:
        """Forget a job that could not be published."""
        found = self.jobs.get(job)
        if found is not None:
            self._remove(found)

    # The way out

    def recall(self, job: BookedJob) -> BookedJob | None:
        """Return the job that a message is of, which is about to be admitted.

        Args:
            job: As its message has it.

        Returns:
            The job in the book, with all of its terms; None if it has ended: then this is a copy of its message.
        """
        found = self.jobs.get(job.id)
        if found is None:
            if self.ended.get(job.id) is not None:
                return None
            self._enter(job)
            return job
        if job.id in self._records.partial:
            self._records.partial.discard(job.id)
            found.terms = job.terms
            self._enter(found)
        return found

    def knows(self, job: bytes) -> BookedJob | None:
        """Return a job that needs no ``recall``."""
        return None if job in self._records.partial else self.jobs.get(job)

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
                self.counts["parked"] += 1
                self.parking.park(job, batch, position)
                self.followers.tell(job)
                return False
        job.stage = "running"
        job.attempt = attempt
        job.runner = runner
        if attempt > 1:  # the end of the last one may have gone unseen
            self._cancel_all(self._descendants(job, attempt - 1))
        if self.followers:
            self.followers.tell(job)
        return True

    def _may_begin(self, job: BookedJob, batch: Batch, position: int) -> bool:
        """Return whether a job is to run at all; if not, settle its message."""
        is_out = job.runner.holds(job) if job.runner is not None else self.parking.is_out(job)
        if not is_out:  # else this is a copy of its message
            if job.stage == "cancelled":
                self._remove(job)
                self.ended.add(job.id, "cancelled")
            elif job.stage == "cancelling":
                self._end(job, "cancelled")
            elif 0 < job.terms.deadline <= self._now():
                self._end(job, "expired")
            else:
                if job.runner is not None:
                    self._leave_place(job)
                return True
        settle(batch, Outcome.ACCEPT, (position,))
        return False

    def claim(self, job: bytes, attempt: int, runner: Runner) -> Held | None:
        """Have a job go on with a worker that says it has it; see ``Hold.claim``."""
        found = self.jobs.get(job)
        if found is None:
            if self.ended.get(job) is not None or not self.hold.is_open:
                return None
            found = BookedJob(job, "", "")  # its message has not come out yet, and may be none
        return self.hold.claim(found, attempt, runner)

    # What becomes of an attempt

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
            self.counts["late"] += 1
            return LATE
        if end == "ok":
            self._remove(job)
            self.ended.add(job.id, end)
            self.counts[end] += 1
            if self.followers:
                self.followers.tell(job, end, answer)
            return _OK
        if job.stage == "cancelling":
            end = "cancelled"
        elif retry and end in _RETRIED and attempt <= job.terms.retries and job.id not in self.streamed:
            pause = job.terms.pause_after(attempt, self._chance())
            due = self._now() + pause
            if not 0 < job.terms.deadline <= due:
                return self._retry(job, pause, due)
        self._end(job, end, answered=True, answer=answer)
        return ENDS[end]

    def _retry(self, job: BookedJob, pause: float, due: float) -> Fate:
        self._leave_place(job)
        self._cancel_all(self._descendants(job, job.attempt))
        job.due = due
        self.counts["retried"] += 1
        self.followers.tell(job)
        return Fate(again_after=pause)

    def crashed(self, job: BookedJob, attempt: int, runner: Runner) -> Fate:
        """Note that a job's process has died of it, which its worker says; counted as long as this broker lives.

        Args:
            job: The job.
            attempt: Which of its attempts it was.
            runner: Who has it.
        """
        crashes = self._crashes.get(job.id, 0) + 1
        is_last = crashes >= MOST_CRASHES or job.id in self.streamed
        fate = self._killed(job, attempt, runner, is_last=is_last)
        if fate is REQUEUED:
            self._crashes[job.id] = crashes
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
        is_last = deaths >= MOST_LOST_WORKERS or job.id in self.streamed
        return self._killed(job, attempt, runner, is_last=is_last and not goes_on)

    def _killed(self, job: BookedJob, attempt: int, runner: Runner, *, is_last: bool) -> Fate:
        if job.attempt != attempt or job.runner is not runner:
            self.counts["late"] += 1
            return LATE
        if job.stage == "cancelling" or is_last:
            end: End = "cancelled" if job.stage == "cancelling" else "lost"
            self._end(job, end, answered=True)
            return ENDS[end]
        self._leave_place(job)
        self._cancel_all(self._descendants(job, job.attempt))
        self.counts["requeued"] += 1
        self.followers.tell(job)
        return REQUEUED

    def returned(self, job: BookedJob, attempt: int, runner: Runner) -> Fate:
        """Note that a worker has put a job back which it has not begun; the attempt does not count."""
        if job.attempt != attempt or job.runner is not runner:
            self.counts["late"] += 1
            return LATE
        if job.stage == "cancelling":
            self._end(job, "cancelled", answered=True)
            return ENDS["cancelled"]
        self._leave_place(job)
        job.attempt = attempt - 1
        self.followers.tell(job)
        return REQUEUED

    def _leave_place(self, job: BookedJob) -> None:
        """Let a job be in its queue again; its place is another one's."""
        if job.terms.key:
            if job.runner is None:
                self.parking.take(job)
            else:
                self.parking.leave(job)
        job.runner = None
        job.stage = "queued"

    # Cancelling

    def cancel(self, job: BookedJob, *, tree: bool = False, grace: float | None = None) -> bool:
        """End a job: at once if it waits, or by its worker's answer.

        Args:
            job: The job.
            tree: Whether its children are cancelled at once too, and not only when it has ended so.
            grace: Seconds that its worker has for it; None leaves that to the worker.

        Returns:
            Whether it has ended.
        """
        descendants = self._descendants(job)
        has_ended = self._cancel(job, grace)
        if tree or has_ended:
            self._cancel_all(descendants, grace)
        return has_ended

    def _descendants(self, job: BookedJob, attempt: int = _ANY) -> list[BookedJob]:
        """List what a job has sent, in its attempts up to one, and what that has sent, as far as it has not ended."""
        if not self.relations.children:
            return []
        names = self.relations.children_of(job.id, attempt)
        found: dict[bytes, BookedJob] = {}
        while names:
            name = names.pop()
            child = self.jobs.get(name)
            if child is not None and name not in found and child is not job:
                found[name] = child
                names += self.relations.children_of(name, _ANY)
        return list(found.values())

    def _cancel_all(self, jobs: list[BookedJob], grace: float | None = None) -> None:
        for job in jobs:
            if self.jobs.get(job.id) is job:  # what is told of the end of one may end others
                self._cancel(job, grace)

    def _cancel(self, job: BookedJob, grace: float | None) -> bool:
        """Cancel one job; return whether it has ended."""
        if job.stage in ("cancelling", "cancelled"):
            return job.stage == "cancelled"
        if job.runner is not None:
            if job.runner.cancel(job, grace):
                job.stage = "cancelling"
                self.followers.tell(job)
                return False
            # Its worker does not know how: it goes on, and nobody waits for it.
            self._close(job, "cancelled", answered=False)
            return True
        parked = self.parking.take(job)
        if parked is not None:
            settle(parked.batch, Outcome.ACCEPT, (parked.position,))
            self._close(job, "cancelled", answered=False)
            return True
        job.stage = "cancelled"
        self.relations.free_unique(job)
        if job.durable:
            self._records.write(job)
        self._report(job, "cancelled", answered=False)
        return True

    def requester_left(self, requester: bytes) -> None:
        """Cancel the jobs that are tied to a requester."""
        for name in self.relations.tied_to(requester):
            job = self.jobs.get(name)
            if job is not None:
                self.cancel(job, tree=True)

    # The end

    def _end(self, job: BookedJob, end: End, *, answered: bool = False, answer: object = None) -> None:
        """End a job, and cancel what it has sent; its requester may be answered by whom this was called."""
        descendants = self._descendants(job)
        self._close(job, end, answered=answered, answer=answer)
        self._cancel_all(descendants)

    def _close(self, job: BookedJob, end: End, *, answered: bool, answer: object = None) -> None:
        self._remove(job)
        self.ended.add(job.id, end)
        self._report(job, end, answered=answered, answer=answer)

    def _report(self, job: BookedJob, end: End, *, answered: bool, answer: object = None) -> None:
        self.counts[end] += 1
        if not answered and self.on_end is not None:
            self.on_end(job, end)
        if self.followers:
            self.followers.tell(job, end, answer)

    def _remove(self, job: BookedJob) -> None:
        """Forget a job, under all that it may be looked for by."""
        if job.terms is not PLAIN:
            self._leave_place(job)
            self.relations.remove(job)
        job.runner = None
        name = job.id
        del self.jobs[name]
        if self.relations.children:
            self.relations.children.pop(name, None)
        if self.streamed:
            self.streamed.discard(name)
        if self._crashes:
            self._crashes.pop(name, None)
        self._records.remove(name)

    # What has gone unseen

    def _has_vanished(self, holder: bytes, since: float) -> bool:
        """Return whether the holder of a unique key has lost its message; it is forgotten then."""
        job = self.jobs[holder]
        if job.runner is not None or self._now() - since < _SETTLED or not self._is_empty(job.queue):
            return False
        self._forget(job)
        return True

    def sweep(self) -> int:
        """Forget jobs whose queues are empty, or gone; return how many. To be called now and then, in its own turn.

        A queue that holds anything is passed over.
        """
        empty = {queue for queue in {job.queue for job in self.jobs.values()} if self._is_empty(queue)}
        vanished = [job for job in self.jobs.values() if job.queue in empty and job.runner is None] if empty else []
        for job in vanished:
            if job.id in self.jobs:
                self._forget(job)
        return len(vanished)

    def _forget(self, job: BookedJob) -> None:
        self.counts["vanished"] += 1
        self._remove(job)

    # Looking in

    def follow(self, job: bytes, follower: Follower) -> None:
        """Tell somebody of every change of a job from now on, if it is known and has not ended."""
        found = self.jobs.get(job)
        if found is not None and found.stage != "cancelled":
            self.followers.add(job, follower)

    def state_of(self, job: bytes) -> JobSummary | None:
        """Return where a job is; None if it is not known, or has ended too long ago."""
        found = self.jobs.get(job)
        if found is not None:
            return self.summary(found)
        end = self.ended.get(job)
        return None if end is None else JobSummary(job, end)

    def states(self) -> Iterator[JobSummary]:
        """Yield where all jobs are that have not ended, in the order in which they became known."""
        for job in self.jobs.values():
            yield self.summary(job)

    def summary(self, job: BookedJob) -> JobSummary:
        """Return where a job is that has not ended."""
        state = "delayed" if job.stage == "queued" and job.due > self._now() else job.stage
        return JobSummary(job.id, state, job.attempt, job.queue, job.user, job.due, job.terms)


def _is_running(job: BookedJob, attempt: int) -> bool:
    return job.attempt == attempt and job.stage == "running"
