"""How a task of asyncio waits for what another thread finishes."""

import asyncio
from concurrent.futures import Future
from typing import TypeVar

from triomq.app.portal.lane import Errand, Lane

T = TypeVar("T")


def loop_lane() -> Lane:
    """Make a lane that ends in the running event loop."""
    loop = asyncio.get_running_loop()

    def wake(arrive: Errand) -> None:
        try:
            loop.call_soon_threadsafe(arrive)
        except RuntimeError:
            pass  # the loop is closed, and nobody waits in it

    return Lane(wake)


async def wait_done(future: Future[T], lane: Lane) -> None:
    """Wait until a future is done that another thread sets; cancelling this leaves the future alone."""
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    future.add_done_callback(lambda _: lane.send(wake))
    await waiter


async def wait_shielded(future: Future[T], lane: Lane) -> None:
    """Wait until a future is done, even if this task is cancelled meanwhile; that is raised afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await wait_done(future, lane)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
