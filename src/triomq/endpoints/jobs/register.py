"""The jobs of a domain that are known, by id, unique key, parent and requester; in memory and on disk.

It decides nothing. ``book``, ``endings`` and ``attempts`` do, and enter and close jobs here.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeAlias

from triomq.core import Shares
from triomq.endpoints.jobs.deadlines import Deadlines
from triomq.endpoints.jobs.ended import EndedJobs
from triomq.endpoints.jobs.followers import Follower, Followers
from triomq.endpoints.jobs.job import OVER, BookedJob, End
from triomq.endpoints.jobs.parking import Parking
from triomq.endpoints.jobs.records import RecordedJobs, Records
from triomq.endpoints.jobs.relations import Relations
from triomq.endpoints.jobs.terms import PLAIN
from triomq.endpoints.jobs.verdicts import JobSummary

_ANY: Final = 1 << 62

_MOMENT: Final = 0.01
"""Seconds: what happens within them has happened at one time."""

Ending: TypeAlias = Callable[[BookedJob, End], None]


class Register:
    """The jobs of one domain that are known; made by its book.

    Args:
        now: Gives the Unix time.
        records: What is on disk.
        followers: Who hears of changes.
        shares: Counts what users have of the domain's pools.

    Raises:
        StoreCorrupt: A record of the store is none.
    """

    def __init__(
        self,
        now: Callable[[], float],
        records: Records,
        followers: Followers | None = None,
        shares: Shares | None = None,
    ) -> None:
        self.now = now
        self.moment = 0.0
        """Unix time of what happens now: jobs that come or go within a hundredth of a second share a float."""
        self.jobs: dict[bytes, BookedJob] = {}
        """All that have not ended, by id."""
        self.ended = EndedJobs(now)
        self.counts: Counter[str] = Counter()
        """How often what has happened: ends, ``retried``, ``requeued``, ``late``, ``duplicate``, ``parked``."""
        self.followers = Followers() if followers is None else followers
        self.on_end: Ending | None = None
        """Called when a job has ended without a word from a worker: it is to be answered."""
        shares = shares or Shares()
        self.parking = Parking(now, shares)
        self.relations = Relations(shares)
        self.deadlines = Deadlines()
        self.unrepeatable: set[bytes] = set()
        """Jobs that run and are not begun again: their message is gone, or items of them have gone out, which their
        reader would get twice."""
        self.crashes: dict[bytes, int] = {}
        """Processes that have died of a job."""
        self.records = RecordedJobs(records)
        for job in self.records.recover():
            self.enter(job)

    def tick(self) -> float:
        """Look at the clock for ``moment``; called once for each run of jobs, as that costs less than for each job."""
        now = self.now()
        if not 0 <= now - self.moment < _MOMENT:
            self.moment = now
            self.ended.begin(now)
        return self.moment

    # Coming

    def enter(self, job: BookedJob) -> None:
        """Enter a job under all that it may be looked for by."""
        self.jobs[job.id] = job
        if job.terms is not PLAIN:
            self.relations.enter(job, self.now())
            if job.terms.deadline:
                self.deadlines.add(job, job.terms.deadline)

    def recall(self, job: BookedJob) -> BookedJob | None:
        """Return the job that a message is of, which is about to be admitted.

        Args:
            job: As its message has it.

        Returns:
            The job that is known, with all of its terms; None if it has ended: then this is a copy of its message.
        """
        found = self.jobs.get(job.id)
        if found is None:
            if self.ended.get(job.id) is not None:
                return None
            self.enter(job)
            return job
        if job.id in self.records.partial:
            self.records.partial.discard(job.id)
            found.terms = job.terms
            self.enter(found)
        return found

    def knows(self, job: bytes) -> BookedJob | None:
        """Return a job that needs no ``recall``."""
        return None if job in self.records.partial else self.jobs.get(job)

    # Being there

    def leave_place(self, job: BookedJob) -> None:
        """Let a job be in its queue again; its place is another one's."""
        if job.terms.key:
            if job.runner is None:
                self.parking.take(job)
            else:
                self.parking.leave(job)
        job.runner = None
        job.stage = "queued"
        job.since = self.tick()

    def descendants(self, job: BookedJob, attempt: int = _ANY) -> list[BookedJob]:
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

    # Going

    def remove(self, job: BookedJob) -> None:
        """Forget a job, under all that it may be looked for by."""
        if job.terms is not PLAIN:
            self.leave_place(job)
            self.relations.remove(job)
            if job.terms.deadline:
                self.deadlines.remove(job, job.terms.deadline)
        job.runner = None
        name = job.id
        del self.jobs[name]
        if self.relations.children:
            self.relations.children.pop(name, None)
        if self.unrepeatable:
            self.unrepeatable.discard(name)
        if self.crashes:
            self.crashes.pop(name, None)
        if name in self.records.jobs:
            self.records.remove(name)

    def close(self, job: BookedJob, end: End, *, answered: bool, answer: object = None) -> None:
        """Remove a job that has ended, and remember and tell how."""
        self.remove(job)
        self.tick()
        self.ended.add(job.id, end, job.user)
        self.report(job, end, answered=answered, answer=answer)

    def report(self, job: BookedJob, end: End, *, answered: bool, answer: object = None) -> None:
        """Tell how a job has ended: its followers and, if it was not ``answered`` by whom this was called, its
        requester.
        """
        self.counts[end] += 1
        if not answered and self.on_end is not None:
            self.on_end(job, end)
        if self.followers.by_job:
            self.followers.tell(job, end, answer)

    # Looking in

    def follow(self, job: bytes, follower: Follower) -> None:
        """Tell somebody of every change of a job from now on, if it is known and has not ended."""
        found = self.jobs.get(job)
        if found is not None and found.stage not in OVER:
            self.followers.add(job, follower)

    def state_of(self, job: bytes) -> JobSummary | None:
        """Return where a job is; None if it is not known, or has ended too long ago."""
        found = self.jobs.get(job)
        if found is not None:
            return self.summary(found)
        end = self.ended.get(job)
        return None if end is None else JobSummary(job, end, user=self.ended.user(job), since=self.ended.since(job))

    def summary(self, job: BookedJob) -> JobSummary:
        """Return where a job is that has not ended."""
        state = "delayed" if job.stage == "queued" and job.due > self.now() else job.stage
        return JobSummary(job.id, state, job.attempt, job.queue, job.user, job.due, job.since)
