import os
import threading
from collections.abc import Iterator

import pytest

from forking import FORKS, descriptors, in_fork, left_in_fork
from triomq.jobs.child.tokens import ChildEnds, ChildPipes, ChildTokens, Kind


@pytest.fixture
def pipes() -> Iterator[ChildPipes[str]]:
    pipes = ChildPipes[str]()
    yield pipes
    pipes.close()


@pytest.fixture
def ends(pipes: ChildPipes[str]) -> Iterator[ChildEnds]:
    """The ends of a child, as a process would have inherited them."""
    ends = ChildEnds(*map(os.dup, pipes.child))
    pipes.started()
    yield ends
    for end in (ends.jobs, ends.results, ends.life):
        os.close(end)


@pytest.fixture
def child(ends: ChildEnds) -> Iterator[ChildTokens]:
    child = ChildTokens(ends)
    yield child
    child.close()


def test_child_takes_jobs_one_by_one_and_answers_each(pipes: ChildPipes[str], child: ChildTokens) -> None:
    pipes.give([("a", b"1"), ("b", b"2")])
    number, body = child.receive() or (0, b"")
    assert body == b"1"
    child.answer(number, Kind.PROGRESS, b"half")
    child.answer(number, Kind.DONE, b"one", 0.5)
    assert pipes.read() == [("a", Kind.PROGRESS, 0.0, b"half"), ("a", Kind.DONE, 0.5, b"one")]
    assert pipes.jobs == ["b"]


def test_jobs_that_were_not_begun_are_taken_back_from_a_living_child(
    pipes: ChildPipes[str], child: ChildTokens
) -> None:
    pipes.give([("a", b"1"), ("b", b"2"), ("c", b"3")])
    child.receive()
    assert pipes.take_back() == ["b", "c"]
    pipes.give([("d", b"4")])
    _, body = child.receive() or (0, b"")
    assert body == b"4"
    assert pipes.jobs == ["a", "d"]


def test_taking_back_leaves_a_child_waiting_for_its_next_token(pipes: ChildPipes[str], child: ChildTokens) -> None:
    """Were its end made non-blocking, as a pipe's would be, it would find none and end."""
    assert pipes.take_back() == []
    received: list[tuple[int, bytes] | None] = []
    waiting = threading.Thread(target=lambda: received.append(child.receive()))
    waiting.start()
    assert pipes.take_back() == []
    pipes.give([("a", b"1")])
    waiting.join(60)
    assert received == [(1, b"1")]


def test_dead_child_leaves_what_is_done_one_victim_and_what_was_not_begun(
    pipes: ChildPipes[str], child: ChildTokens
) -> None:
    pipes.give([("a", b"1"), ("b", b"2"), ("c", b"3")])
    number, _ = child.receive() or (0, b"")
    child.answer(number, Kind.DONE, b"one")
    child.receive()
    assert [answer.job for answer in pipes.read_last()] == ["a"]
    assert pipes.take_back() == ["c"]
    assert pipes.victim() == "b"


def test_child_that_dies_between_two_jobs_leaves_no_victim(pipes: ChildPipes[str], child: ChildTokens) -> None:
    pipes.give([("a", b"1"), ("b", b"2")])
    number, _ = child.receive() or (0, b"")
    child.answer(number, Kind.DONE, b"one")
    assert [answer.job for answer in pipes.read_last()] == ["a"]
    assert pipes.take_back() == ["b"]
    assert pipes.victim() is None


def test_answer_that_was_cut_by_a_death_makes_a_victim(
    pipes: ChildPipes[str], ends: ChildEnds, child: ChildTokens
) -> None:
    pipes.give([("a", b"1")])
    number, _ = child.receive() or (0, b"")
    child.answer(number, Kind.DONE, b"x" * 100)
    whole = os.read(pipes.results, 1000)
    os.write(ends.results, whole[:50])
    assert pipes.read_last() == []
    assert pipes.victim() == "a"


def test_writing_to_a_dead_child_is_no_error(pipes: ChildPipes[str]) -> None:
    pipes.started()
    pipes.give([("a", b"1"), ("b", b"2")])
    assert not pipes.is_writing
    assert pipes.read() is None
    assert pipes.take_back() == ["a", "b"]


def test_job_that_is_larger_than_the_pipe_is_written_as_it_is_read(pipes: ChildPipes[str], child: ChildTokens) -> None:
    pipes.give([("a", b"x" * 1_000_000)])
    assert pipes.is_writing
    received: list[tuple[int, bytes] | None] = []
    reading = threading.Thread(target=lambda: received.append(child.receive()))
    reading.start()
    while pipes.is_writing:
        pipes.write()
    reading.join(60)
    assert received == [(1, b"x" * 1_000_000)]


@pytest.mark.parametrize("size", [0, 1, 24, 70_000, 1_000_000])
def test_answers_of_any_size_come_whole(pipes: ChildPipes[str], child: ChildTokens, size: int) -> None:
    pipes.give([("a", b"1"), ("b", b"2")])

    def answer() -> None:
        while (received := child.receive()) is not None:
            child.answer(received[0], Kind.DONE, b"x" * size)

    answering = threading.Thread(target=answer)
    answering.start()
    found: list[int] = []
    while len(found) < 2:
        found += [len(answer.body) for answer in pipes.read() or []]
    pipes.finish()
    answering.join(60)
    assert found == [size, size]


def test_child_that_is_to_finish_ends_when_it_has_done_what_it_holds(
    pipes: ChildPipes[str], child: ChildTokens
) -> None:
    pipes.give([("a", b"1")])
    pipes.finish()
    assert child.receive() == (1, b"1")
    assert child.receive() is None


@FORKS
def test_fork_of_the_worker_has_no_pipe_of_a_child_before_and_after_that_was_started() -> None:
    before = descriptors()
    pipes = ChildPipes[str]()
    assert left_in_fork(before, pipes=True) == []
    pipes.started()
    assert left_in_fork(before, pipes=True) == []
    pipes.close()
    assert len(descriptors()) == len(before)


@FORKS
def test_fork_that_a_job_makes_has_no_pipe_of_its_process(pipes: ChildPipes[str], child: ChildTokens) -> None:
    assert in_fork(lambda: child.answer(1, Kind.DONE, b"")) == "None"  # into /dev/null
    assert pipes.read() == []
    pipes.give([("a", b"1")])
    number, _ = child.receive() or (0, b"")
    child.answer(number, Kind.DONE, b"")
    assert pipes.read() == [("a", Kind.DONE, 0.0, b"")]
