"""Jobs that are held: their workers may still have them."""

from collections.abc import Sequence
from math import inf

import pytest

from triomq.core import Batch
from triomq.endpoints.jobs import BookedJob, Terms
from triomq.endpoints.jobs.hold import ANSWER_SECONDS, HOLD_SECONDS, Held

from .workshop import SENDER, Out, Worker, Workshop

ONE = Terms(key="k", limit=1)


class Returning(Worker):
    """A worker of a broker that holds jobs."""

    def __init__(self, workshop: Workshop) -> None:
        super().__init__(workshop)
        self.answers: list[Held] = []

    def _give(self, batch: Batch, position: int) -> None:
        name, begun, _ = batch.message(position).body.split()
        book = self._workshop.book
        queue = batch.head_at(position).routing_key
        job = book.register.recall(BookedJob(name, queue, SENDER, self._workshop.terms[name], durable=True))
        held = None if job is None else book.hold.arrive(job, batch, position, int(begun))
        if held is None:
            super()._give(batch, position)
            return
        if held.runner is not None:
            held.runner.adopt(held)  # type: ignore[attr-defined]
        self.slots.offer(1)

    def adopt(self, held: Held) -> None:
        assert held.batch is not None
        self.out[held.job.id] = Out(held.job, held.attempt, held.batch, held.position)
        if held.answer is not None:
            self.answers.append(held)


class Restarted:
    """A workshop whose broker was killed while jobs were out; all of them are held."""

    def __init__(self, workshop: Workshop, jobs: dict[bytes, Terms]) -> None:
        self.workshop = workshop
        before = workshop.worker(len(jobs))
        for job, terms in jobs.items():
            workshop.send(job, terms)
        assert set(before.out) <= set(jobs)
        self.out = list(before.out)
        workshop.crash("q")
        workshop.open_book()
        self.book = workshop.book
        workshop.stepped.turn(self._begin)

    def _begin(self) -> None:
        for name in self.out:
            job = self.book.register.recall(BookedJob(name, "q", SENDER, self.workshop.terms[name], durable=True))
            assert job is not None
            self.book.hold.begin(job, 1)
        self.book.hold.is_after_restart = True

    def worker(self, credit: int = 1, running: Sequence[bytes] = (), attempt: int = 1) -> Returning:
        made = Returning(self.workshop)
        self.workshop.harness.start(made)
        made.subscribe(self.workshop.queues["q"])
        self.claimed = [self.claim(job, attempt, made) for job in running]
        self.workshop.stepped.turn(lambda: made.slots.offer(credit))
        return made

    def claim(self, job: bytes, attempt: int, worker: Returning) -> bool:
        def claim() -> bool:
            held = self.book.claim(job, attempt, worker)
            if held is not None and held.batch is not None:
                worker.adopt(held)
            return held is not None

        return self.workshop.stepped.turn(claim)

    def wait(self, seconds: float) -> int:
        self.workshop.pass_time(seconds)
        return self.workshop.stepped.turn(self.book.hold.release)


@pytest.fixture
def restarted(workshop: Workshop) -> Restarted:
    return Restarted(workshop, {b"a": Terms(), b"b": ONE})


def test_job_that_was_out_waits_for_its_worker_and_then_goes_out_again(restarted: Restarted) -> None:
    worker = restarted.worker(credit=2)
    assert worker.out == {}
    restarted.workshop.send(b"c", Terms())
    assert list(worker.out) == [b"c"], "credit for jobs that are held comes back"
    worker.reply(b"c")
    assert restarted.wait(HOLD_SECONDS - 1) == 0
    assert restarted.book.hold.until == restarted.workshop.now() + 1
    assert restarted.wait(1) == 2
    assert {job: out.attempt for job, out in worker.out.items()} == {b"a": 2, b"b": 2}
    assert restarted.book.hold.until == inf
    assert not restarted.book.hold


def test_worker_that_comes_back_goes_on_with_its_jobs(restarted: Restarted) -> None:
    worker = restarted.worker(running=[b"a", b"b"])
    assert restarted.claimed == [True, True]
    assert restarted.workshop.state(b"a") == "running"
    assert {job: out.attempt for job, out in worker.out.items()} == {b"a": 1, b"b": 1}
    assert len(restarted.book.hold) == 0
    assert worker.reply(b"a").end == "ok"
    assert worker.reply(b"b").end == "ok"
    restarted.wait(60)
    assert worker.out == {}


