"""A broker for asyncio: ``async with open_asyncio_broker(AMQP()) as broker: …``."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Unpack

from triomq.app.domain_handle import DomainHandle, SinkKindName
from triomq.app.listening import Listening
from triomq.app.opening import opening
from triomq.app.portal.arguments import BrokerArguments, QueueArguments, SinkArguments, bare
from triomq.app.portal.asyncio_caller import AsyncioCaller
from triomq.app.portal.asyncio_handles import AsyncioQueue, AsyncioSink
from triomq.app.portal.asyncio_waiting import loop_lane, wait_done, wait_shielded
from triomq.app.portal.portal import Portal
from triomq.app.portal.thread import BrokerThread
from triomq.core import Properties
from triomq.endpoints import EndpointConfig
from triomq.transports import Address


class AsyncioDomain:
    """A domain, for the tasks of one event loop; the broker is the handle of its first one itself.

    Methods are those of ``DomainHandle``, which says what they raise. Deadlines are asyncio's own: ``async with
    asyncio.timeout(5)``.
    """

    def __init__(self, caller: AsyncioCaller, handle: DomainHandle) -> None:
        self._caller = caller
        self.handle = handle

    async def declare_sink(
        self, name: str, kind: SinkKindName = "direct", **arguments: Unpack[SinkArguments]
    ) -> AsyncioSink:
        """Let there be a sink; arguments are those of ``DomainHandle.declare_sink``."""
        handle = await self._caller.call(lambda: self.handle.declare_sink(name, kind, **arguments))
        return AsyncioSink(self._caller, handle)

    async def declare_queue(self, name: str, **arguments: Unpack[QueueArguments]) -> AsyncioQueue:
        """Let there be a queue; arguments are those of ``DomainHandle.declare_queue``."""
        handle = await self._caller.call(lambda: self.handle.declare_queue(name, **arguments))
        return AsyncioQueue(self._caller, handle)

    def queue(self, name: str) -> AsyncioQueue:
        """Hold a queue that exists."""
        self._caller.check()
        return AsyncioQueue(self._caller, self.handle.queue(name))

    def sink(self, name: str) -> AsyncioSink:
        """Hold a sink that exists."""
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
            lambda: self.handle.publish(bare(sink), key, body, properties, mandatory=mandatory, delay=delay)
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
        """Take no new connections, say goodbye to those that are there, and stop listening."""
        await self._caller.call(self._listening.aclose)


class AsyncioBroker(AsyncioDomain):
    """A broker, for the tasks of the event loop that it was made in.

    Made by ``open_asyncio_broker``, or from the portal of another one, to reach the same broker from one more loop.
    """

    def __init__(self, portal: Portal) -> None:
        super().__init__(AsyncioCaller(portal), portal.broker)
        self.portal = portal

    def domain(self, name: str) -> AsyncioDomain:
        """Hold one of the domains."""
        self._caller.check()
        return AsyncioDomain(self._caller, self.portal.broker.domain(name))

    async def wait_idle(self) -> None:
        """Wait until nothing happens by itself any more, in any domain; ``Broker.wait_idle`` says what that means."""
        await self._caller.call(self.portal.broker.wait_idle)

    async def back_up(self, path: Path | str) -> None:
        """Copy the store to a new directory while everything goes on; ``Broker.back_up`` says how it is used."""
        await self._caller.call(lambda: self.portal.broker.back_up(path))

    @property
    def listening(self) -> list[AsyncioListening]:
        """What listens now, in the order in which it was opened."""
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

    Leaving the block drains it, as it does there; an error in the block, or cancellation, ends it at once. When the
    broker fails, whoever waits for it, or calls it then, gets the error that it failed of, and it comes out of the
    block.

    Raises:
        ConfigError: An address cannot be had.
        StoreError: The store cannot be opened.
    """
    lane = loop_lane()
    thread = BrokerThread(*endpoints, **arguments)
    try:
        await wait_done(thread.started, lane)
        broker = AsyncioBroker(thread.started.result())
        yield broker
        broker.portal.check()
        thread.leave()
        await wait_done(thread.over, lane)
        thread.over.result()
    except BaseException as error:
        thread.cut()
        await wait_shielded(thread.over, lane)
        if (reason := thread.reason(error)) is not error:
            raise reason from None
        raise
