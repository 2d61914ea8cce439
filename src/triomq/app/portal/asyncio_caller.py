"""Calling what is done in Trio from the tasks of an event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TypeVar

from triomq.app.portal.asyncio_waiting import loop_lane, wait_done, wait_shielded
from triomq.app.portal.portal import Portal

T = TypeVar("T")


class AsyncioCaller:
    """Calls functions in Trio for the tasks of one event loop, and has them woken, many at a time.

    Cancelling a task cancels what it waits for in Trio, and waits until that has ended.
    """

    def __init__(self, portal: Portal) -> None:
        self.portal = portal
        self.lane = loop_lane()
        self._loop = asyncio.get_running_loop()

    def check(self) -> None:
        """See that the broker can be reached from here.

        Raises:
            ActorStopped: The broker is gone.
            RuntimeError: This is another event loop than the one that it was opened in, or a fork.
        """
        self.portal.check()
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                "this broker belongs to another event loop; make one that belongs to this loop, with the same broker "
                "behind it: AsyncioBroker(broker.portal)"
            )

    async def call(self, function: Callable[[], Awaitable[T]], *, undo: Callable[[T], None] | None = None) -> T:
        """Have a function called and awaited in Trio, and give what it gives.

        Args:
            function: What to call.
            undo: Takes a result back that comes too late.

        Raises:
            ActorStopped: The broker is gone.
        """
        self.check()
        call = self.portal.submit(function, undo)
        return await self.wait(call.future, call.withdraw)

    async def wait(self, future: Future[T], withdraw: Callable[[], None]) -> T:
        """Wait for a future; ``withdraw`` is called in Trio if this task is cancelled, and then ends the future."""
        try:
            await wait_done(future, self.lane)
        except asyncio.CancelledError:
            self.portal.lane.send(withdraw)
            await wait_shielded(future, self.lane)
            raise
        return future.result()
