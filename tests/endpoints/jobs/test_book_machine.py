"""The book against a small model: whatever is sent, begun, failed, killed, cancelled and crashed, each job ends once.

The model does not know where a job is. It knows what was accepted and what was answered; and what may never happen: two
workers with one job, more of a key than its limit, two jobs of one unique key.
"""

import logging
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from triomq.core import Purge
from triomq.endpoints.jobs import End, Terms, parking

from .workshop import Out, Worker, Workshop

QUEUES = ("q", "other")
LIMITS = {"": 0, "one": 1, "two": 2}
ENDS = st.sampled_from(["ok", "ok", "failed", "timed-out", "cancelled"])


@pytest.fixture(autouse=True)
def quiet_crashes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "triomq")


class BookMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.workshop = Workshop(*QUEUES)
        self.sent = 0
        self.accepted: dict[bytes, Terms] = {}
        self.queue_of: dict[bytes, str] = {}
        self.known: set[bytes] = set()
        self.vanished: set[bytes] = set()
        self.dead: list[tuple[Worker, Out]] = []

    @property
    def running(self) -> list[tuple[Worker, bytes]]:
        """Jobs that workers have, as far as their queues have not taken them back."""
        return [
            (worker, job) for worker in self.workshop.workers for job, out in worker.out.items() if out.batch.left > 0
        ]

    def some_running(self, data: st.DataObject) -> tuple[Worker, bytes]:
        return data.draw(st.sampled_from(self.running))

    # What happens

    @rule(
        data=st.data(),
        queue=st.sampled_from(QUEUES),
        key=st.sampled_from(list(LIMITS)),
        unique=st.sampled_from(["", "", "", "u", "v"]),
        retries=st.integers(0, 2),
        deadline=st.sampled_from([0.0, 0.0, 5.0]),
        delay=st.sampled_from([0.0, 0.0, 3.0]),
        tie=st.booleans(),
        is_child=st.booleans(),
    )
    def send(
        self,
        data: st.DataObject,
        queue: str,
        key: str,
        unique: str,
        retries: int,
        deadline: float,
        delay: float,
        tie: bool,
        is_child: bool,
    ) -> None:
        self.sent += 1
        job = b"%d" % self.sent
        parent = (b"", 0)
        if is_child and self.running:
            worker, name = self.some_running(data)
            parent = (name, worker.out[name].attempt)
        terms = Terms(
            deadline=self.workshop.now() + deadline if deadline else 0.0,
            retries=retries,
            parent=parent,
            unique=unique,
            key=key,
            limit=LIMITS[key],
            tie=tie,
        )
        standing = self.workshop.send(job, terms, queue=queue, delay=delay, durable=True)
        if standing is None:
            assert not unique or not self.has_unique(unique, job)
            self.accepted[job] = terms
            self.queue_of[job] = queue
            self.known.add(job)
        elif standing.job != job:
            assert self.accepted[standing.job].unique == unique

    def has_unique(self, unique: str, but: bytes) -> bool:
        answered = dict(self.workshop.answers)
        return any(
            terms.unique == unique and job not in answered and job not in self.vanished and job != but
            for job, terms in self.accepted.items()
        )

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        """Send a job again of which this life of the book has heard: it is found out at once."""
        job = data.draw(st.sampled_from(sorted(self.known)))
        standing = self.workshop.send(job, self.accepted[job])
        assert standing is not None
        assert standing.job == job

    @rule(credit=st.integers(1, 3), obeys=st.sampled_from([True, True, False]))
    def come(self, credit: int, obeys: bool) -> None:
        if len(self.workshop.workers) < 8:
            self.workshop.worker(credit, obeys=obeys)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), end=ENDS, retry=st.booleans(), ready=st.booleans())
    def reply(self, data: st.DataObject, end: str, retry: bool, ready: bool) -> None:
        worker, job = self.some_running(data)
        worker.reply(job, end, retry=retry, ready=ready)  # type: ignore[arg-type]

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        worker, job = self.some_running(data)
        worker.give_back(job)

    @precondition(lambda self: self.workshop.workers)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(self.workshop.workers))
        self.workshop.workers.remove(worker)
        self.dead += [(worker, out) for out in worker.out.values()]
        worker.die()

    @precondition(lambda self: self.dead)
    @rule(data=st.data(), end=ENDS)
    def late_reply(self, data: st.DataObject, end: End) -> None:
        """Say something of an attempt whose worker counts as dead: nothing becomes of it."""
        worker, out = data.draw(st.sampled_from(self.dead))
        attempts = self.workshop.book.attempts
        fate = self.workshop.stepped.turn(lambda: attempts.finish(out.job, out.attempt, worker, end))
        assert (fate.end, fate.again_after) == (None, None)

    @rule()
    def restart(self) -> None:
        """Kill all but the queues and the records."""
        for worker in self.workshop.workers:
            worker.vanish()
        self.workshop.workers.clear()
        self.dead.clear()
        self.known.clear()
        for queue in QUEUES:
            self.workshop.crash(queue)
        self.workshop.open_book()

    @precondition(lambda self: self.workshop.book.jobs)
    @rule(data=st.data(), tree=st.booleans())
    def cancel(self, data: st.DataObject, tree: bool) -> None:
        self.workshop.cancel(data.draw(st.sampled_from(list(self.workshop.book.jobs))), tree=tree)

    @rule()
    def requester_leaves(self) -> None:
        self.workshop.stepped.turn(lambda: self.workshop.book.endings.requester_left(b"requester"))
        for job in self.workshop.book.jobs.values():
            assert not job.terms.tie or job.stage in ("cancelling", "cancelled", "expired")

    @rule(seconds=st.sampled_from([0.5, 1.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.workshop.pass_time(seconds)

    @rule(queue=st.sampled_from(QUEUES))
    def crash(self, queue: str) -> None:
        self.workshop.crash(queue)

    @rule(queue=st.sampled_from(QUEUES))
    def purge(self, queue: str) -> None:
        """Remove all that is not out: those jobs end; of which this life of the book has not heard, they are gone."""
        answered = dict(self.workshop.answers)
        self.vanished |= {
            job
            for job, where in self.queue_of.items()
            if where == queue and job not in answered and job not in self.workshop.book.jobs
        }
        self.workshop.queues[queue].ref.ask_nowait(Purge())

    # What may never happen

    @invariant()
    def no_job_runs_twice_and_limits_hold(self) -> None:
        present = [
            job
            for worker, job in self.running
            if (found := self.workshop.book.jobs.get(job)) is not None and found.runner is worker
        ]
        assert len(present) == len(set(present))
        keys = Counter(self.accepted[job].key for job in present)
        assert all(keys[key] <= limit for key, limit in LIMITS.items() if limit)

    @invariant()
    def no_job_is_answered_twice(self) -> None:
        counts = Counter(job for job, _ in self.workshop.answers)
        assert not counts or max(counts.values()) == 1

    def teardown(self) -> None:
        try:
            self.end()
        finally:
            self.workshop.close()

    def end(self) -> None:
        """Have all that is left done by workers that can do everything."""
        for worker in self.workshop.workers:
            worker.die()
        self.workshop.workers.clear()
        worker = self.workshop.worker(1000)
        for _ in range(40):
            while worker.out:
                worker.reply(next(iter(worker.out)))
            self.workshop.pass_time(parking.LOOK * 2)
        assert self.accepted.keys() - self.vanished == {job for job, _ in self.workshop.answers}
        book = self.workshop.book
        assert (book.jobs, len(book.parking), book.parking.is_idle) == ({}, 0, True)
        assert not book.register.relations
        assert all(map(self.workshop.is_empty, QUEUES))


TestBookMachine = BookMachine.TestCase
TestBookMachine.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
