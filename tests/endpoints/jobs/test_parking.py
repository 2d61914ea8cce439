"""Limits and rates: which jobs wait out of their queues, and when they go on."""

import msgspec
import pytest

from triomq.core import PARKED
from triomq.endpoints.jobs import Terms, parking

from .workshop import Workshop

ONE = Terms(key="k", limit=1)


def test_job_without_a_place_waits_and_its_worker_goes_on_with_jobs_of_other_keys(workshop: Workshop) -> None:
    worker = workshop.worker(3)
    for job, terms in ((b"1", ONE), (b"2", ONE), (b"3", Terms(key="other", limit=1)), (b"4", Terms())):
        workshop.send(job, terms)
    assert list(worker.out) == [b"1", b"3", b"4"]
    assert workshop.state(b"2") == "parked"
    worker.reply(b"1")
    assert list(worker.out) == [b"3", b"4", b"2"]


def test_limit_holds_over_workers_and_queues(workshop: Workshop) -> None:
    workers = [workshop.worker(9, "q"), workshop.worker(9, "other")]
    for number in range(8):
        workshop.send(b"%d" % number, Terms(key="k", limit=3), queue=("q", "other")[number % 2])
    done = []
    while out := [(worker, job) for worker in workers for job in worker.out]:
        assert len(out) <= 3
        worker, job = min(out, key=lambda one: one[1])
        worker.reply(job)
        done.append(job)
    assert done == [b"%d" % number for number in range(8)]
    assert len(workshop.book.parking) == 0


def test_parked_job_goes_out_unmarked_and_before_those_that_came_later(workshop: Workshop) -> None:
    worker = workshop.worker(2)
    for number in range(4):
        workshop.send(b"%d" % number, ONE)
    for number in range(4):
        assert worker.out[b"%d" % number].attempt == 1
        assert not worker.out[b"%d" % number].batch.redelivered
        worker.reply(b"%d" % number)


@pytest.mark.parametrize("how", ["dies", "fails", "gives back", "is cancelled"])
def test_place_is_free_however_its_job_leaves_it(workshop: Workshop, how: str) -> None:
    worker, other = workshop.worker(), workshop.worker(0)
    for job in (b"1", b"2"):
        workshop.send(job, Terms(key="k", limit=1, retries=1, backoff=(9.0, 9.0)))
    other.slots.offer(2)
    if how == "dies":
        worker.die()
        assert list(other.out) == [b"1"]
    elif how == "fails":
        worker.reply(b"1", "failed", ready=False)
        assert list(other.out) == [b"2"]
    elif how == "gives back":
        worker.give_back(b"1")
        assert list(worker.out | other.out) == [b"1"]
    else:
        workshop.cancel(b"1")
        worker.reply(b"1", "cancelled", ready=False)
        assert list(other.out) == [b"2"]


def test_parked_job_is_cancelled_at_once(workshop: Workshop) -> None:
    worker = workshop.worker(2)
    for job in (b"1", b"2", b"3"):
        workshop.send(job, ONE)
    assert workshop.cancel(b"2")
    assert workshop.answers == [(b"2", "cancelled")]
    worker.reply(b"1")
    assert list(worker.out) == [b"3"]


def test_expired_job_in_line_lets_the_next_one_go(workshop: Workshop) -> None:
    worker = workshop.worker(2)
    workshop.send(b"1", ONE)
    workshop.send(b"2", Terms(key="k", limit=1, deadline=workshop.now() + 1))
    workshop.send(b"3", ONE)
    workshop.pass_time(2)
    worker.reply(b"1")
    assert (list(worker.out), workshop.answers) == ([b"3"], [(b"2", "expired"), (b"1", "ok")])


def test_line_goes_on_when_the_one_that_was_called_has_vanished(workshop: Workshop) -> None:
    worker = workshop.worker(3)
    for job in (b"1", b"2", b"3"):
        workshop.send(job, ONE)
    worker.slots.offer(-worker.slots.free)
    worker.reply(b"1", ready=False)
    assert workshop.state(b"2") == "queued"
    workshop.take_elsewhere()
    workshop.stepped.turn(lambda: worker.slots.offer(1))
    assert not worker.out
    workshop.pass_time(parking.LOOK)
    assert list(worker.out) == [b"3"]


