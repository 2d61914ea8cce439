"""A broker for plain threads: ``with open_blocking_broker(AMQP()) as broker: …``."""

import os
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Unpack

from triomq.app.domain_handle import DomainHandle, SinkKindName
from triomq.app.listening import Listening
from triomq.app.opening import opening_blocking
from triomq.app.portal.arguments import BrokerArguments, QueueArguments, SinkArguments, bare
from triomq.app.portal.blocking_caller import BlockingCaller
from triomq.app.portal.blocking_handles import BlockingQueue, BlockingSink
from triomq.app.portal.portal import Portal
from triomq.app.portal.thread import BrokerThread
from triomq.core import Properties
from triomq.endpoints import EndpointConfig
from triomq.transports import Address


class BlockingDomain:
    """A domain, for plain threads, any number of them at once; the broker is the handle of its first one itself.

    Methods are those of ``DomainHandle``, which says what they raise; each that waits takes a ``timeout`` in seconds as
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
        """Let there be a sink; arguments are those of ``DomainHandle.declare_sink``."""
        handle = self._caller.call(lambda: self.handle.declare_sink(name, kind, **arguments), timeout=timeout)
        return BlockingSink(self._caller, handle)

    def declare_queue(
        self, name: str, *, timeout: float | None = None, **arguments: Unpack[QueueArguments]
    ) -> BlockingQueue:
        """Let there be a queue; arguments are those of ``DomainHandle.declare_queue``."""
        handle = self._caller.call(lambda: self.handle.declare_queue(name, **arguments), timeout=timeout)
        return BlockingQueue(self._caller, handle)

    def queue(self, name: str) -> BlockingQueue:
        """Hold a queue that exists."""
        self._caller.portal.check()
        return BlockingQueue(self._caller, self.handle.queue(name))

    def sink(self, name: str) -> BlockingSink:
        """Hold a sink that exists."""
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
            lambda: self.handle.publish(bare(sink), key, body, properties, mandatory=mandatory, delay=delay),
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
        """Take no new connections, say goodbye to those that are there, and stop listening."""
        self._caller.call(self._listening.aclose, timeout=timeout)


class BlockingBroker(BlockingDomain):
    """A broker, for plain threads; made by ``open_blocking_broker``, or in a Trio program from ``open_portal``."""

    def __init__(self, portal: Portal) -> None:
        super().__init__(BlockingCaller(portal), portal.broker)
        self.portal = portal

    def domain(self, name: str) -> BlockingDomain:
        """Hold one of the domains."""
        self.portal.check()
        return BlockingDomain(self._caller, self.portal.broker.domain(name))

    def wait_idle(self, *, timeout: float | None = None) -> None:
        """Wait until nothing happens by itself any more, in any domain; ``Broker.wait_idle`` says what that means.

        Raises:
            TimeoutError: It took longer; the text says which queues are busy, and why.
        """
        broker = self.portal.broker
        try:
            self._caller.call(broker.wait_idle, timeout=timeout)
        except TimeoutError:
            raise TimeoutError(f"not idle within {timeout} s: {broker.describe_busy()}") from None

    def back_up(self, path: Path | str, *, timeout: float | None = None) -> None:
        """Copy the store to a new directory while everything goes on; ``Broker.back_up`` says how it is used."""
        self._caller.call(lambda: self.portal.broker.back_up(path), timeout=timeout)

    @property
    def listening(self) -> list[BlockingListening]:
        """What listens now, in the order in which it was opened."""
        return [BlockingListening(self._caller, listening) for listening in self.portal.broker.listening]

    def listen(self, config: EndpointConfig, *, timeout: float | None = None) -> BlockingListening:
        """Open an endpoint, any number of them, at any time."""
        listening = self._caller.call(lambda: self.portal.broker.listen(config), timeout=timeout)
        return BlockingListening(self._caller, listening)


@opening_blocking("with open_blocking_broker() as broker:")
def open_blocking_broker(*endpoints: EndpointConfig, **arguments: Unpack[BrokerArguments]) -> Iterator[BlockingBroker]:
    """Open a broker in a thread of its own, for plain threads; arguments are those of ``open_broker``.

    Leaving the block drains it, as it does there; an error in the block, or Ctrl-C while it drains, ends it at once.
    When the broker fails, whoever waits for it, or calls it then, gets the error that it failed of, and it comes out
    of the block.

    Raises:
        ConfigError: An address cannot be had.
        StoreError: The store cannot be opened.
    """
    thread = BrokerThread(*endpoints, **arguments)
    process = os.getpid()
    try:
        portal = thread.started.result()
        yield BlockingBroker(portal)
        portal.check()
        thread.leave()
        thread.over.result()
    except BaseException as error:
        if os.getpid() != process:
            raise  # a fork that leaves the block has no thread to wait for
        thread.cut()
        wait([thread.over])
        if (reason := thread.reason(error)) is not error:
            raise reason from None
        raise
