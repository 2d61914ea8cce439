"""Queues and sinks, as a coroutine of asyncio holds them."""

from collections.abc import AsyncIterator, Mapping
from typing import Unpack

from triomq.app.delivery import Browsed
from triomq.app.handles import QueueHandle, SinkHandle
from triomq.app.opening import opening
from triomq.app.portal.arguments import FeedArguments, bare
from triomq.app.portal.asyncio_caller import AsyncioCaller
from triomq.app.portal.asyncio_feed import AsyncioFeed, LoopOutlet
from triomq.app.portal.asyncio_waiting import wait_shielded
from triomq.app.portal.delivery import PortalDelivery, give_back
from triomq.app.portal.pump import Pump
from triomq.core import HeaderValue, Predicate, QueueStatistics


class AsyncioQueue:
    """A queue, for asyncio; obtained from ``AsyncioDomain.declare_queue`` or ``AsyncioDomain.queue``.

    Methods are those of ``QueueHandle``, which says what they raise.
    """

    def __init__(self, caller: AsyncioCaller, handle: QueueHandle) -> None:
        self._caller = caller
        self.handle = handle

    def __repr__(self) -> str:
        """Show the name."""
        return f"<AsyncioQueue {self.name!r}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self.handle.name

    @opening("async with queue.open_feed() as feed:")
    async def open_feed(self, **arguments: Unpack[FeedArguments]) -> AsyncIterator[AsyncioFeed]:
        """Consume: ``async with queue.open_feed() as feed: async for delivery in feed: …``.

        Leaving the block, by cancellation too, puts back what is not settled.

        Args:
            arguments: Those of ``QueueHandle.open_feed``.
        """
        self._caller.check()
        outlet = LoopOutlet(self._caller)
        pump = Pump(self._caller.portal, self.handle, outlet, **arguments)
        try:
            await self._caller.wait(pump.opened, pump.withdraw)
            yield AsyncioFeed(pump, outlet)
        finally:
            pump.close()
            await wait_shielded(pump.over, self._caller.lane)

    async def get(self) -> PortalDelivery | None:
        """Take the first message alone; None when the queue is empty."""
        return await self._caller.call(self._get, undo=give_back)

    async def _get(self) -> PortalDelivery | None:
        delivery = await self.handle.get()
        return None if delivery is None else PortalDelivery(delivery, self._caller.portal.lane)

    async def browse(self, *, after: int = 0, limit: int = 100) -> list[Browsed]:
        """Look at ready messages in the order in which they would go, and take none."""
        return await self._caller.call(lambda: self.handle.browse(after=after, limit=limit))

    async def discard(self, up_to: int) -> int:
        """Forget the ready messages up to an id that ``browse`` has shown, and tell how many they were."""
        return await self._caller.call(lambda: self.handle.discard(up_to))

    async def purge(self) -> int:
        """Forget all ready messages and tell how many they were."""
        return await self._caller.call(self.handle.purge)

    async def statistics(self) -> QueueStatistics:
        """Count what is in the queue now."""
        return await self._caller.call(self.handle.statistics)

    async def delete(self, *, if_unused: bool = False, if_empty: bool = False) -> None:
        """Delete the queue with its messages; it is no error if it is gone already."""
        await self._caller.call(lambda: self.handle.delete(if_unused=if_unused, if_empty=if_empty))


class AsyncioSink:
    """A sink, for asyncio; obtained from ``AsyncioDomain.declare_sink`` or ``AsyncioDomain.sink``.

    Methods are those of ``SinkHandle``, which says what they raise.
    """

    def __init__(self, caller: AsyncioCaller, handle: SinkHandle) -> None:
        self._caller = caller
        self.handle = handle

    def __repr__(self) -> str:
        """Show the name."""
        return f"<AsyncioSink {self.name!r}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self.handle.name

    async def bind(
        self,
        destination: "AsyncioQueue | AsyncioSink | str",
        key: str = "",
        arguments: Mapping[str, HeaderValue] | None = None,
        *,
        predicate: Predicate | None = None,
    ) -> None:
        """Let messages go from this sink to a queue or another sink."""
        await self._caller.call(lambda: self.handle.bind(bare(destination), key, arguments, predicate=predicate))

    async def unbind(
        self,
        destination: "AsyncioQueue | AsyncioSink | str",
        key: str = "",
        arguments: Mapping[str, HeaderValue] | None = None,
        *,
        predicate: Predicate | None = None,
    ) -> None:
        """Take a binding back; it is no error if it is not there."""
        await self._caller.call(lambda: self.handle.unbind(bare(destination), key, arguments, predicate=predicate))

    async def delete(self, *, if_unused: bool = False) -> None:
        """Delete the sink with its bindings; it is no error if it is gone already."""
        await self._caller.call(lambda: self.handle.delete(if_unused=if_unused))
