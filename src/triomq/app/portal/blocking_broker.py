"""A broker for plain threads, and all that it hands out: ``with open_blocking_broker() as broker: …``."""

from collections.abc import Iterator, Mapping
from concurrent.futures import wait
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
from triomq.app.portal.streams import BlockingStream
from triomq.app.portal.thread import BrokerThread
from triomq.core import HeaderValue, Predicate, Properties, QueueStatistics
from triomq.endpoints import EndpointConfig
from triomq.opening import opening_blocking
from triomq.portal import BlockingCaller
from triomq.transports import Address


class BlockingFeed:
    """Deliveries from one queue, for plain threads; threads may share one, and each delivery goes to one of them.

    Made by ``BlockingQueue.open_feed``, ends with its block. When the queue crashes and is restarted it goes on by
    itself: what was not settled comes again, marked. When the queue is deleted the iteration ends.
    """

    def __init__(self, pump: Pump, buffer: DeliveryBuffer) -> None:
        self._pump = pump
        self._buffer = buffer

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
        self._pump.check_process()
        try:
            delivery = self._buffer.take(timeout)
        except Empty:
            raise TimeoutError(f"no delivery within {timeout} s") from None
        if delivery is None:
            self._pump.check()
        return delivery


class BlockingQueue:
    """A queue, for plain threads; obtained from ``BlockingDomain.declare_queue`` or ``BlockingDomain.queue``.

    Methods are those of ``QueueHandle``, where errors are listed. Each takes a ``timeout`` in seconds as well, and
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
        buffer = DeliveryBuffer()
        pump = Pump(self._caller.portal, self.handle, buffer, **arguments)
        try:
            self._caller.wait(pump.opened, timeout, pump.withdraw)
            yield BlockingFeed(pump, buffer)
        finally:
            if not self._caller.portal.is_foreign:
                pump.close()
                wait([pump.over])

    def get(self, *, timeout: float | None = None) -> PortalDelivery | None:
        """Take the first message alone; None when the queue is empty."""
        return self._caller.call(
            lambda: get_delivery(self.handle, self._caller.portal), timeout=timeout, undo=return_unseen
        )

    def browse(self, *, after: int = -1, limit: int = 100, timeout: float | None = None) -> list[Browsed]:
        """Return ready messages in the order in which they arrived, and take none."""
        return self._caller.call(lambda: self.handle.browse(after=after, limit=limit), timeout=timeout)

    def discard(self, up_to: int, *, timeout: float | None = None) -> int:
        """Discard the ready messages up to an id that ``browse`` has shown, and return how many they were."""
        return self._caller.call(lambda: self.handle.discard(up_to), timeout=timeout)

    def purge(self, *, timeout: float | None = None) -> int:
        """Discard all ready messages, and return how many they were."""
        return self._caller.call(self.handle.purge, timeout=timeout)

    def statistics(self, *, timeout: float | None = None) -> QueueStatistics:
        """Return the present numbers of the queue."""
        return self._caller.call(self.handle.statistics, timeout=timeout)

    def delete(self, *, if_unused: bool = False, if_empty: bool = False, timeout: float | None = None) -> None:
        """Delete the queue with its messages; it is no error if it is gone already."""
        self._caller.call(lambda: self.handle.delete(if_unused=if_unused, if_empty=if_empty), timeout=timeout)


class BlockingSink:
    """A sink, for plain threads; obtained from ``BlockingDomain.declare_sink`` or ``BlockingDomain.sink``.

    Methods are those of ``SinkHandle``, where errors are listed. Each takes a ``timeout`` in seconds as well, and
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
        """Bind a queue or another sink to this sink."""
        self._caller.call(
            lambda: self.handle.bind(unwrap(destination), key, arguments, predicate=predicate), timeout=timeout
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
        """Remove a binding; it is no error if it is not there."""
        self._caller.call(
            lambda: self.handle.unbind(unwrap(destination), key, arguments, predicate=predicate), timeout=timeout
        )

    def delete(self, *, if_unused: bool = False, timeout: float | None = None) -> None:
        """Delete the sink with its bindings; it is no error if it is gone already."""
        self._caller.call(lambda: self.handle.delete(if_unused=if_unused), timeout=timeout)


class BlockingDomain:
    """A domain, for plain threads, any number of them at once; the broker is the handle of its first one itself.

    Methods are those of ``DomainHandle``, where errors are listed. Each that waits takes a ``timeout`` in seconds as
    well, and raises ``TimeoutError`` when that is over.
    """

    def __init__(self, caller: BlockingCaller, handle: DomainHandle) -> None:
        self._caller = caller
        self.handle = handle

    def declare_sink(
        self,
        name: str,
        kind: SinkKindName = "direct",
        *,
        timeout: float | None = None,
        **arguments: Unpack[SinkArguments],
    ) -> BlockingSink:
        """Declare a sink; arguments are those of ``DomainHandle.declare_sink``."""
        handle = self._caller.call(lambda: self.handle.declare_sink(name, kind, **arguments), timeout=timeout)
        return BlockingSink(self._caller, handle)

    def declare_queue(
        self, name: str, *, timeout: float | None = None, **arguments: Unpack[QueueArguments]
    ) -> BlockingQueue:
        """Declare a queue; arguments are those of ``DomainHandle.declare_queue``."""
        handle = self._caller.call(lambda: self.handle.declare_queue(name, **arguments), timeout=timeout)
        return BlockingQueue(self._caller, handle)

    def declare_stream(
        self, name: str, *, timeout: float | None = None, **arguments: Unpack[StreamArguments]
    ) -> BlockingStream:
        """Declare a stream; arguments are those of ``DomainHandle.declare_stream``."""
        handle = self._caller.call(lambda: self.handle.declare_stream(name, **arguments), timeout=timeout)
        return BlockingStream(self._caller, handle)

    def stream(self, name: str) -> BlockingStream:
        """Return the handle of a stream that exists."""
        self._caller.portal.check()
        return BlockingStream(self._caller, self.handle.stream(name))

    def queue(self, name: str) -> BlockingQueue:
        """Return the handle of a queue that exists."""
        self._caller.portal.check()
        return BlockingQueue(self._caller, self.handle.queue(name))

    def sink(self, name: str) -> BlockingSink:
        """Return the handle of a sink that exists."""
        self._caller.portal.check()
        return BlockingSink(self._caller, self.handle.sink(name))

    def publish(
        self,
        sink: str | BlockingSink,
        key: str,
        body: bytes,
        properties: Properties | None = None,
        *,
        mandatory: bool = False,
        delay: float = 0.0,
        timeout: float | None = None,
    ) -> None:
        """Publish a message; when this returns, it is in every queue that it was routed to."""
        self._caller.call(
            lambda: self.handle.publish(unwrap(sink), key, body, properties, mandatory=mandatory, delay=delay),
            timeout=timeout,
        )


class BlockingListening:
    """An endpoint that listens; obtained from ``BlockingBroker.listen``, ends with ``close`` or with the broker."""

    def __init__(self, caller: BlockingCaller, listening: Listening) -> None:
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

    def close(self, *, timeout: float | None = None) -> None:
        """Accept no new connections, close those that are open in order, and stop listening."""
        self._caller.call(self._listening.aclose, timeout=timeout)


class BlockingBroker(BlockingDomain):
    """A broker, for plain threads; made by ``open_blocking_broker``, or in a Trio program from ``open_portal``."""

    def __init__(self, portal: Portal) -> None:
        super().__init__(BlockingCaller(portal), portal.broker)
        self.portal = portal

    def domain(self, name: str) -> BlockingDomain:
        """Return the handle of a domain."""
        self.portal.check()
        return BlockingDomain(self._caller, self.portal.broker.domain(name))

    def wait_idle(self, *, timeout: float | None = None) -> None:
        """Wait until nothing happens by itself any more, in any domain, as ``Broker.wait_idle`` does.

        Raises:
            TimeoutError: It took longer; the text names the busy queues.
        """
        broker = self.portal.broker
        try:
            self._caller.call(broker.wait_idle, timeout=timeout)
        except TimeoutError:
            raise TimeoutError(f"not idle within {timeout} s: {broker.describe_busy()}") from None

    def back_up(self, path: Path | str, *, timeout: float | None = None) -> None:
        """Copy the store to a new directory while everything goes on, as ``Broker.back_up`` does."""
        self._caller.call(lambda: self.portal.broker.back_up(path), timeout=timeout)

    @property
    def listening(self) -> list[BlockingListening]:
        """The endpoints that listen now, in the order in which they were opened."""
        return [BlockingListening(self._caller, listening) for listening in self.portal.broker.listening]

    def listen(self, config: EndpointConfig, *, timeout: float | None = None) -> BlockingListening:
        """Open an endpoint, any number of them, at any time."""
        listening = self._caller.call(lambda: self.portal.broker.listen(config), timeout=timeout)
        return BlockingListening(self._caller, listening)


@opening_blocking("with open_blocking_broker() as broker:")
def open_blocking_broker(*endpoints: EndpointConfig, **arguments: Unpack[BrokerArguments]) -> Iterator[BlockingBroker]:
    """Open a broker in a thread of its own, for plain threads; arguments are those of ``open_broker``.

    Leaving the block drains it, as it does in Trio; an error in the block, or Ctrl-C while it drains, ends it at once.
    When the broker fails, calls that wait for it, and later ones, raise the error that it failed of, and so does the
    block.

    Raises:
        ConfigError: An address cannot be had.
        StoreError: The store cannot be opened.
    """
    thread = BrokerThread(*endpoints, **arguments)
    try:
        portal = thread.started.result()
        yield BlockingBroker(portal)
        if thread.is_given_up:
            return  # the process ends, and whoever leaves the block so late has lost nothing
        portal.check()
        thread.drain()
        thread.over.result()
    except BaseException as error:
        if thread.is_foreign or thread.is_given_up:
            raise  # a fork that leaves the block has no thread to wait for, nor has a process that ends
        thread.cancel()
        wait([thread.over])
        if (reason := thread.error_of_block(error)) is not error:
            raise reason from None
        raise
