"""The book of jobs, asked as endpoints ask it, over real queues in time that stands still."""

import pytest

from triomq.core import Overflow, Purge, QueueOptions
from triomq.endpoints.jobs import PLAIN, BookedJob, End, JobBook, JobSender, Standing, Terms
from triomq.errors import AccessRefused, StoreCorrupt

from .workshop import Workshop


def test_plain_job_runs_once_and_leaves_nothing_behind(workshop: Workshop) -> None:
    worker = workshop.worker()
    assert workshop.send(b"1") is None
    assert (workshop.state(b"1"), worker.out[b"1"].attempt) == ("running", 1)
    assert worker.reply(b"1").end == "ok"
    assert (workshop.state(b"1"), workshop.answers, workshop.book.jobs) == ("ok", [(b"1", "ok")], {})
    assert workshop.is_empty("q")


def test_job_that_is_sent_again_is_not_doubled_before_or_after_its_end(workshop: Workshop) -> None:
    workshop.send(b"1")
    assert workshop.send(b"1") == Standing(b"1", None)
    worker = workshop.worker()
    assert list(worker.out) == [b"1"]
    worker.reply(b"1")
    assert workshop.send(b"1") == Standing(b"1", "ok")
    assert workshop.is_empty("q")


def test_id_of_another_users_job_is_refused() -> None:
    book = JobBook()
    book.accept(BookedJob(b"1", "q", JobSender("one")))
    with pytest.raises(AccessRefused, match="another user"):
        book.accept(BookedJob(b"1", "q", JobSender("two")))


def test_job_that_could_not_be_published_may_be_sent_again() -> None:
    book = JobBook()
    for terms in (PLAIN, Terms(unique="u", tie=True, key="k", parent=(b"p", 1))):
        assert book.accept(BookedJob(b"1", "q", JobSender("user", b"requester"), terms)) is None
        book.withdraw(b"1")
        assert book.register.state_of(b"1") is None
        book.endings.requester_left(b"requester")


# Unique keys


def test_unique_key_is_held_from_acceptance_to_the_end(workshop: Workshop) -> None:
    worker = workshop.worker()
    assert workshop.send(b"1", Terms(unique="u")) is None
    assert workshop.send(b"2", Terms(unique="u")) == Standing(b"1", None)
    assert workshop.send(b"3", Terms(unique="v"), queue="other") is None
    worker.reply(b"1")
    assert workshop.send(b"2", Terms(unique="u")) is None


def test_unique_key_is_held_while_its_job_is_retried_and_freed_when_it_is_cancelled(workshop: Workshop) -> None:
    worker = workshop.worker()
    workshop.send(b"1", Terms(unique="u", retries=1))
    worker.reply(b"1", "failed")
    assert workshop.send(b"2", Terms(unique="u")) == Standing(b"1", None)
    workshop.cancel(b"1")
    assert workshop.send(b"3", Terms(unique="u")) is None


def test_unique_key_of_a_durable_job_is_held_after_a_restart(workshop: Workshop) -> None:
    workshop.send(b"1", Terms(unique="u"), durable=True)
    workshop.send(b"2", Terms(unique="v"))
    assert len(workshop.records.values) == 1
    workshop.open_book()
    assert workshop.send(b"3", Terms(unique="u")) == Standing(b"1", None)
    worker = workshop.worker()
    worker.reply(b"1")
    assert workshop.records.values == {}
    assert workshop.send(b"3", Terms(unique="u")) is None


# Messages that vanish


def test_jobs_of_a_purged_queue_end_and_leave_their_keys_while_others_come(workshop: Workshop) -> None:
    worker = workshop.worker()
    workshop.send(b"running")
    workshop.send(b"1", Terms(unique="u"))
    workshop.send(b"2", delay=10)
    workshop.send(b"elsewhere", queue="other")
    workshop.queues["q"].ref.ask_nowait(Purge())
    assert workshop.answers == [(b"1", "cancelled"), (b"2", "cancelled")]
    assert workshop.send(b"3", Terms(unique="u")) is None
    assert list(workshop.book.jobs) == [b"running", b"elsewhere", b"3"]
    worker.reply(b"running")
    assert list(worker.out) == [b"3"]