def test_parked_jobs_come_back_when_their_queue_crashes(workshop: Workshop) -> None:
    worker = workshop.worker(3)
    for job in (b"1", b"2", b"3"):
        workshop.send(job, ONE)
    workshop.crash("q")
    other = workshop.worker(3)
    assert list(other.out) == [b"1"]
    worker.reply(b"1")
    for job in (b"1", b"2", b"3"):
        assert list(other.out) == [job]
        other.reply(job)
    assert workshop.is_empty("q")
    assert len(workshop.book.parking) == 0


def test_feeds_wait_at_the_gate_while_too_many_are_parked(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parking, "MOST_PARKED", 4)
    worker = workshop.worker(2)
    for number in range(12):
        workshop.send(b"%02d" % number, ONE)
    workshop.send(b"plain")
    assert len(workshop.book.parking) == 4
    assert list(worker.out) == [b"00"]
    for number in range(12):
        worker.reply(b"%02d" % number)
        assert len(workshop.book.parking) <= 4
    assert list(worker.out) == [b"plain"]
    worker.reply(b"plain")
    assert workshop.is_empty("q")


def test_many_bytes_close_the_gate_as_well(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parking, "MOST_PARKED_BYTES", 20)
    workshop.worker(9)
    for number in range(9):
        workshop.send(b"%02d" % number, ONE)
    assert len(workshop.book.parking) == 4


def test_rate_is_kept_from_the_first_second_on(workshop: Workshop) -> None:
    worker = workshop.worker(99)
    for number in range(10):
        workshop.send(b"%d" % number, Terms(key="k", rate=2.0))
    begun = [len(worker.out)]
    for _ in range(8):
        workshop.pass_time(0.5)
        begun.append(len(worker.out))
    assert begun == [0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_bucket_holds_a_second_s_worth_and_at_least_one(workshop: Workshop) -> None:
    worker = workshop.worker(99)
    workshop.pass_time(100)
    for number in range(9):
        workshop.send(b"fast-%d" % number, Terms(key="fast", rate=3.0))
        workshop.send(b"slow-%d" % number, Terms(key="slow", rate=0.1))
    assert [sum(job.startswith(word) for job in worker.out) for word in (b"fast", b"slow")] == [3, 1]
    for _ in range(10):
        workshop.pass_time(1)
    assert [sum(job.startswith(word) for job in worker.out) for word in (b"fast", b"slow")] == [9, 2]


def test_bucket_that_was_forgotten_is_as_full_as_it_was(workshop: Workshop) -> None:
    worker = workshop.worker(99)
    workshop.pass_time(100)
    terms = Terms(key="k", rate=0.5)
    workshop.send(b"1", terms)
    workshop.pass_time(1)
    workshop.send(b"2", terms)
    assert list(worker.out) == [b"1"]
    workshop.pass_time(1)
    assert list(worker.out) == [b"1", b"2"]
    for _ in range(4):
        workshop.pass_time(1)
    assert workshop.book.parking.clock.next_deadline == float("inf")
    workshop.send(b"3", terms)
    assert list(worker.out) == [b"1", b"2", b"3"]


def test_limit_and_rate_count_both(workshop: Workshop) -> None:
    worker = workshop.worker(9)
    workshop.pass_time(1)
    for number in range(3):
        workshop.send(b"%d" % number, Terms(key="k", rate=1.0, limit=1))
    assert list(worker.out) == [b"0"]
    workshop.pass_time(5)
    assert list(worker.out) == [b"0"]
    worker.reply(b"0")
    assert list(worker.out) == [b"1"]
    worker.reply(b"1")
    assert list(worker.out) == []
    workshop.pass_time(1)
    assert list(worker.out) == [b"2"]


def test_user_with_its_share_parked_has_its_queues_wait_until_there_is_room(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triomq.endpoints.jobs.parking.PARKED", msgspec.structs.replace(PARKED, most=20, part=2))
    worker = workshop.worker(9)
    for number in range(6):
        workshop.send(b"%d" % number, ONE)
    assert list(worker.out) == [b"0"]
    assert 1 <= len(workshop.book.parking) < 5
    done = []
    while worker.out:
        (job,) = worker.out
        worker.reply(job)
        done.append(job)
    assert sorted(done) == [b"%d" % number for number in range(6)]
    assert len(workshop.book.parking) == 0
