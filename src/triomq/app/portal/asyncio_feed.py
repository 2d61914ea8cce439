"""A feed for asyncio: ``async for delivery in feed``."""

import asyncio
from collections import deque

from triomq.app.portal.asyncio_caller import AsyncioCaller
from triomq.app.portal.call import Withdrawn
from triomq.app.portal.delivery import PortalDelivery
from triomq.app.portal.pump import Pump

_AT_ONCE = 100
"""Deliveries after which a feed lets the loop's other tasks run, however many are there: 0.1 ms of its own work."""


class LoopOutlet:
    """Deliveries that wait for a task of an event loop; the loop is woken only if somebody waits."""

    def __init__(self, caller: AsyncioCaller) -> None:
        self._items: deque[PortalDelivery | None] = deque()
        self._caller = caller
        self._waiter: asyncio.Future[None] | None = None

    def put(self, delivery: PortalDelivery | None) -> None:
        """Add a delivery; None says that it was the last."""
        self._items.append(delivery)
        if self._waiter is not None:
            self._caller.lane.send(self._wake)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self) -> PortalDelivery | None:
        """Wait for the next; None when there will be none."""
        while not self._items:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                if not self._items:  # put may have come between, and seen nobody wait
                    await self._waiter
            finally:
                self._waiter = None
        delivery = self._items.popleft()
        if delivery is None:
            self._items.append(None)
        return delivery

    def take_all(self) -> list[PortalDelivery]:
        """Take out what is there."""
        found: list[PortalDelivery] = []
        try:
            while True:
                delivery = self._items.popleft()
                if delivery is not None:
                    found.append(delivery)
        except IndexError:
            return found


class AsyncioFeed:
    """Deliveries from one queue, for asyncio; iterate over it in one task at a time.

    Made by ``AsyncioQueue.open_feed``, ends with its block. When the queue crashes and is restarted it goes on by
    itself: what was not settled comes again, marked. When the queue is deleted the iteration ends.
    """

    def __init__(self, pump: Pump, outlet: LoopOutlet) -> None:
        self._pump = pump
        self._outlet = outlet
        self._taken = 0

    def __aiter__(self) -> "AsyncioFeed":
        """Iterate."""
        return self

    async def __anext__(self) -> PortalDelivery:
        """Wait for the next delivery.

        Raises:
            StopAsyncIteration: The queue is deleted, or the feed's block was left.
            trio.BrokenResourceError: The whole domain crashed and was restarted.
            QueueStopped: The queue crashed so often that it was stopped.
            ActorStopped: The broker is gone.
        """
        self._taken += 1
        if not self._taken % _AT_ONCE:
            await asyncio.sleep(0)
        delivery = await self._outlet.get()
        if delivery is not None:
            return delivery
        try:
            self._pump.over.result()
        except Withdrawn:
            pass  # the block was left
        raise StopAsyncIteration
