"""The Trio side of a feed that is consumed elsewhere."""

from concurrent.futures import Future
from typing import Protocol, Unpack

from triomq.app.handles import QueueHandle
from triomq.app.portal.arguments import FeedArguments
from triomq.app.portal.delivery import PortalDelivery, give_back
from triomq.app.portal.portal import Portal


class Outlet(Protocol):
    """Where deliveries wait for a consumer outside; all of it may be called in any thread."""

    def put(self, delivery: PortalDelivery | None) -> None:
        """Add a delivery; None says that it was the last."""

    def take_all(self) -> list[PortalDelivery]:
        """Take out what is there."""


class Pump:
    """Takes deliveries from a queue into an outlet, as many as the prefetch lets out; made when a feed is opened.

    Args:
        portal: The way into Trio.
        handle: The queue.
        outlet: Where to put deliveries.
        arguments: How to open the feed.
    """

    def __init__(self, portal: Portal, handle: QueueHandle, outlet: Outlet, **arguments: Unpack[FeedArguments]) -> None:
        self.opened: Future[None] = Future()
        self._portal = portal
        self._handle = handle
        self._outlet = outlet
        self._arguments = arguments
        self._call = portal.submit(self._run)
        self.over = self._call.future
        """Done when the feed is closed, by whomever, with what it failed of."""
        self.over.add_done_callback(self._note_failure)

    async def _run(self) -> None:
        async with self._handle.open_feed(**self._arguments) as feed:
            self.opened.set_result(None)
            async for delivery in feed:
                self._outlet.put(PortalDelivery(delivery, self._portal.lane))

    def _note_failure(self, over: Future[None]) -> None:
        """Tell whoever waits for the feed to open, or for its next delivery, that there will be none."""
        error = over.exception()
        if not self.opened.done() and error is not None:
            self.opened.set_exception(error)
        self._outlet.put(None)

    def withdraw(self) -> None:
        """Stop opening the feed; in Trio."""
        self._call.withdraw()

    def close(self) -> None:
        """Begin to close the feed, after what was settled before; ``over`` says when it is done."""
        self._portal.lane.send(self._close)

    def _close(self) -> None:
        # The order matters: what is given back makes room in a window, and must not be pumped out here again.
        self._call.withdraw()
        for delivery in self._outlet.take_all():
            give_back(delivery)
