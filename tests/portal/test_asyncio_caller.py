"""Waiting in asyncio for what another thread finishes."""

import asyncio
import threading
from concurrent.futures import Future

import pytest

from triomq.portal import loop_callbacks, wait_done, wait_shielded


def test_task_waits_for_another_thread() -> None:
    async def main() -> None:
        future: Future[int] = Future()
        threading.Timer(0.01, future.set_result, (42,)).start()
        await wait_done(future, loop_callbacks())
        assert future.result() == 42
        await wait_done(future, loop_callbacks())  # it is done already

    asyncio.run(main())


def test_task_that_is_cancelled_leaves_the_future_alone() -> None:
    async def main() -> None:
        future: Future[int] = Future()
        waiting = asyncio.create_task(wait_done(future, loop_callbacks()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        future.set_result(42)
        await asyncio.sleep(0)

    asyncio.run(main())


def test_shielded_wait_goes_on_when_its_task_is_cancelled_and_raises_afterwards() -> None:
    async def main() -> None:
        future: Future[int] = Future()
        waiting = asyncio.create_task(wait_shielded(future, loop_callbacks()))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
        future.set_result(42)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await wait_shielded(future, loop_callbacks())

    asyncio.run(main())