def test_message_that_came_out_before_its_worker_came_back_is_adopted_then(restarted: Restarted) -> None:
    other = restarted.worker(credit=5)
    assert other.out == {}
    worker = restarted.worker(credit=0, running=[b"a"])
    assert list(worker.out) == [b"a"]
    restarted.wait(HOLD_SECONDS)
    assert list(other.out) == [b"b"]


def test_limit_counts_jobs_that_are_held(restarted: Restarted) -> None:
    workshop = restarted.workshop
    workshop.send(b"c", ONE)
    worker = restarted.worker(credit=3, running=[b"a"])
    assert list(worker.out) == [b"a"], "the place of b is b's own"
    other = restarted.worker(credit=0, running=[b"b"])
    assert list(other.out) == [b"b"]
    restarted.wait(HOLD_SECONDS)
    assert workshop.state(b"c") == "parked"
    other.reply(b"b")
    assert b"c" in worker.out or b"c" in other.out


def test_claim_does_not_count_once_the_job_has_begun_elsewhere(restarted: Restarted) -> None:
    worker = restarted.worker(credit=2)
    restarted.wait(HOLD_SECONDS)
    late = restarted.worker(credit=0, running=[b"a", b"b"])
    assert restarted.claimed == [False, False]
    assert sorted(worker.out) == [b"a", b"b"]
    assert late.out == {}


def test_second_claim_of_a_job_does_not_count(restarted: Restarted) -> None:
    restarted.worker(credit=0, running=[b"a"])
    restarted.worker(credit=0, running=[b"a"])
    assert restarted.claimed == [False]


def test_answer_that_comes_before_the_message_waits_for_it(restarted: Restarted) -> None:
    worker = restarted.worker(credit=0, running=[b"a"])
    hold = restarted.book.hold
    assert hold.answered(b"a", 1, worker, "answer")
    assert not hold.answered(b"a", 1, worker, "again")
    assert not hold.answered(b"b", 1, worker, "never claimed")
    restarted.workshop.stepped.turn(lambda: hold.gone(worker))
    restarted.worker()
    (held,) = worker.answers
    assert (held.answer, held.job.id) == ("answer", b"a")


def test_answer_whose_message_never_comes_is_dropped(restarted: Restarted) -> None:
    worker = restarted.worker(credit=0, running=[b"x"])
    assert restarted.claimed == [True], "the job may be one whose mark was not on disk yet"
    assert restarted.book.hold.answered(b"x", 1, worker, "answer")
    restarted.wait(HOLD_SECONDS)
    assert len(restarted.book.hold) == 1
    assert restarted.wait(ANSWER_SECONDS) == 1


def test_claims_end_with_their_worker(restarted: Restarted) -> None:
    worker = restarted.worker(credit=0, running=[b"a"])
    restarted.workshop.stepped.turn(lambda: restarted.book.hold.gone(worker))
    assert restarted.workshop.state(b"a") == "queued"
    other = restarted.worker(credit=1)
    assert other.out == {}, "it may come back until the time is over"
    restarted.wait(HOLD_SECONDS)
    assert {job: out.attempt for job, out in other.out.items()} == {b"a": 2}


def test_job_that_is_cancelled_while_it_is_held_does_not_go_out_again(restarted: Restarted) -> None:
    worker = restarted.worker(credit=2)
    restarted.workshop.cancel(b"a")
    assert not restarted.claim(b"a", 1, worker)
    restarted.wait(HOLD_SECONDS)
    assert list(worker.out) == [b"b"]


def test_worker_that_was_silent_for_long_goes_on_if_its_job_has_not_begun_elsewhere(workshop: Workshop) -> None:
    before = workshop.worker(1)
    workshop.send(b"a", ONE)
    workshop.send(b"c", ONE)
    before.die()
    restarted = Restarted.__new__(Restarted)
    restarted.workshop, restarted.book = workshop, workshop.book
    workshop.pass_time(60)
    worker = restarted.worker(credit=2, running=[b"a"])
    assert restarted.claimed == [True]
    assert {job: out.attempt for job, out in worker.out.items()} == {b"a": 1}
    worker.reply(b"a")
    assert list(worker.out) == [b"c"]


