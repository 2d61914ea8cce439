"""What leaves Trio: deliveries, the buffer in which they wait for a consumer outside, and the pump that fills it."""

from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Unpack

from triomq.app.delivery import Delivery
from triomq.app.handles import QueueHandle
from triomq.app.portal.arguments import FeedArguments
from triomq.core import Outcome, settle
from triomq.portal import CallbackQueue, TrioPortal, Withdrawn


class PortalDelivery(Delivery):
    """One message on one feed, to be settled in any thread.

    Settling does not wait: it is sent back into the broker's thread, together with what else is settled meanwhile. A
    second settling does nothing.
    """

    __slots__ = ("_callbacks", "_sent")

    def __init__(self, delivery: Delivery, callbacks: CallbackQueue) -> None:
        self._batch = delivery._batch
        self._position = delivery._position
        self._consumers = delivery._consumers
        self._settled = False
        self._callbacks = callbacks
        self._sent = False
        self.body = delivery.body

    def _settle(self, outcome: Outcome, failure: str = "") -> None:
        if not self._sent:
            self._sent = True
            self._callbacks.call_soon(partial(super()._settle, outcome, failure))


async def get_delivery(handle: QueueHandle, portal: TrioPortal) -> PortalDelivery | None:
    """Take the first message alone; call this in Trio."""
    delivery = await handle.get()
    return None if delivery is None else PortalDelivery(delivery, portal.callbacks)


def return_unseen(delivery: PortalDelivery | None) -> None:
    """Put a delivery back that no consumer has seen, so it is not marked as redelivered; call this in Trio."""
    if delivery is not None:  # it is None if it is the result of a get, and the queue was empty
        settle(delivery._batch, Outcome.RETURN, (delivery._position,))


class DeliveryBuffer:
    """Deliveries that wait for a consumer outside of Trio; all of it may be called in any thread."""

    def __init__(self) -> None:
        self._items: SimpleQueue[PortalDelivery | None] = SimpleQueue()

    def put(self, delivery: PortalDelivery | None) -> None:
        """Add a delivery; None after the last one."""
        self._items.put(delivery)

    def take(self, timeout: float | None) -> PortalDelivery | None:
        """Block until there is a delivery, and return it; None after the last one.

        Args:
            timeout: Seconds to wait; None waits for ever.

        Raises:
            queue.Empty: There was none in time.
        """
        delivery = self._items.get(timeout=timeout)
        if delivery is None:
            self._items.put(None)  # for the next one that waits
        return delivery

    def take_all(self) -> list[PortalDelivery]:
        """Remove what is there, and return it."""
        found: list[PortalDelivery] = []
        try:
            while True:
                delivery = self._items.get_nowait()
                if delivery is not None:
                    found.append(delivery)
        except Empty:
            return found


class Pump:
    """Moves deliveries from a queue into a buffer, as many as the prefetch allows; made when a feed is opened.

    Args:
        portal: The way into Trio.
        handle: The queue.
        buffer: Where to put deliveries.
        arguments: How to open the feed.
    """

    def __init__(
        self, portal: TrioPortal, handle: QueueHandle, buffer: DeliveryBuffer, **arguments: Unpack[FeedArguments]
    ) -> None:
        self.opened: Future[None] = Future()
        self._portal = portal
        self._handle = handle
        self._buffer = buffer
        self._arguments = arguments
        self._call = portal.submit(self._run)
        self.over = self._call.future
        """Done when the feed is closed, for whatever reason; with the error that it failed of."""
        self.over.add_done_callback(self._end)

    async def _run(self) -> None:
        async with self._handle.open_feed(**self._arguments) as feed:
            self.opened.set_result(None)
            async for delivery in feed:
                self._buffer.put(PortalDelivery(delivery, self._portal.callbacks))

    def _end(self, over: Future[None]) -> None:
        """Wake the consumer, which waits for the feed to open, or for its next delivery."""
        error = over.exception()
        if not self.opened.done() and error is not None:
            self.opened.set_exception(error)
        self._buffer.put(None)

    def check(self) -> None:
        """Raise the error that the feed failed of; do nothing if its queue was deleted or its block was left."""
        try:
            self.over.result()
        except Withdrawn:
            pass

    def check_process(self) -> None:
        """Check that this process has the broker, and is no fork of it, in which nothing would ever come.

        Raises:
            RuntimeError: It is one.
        """
        if self._portal.is_foreign:
            self._portal.check()

    def withdraw(self) -> None:
        """Stop opening the feed; call this in Trio."""
        self._call.withdraw()

    def close(self) -> None:
        """Begin to close the feed, after what was settled before; ``over`` is done when it is closed."""
        self._portal.callbacks.call_soon(self._close)

    def _close(self) -> None:
        # The order matters: what is put back makes room in a window, and must not be pumped out here again.
        self._call.withdraw()
        for delivery in self._buffer.take_all():
            return_unseen(delivery)
