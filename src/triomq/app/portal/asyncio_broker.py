"""A broker for asyncio, and all that it hands out: ``async with open_asyncio_broker() as broker: …``."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from queue import Empty
from typing import Unpack

from triomq.app.delivery import Browsed
from triomq.app.domain_handle import DomainHandle, SinkKindName
from triomq.app.handles import QueueHandle, SinkHandle
from triomq.app.listening import Listening
from triomq.app.portal.arguments import (
    BrokerArguments,
    FeedArguments,
    QueueArguments,
    SinkArguments,
    StreamArguments,
    unwrap,
)
from triomq.app.portal.feed import DeliveryBuffer, PortalDelivery, Pump, get_delivery, return_unseen
from triomq.app.portal.portal import Portal
from triomq.app.portal.streams import AsyncioStream
from triomq.app.portal.thread import BrokerThread
from triomq.core import HeaderValue, Predicate, Properties, QueueStatistics
from triomq.endpoints import EndpointConfig
from triomq.opening import opening
from triomq.portal import AsyncioCaller, CallbackQueue, loop_callbacks, wait_done, wait_shielded
from triomq.transports import Address

_AT_ONCE = 100
"""Deliveries after which a feed lets the loop's other tasks run, however many are there: 0.1 ms of its own work."""

_OTHER_LOOP = (
    "this broker belongs to another event loop; make one that belongs to this loop, with the same broker behind it: "
    "AsyncioBroker(broker.portal)"
)


