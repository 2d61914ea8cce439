"""A feed for plain threads: ``for delivery in feed``."""

from collections.abc import Iterator
from queue import Empty, SimpleQueue

from triomq.app.portal.call import Withdrawn
from triomq.app.portal.delivery import PortalDelivery
from triomq.app.portal.pump import Pump


class ThreadOutlet:
    """Deliveries that wait for a thread."""

    def __init__(self) -> None:
        self._items: SimpleQueue[PortalDelivery | None] = SimpleQueue()

    def put(self, delivery: PortalDelivery | None) -> None:
        """Add a delivery; None says that it was the last."""
        self._items.put(delivery)

    def get(self, timeout: float | None) -> PortalDelivery | None:
        """Wait for the next; None when there will be none.

        Raises:
            queue.Empty: There was none in time.
        """
        delivery = self._items.get(timeout=timeout)
        if delivery is None:
            self._items.put(None)  # for the next thread that waits
        return delivery

    def take_all(self) -> list[PortalDelivery]:
        """Take out what is there."""
        found: list[PortalDelivery] = []
        try:
            while True:
                delivery = self._items.get_nowait()
                if delivery is not None:
                    found.append(delivery)
        except Empty:
            return found


class BlockingFeed:
    """Deliveries from one queue, for plain threads; several threads may share one, and each gets others.

    Made by ``BlockingQueue.open_feed``, ends with its block. When the queue crashes and is restarted it goes on by
    itself: what was not settled comes again, marked. When the queue is deleted the iteration ends.
    """

    def __init__(self, pump: Pump, outlet: ThreadOutlet) -> None:
        self._pump = pump
        self._outlet = outlet

    def __iter__(self) -> Iterator[PortalDelivery]:
        """Iterate, waiting for each delivery as long as it takes.

        Raises:
            trio.BrokenResourceError: The whole domain crashed and was restarted.
            QueueStopped: The queue crashed so often that it was stopped.
            ActorStopped: The broker is gone.
        """
        while (delivery := self.take()) is not None:
            yield delivery

    def take(self, *, timeout: float | None = None) -> PortalDelivery | None:
        """Wait for the next delivery; None when the queue is deleted, or the feed's block was left.

        Errors are those of the iteration.

        Args:
            timeout: Seconds to wait; None waits for ever.

        Raises:
            TimeoutError: Nothing came in time.
        """
        try:
            delivery = self._outlet.get(timeout)
        except Empty:
            raise TimeoutError(f"no delivery within {timeout} s") from None
        if delivery is None:
            try:
                self._pump.over.result()
            except Withdrawn:
                pass  # the block was left
        return delivery
