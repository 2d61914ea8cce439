"""Queues and sinks, as a plain thread holds them."""

from collections.abc import Iterator, Mapping
from concurrent.futures import wait
from typing import Unpack

from triomq.app.delivery import Browsed
from triomq.app.handles import QueueHandle, SinkHandle
from triomq.app.opening import opening_blocking
from triomq.app.portal.arguments import FeedArguments, bare
from triomq.app.portal.blocking_caller import BlockingCaller
from triomq.app.portal.blocking_feed import BlockingFeed, ThreadOutlet
from triomq.app.portal.delivery import PortalDelivery, give_back
from triomq.app.portal.pump import Pump
from triomq.core import HeaderValue, Predicate, QueueStatistics


class BlockingQueue:
    """A queue, for plain threads; obtained from ``BlockingDomain.declare_queue`` or ``BlockingDomain.queue``.

    Methods are those of ``QueueHandle``, which says what they raise; each takes a ``timeout`` in seconds as well, and
    raises ``TimeoutError`` when that is over.
    """

    def __init__(self, caller: BlockingCaller, handle: QueueHandle) -> None:
        self._caller = caller
        self.handle = handle

    def __repr__(self) -> str:
        """Show the name."""
        return f"<BlockingQueue {self.name!r}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self.handle.name

    @opening_blocking("with queue.open_feed() as feed:")
    def open_feed(self, *, timeout: float | None = None, **arguments: Unpack[FeedArguments]) -> Iterator[BlockingFeed]:
        """Consume: ``with queue.open_feed() as feed: for delivery in feed: …``.

        Leaving the block puts back what is not settled.

        Args:
            timeout: Seconds until it must be open.
            arguments: Those of ``QueueHandle.open_feed``.
        """
        self._caller.portal.check_may_block()
        outlet = ThreadOutlet()
        pump = Pump(self._caller.portal, self.handle, outlet, **arguments)
        try:
            self._caller.wait(pump.opened, timeout, pump.withdraw)
            yield BlockingFeed(pump, outlet)
        finally:
            if not self._caller.portal.is_foreign:
                pump.close()
                wait([pump.over])

    def get(self, *, timeout: float | None = None) -> PortalDelivery | None:
        """Take the first message alone; None when the queue is empty."""
        return self._caller.call(self._get, timeout=timeout, undo=give_back)

    async def _get(self) -> PortalDelivery | None:
        delivery = await self.handle.get()
        return None if delivery is None else PortalDelivery(delivery, self._caller.portal.lane)

    def browse(self, *, after: int = 0, limit: int = 100, timeout: float | None = None) -> list[Browsed]:
        """Look at ready messages in the order in which they would go, and take none."""
        return self._caller.call(lambda: self.handle.browse(after=after, limit=limit), timeout=timeout)

    def discard(self, up_to: int, *, timeout: float | None = None) -> int:
        """Forget the ready messages up to an id that ``browse`` has shown, and tell how many they were."""
        return self._caller.call(lambda: self.handle.discard(up_to), timeout=timeout)

    def purge(self, *, timeout: float | None = None) -> int:
        """Forget all ready messages and tell how many they were."""
        return self._caller.call(self.handle.purge, timeout=timeout)

    def statistics(self, *, timeout: float | None = None) -> QueueStatistics:
        """Count what is in the queue now."""
        return self._caller.call(self.handle.statistics, timeout=timeout)

    def delete(self, *, if_unused: bool = False, if_empty: bool = False, timeout: float | None = None) -> None:
        """Delete the queue with its messages; it is no error if it is gone already."""
        self._caller.call(lambda: self.handle.delete(if_unused=if_unused, if_empty=if_empty), timeout=timeout)


class BlockingSink:
    """A sink, for plain threads; obtained from ``BlockingDomain.declare_sink`` or ``BlockingDomain.sink``.

    Methods are those of ``SinkHandle``, which says what they raise; each takes a ``timeout`` in seconds as well, and
    raises ``TimeoutError`` when that is over.
    """

    def __init__(self, caller: BlockingCaller, handle: SinkHandle) -> None:
        self._caller = caller
        self.handle = handle

    def __repr__(self) -> str:
        """Show the name."""
        return f"<BlockingSink {self.name!r}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self.handle.name

    def bind(
        self,
        destination: "BlockingQueue | BlockingSink | str",
        key: str = "",
        arguments: Mapping[str, HeaderValue] | None = None,
        *,
        predicate: Predicate | None = None,
        timeout: float | None = None,
    ) -> None:
        """Let messages go from this sink to a queue or another sink."""
        self._caller.call(
            lambda: self.handle.bind(bare(destination), key, arguments, predicate=predicate), timeout=timeout
        )

    def unbind(
        self,
        destination: "BlockingQueue | BlockingSink | str",
        key: str = "",
        arguments: Mapping[str, HeaderValue] | None = None,
        *,
        predicate: Predicate | None = None,
        timeout: float | None = None,
    ) -> None:
        """Take a binding back; it is no error if it is not there."""
        self._caller.call(
            lambda: self.handle.unbind(bare(destination), key, arguments, predicate=predicate), timeout=timeout
        )

    def delete(self, *, if_unused: bool = False, timeout: float | None = None) -> None:
        """Delete the sink with its bindings; it is no error if it is gone already."""
        self._caller.call(lambda: self.handle.delete(if_unused=if_unused), timeout=timeout)