def test_job_whose_mark_was_not_on_disk_is_adopted_as_well(workshop: Workshop) -> None:
    restarted = Restarted(workshop, {b"a": ONE})
    restarted.book.hold._held.clear()
    workshop.open_book()
    restarted.book = workshop.book
    worker = restarted.worker(credit=1, running=[b"a"])
    assert restarted.claimed == [True]
    assert {job: out.attempt for job, out in worker.out.items()} == {b"a": 1}
    assert worker.reply(b"a").end == "ok"
    assert not restarted.book.parking._lines


def test_copy_of_the_message_of_a_job_that_is_held_is_dropped(restarted: Restarted) -> None:
    worker = restarted.worker(credit=5)
    restarted.workshop.publish(b"a", "q", 0, 0.0)
    restarted.workshop.stepped.rest()
    assert worker.out == {}
    restarted.wait(HOLD_SECONDS)
    assert sorted(worker.out) == [b"a", b"b"]
    worker.reply(b"a")
    worker.reply(b"b")
    restarted.workshop.stepped.rest()
    assert worker.out == {}
    assert restarted.workshop.is_empty("q")


def test_jobs_of_a_key_go_out_one_after_the_other_when_the_hold_ends(workshop: Workshop) -> None:
    restarted = Restarted(workshop, {b"a": ONE})
    for number in range(5):
        workshop.send(b"%d" % number, ONE)
    worker = restarted.worker(credit=9)
    assert worker.out == {}
    restarted.wait(HOLD_SECONDS)
    done = []
    while worker.out:
        (job,) = worker.out
        worker.reply(job)
        done.append(job)
    assert sorted(done) == [b"0", b"1", b"2", b"3", b"4", b"a"]
    assert workshop.is_empty("q")


def test_job_that_its_worker_gives_back_goes_out_again_at_once(restarted: Restarted) -> None:
    worker = restarted.worker(credit=0, running=[b"a"])
    other = restarted.worker(credit=0)
    restarted.workshop.stepped.turn(lambda: restarted.book.hold.returned(b"a", other))
    assert restarted.workshop.state(b"a") == "running"
    restarted.workshop.stepped.turn(lambda: restarted.book.hold.returned(b"a", worker))
    restarted.workshop.stepped.turn(lambda: other.slots.offer(1))
    assert list(other.out) == [b"a"]


@pytest.mark.parametrize("leaves", [True, False])
def test_claimed_job_that_is_cancelled_ends_when_its_worker_lets_go_of_it(workshop: Workshop, leaves: bool) -> None:
    restarted = Restarted(workshop, {b"a": Terms(key="k", limit=1, unique="u")})
    worker = restarted.worker(credit=0, running=[b"a"])
    held = restarted.book.hold
    assert held.has(b"a", worker)
    workshop.cancel(b"a")
    assert (workshop.state(b"a"), worker.cancels) == ("cancelling", [b"a"])
    workshop.stepped.turn(lambda: held.gone(worker) if leaves else held.returned(b"a", worker))
    assert (workshop.state(b"a"), workshop.answers) == ("cancelled", [(b"a", "cancelled")])
    assert workshop.send(b"next", Terms(unique="u")) is None
    restarted.wait(HOLD_SECONDS)
    last = workshop.worker(5, "q")
    assert list(last.out) == [b"next"]
    assert restarted.book.parking.is_idle


def test_claimed_job_that_its_worker_gives_back_leaves_its_place_and_takes_it_again(restarted: Restarted) -> None:
    worker = restarted.worker(credit=0, running=[b"b"])
    assert list(worker.out) == []
    restarted.workshop.stepped.turn(lambda: restarted.book.hold.returned(b"b", worker))
    assert restarted.workshop.state(b"b") == "queued"
    restarted.workshop.send(b"c", ONE)
    restarted.wait(HOLD_SECONDS)
    other = restarted.worker(credit=5)
    assert set(other.out) == {b"a", b"b"}, "one of its key, that which was first"
    other.reply(b"b")
    assert set(other.out) == {b"a", b"c"}


def test_answer_without_an_attempt_is_one_to_the_claim(restarted: Restarted) -> None:
    worker = restarted.worker(credit=0, running=[b"a"])
    assert restarted.workshop.stepped.turn(lambda: restarted.book.hold.answered(b"a", 0, worker, "done"))
    restarted.worker(credit=1)
    restarted.wait(1)
    assert (worker.answers[0].answer, worker.out.keys()) == ("done", {b"a"})


