"""Handles of queues and sinks, which outlive the incarnations of the actors behind them."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import trio

from triomq.actors import Request
from triomq.app.checks import check_flag, check_text, check_whole
from triomq.app.delivery import Browsed, Delivery
from triomq.app.feed import Inbox, LocalFeed, Subscriber
from triomq.app.publishing import check_name
from triomq.core import (
    EVERYTHING,
    Bind,
    Browse,
    DeleteQueue,
    DeleteSink,
    Discard,
    Enlist,
    Entry,
    Get,
    HeaderValue,
    NoSuchQueue,
    NotResident,
    Predicate,
    Purge,
    QueueState,
    QueueStatistics,
    Subscription,
    Target,
    Unbind,
    Window,
    make_binding,
)
from triomq.opening import opening
from triomq.shown import shown

if TYPE_CHECKING:
    from triomq.app.domain_handle import DomainHandle

R = TypeVar("R")

_SIGNED = -(1 << 31), (1 << 31) - 1
"""The range of priorities and weights: a signed long of AMQP, so that all kinds of consumers can be compared."""


class QueueHandle:
    """A queue of a broker in this process; obtained from ``DomainHandle.declare_queue`` or ``DomainHandle.queue``."""

    def __init__(self, domain: "DomainHandle", name: str) -> None:
        self._domain = domain
        self.name = name

    @property
    def domain(self) -> "DomainHandle":
        """The domain that it belongs to."""
        return self._domain

    def __repr__(self) -> str:
        """Show the name."""
        return f"<QueueHandle {self.name!r}>"

    @opening("async with queue.open_feed() as feed:")
    async def open_feed(
        self,
        *,
        prefetch: int = 100,
        exclusive: bool = False,
        priority: int = 0,
        weight: int = 0,
        no_local: bool = False,
    ) -> AsyncIterator[LocalFeed]:
        """Consume: ``async with queue.open_feed() as feed: async for delivery in feed: …``.

        Leaving the block puts unsettled deliveries back.

        Args:
            prefetch: The most deliveries that may be unsettled at a time; 0 sets no limit.
            exclusive: Whether this is to be the queue's only feed.
            priority: A feed gets messages only while the windows of all feeds of higher priority are full.
            weight: The same among feeds of equal priority.
            no_local: Whether this feed gets no messages that this program itself has published.

        Raises:
            NoSuchQueue: The queue does not exist.
            QueueStopped: The queue crashed so often that it was stopped.
            InExclusiveUse: The queue has an exclusive feed, or this one is to be exclusive and there are others.
            TypeError, ValueError: An argument is not of its type, or out of its range.
        """
        check_whole("prefetch", prefetch, 0)
        check_whole("priority", priority, *_SIGNED)
        check_whole("weight", weight, *_SIGNED)
        check_flag("exclusive", exclusive)
        check_flag("no_local", no_local)
        domain, inbox = self._domain, Inbox()
        domain.consumers.check()
        subscriber = await domain.consumers.start(lambda: Subscriber(inbox))

        def subscribe(queue: QueueState) -> Subscription:
            return Subscription(
                domain.session,
                EVERYTHING,
                queue,
                subscriber,
                window=Window(prefetch),
                exclusive=exclusive,
                priority=priority,
                weight=weight,
                no_local=no_local,
            )

        feed = LocalFeed(inbox, domain.consumers, lambda: self._reopen(inbox, subscribe), domain.directory.persistence)
        try:
            await feed.open()
            yield feed
        finally:
            domain.consumers.turn(feed.close)
            domain.consumers.stop(subscriber)

    async def _reopen(self, inbox: Inbox, subscribe: Callable[[QueueState], Subscription]) -> Subscription | None:
        """Open a feed on the queue's present incarnation; return None if the feed's own actor has ended."""
        while True:
            queue = await self._domain.wait_queue(self.name)
            if inbox.broken:
                return None
            subscription = subscribe(queue)
            try:
                subscription.begin()
            except trio.WouldBlock:
                continue  # the queue has crashed again
            return subscription

    async def get(self) -> Delivery | None:
        """Take the first message alone; None when the queue is empty.

        Raises:
            NoSuchQueue: The queue does not exist.
        """
        batch = await self._ask(Get())
        return None if batch is None else Delivery(batch, 0, self._domain.consumers)

    async def browse(self, *, after: int = -1, limit: int = 100) -> list[Browsed]:
        """Return ready messages in the order in which they arrived, and take none.

        Messages that are only on disk are read for it, and stay there.

        Args:
            after: Return only messages with an id above this one; to go on, that of the last one returned.
            limit: The most messages; there are fewer only if the queue has no more.

        Raises:
            NoSuchQueue: The queue does not exist.
        """
        check_whole("after", after, -1)
        check_whole("limit", limit, 0)
        seen: list[Entry] = []
        while page := await self._ask(Browse(seen[-1].id if seen else after, limit - len(seen))):
            seen += page
        return [Browsed(entry, self._domain.consumers.codecs) for entry in seen]

    async def discard(self, up_to: int) -> int:
        """Discard the ready messages up to an id that ``browse`` has shown, and return how many they were.

        Raises:
            NoSuchQueue: The queue does not exist.
        """
        check_whole("up_to", up_to, 0)
        count = 0
        while True:
            try:
                return count + await self._ask_once(Discard(up_to))
            except NotResident as error:
                count += error.done
                await error.wait_over()

    async def purge(self) -> int:
        """Discard all ready messages, and return how many they were.

        Raises:
            NoSuchQueue: The queue does not exist.
        """
        count = await self._ask(Purge())
        await self._domain.wait_synced()
        return count

    async def statistics(self) -> QueueStatistics:
        """Return the present numbers of the queue.

        Raises:
            NoSuchQueue: The queue does not exist.
        """
        return await self._ask(Enlist())

    async def _ask(self, request: Request[R]) -> R:
        """Ask the queue; ask again if it had to read from disk first."""
        while True:
            try:
                return await self._ask_once(request)
            except NotResident as error:
                await error.wait_over()

    async def _ask_once(self, request: Request[R]) -> R:
        queue = await self._domain.wait_queue(self.name)
        return await queue.ref.ask(request)

    async def delete(self, *, if_unused: bool = False, if_empty: bool = False) -> None:
        """Delete the queue with its messages; it is no error if it is gone already.

        Raises:
            ForeignResource: It was made by a peer.
            QueueInUse: ``if_unused`` is set and it has feeds.
            QueueNotEmpty: ``if_empty`` is set and it has messages.
        """
        domain = self._domain
        request = DeleteQueue(self.name, domain.session, if_unused=if_unused, if_empty=if_empty)
        await domain.ask(request)
        await domain.wait_synced()


class SinkHandle:
    """A sink of a broker in this process; obtained from ``DomainHandle.declare_sink`` or ``DomainHandle.sink``."""

    def __init__(self, domain: "DomainHandle", name: str) -> None:
        self._domain = domain
        self.name = name

    @property
    def domain(self) -> "DomainHandle":
        """The domain that it belongs to."""
        return self._domain

    def __repr__(self) -> str:
        """Show the name."""
        return f"<SinkHandle {self.name!r}>"

    async def bind(
        self,
        destination: "QueueHandle | SinkHandle | str",
        key: str = "",
        arguments: Mapping[str, HeaderValue] | None = None,
        *,
        predicate: Predicate | None = None,
    ) -> None:
        """Bind a queue or another sink to this sink.

        Args:
            destination: Where messages go; a name is that of a queue or of a sink that exists.
            key: The key (direct) or pattern (topic).
            arguments: The headers that must match (headers).
            predicate: What headers must be besides, at any kind of sink; see ``triomq.core.make_predicate``.

        Raises:
            NoSuchSink, NoSuchQueue: One of the two does not exist.
            PreconditionFailed: This kind of sink does not know the arguments.
            ValueError: The key is too long, both a queue and a sink have the name, or the handle is of another domain.
        """
        domain = self._domain
        domain.consumers.check()
        check_text("the key", key)
        check_name(key)
        target, name = _target(destination, domain)
        binding = make_binding(self.name, target, name, key, arguments, predicate=predicate)
        await domain.retry(lambda: domain.ask(Bind(binding, domain.session)))
        await domain.wait_synced()

    async def unbind(
        self,
        destination: "QueueHandle | SinkHandle | str",
        key: str = "",
        arguments: Mapping[str, HeaderValue] | None = None,
        *,
        predicate: Predicate | None = None,
    ) -> None:
        """Remove a binding; it is no error if it is not there.

        Raises:
            ForeignResource: It was made by a peer.
        """
        domain = self._domain
        domain.consumers.check()
        check_text("the key", key)
        try:
            target, name = _target(destination, domain)
        except NoSuchQueue:
            return
        binding = make_binding(self.name, target, name, key, arguments, predicate=predicate)
        await domain.retry(lambda: domain.ask(Unbind(binding, domain.session)))
        await domain.wait_synced()

    async def delete(self, *, if_unused: bool = False) -> None:
        """Delete the sink with its bindings; it is no error if it is gone already.

        Raises:
            ForeignResource: It was made by a peer.
            SinkInUse: ``if_unused`` is set and it has bindings.
        """
        await self._domain.ask(DeleteSink(self.name, if_unused))
        await self._domain.wait_synced()


def _target(destination: "QueueHandle | SinkHandle | str", domain: "DomainHandle") -> tuple[Target, str]:
    """Return the kind and the name of a binding's destination.

    Raises:
        NoSuchQueue: No queue and no sink has the name.
        TypeError: It is neither.
        ValueError: Both a queue and a sink have the name, or the handle is of another domain.
    """
    if isinstance(destination, str):
        return _named(destination, domain)
    if not isinstance(destination, QueueHandle | SinkHandle):
        raise TypeError(
            f"the destination is {shown(destination)}, of type {type(destination).__name__}; it is the handle of a "
            "queue or of a sink, or its name"
        )
    if destination.domain.directory is not domain.directory:
        raise ValueError(
            f"{destination!r} is in domain {destination.domain.directory.name!r}, and nothing leads there from domain "
            f"{domain.directory.name!r}; declare it in both"
        )
    return Target.QUEUE if isinstance(destination, QueueHandle) else Target.SINK, destination.name


def _named(name: str, domain: "DomainHandle") -> tuple[Target, str]:
    queue, sink = name in domain.directory.queues, name in domain.directory.sinks
    if queue and sink:
        raise ValueError(f"both a queue and a sink are called {name!r}; give the handle of the one that is meant")
    if not queue and not sink:
        raise NoSuchQueue(name)
    return Target.QUEUE if queue else Target.SINK, name