def test_jobs_of_a_deleted_queue_end(workshop: Workshop) -> None:
    worker = workshop.worker(2)
    workshop.send(b"running")
    workshop.send(b"limited", Terms(key="k", limit=1))
    workshop.send(b"parked", Terms(key="k", limit=1))
    workshop.send(b"queued")
    workshop.harness.delete("q")
    workshop.stepped.rest()
    assert dict(workshop.answers).keys() == {b"parked", b"queued"}
    assert worker.reply(b"running").end == "ok"
    worker.die()
    assert workshop.answers[-1] == (b"limited", "lost")
    assert (workshop.book.jobs, workshop.book.parking.is_idle) == ({}, True)


def test_oldest_job_ends_when_its_queue_has_too_many(workshop: Workshop) -> None:
    workshop.queues["q"] = workshop.harness.queue("short", QueueOptions(max_length=2, overflow=Overflow.DROP_HEAD))
    for job in (b"1", b"2", b"3"):
        workshop.send(job, Terms(unique=job.decode()))
    assert workshop.answers == [(b"1", "cancelled")]
    assert workshop.send(b"4", Terms(unique="1")) is None
    assert list(workshop.book.jobs) == [b"3", b"4"]


def test_job_whose_message_lives_too_long_has_expired(workshop: Workshop) -> None:
    workshop.queues["q"] = workshop.harness.queue("brief", QueueOptions(message_ttl=5.0))
    workshop.send(b"1", Terms(unique="u"))
    workshop.pass_time(6)
    assert (workshop.answers, workshop.book.jobs) == ([(b"1", "expired")], {})


def test_job_goes_on_where_its_message_goes_as_a_dead_letter(workshop: Workshop) -> None:
    options = QueueOptions(message_ttl=5.0, dead_letter_sink="", dead_letter_key="other")
    workshop.queues["q"] = workshop.harness.queue("brief", options)
    workshop.send(b"1", Terms(unique="u"))
    workshop.pass_time(6)
    assert (workshop.answers, workshop.book.jobs) == ([], {})
    workshop.worker(1, "other").reply(b"1")
    assert workshop.answers == [(b"1", "ok")]


def test_cancelled_job_is_forgotten_with_its_message_and_answered_once(workshop: Workshop) -> None:
    workshop.send(b"1")
    workshop.cancel(b"1")
    workshop.queues["q"].ref.ask_nowait(Purge())
    assert (workshop.answers, workshop.book.jobs, workshop.state(b"1")) == ([(b"1", "cancelled")], {}, "cancelled")


def test_state_of_a_job_is_known_with_the_time_of_its_last_change(workshop: Workshop) -> None:
    began = workshop.now()

    def since() -> tuple[str, float]:
        found = workshop.book.register.state_of(b"1")
        assert found is not None
        return found.state, found.since - began

    workshop.send(b"1", Terms(key="k", limit=1, retries=1, backoff=(10, 10)))
    workshop.pass_time(1)
    assert since() == ("queued", 0)
    worker = workshop.worker()
    assert since() == ("running", 1)
    workshop.pass_time(1)
    worker.reply(b"1", "failed", ready=False)
    assert since() == ("delayed", 2)
    workshop.pass_time(20)
    workshop.stepped.turn(lambda: worker.slots.offer(1))
    assert since() == ("running", 22)
    workshop.pass_time(1)
    workshop.cancel(b"1")
    assert since() == ("cancelling", 23)
    workshop.pass_time(1)
    worker.reply(b"1", "cancelled")
    workshop.pass_time(1)
    assert since() == ("cancelled", 24)


def test_child_of_a_job_that_vanishes_is_cancelled(workshop: Workshop) -> None:
    worker = workshop.worker(1, "q")
    workshop.send(b"parent", Terms(retries=1))
    workshop.send(b"child", Terms(parent=(b"parent", 1)), queue="other")
    worker.die()
    workshop.queues["q"].ref.ask_nowait(Purge())
    assert dict(workshop.answers) == {b"parent": "cancelled", b"child": "cancelled"}


