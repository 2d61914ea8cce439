"""How a task of an event loop calls a function in Trio and waits for it, and for whatever another thread finishes."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TypeVar

from triomq.portal.callbacks import Callback, CallbackQueue
from triomq.portal.portal import TrioPortal

T = TypeVar("T")


def loop_callbacks() -> CallbackQueue:
    """Create a queue of callbacks that the running event loop runs."""
    loop = asyncio.get_running_loop()

    def wake(run_all: Callback) -> None:
        try:
            loop.call_soon_threadsafe(run_all)
        except RuntimeError:
            pass  # the loop is closed, and no task waits in it

    return CallbackQueue(wake)


async def wait_done(future: Future[T], callbacks: CallbackQueue) -> None:
    """Wait until another thread has finished a future; cancelling this leaves the future alone."""
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    future.add_done_callback(lambda _: callbacks.call_soon(wake))
    await waiter


async def wait_shielded(future: Future[T], callbacks: CallbackQueue) -> None:
    """Wait until a future is done, even if this task is cancelled meanwhile; raise the cancellation afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await wait_done(future, callbacks)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


class AsyncioCaller:
    """Calls functions in Trio for the tasks of one event loop, and wakes many of them at a time.

    Cancelling a task cancels its call in Trio, and waits until that has ended.

    Args:
        portal: The way into Trio.
        other_loop: What the error says in another event loop than that in which this was made.
    """

    def __init__(self, portal: TrioPortal, other_loop: str) -> None:
        self.portal = portal
        self.callbacks = loop_callbacks()
        self._loop = asyncio.get_running_loop()
        self._other_loop = other_loop

    def check(self) -> None:
        """Check that the Trio run can be reached from here.

        Raises:
            ActorStopped: What the portal leads to is gone.
            RuntimeError: This is another event loop than the one that it was opened in, or a fork.
        """
        self.portal.check()
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(self._other_loop)

    async def call(self, function: Callable[[], Awaitable[T]], *, undo: Callable[[T], None] | None = None) -> T:
        """Call and await a function in Trio, and return its result.

        Args:
            function: What to call.
            undo: Takes a result back that comes too late.

        Raises:
            ActorStopped: What the portal leads to is gone.
        """
        self.check()
        call = self.portal.submit(function, undo)
        return await self.wait(call.future, call.withdraw)

    async def wait(self, future: Future[T], withdraw: Callable[[], None]) -> T:
        """Wait for a future; if this task is cancelled, call ``withdraw`` in Trio, which ends the future."""
        try:
            await wait_done(future, self.callbacks)
        except asyncio.CancelledError:
            self.portal.callbacks.call_soon(withdraw)
            await wait_shielded(future, self.callbacks)
            raise
        return future.result()
