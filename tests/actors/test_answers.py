import pytest
import trio
import trio.testing

from triomq.actors.answers import Answer, answer_error
from triomq.errors import ActorStopped, HandlerFailed, NotFound

from .cast import Note


async def test_answer_wakes_the_task_that_waits() -> None:
    answer: Answer[int] = Answer()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def waiter() -> None:
            assert await answer.wait() == 3

        await trio.testing.wait_all_tasks_blocked()
        answer.give(3)


async def test_answer_given_before_is_there_at_once() -> None:
    answer: Answer[int] = Answer()
    answer.give(3)
    answer.give(4)
    answer.fail(ValueError())
    assert await answer.wait() == 3


async def test_error_is_raised_where_the_answer_is_awaited() -> None:
    answer: Answer[int] = Answer()
    answer.fail(ValueError("no"))
    assert answer.is_given
    with pytest.raises(ValueError, match="no"):
        await answer.wait()


async def test_cancelled_wait_does_no_harm() -> None:
    answer: Answer[int] = Answer()
    with trio.CancelScope() as scope:
        scope.cancel()
        await answer.wait()
    answer.give(1)
    assert await answer.wait() == 1


def test_asker_sees_refusals_as_they_are_and_crashes_as_failures() -> None:
    crash = ValueError("x")
    seen = answer_error("/a", Note(""), crash)
    assert isinstance(seen, HandlerFailed)
    assert seen.__cause__ is crash
    assert "/a crashed while it handled Note" in str(seen)
    for answer in (NotFound("no"), ActorStopped("gone")):
        assert answer_error("/a", Note(""), answer) is answer
