"""Functions that wait in Trio for a thread or another event loop."""

import pytest
import trio
import trio.testing

from triomq.portal import Call, Withdrawn


async def answer() -> int:
    return 42


async def test_result_or_error_of_the_function_goes_into_the_future() -> None:
    async def fail() -> int:
        raise KeyError

    good, bad = Call(answer, None), Call(fail, None)
    await good.run()
    await bad.run()
    assert good.future.result() == 42
    assert isinstance(bad.future.exception(), KeyError)


async def test_call_that_is_withdrawn_is_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    call = Call(trio.sleep_forever, None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run)
        await trio.sleep(1)
        call.withdraw()
    assert isinstance(call.future.exception(), Withdrawn)


async def test_call_may_be_withdrawn_before_it_runs() -> None:
    call = Call(trio.sleep_forever, None)
    call.withdraw()
    await call.run()
    assert isinstance(call.future.exception(), Withdrawn)


async def test_result_that_was_there_already_is_undone_once() -> None:
    undone: list[int] = []
    call = Call(answer, undone.append)
    await call.run()
    call.withdraw()
    call.withdraw()
    assert undone == [42]


async def test_result_that_comes_after_the_withdrawal_is_undone() -> None:
    undone: list[int] = []

    async def stubborn() -> int:
        call.withdraw()
        return 42

    call = Call(stubborn, undone.append)
    await call.run()
    assert undone == [42]
    assert isinstance(call.future.exception(), Withdrawn)


async def test_result_that_cannot_be_undone_is_dropped() -> None:
    async def stubborn() -> int:
        call.withdraw()
        return 42

    call = Call(stubborn, None)
    await call.run()
    assert isinstance(call.future.exception(), Withdrawn)


async def test_call_that_is_abandoned_raises_the_reason_unless_it_was_done_in_time() -> None:
    early, late = Call(answer, None), Call(answer, None)
    early.abandon(ArithmeticError())
    with pytest.raises(ArithmeticError):
        early.future.result()
    await late.run()
    late.abandon(ArithmeticError())
    assert late.future.result() == 42