def test_unique_key_of_a_job_that_another_wire_has_taken_is_free(workshop: Workshop) -> None:
    workshop.send(b"1", Terms(unique="u"))
    workshop.take_elsewhere()
    assert workshop.send(b"2", Terms(unique="u")) == Standing(b"1", None)  # just now it may be on its way
    workshop.pass_time(2)
    assert workshop.send(b"2", Terms(unique="u")) is None
    assert workshop.state(b"1") == "unknown"


def test_sweep_forgets_jobs_of_empty_queues_alone(workshop: Workshop) -> None:
    workshop.send(b"1")
    workshop.send(b"2", queue="other")
    workshop.take_elsewhere()
    assert workshop.stepped.turn(workshop.book.endings.sweep) == 1
    assert list(workshop.book.jobs) == [b"2"]


def test_record_that_is_none_keeps_the_broker_from_opening(workshop: Workshop) -> None:
    workshop.records.values["1",] = b"nonsense"
    with pytest.raises(StoreCorrupt, match="record of a job"):
        workshop.open_book()


# Attempts


def test_failed_job_is_tried_again_with_pauses_that_double(workshop: Workshop) -> None:
    worker = workshop.worker()
    workshop.send(b"1", Terms(retries=3, backoff=(1.0, 3.0)))
    for attempt, pause in ((1, 1.0), (2, 2.0), (3, 3.0)):
        assert worker.out[b"1"].attempt == attempt
        assert worker.reply(b"1", "failed").again_after == pause
        assert workshop.state(b"1") == "delayed"
        workshop.pass_time(pause - 0.5)
        assert not worker.out
        workshop.pass_time(0.5)
    assert worker.reply(b"1", "failed").is_dead
    assert (workshop.dead, workshop.answers) == ([b"1"], [(b"1", "failed")])


def test_pause_is_shorter_by_chance_but_by_half_at_most(workshop: Workshop) -> None:
    worker = workshop.worker()
    workshop.chance = 0.0
    workshop.send(b"1", Terms(retries=1, backoff=(4.0, 9.0)))
    assert worker.reply(b"1", "timed-out").again_after == 2.0


def test_failure_that_is_not_worth_it_or_comes_too_late_is_not_tried_again(workshop: Workshop) -> None:
    worker = workshop.worker(2)
    workshop.send(b"1", Terms(retries=3))
    assert worker.reply(b"1", "failed", retry=False).end == "failed"
    workshop.send(b"2", Terms(retries=3, deadline=workshop.now() + 0.5))
    assert worker.reply(b"2", "failed").end == "failed"


def test_worker_that_dies_has_its_job_go_to_another_and_the_tenth_death_is_the_last(workshop: Workshop) -> None:
    workshop.send(b"1")
    for attempt in range(1, 11):
        worker = workshop.worker()
        assert worker.out[b"1"].attempt == attempt
        worker.die()
    assert (workshop.answers, workshop.dead) == ([(b"1", "lost")], [b"1"])
    assert workshop.is_empty("q")


def test_deaths_count_as_attempts_of_a_job_that_fails_later(workshop: Workshop) -> None:
    workshop.send(b"1", Terms(retries=1))
    workshop.worker().die()
    worker = workshop.worker()
    assert worker.reply(b"1", "failed").end == "failed"


def test_returned_job_goes_out_again_and_its_attempt_does_not_count(workshop: Workshop) -> None:
    worker = workshop.worker()
    workshop.send(b"1")
    worker.give_back(b"1")
    assert worker.out[b"1"].attempt == 1


