"""The child processes of a worker, and the jobs that wait for one of them.

    take ──▶ waiting ──▶ distribute ──▶ children ──▶ answers
                ▲                          │
                └──── taken back ──────────┘      behind a slow job, or from a child that died
                │
                └──▶ returned to the broker       if all children are slow: another worker may be free

- Few children do the short jobs: one is woken only when those before it have work for 1 ms (``means.ENOUGH``). Jobs of
  which each is longer, or of unknown length, so get a child each while there are idle ones.
- When all children have that much, the rest goes to them evenly, as much to each as it does in 2 ms (``means.AHEAD``),
  and no job goes behind one whose run time is unknown.
- A child that has not answered for 2 ms has a job that is longer than was expected: others come before it.
- Nothing waits here behind slow jobs only: after 10 ms the broker gets it back, not begun, its attempt not counted.

Dropped: an equal share of what has come for each child. Four children with a job or two each cost four wake-ups, and
the worker four more for their answers. It then asked for one or two jobs at a time, so that broker and client were
woken for each too.
"""

from collections import deque
from math import inf
from typing import Protocol, TypeAlias

import msgspec
import trio

from triomq.jobs.child.execution import EXPIRED, Ending, ending_for
from triomq.jobs.child.program import ChildSetUp
from triomq.jobs.child.tokens import MOST_BYTES, MOST_JOBS, ChildAnswer, Kind
from triomq.jobs.worker.means import AHEAD, ENOUGH, SLOW, Mean
from triomq.jobs.worker.pooled import PooledJob
from triomq.jobs.worker.process import Child

_Given: TypeAlias = dict[Child, list[tuple[PooledJob, bytes]]]
"""What is chosen for each child: jobs, as they are written to it."""


class Ends(Protocol):
    """Hear how jobs end; the pool does."""

    def done(self, job: PooledJob, message: bytes) -> None:
        """A job has a result."""

    def failed(self, job: PooledJob, ending: Ending) -> None:
        """A job has none."""

    def reported(self, job: PooledJob, value: bytes, *, item: bool) -> None:
        """A job has made progress, or an item."""

    async def wait_room(self, job: PooledJob) -> None:
        """Wait until the reader of a job's items has taken enough of them."""

    def give_back(self, jobs: list[PooledJob]) -> bool:
        """Jobs were not begun, and are to go elsewhere; returns whether the broker takes them."""

    def settled(self) -> None:
        """All that has happened at once has been said."""

    def settle_soon(self) -> None:
        """More may happen in this turn of the loop; ``settled`` comes behind it."""