class LoopBuffer(DeliveryBuffer):
    """Deliveries that wait for a task of an event loop, which is woken only if it waits.

    Args:
        callbacks: Those of the loop.
    """

    def __init__(self, callbacks: CallbackQueue) -> None:
        super().__init__()
        self._callbacks = callbacks
        self._waiter: asyncio.Future[None] | None = None

    def put(self, delivery: PortalDelivery | None) -> None:
        """Add a delivery; None after the last one."""
        super().put(delivery)
        if self._waiter is not None:
            self._callbacks.call_soon(self._wake)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self) -> PortalDelivery | None:
        """Wait for the next delivery; None after the last one."""
        while True:
            try:
                return self.take(timeout=0)
            except Empty:
                await self._wait_put()

    async def _wait_put(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            if self._items.empty():  # put may have come before there was a waiter, and woken nothing
                await self._waiter
        finally:
            self._waiter = None


class AsyncioFeed:
    """Deliveries from one queue, for asyncio; iterate over it in one task at a time.

    Made by ``AsyncioQueue.open_feed``, ends with its block. When the queue crashes and is restarted it goes on by
    itself: what was not settled comes again, marked. When the queue is deleted the iteration ends.
    """

    def __init__(self, pump: Pump, buffer: LoopBuffer) -> None:
        self._pump = pump
        self._buffer = buffer
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
        self._pump.check_process()
        self._taken += 1
        if not self._taken % _AT_ONCE:
            await asyncio.sleep(0)
        delivery = await self._buffer.get()
        if delivery is not None:
            return delivery
        self._pump.check()
        raise StopAsyncIteration


class AsyncioQueue:
    """A queue, for asyncio; obtained from ``AsyncioDomain.declare_queue`` or ``AsyncioDomain.queue``.

    Methods are those of ``QueueHandle``, where their errors are listed.
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
        buffer = LoopBuffer(self._caller.callbacks)
        pump = Pump(self._caller.portal, self.handle, buffer, **arguments)
        try:
            await self._caller.wait(pump.opened, pump.withdraw)
            yield AsyncioFeed(pump, buffer)
        finally:
            if not self._caller.portal.is_foreign:
                pump.close()
                await wait_shielded(pump.over, self._caller.callbacks)

    async def get(self) -> PortalDelivery | None:
        """Take the first message alone; None when the queue is empty."""
        return await self._caller.call(lambda: get_delivery(self.handle, self._caller.portal), undo=return_unseen)

    async def browse(self, *, after: int = -1, limit: int = 100) -> list[Browsed]:
        """Return ready messages in the order in which they arrived, and take none."""
        return await self._caller.call(lambda: self.handle.browse(after=after, limit=limit))

    async def discard(self, up_to: int) -> int:
        """Discard the ready messages up to an id that ``browse`` has shown, and return how many they were."""
        return await self._caller.call(lambda: self.handle.discard(up_to))

    async def purge(self) -> int:
        """Discard all ready messages, and return how many they were."""
        return await self._caller.call(self.handle.purge)

    async def statistics(self) -> QueueStatistics:
        """Return the present numbers of the queue."""
        return await self._caller.call(self.handle.statistics)

    async def delete(self, *, if_unused: bool = False, if_empty: bool = False) -> None:
        """Delete the queue with its messages; it is no error if it is gone already."""
        await self._caller.call(lambda: self.handle.delete(if_unused=if_unused, if_empty=if_empty))


class AsyncioSink:
    """A sink, for asyncio; obtained from ``AsyncioDomain.declare_sink`` or ``AsyncioDomain.sink``.

    Methods are those of ``SinkHandle``, where their errors are listed.
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
        """Bind a queue or another sink to this sink."""
        await self._caller.call(lambda: self.handle.bind(unwrap(destination), key, arguments, predicate=predicate))

    async def unbind(
        self,
        destination: "AsyncioQueue | AsyncioSink | str",
        key: str = "",
        arguments: Mapping[str, HeaderValue] | None = None,
        *,
        predicate: Predicate | None = None,
    ) -> None:
        """Remove a binding; it is no error if it is not there."""
        await self._caller.call(lambda: self.handle.unbind(unwrap(destination), key, arguments, predicate=predicate))

    async def delete(self, *, if_unused: bool = False) -> None:
        """Delete the sink with its bindings; it is no error if it is gone already."""
        await self._caller.call(lambda: self.handle.delete(if_unused=if_unused))


class AsyncioDomain:
    """A domain, for the tasks of one event loop; the broker is the handle of its first one itself.

    Methods are those of ``DomainHandle``, where their errors are listed. Deadlines are asyncio's own: ``async with
    asyncio.timeout(5)``.
    """

    def __init__(self, caller: AsyncioCaller, handle: DomainHandle) -> None:
        self._caller = caller
        self.handle = handle

    async def declare_sink(
        self, name: str, kind: SinkKindName = "direct", **arguments: Unpack[SinkArguments]
    ) -> AsyncioSink:
        """Declare a sink; arguments are those of ``DomainHandle.declare_sink``."""
        handle = await self._caller.call(lambda: self.handle.declare_sink(name, kind, **arguments))
        return AsyncioSink(self._caller, handle)

    async def declare_queue(self, name: str, **arguments: Unpack[QueueArguments]) -> AsyncioQueue:
        """Declare a queue; arguments are those of ``DomainHandle.declare_queue``."""
        handle = await self._caller.call(lambda: self.handle.declare_queue(name, **arguments))
        return AsyncioQueue(self._caller, handle)

    async def declare_stream(self, name: str, **arguments: Unpack[StreamArguments]) -> AsyncioStream:
        """Declare a stream; arguments are those of ``DomainHandle.declare_stream``."""
        handle = await self._caller.call(lambda: self.handle.declare_stream(name, **arguments))
        return AsyncioStream(self._caller, handle)

    def stream(self, name: str) -> AsyncioStream:
        """Return the handle of a stream that exists."""
        self._caller.check()
        return AsyncioStream(self._caller, self.handle.stream(name))

    def queue(self, name: str) -> AsyncioQueue:
        """Return the handle of a queue that exists."""
        self._caller.check()
        return AsyncioQueue(self._caller, self.handle.queue(name))

    def sink(self, name: str) -> AsyncioSink:
        """Return the handle of a sink that exists."""
        self._caller.check()
        return AsyncioSink(self._caller, self.handle.sink(name))

    async def publish(
        self,
        sink: str | AsyncioSink,
        key: str,
        body: bytes,
        properties: Properties | None = None,
        *,
        mandatory: bool = False,
        delay: float = 0.0,
    ) -> None:
        """Publish a message; when this returns, it is in every queue that it was routed to.

        Publishes of several tasks at the same time arrive in any order.
        """
        await self._caller.call(
            lambda: self.handle.publish(unwrap(sink), key, body, properties, mandatory=mandatory, delay=delay)
        )


class AsyncioListening:
    """An endpoint that listens; obtained from ``AsyncioBroker.listen``, ends with ``aclose`` or with the broker."""

    def __init__(self, caller: AsyncioCaller, listening: Listening) -> None:
        self._caller = caller
        self._listening = listening

    @property
    def address(self) -> Address:
        """Host and port of the first address, or the path of its Unix socket."""
        return self._listening.address

    @property
    def port(self) -> int:
        """The port, the same on all addresses."""
        return self._listening.port

    async def aclose(self) -> None:
        """Accept no new connections, close those that are open in order, and stop listening."""
        await self._caller.call(self._listening.aclose)


class AsyncioBroker(AsyncioDomain):
    """A broker, for the tasks of the event loop that it was made in.

    Made by ``open_asyncio_broker``, or from the portal of another one, to reach the same broker from one more loop.
    """

    def __init__(self, portal: Portal) -> None:
        super().__init__(AsyncioCaller(portal, _OTHER_LOOP), portal.broker)
        self.portal = portal

    def domain(self, name: str) -> AsyncioDomain:
        """Return the handle of a domain."""
        self._caller.check()
        return AsyncioDomain(self._caller, self.portal.broker.domain(name))

    async def wait_idle(self) -> None:
        """Wait until nothing happens by itself any more, in any domain, as ``Broker.wait_idle`` does."""
        await self._caller.call(self.portal.broker.wait_idle)

    async def back_up(self, path: Path | str) -> None:
        """Copy the store to a new directory while everything goes on, as ``Broker.back_up`` does."""
        await self._caller.call(lambda: self.portal.broker.back_up(path))

    @property
    def listening(self) -> list[AsyncioListening]:
        """The endpoints that listen now, in the order in which they were opened."""
        return [AsyncioListening(self._caller, listening) for listening in self.portal.broker.listening]

    async def listen(self, config: EndpointConfig) -> AsyncioListening:
        """Open an endpoint, any number of them, at any time."""
        listening = await self._caller.call(lambda: self.portal.broker.listen(config))
        return AsyncioListening(self._caller, listening)


@opening("async with open_asyncio_broker() as broker:")
async def open_asyncio_broker(
    *endpoints: EndpointConfig, **arguments: Unpack[BrokerArguments]
) -> AsyncIterator[AsyncioBroker]:
    """Open a broker in a thread of its own, for asyncio; arguments are those of ``open_broker``.

    Leaving the block drains it, as it does in Trio; an error in the block, or cancellation, ends it at once. When the
    broker fails, calls that wait for it, and later ones, raise the error that it failed of, and so does the block.

    Raises:
        ConfigError: An address cannot be had.
        StoreError: The store cannot be opened.
    """
    callbacks = loop_callbacks()
    thread = BrokerThread(*endpoints, **arguments)
    try:
        await wait_done(thread.started, callbacks)
        broker = AsyncioBroker(thread.started.result())
        yield broker
        if thread.is_given_up:
            return
        broker.portal.check()
        thread.drain()
        await wait_done(thread.over, callbacks)
        thread.over.result()
    except BaseException as error:
        if thread.is_foreign or thread.is_given_up:
            raise  # a fork that leaves the block has no thread to wait for, nor has a process that ends
        thread.cancel()
        await wait_shielded(thread.over, callbacks)
        if (reason := thread.error_of_block(error)) is not error:
            raise reason from None
        raise