def test_late_answer_counts_for_nothing(workshop: Workshop) -> None:
    slow, other = workshop.worker(), workshop.worker(0)
    workshop.send(b"1")
    workshop.crash("q")
    other.subscribe(workshop.queues["q"])
    workshop.stepped.turn(lambda: other.slots.offer(1))
    assert other.out[b"1"].attempt == 2
    slow.reply(b"1")
    assert (workshop.state(b"1"), workshop.answers) == ("running", [])
    other.reply(b"1")
    assert (workshop.answers, workshop.book.register.counts["late"]) == ([(b"1", "ok")], 1)


def test_copy_of_a_message_is_dropped_while_the_job_runs_and_afterwards(workshop: Workshop) -> None:
    workshop.terms[b"1"] = PLAIN
    for _ in range(3):
        workshop.stepped.turn(lambda: workshop.publish(b"1", "q", 0, 0.0))
    worker = workshop.worker(2)
    assert list(worker.out) == [b"1"]
    worker.reply(b"1")
    assert (worker.out, workshop.is_empty("q"), workshop.book.jobs) == ({}, True, {})


# Deadlines


def test_expired_job_is_dropped_unstarted_and_its_requester_is_told(workshop: Workshop) -> None:
    workshop.send(b"1", Terms(deadline=workshop.now() + 5))
    workshop.send(b"2", Terms(deadline=workshop.now() + 50))
    workshop.pass_time(6)
    worker = workshop.worker()
    assert (list(worker.out), workshop.answers) == ([b"2"], [(b"1", "expired")])
    assert worker.slots.free == 0


def test_expired_job_is_answered_in_its_queue_and_leaves_its_key_for_good(workshop: Workshop) -> None:
    workshop.send(b"1", Terms(deadline=workshop.now() + 5, unique="u"), durable=True)
    workshop.pass_time(6)
    assert (workshop.answers, workshop.state(b"1")) == ([(b"1", "expired")], "expired")
    assert workshop.send(b"1") == Standing(b"1", "expired")
    assert workshop.send(b"2", Terms(unique="u"), durable=True) is None
    workshop.open_book()
    worker = workshop.worker(2)
    assert (list(worker.out), len(workshop.answers)) == ([b"2"], 1), "in another life of the broker too"
    assert workshop.send(b"3", Terms(unique="u")) == Standing(b"2", None)


def test_job_that_runs_beyond_its_deadline_expires_if_its_worker_dies(workshop: Workshop) -> None:
    worker = workshop.worker()
    workshop.send(b"1", Terms(deadline=workshop.now() + 5))
    workshop.pass_time(10)
    assert workshop.state(b"1") == "running"
    worker.die()
    workshop.pass_time(2)
    assert workshop.answers == [(b"1", "expired")]


def test_child_has_the_deadline_of_its_parent_unless_its_own_is_earlier(workshop: Workshop) -> None:
    workshop.worker()
    now = workshop.now()
    workshop.send(b"parent", Terms(deadline=now + 5))
    for child, own, expected in ((b"1", 0.0, 5), (b"2", now + 9, 5), (b"3", now + 2, 2)):
        workshop.send(child, Terms(parent=(b"parent", 1), deadline=own))
        assert workshop.book.jobs[child].terms.deadline == now + expected


# Cancelling


def test_cancelled_job_that_waits_is_answered_at_once_and_dropped_on_its_way_out(workshop: Workshop) -> None:
    workshop.send(b"1")
    workshop.send(b"2", delay=5)
    assert (workshop.state(b"1"), workshop.state(b"2")) == ("queued", "delayed")
    assert [workshop.cancel(job) for job in (b"1", b"2", b"1")] == [True] * 3
    assert workshop.answers == [(b"1", "cancelled"), (b"2", "cancelled")]
    assert workshop.send(b"1") == Standing(b"1", "cancelled")
    worker = workshop.worker()
    workshop.pass_time(6)
    assert (worker.out, workshop.is_empty("q"), workshop.book.jobs) == ({}, True, {})
    assert len(workshop.answers) == 2


def test_cancelled_durable_job_stays_so_after_a_restart(workshop: Workshop) -> None:
    workshop.send(b"1", durable=True)
    workshop.cancel(b"1")
    workshop.open_book()
    assert workshop.state(b"1") == "cancelled"
    assert not workshop.worker().out
    assert (workshop.records.values, workshop.state(b"1")) == ({}, "cancelled")