class ChildSet:
    """All child processes of a worker; made by its pool.

    Args:
        set_up: What each has to know.
        size: How many.
        ends: Hears how jobs end.
    """

    def __init__(self, set_up: ChildSetUp, size: int, ends: Ends) -> None:
        self.children = [Child(set_up, self) for _ in range(size)]
        self._ends = ends
        self._waiting: deque[PooledJob] = deque()
        self._mean = Mean()
        self._watch = trio.CancelScope()
        self._returns = True  # whether the broker takes jobs back
        self.held = 0
        """Jobs that are here and not answered."""

    @property
    def credit(self) -> int:
        """How many jobs there should be here now."""
        now = trio.current_time()
        slow = sum(child.is_slow(now) for child in self.children)
        slots = sum(child.is_ready or child.held > 0 for child in self.children)
        return slots + self._mean.worth(slots - slow)

    # Jobs come

    def take(self, jobs: list[PooledJob]) -> None:
        """Take jobs that have arrived."""
        now = trio.current_time()
        for job in jobs:
            job.queued = now
        self.held += len(jobs)
        self._waiting += jobs
        self._distribute(now)

    def cancel(self, job: PooledJob, reason: Ending, grace: float) -> None:
        """Stop a job, wherever it is."""
        now = trio.current_time()
        for child in self.children:
            child.hear()
            if child.running is job:
                self._put_back(child.stop_job(job, reason, grace, now), now)
                break
            if job in child.jobs:
                self._put_back(child.take_back(), now)
        if job in self._waiting:
            self._waiting.remove(job)
            self._failed(job, reason)
        self._distribute(now)
        self._ends.settled()

    def take_back(self, most: int) -> list[PooledJob]:
        """Return the last of the jobs that wait, at most so many."""
        jobs = [self._waiting.pop() for _ in range(min(most, len(self._waiting)))]
        self.held -= len(jobs)
        return jobs[::-1]

    def take_all_back(self) -> list[PooledJob]:
        """Return all jobs that were not begun, for the broker: the worker is leaving."""
        for child in self.children:
            self._waiting += child.take_back()
        jobs = list(self._waiting)
        self._waiting.clear()
        self.held -= len(jobs)
        return jobs

    def _distribute(self, now: float) -> None:
        """Give to the children what waits."""
        waiting = self._waiting
        if waiting:
            given: _Given = {}
            free = [child for child in self.children if child.is_ready and not child.is_slow(now)]
            free.sort(key=_load)
            for child in reversed(free):  # those first that have something and not enough
                if not child.held or now - child.began < AHEAD:
                    self._choose(given, child, len(waiting), ENOUGH, now)
            while waiting and free:
                share = -(-len(waiting) // len(free))
                self._choose(given, free.pop(0), share, AHEAD, now)
            for child, jobs in given.items():
                child.give(jobs, now)
        self._arm(now)

    def _choose(self, given: _Given, child: Child, share: int, seconds: float, now: float) -> None:
        """Choose jobs for a child: at most a share of those that wait, and so many seconds of work, or one job."""
        waiting, chosen = self._waiting, given.get(child, [])
        load, count = child.load, child.held + len(chosen)
        size = child.size + sum(len(body) for _, body in chosen)
        while waiting and share:
            job = waiting[0]
            if job.deadline <= now:
                self._failed(waiting.popleft(), EXPIRED)
                continue
            cost = job.kind.mean.cost
            if count and (count >= MOST_JOBS or load + cost > seconds):
                break
            body = _encode(job.task)
            if count and size + len(body) > MOST_BYTES:
                break
            job.cost = cost
            load += cost
            size += len(body)
            count += 1
            share -= 1
            chosen.append((waiting.popleft(), body))
        if chosen:
            child.load = load
            given[child] = chosen

    def _put_back(self, jobs: list[PooledJob], now: float) -> None:
        """Put jobs that were not begun before those that wait."""
        for job in jobs:
            job.queued = now
        self._waiting.extendleft(reversed(jobs))

    # Children speak

    def child_ready(self, child: Child) -> None:
        """Give it something."""
        self._distribute(trio.current_time())
        self._ends.settled()

    def child_answered(self, child: Child, answers: list[ChildAnswer[PooledJob]]) -> None:
        """ChildAnswer, and give it more."""
        for job, kind, seconds, body in answers:
            assert job is not None, "what a child says about itself does not come here"
            if kind < Kind.DONE:
                self._ends.reported(job, body, item=kind == Kind.ITEM)
                continue
            job.kind.mean.add(seconds)
            self._mean.add(seconds)
            if kind == Kind.DONE:
                self.held -= 1
                self._ends.done(job, body)
            else:
                self._failed(job, _read_ending(body))
        if self._waiting:
            self._distribute(trio.current_time())
        self._ends.settled()

    async def wait_room(self, job: PooledJob) -> None:
        """Wait until the reader of a job's items has taken enough of them."""
        await self._ends.wait_room(job)

    def child_ended(self, child: Child, not_begun: list[PooledJob], victim: PooledJob | None) -> None:
        """Put back what it had not begun; the job that it has died of is lost, or was stopped."""
        now = trio.current_time()
        self._put_back(not_begun, now)
        if victim is not None:
            lost = Ending("lost", "WorkerLost", f"its process {child.ended}")
            self._failed(victim, victim.reason or lost)
        self._distribute(now)
        self._ends.settled()

    def _failed(self, job: PooledJob, ending: Ending) -> None:
        self.held -= 1
        self._ends.failed(job, ending_for(job.reason, ending))

    # Time

    async def watch(self) -> None:
        """Look after jobs that take long."""
        while True:
            with trio.CancelScope(deadline=self._next_look()) as self._watch:
                await trio.sleep_forever()
            self._look(trio.current_time())

    def _arm(self, now: float) -> None:
        """See that ``watch`` wakes in time; a timer of 10 ms that is set already will do for all."""
        if self._watch.deadline > now + SLOW:
            self._watch.deadline = min(self._watch.deadline, self._next_look())

    def _next_look(self) -> float:
        due = min((child.next_look() for child in self.children), default=inf)
        if self._waiting and self._returns:
            slow = max(child.began for child in self.children)
            due = min(due, max(slow, self._waiting[0].queued) + SLOW)
        return due

    def _look(self, now: float) -> None:
        for child in self.children:
            if child.next_look() <= now:
                back = child.look(now)
                if back and child.is_ready and not child.held:  # it has begun none: one stays, and it counts as slow
                    first = back.pop(0)
                    child.load += first.cost
                    child.give([(first, _encode(first.task))], now - 2 * SLOW)  # not just: floats are not exact
                self._put_back(back, now)
        self._distribute(now)
        if self._waiting and all(child.is_slow(now) for child in self.children):
            self._return_oldest(now)
        self._ends.settled()

    def _return_oldest(self, now: float) -> None:
        """Return to the broker what has waited for ``SLOW``, while no child gets on."""
        old = [job for job in self._waiting if job.queued + SLOW <= now]
        if not old:
            return
        self._returns = self._ends.give_back(old)
        if self._returns:
            self.held -= len(old)
            for job in old:
                self._waiting.remove(job)


_encode = msgspec.msgpack.Encoder().encode
_read_ending = msgspec.msgpack.Decoder(Ending).decode


def _load(child: Child) -> float:
    return child.load