TWICE = Terms(retries=2, backoff=(1.0, 1.0))


def after_restart(workshop: Workshop) -> Restarted:
    """Restart a broker that knows of no job that was out."""
    workshop.open_book()
    workshop.book.hold.is_after_restart = True
    restarted = Restarted.__new__(Restarted)
    restarted.workshop, restarted.book = workshop, workshop.book
    return restarted


@pytest.fixture
def unmarked(workshop: Workshop) -> Restarted:
    """A workshop after a restart: two attempts of its job have failed, and their workers wonder who heard it."""
    worker = workshop.worker()
    workshop.send(b"a", TWICE)
    worker.reply(b"a", "failed")
    workshop.pass_time(1)
    worker.reply(b"a", "failed", ready=False)
    return after_restart(workshop)


@pytest.mark.parametrize("order", [(1, 2), (2, 1), (1,), (2,)])
@pytest.mark.parametrize("answers", [True, False])
def test_claim_of_an_attempt_that_the_message_shows_to_be_over_does_not_delay_it(
    unmarked: Restarted, order: Sequence[int], answers: bool
) -> None:
    hold = unmarked.book.hold
    for attempt in order:
        worker = unmarked.worker(credit=0, running=[b"a"], attempt=attempt)
        if answers and unmarked.claimed == [True]:
            assert hold.answered(b"a", attempt, worker, attempt)
    unmarked.workshop.pass_time(5)
    last = unmarked.worker(credit=1)
    assert {job: out.attempt for job, out in last.out.items()} == {b"a": 3}
    assert (last.answers, len(hold)) == ([], 0)
    assert last.reply(b"a").end == "ok"


@pytest.mark.parametrize("answers", [True, False])
def test_claim_of_a_later_attempt_counts_instead_of_an_earlier_one(workshop: Workshop, answers: bool) -> None:
    restarted = after_restart(workshop)
    hold = restarted.book.hold
    first = restarted.worker(credit=0, running=[b"x"], attempt=1)
    if answers:
        assert hold.answered(b"x", 1, first, 1)
    second = restarted.worker(credit=0, running=[b"x"], attempt=2)
    assert restarted.claimed == [True]
    assert first.cancels == ([] if answers else [b"x"])
    restarted.worker(credit=0, running=[b"x"], attempt=1)
    assert restarted.claimed == [False]
    assert not hold.answered(b"x", 1, first, 1)
    assert hold.answered(b"x", 2, second, 2)
    workshop.terms[b"x"] = TWICE
    workshop.publish(b"x", "q", 1, 0.0)
    restarted.worker(credit=5)
    assert [(held.attempt, held.answer) for held in second.answers] == [(2, 2)]
    assert second.out[b"x"].attempt == 2


def test_place_of_a_key_is_given_back_with_a_claim_of_an_attempt_that_is_over(workshop: Workshop) -> None:
    restarted = after_restart(workshop)
    workshop.book.register.recall(BookedJob(b"x", "q", SENDER, ONE, durable=True))
    worker = restarted.worker(credit=0, running=[b"x"])
    workshop.terms[b"x"] = ONE
    workshop.publish(b"x", "q", 1, 0.0)
    last = restarted.worker(credit=1)
    restarted.wait(HOLD_SECONDS)
    while last.out:
        last.reply(next(iter(last.out)))
    assert worker.cancels == [b"x"]
    assert workshop.is_empty("q")
    assert workshop.book.parking.is_idle


def test_job_that_is_cancelled_before_its_message_comes_is_not_its_workers_any_more(workshop: Workshop) -> None:
    restarted = after_restart(workshop)
    worker = restarted.worker(credit=0, running=[b"x"])
    workshop.send(b"x", TWICE)
    workshop.cancel(b"x")
    last = restarted.worker(credit=5)
    assert worker.cancels == [b"x"]
    assert (workshop.state(b"x"), worker.out) == ("cancelled", {})
    assert last.out == {}
    assert workshop.is_empty("q")


def test_time_of_the_hold_is_looked_at_though_a_claim_lasts_for_longer(workshop: Workshop) -> None:
    restarted = Restarted(workshop, {b"a": ONE})
    restarted.worker(credit=0, running=[b"a", b"x"])
    assert restarted.book.hold.until == workshop.now() + HOLD_SECONDS
    assert restarted.wait(HOLD_SECONDS) == 0
    assert restarted.book.hold.until == inf