def test_running_job_is_cancelled_by_its_worker(workshop: Workshop) -> None:
    worker = workshop.worker(2)
    workshop.send(b"1", Terms(retries=3))
    workshop.send(b"2")
    assert [workshop.cancel(job) for job in (b"1", b"2")] == [False] * 2
    assert (worker.cancels, workshop.answers, workshop.state(b"1")) == ([b"1", b"2"], [], "cancelling")
    assert worker.reply(b"1", "failed").end == "cancelled"
    assert worker.reply(b"2", "ok").end == "ok"  # it was faster


def test_worker_that_knows_no_cancelling_goes_on_for_nobody(workshop: Workshop) -> None:
    worker = workshop.worker(obeys=False)
    workshop.send(b"1")
    assert workshop.cancel(b"1")
    assert workshop.answers == [(b"1", "cancelled")]
    worker.reply(b"1")
    assert (workshop.answers, workshop.is_empty("q")) == ([(b"1", "cancelled")], True)


def test_job_that_is_being_cancelled_does_not_begin_again(workshop: Workshop) -> None:
    worker = workshop.worker(2)
    for job in (b"1", b"2"):
        workshop.send(job)
        workshop.cancel(job)
    worker.give_back(b"1")
    worker.die()
    assert sorted(workshop.answers) == [(b"1", "cancelled"), (b"2", "cancelled")]
    assert workshop.is_empty("q")


def test_tree_is_cancelled_with_its_root(workshop: Workshop) -> None:
    worker = workshop.worker(2)
    workshop.send(b"root")
    workshop.send(b"child", Terms(parent=(b"root", 1)))
    workshop.send(b"grandchild", Terms(parent=(b"child", 1)))
    workshop.cancel(b"root", tree=True)
    assert (worker.cancels, workshop.answers) == ([b"root", b"child"], [(b"grandchild", "cancelled")])
    assert workshop.send(b"late", Terms(parent=(b"root", 1))) == Standing(b"late", "cancelled")


@pytest.mark.parametrize("end", ["failed", "cancelled", "timed-out"])
def test_children_are_cancelled_when_their_parent_ends_badly(workshop: Workshop, end: str) -> None:
    worker = workshop.worker()
    workshop.send(b"parent")
    workshop.send(b"child", Terms(parent=(b"parent", 1)))
    workshop.cancel(b"parent")
    assert workshop.state(b"child") == "queued"
    worker.reply(b"parent", end)  # type: ignore[arg-type]
    assert workshop.answers[0] == (b"child", "cancelled")
    assert workshop.send(b"late", Terms(parent=(b"parent", 1))) == Standing(b"late", "cancelled")


def test_children_outlive_a_parent_that_ends_well(workshop: Workshop) -> None:
    worker = workshop.worker()
    workshop.send(b"parent")
    workshop.send(b"child", Terms(parent=(b"parent", 1)))
    worker.reply(b"parent")
    assert workshop.state(b"child") == "running"
    assert workshop.send(b"late", Terms(parent=(b"parent", 1))) is None


def test_children_belong_to_an_attempt(workshop: Workshop) -> None:
    worker = workshop.worker(2)
    workshop.send(b"parent", Terms(retries=1, backoff=(1.0, 1.0)))
    workshop.send(b"child", Terms(parent=(b"parent", 1)))
    worker.reply(b"parent", "failed")
    assert worker.cancels == [b"child"]
    assert workshop.send(b"late", Terms(parent=(b"parent", 1))) == Standing(b"late", "cancelled")
    workshop.pass_time(1)
    assert workshop.send(b"new", Terms(parent=(b"parent", 2))) is None


def test_children_are_cancelled_when_the_worker_of_their_parent_dies(workshop: Workshop) -> None:
    worker = workshop.worker()
    workshop.send(b"parent")
    workshop.send(b"child", Terms(parent=(b"parent", 1)), queue="other")
    worker.die()
    assert workshop.answers == [(b"child", "cancelled")]


