"""A feed for consumers in the same process: ``async for delivery in feed``."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable

import trio

from triomq.actors import InPlaceActor
from triomq.app.consumers import Consumers
from triomq.app.delivery import Delivery
from triomq.core import Batch, Deliver, Feed, FeedClosed, NoSuchQueue, Outcome, Persistence, Subscription, settle

_log = logging.getLogger("triomq.app")

_FEW = 16
"""Batches after which settled ones are removed from memory; twice as many as are open, so that looking is cheap."""

_STANDSTILL = 60.0
"""Seconds for which a feed's window may be full before that is logged; few consumers work longer on each of many."""

_STANDS_STILL = (
    "a feed stands still: as many deliveries as its prefetch allows are unsettled, and nothing was settled for long; "
    "settle each with `with delivery:`, or with accept(), requeue() or reject()"
)

_LEFT = "this feed is closed: its block was left; iterate inside `async with queue.open_feed() as feed:`"


class Subscriber(InPlaceActor):
    """The actor at the consumer's end of a local feed; puts batches into the inbox at which the consumer waits."""

    __slots__ = ("_inbox",)

    def __init__(self, inbox: "Inbox") -> None:
        self._inbox = inbox

    def deliver(self, message: Deliver) -> None:
        """Put a batch into the inbox."""
        self._inbox.put(message.batch)

    def feed_closed(self, message: FeedClosed) -> None:
        """End the feed: the queue sends nothing more on it."""
        self._inbox.close(message.feed)

    def on_stop(self) -> None:
        """End the inbox: no feed can send to it any more."""
        self._inbox.break_off()


class Inbox:
    """Batches that have arrived and wait for the consumer; one task may wait."""

    __slots__ = ("_arrived", "batches", "broken", "closed", "finished")

    def __init__(self) -> None:
        self.batches: deque[Batch] = deque()
        self.closed: Feed | None = None
        self.finished = False
        self.broken = False
        self._arrived = trio.Event()

    def put(self, batch: Batch) -> None:
        """Add a batch; return it to its queue if the consumer has finished."""
        if self.finished:
            settle(batch, Outcome.RETURN)
            return
        self.batches.append(batch)
        self._arrived.set()

    def close(self, feed: Feed) -> None:
        """Record that the queue has closed this feed, and wake the consumer."""
        self.closed = feed
        self._arrived.set()

    def break_off(self) -> None:
        """Record that no batch can come any more, and wake the consumer."""
        self.broken = True
        self._arrived.set()

    def finish(self) -> None:
        """Record that the feed's block was left, and wake a task that still waits."""
        self.finished = True
        self._arrived.set()

    async def wait(self) -> None:
        """Wait until a batch has come, or the feed has ended."""
        await self._arrived.wait()
        self._arrived = trio.Event()


class LocalFeed:
    """Deliveries from one queue, in order; iterate over it in one task at a time.

    Made by ``QueueHandle.open_feed``, ends with its block. When the queue crashes and is restarted it goes on by
    itself: unsettled messages come again, marked as redelivered. When the queue is deleted, the iteration ends.
    """

    def __init__(
        self,
        inbox: Inbox,
        consumers: Consumers,
        reopen: Callable[[], Awaitable[Subscription | None]],
        persistence: Persistence | None = None,
    ) -> None:
        self._persistence = persistence
        self._inbox = inbox
        self._consumers = consumers
        self._reopen = reopen
        self._subscription: Subscription | None = None
        self._batch: Batch | None = None
        self._position = 0
        self._has_warned = False  # that the feed stands still
        self._open: dict[int, Batch] = {}  # batches that may not be wholly settled, by identity
        self._look_at = _FEW

    async def open(self) -> None:
        """Open it for the first time; for ``QueueHandle.open_feed``."""
        self._subscription = await self._reopen()

    def __aiter__(self) -> "LocalFeed":
        return self

    async def __anext__(self) -> Delivery:
        """Wait for the next delivery.

        Raises:
            StopAsyncIteration: The queue is deleted.
            trio.ClosedResourceError: The feed's own block was left.
            trio.BrokenResourceError: The whole domain crashed and was restarted.
            QueueStopped: The queue crashed so often that it was stopped.
        """
        while True:
            delivery = self._next()
            if delivery is not None:
                return delivery
            if self._inbox.finished:
                raise trio.ClosedResourceError(_LEFT)
            if self._inbox.closed is not None:
                await self._go_on()
            elif self._inbox.broken:
                raise trio.BrokenResourceError("the domain of this feed was restarted; open the feed again")
            elif self._inbox.batches:
                self._begin(self._inbox.batches.popleft())
                await trio.lowlevel.checkpoint()
            elif self._is_full():
                await self._wait_full()
            else:
                await self._inbox.wait()

    async def wait_settled(self) -> None:
        """Wait until all settlings so far are on disk, so that none of the messages comes again after a crash.

        In a broker without a data directory there is nothing to wait for.
        """
        if self._persistence is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._persistence.wait_committed(self._persistence.journal.require_commit())

    @property
    def _feed(self) -> Feed | None:
        """The feed that is open, if one is."""
        subscription = self._subscription
        return subscription.feed if subscription is not None and subscription.open else None

    def _is_full(self) -> bool:
        feed = self._feed
        return not self._has_warned and feed is not None and feed.is_full()

    async def _wait_full(self) -> None:
        """Wait until a delivery is settled; log a warning, once, if that takes long."""
        with trio.move_on_after(_STANDSTILL):
            await self._inbox.wait()
            return
        feed = self._feed
        if self._is_full() and feed is not None:
            self._has_warned = True
            fields = {"queue": feed.queue.name.removeprefix("queue."), "unsettled": feed.unsettled}
            _log.warning(_STANDS_STILL, extra={"fields": fields | {"seconds": _STANDSTILL}})

    def _next(self) -> Delivery | None:
        """Return the next message of the present batch that the queue has not taken back."""
        batch = self._batch
        while batch is not None and self._position < len(batch.contents):
            position = self._position
            self._position += 1
            if batch.contents[position] is not None:
                return Delivery(batch, position, self._consumers)
        return None

    def _begin(self, batch: Batch) -> None:
        self._batch, self._position = batch, 0
        self._open[id(batch)] = batch
        if len(self._open) >= self._look_at:
            self._open = {key: other for key, other in self._open.items() if other.left}
            self._look_at = 2 * len(self._open) + _FEW

    async def _go_on(self) -> None:
        """Open the feed again after a restart of the queue; end if the queue is gone."""
        closed = self._inbox.closed
        assert closed is not None
        if self._subscription is not None:
            self._subscription.lost(closed)
        self._inbox.batches.clear()
        self._batch = None
        self._subscription = None
        try:
            self._subscription = await self._reopen()
        except NoSuchQueue:
            raise StopAsyncIteration from None
        self._inbox.closed = None  # not before: a task that was cancelled above begins again

    def close(self) -> None:
        """Close the feed for good, and put unsettled deliveries back."""
        self._inbox.finish()
        if self._subscription is not None:
            self._subscription.close()
        for batch in self._inbox.batches:
            settle(batch, Outcome.RETURN)
        for batch in self._open.values():
            if batch.left:
                self._put_back(batch)

    def _put_back(self, batch: Batch) -> None:
        """Requeue the messages that the consumer has seen, and return the others unmarked."""
        if batch is self._batch:
            unseen = [position for position in batch.unsettled() if position >= self._position]
            if unseen:
                settle(batch, Outcome.RETURN, unseen)
        if batch.left:
            settle(batch, Outcome.REQUEUE)
