"""The times at which jobs have waited for too long."""

from math import inf

from triomq.endpoints.jobs import BookedJob, JobSender
from triomq.endpoints.jobs.deadlines import SLOT, Deadlines


def job(name: bytes) -> BookedJob:
    return BookedJob(name, "q", JobSender("user"))


def test_jobs_are_due_after_their_time_and_no_later_than_a_slot() -> None:
    deadlines = Deadlines()
    first, second, third = job(b"1"), job(b"2"), job(b"3")
    deadlines.add(first, 10.0)
    deadlines.add(second, 10.1)
    deadlines.add(third, 20.0)
    assert 10.1 <= deadlines.next <= 10.0 + SLOT
    assert deadlines.take_due(10.0, 100) == []
    assert set(map(id, deadlines.take_due(10.0 + SLOT, 100))) == {id(first), id(second)}
    assert deadlines.next > 20.0


def test_those_that_are_too_many_for_one_turn_are_due_still() -> None:
    deadlines = Deadlines()
    for number in range(5):
        deadlines.add(job(b"%d" % number), 1.0)
    assert len(deadlines.take_due(2.0, 3)) == 3
    assert deadlines.next <= 2.0
    assert len(deadlines.take_due(2.0, 3)) == 2
    assert deadlines.next == inf


def test_removed_jobs_are_not_due_and_nothing_is_left_of_them_after_their_time() -> None:
    deadlines, gone = Deadlines(), job(b"1")
    deadlines.add(gone, 1.0)
    deadlines.remove(gone, 1.0)
    deadlines.remove(gone, 50.0)
    assert deadlines.take_due(2.0, 3) == []
    assert deadlines.next == inf


def test_earlier_time_is_told() -> None:
    deadlines, told = Deadlines(), list[str]()
    deadlines.on_earlier = lambda: told.append("earlier")
    for at in (10.0, 20.0, 10.0, 5.0):
        deadlines.add(job(b"%d" % at), at)
    assert len(told) == 2