def test_durable_child_is_found_after_a_restart(workshop: Workshop) -> None:
    workshop.send(b"parent", durable=True)
    workshop.worker()
    workshop.send(b"child", Terms(parent=(b"parent", 1)), durable=True)
    workshop.open_book()
    assert (workshop.state(b"parent"), workshop.state(b"child")) == ("unknown", "queued")
    workshop.crash("q")  # what was out is there again
    assert workshop.worker().out[b"parent"].attempt == 2
    assert workshop.answers == [(b"child", "cancelled")]


def test_job_that_is_its_own_ancestor_is_cancelled_once(workshop: Workshop) -> None:
    workshop.send(b"1", Terms(parent=(b"1", 1)))
    assert workshop.cancel(b"1", tree=True)
    assert workshop.answers == [(b"1", "cancelled")]


def test_tied_jobs_are_cancelled_when_their_requester_leaves(workshop: Workshop) -> None:
    worker = workshop.worker()
    workshop.send(b"1", Terms(tie=True))
    workshop.send(b"2", Terms(tie=True))
    workshop.send(b"3")
    workshop.stepped.turn(lambda: workshop.book.endings.requester_left(b"somebody"))
    assert not workshop.answers
    workshop.stepped.turn(lambda: workshop.book.endings.requester_left(b"requester"))
    assert (worker.cancels, workshop.answers) == ([b"1"], [(b"2", "cancelled")])
    assert workshop.state(b"3") == "queued"


# Followers


class Diary:
    """Follows jobs, and writes down what it hears."""

    def __init__(self) -> None:
        self.pages: list[tuple[str, object]] = []

    def changed(self, job: BookedJob, end: End | None, answer: object) -> None:
        self.pages.append((end or job.stage, answer))


def test_follower_hears_of_every_change_up_to_the_end(workshop: Workshop) -> None:
    diary, passer = Diary(), Diary()
    workshop.send(b"1", Terms(retries=2, backoff=(1.0, 1.0), key="k", limit=1))
    workshop.send(b"2", Terms(key="k", limit=1))
    for job, follower in ((b"1", diary), (b"2", passer), (b"unknown", passer)):
        workshop.book.register.follow(job, follower)
    worker = workshop.worker(2)
    worker.reply(b"1", "failed")
    workshop.book.register.followers.remove(b"2", passer)
    worker.reply(b"2")
    workshop.pass_time(1)
    worker.give_back(b"1")
    workshop.cancel(b"1")
    worker.reply(b"1", "cancelled")
    stages = ["running", "queued", "running", "queued", "running", "cancelling", "cancelled"]
    assert [page for page, _ in diary.pages] == stages
    assert [page for page, _ in passer.pages] == ["parked", "running"]
    assert not workshop.book.register.followers.by_job


def test_follower_of_a_job_that_nobody_will_begin_hears_its_end(workshop: Workshop) -> None:
    diary = Diary()
    for number, terms in enumerate((PLAIN, Terms(deadline=workshop.now() + 1), Terms(key="k", limit=1))):
        workshop.send(b"%d" % number, terms)
        workshop.book.register.follow(b"%d" % number, diary)
    workshop.cancel(b"0")
    workshop.book.register.follow(b"0", diary)
    workshop.pass_time(2)
    workshop.worker(2)
    assert [page for page, _ in diary.pages] == ["cancelled", "expired", "running"]


def test_job_that_has_ended_stays_its_users() -> None:
    book = JobBook()
    job = BookedJob(b"1", "q", JobSender("bob"))
    assert book.accept(job) is None
    book.register.close(job, "ok", answered=True)
    summary = book.register.state_of(b"1")
    assert summary is not None
    assert (summary.state, summary.user) == ("ok", "bob")
    with pytest.raises(AccessRefused, match="another user's"):
        book.accept(BookedJob(b"1", "q", JobSender("eve")))
    assert book.accept(BookedJob(b"1", "q", JobSender("bob"))) is not None
