"""A connection to a peer: a broker to which our resources are announced, and which delivers from our pipes there.

The class restms (61501) has no replies. To know what the peer has worked off, basic.qos is sent behind it now and
then, with the value that it has anyway: its answer comes when all before it is done.
"""

import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Protocol

import trio

from triomq.clients.amqp.connecting import connect
from triomq.clients.amqp.line import Line, Owner
from triomq.clients.amqp.link import Link
from triomq.clients.url import AMQPUrl
from triomq.errors import TriomqError
from triomq.protocols.amqp import (
    INSTANCE_PROPERTY,
    ORIGIN_PROPERTY,
    RESTMS_CAPABILITY,
    BasicCancel,
    BasicQos,
    BasicQosOk,
    BasicReject,
    Connected,
    DeliverRun,
    Event,
    Method,
    Received,
    RestMSFeedCreate,
    RestMSFeedDelete,
    RestMSJoinCreate,
    RestMSJoinDelete,
    RestMSPipeCreate,
    RestMSPipeDelete,
)

_RESOURCES = (
    RestMSFeedCreate,
    RestMSFeedDelete,
    RestMSJoinCreate,
    RestMSJoinDelete,
    RestMSPipeCreate,
    RestMSPipeDelete,
)


class PeeringHandler(Protocol):
    """The owner of a peering: called with what the peer sends, in the task that reads it, so it must not wait."""

    def delivered(self, run: DeliverRun) -> None:
        """Handle messages; each is to be acked or rejected by its delivery tag."""

    def cancelled(self, tag: str) -> None:
        """Called when the peer delivers no more under a consumer tag."""

    def resource_announced(self, method: Method) -> None:
        """Called when the peer announces a resource of its own."""

    def mark_reached(self, mark: int) -> None:
        """Called when the peer has worked off all that was sent before ``send_mark`` was called with this mark."""

    def ended(self) -> None:
        """Called when the connection or its channel has ended."""


class Peering(Line):
    """One channel on one connection of its own; made by ``open_peering``, ends with its block or the connection."""

    def __init__(self, link: Link, connected: Connected, handler: PeeringHandler, prefetch: int) -> None:
        super().__init__(link, 1, Owner())
        capabilities = connected.server_properties.get("capabilities")
        self.knows_resources = isinstance(capabilities, dict) and capabilities.get(RESTMS_CAPABILITY) is True
        """Whether the peer announces that it knows the class."""
        self._handler = handler
        self._limit = BasicQos(prefetch_count=prefetch, global_=True)

    async def begin(self) -> None:
        """Open the channel, and limit what may come on it."""
        await self.open()
        await self.call(self._limit, BasicQosOk)

    def announce(self, methods: Iterable[Method]) -> None:
        """Send methods that create or delete resources; the peer answers none of them.

        Raises:
            TriomqError: The connection or the channel has ended.
        """
        self.check()
        for method in methods:
            self.engine.send_method(self.number, method)
        self.link.write(self.engine.outbox.unsent)

    async def wait_room(self) -> None:
        """Wait until the peer takes bytes."""
        while self.link.held and self.error is None:
            await self.link.may_publish.park()

    def send_mark(self, mark: int) -> None:
        """Ask for a call of ``mark_reached`` when the peer has worked off all that was sent so far.

        Raises:
            TriomqError: The connection or the channel has ended.
        """
        self.ask(self._limit, BasicQosOk, on_reply=lambda reply, abandoned: self._handler.mark_reached(mark))

    async def wait_ended(self) -> TriomqError:
        """Wait for the end, and return its reason."""
        await self.link.ended.wait()
        assert self.link.error is not None
        return self.link.error

    def settle(self, *, up_to: int = 0, single: Iterable[int] = (), refused: Iterable[int] = ()) -> None:
        """Send acks of the deliveries that are taken, and rejects of those that have no place.

        Args:
            up_to: All of them up to this one; 0 for none. Those that are refused are not among them.
            single: These.
            refused: The peer is to drop these.
        """
        if self.error is not None:
            return  # it delivers them again
        for tag in refused:
            self.engine.send_method(self.number, BasicReject(tag, requeue=False))
        for tag in single:
            self.engine.send_ack(self.number, tag, multiple=False)
        if up_to:
            self.engine.send_ack(self.number, up_to, multiple=True)
        self.link.write_later()

    def handle(self, event: Event) -> None:
        """Handle an event of this channel."""
        if isinstance(event, DeliverRun):
            self._handler.delivered(event)
        elif isinstance(event, Received) and isinstance(event.method, BasicCancel):
            self._handler.cancelled(event.method.consumer_tag)
        elif isinstance(event, Received) and isinstance(event.method, _RESOURCES):
            self._handler.resource_announced(event.method)
        else:
            super().handle(event)
            if self.error is not None and self.link.error is None:
                self.link.end(self.error)  # a connection without its channel is of no use
                self._handler.ended()

    def lost(self, error: TriomqError) -> None:
        """End with the connection."""
        super().lost(error)
        self._handler.ended()


@asynccontextmanager
async def open_peering(
    url: AMQPUrl,
    handler: PeeringHandler,
    *,
    ssl_context: ssl.SSLContext | None,
    origin: str,
    instance: str,
    prefetch: int,
) -> AsyncIterator[Peering]:
    """Connect to a peer, until the block is left.

    Args:
        url: Where it is, and as whom to log in.
        handler: Who takes what it sends.
        ssl_context: Whom to trust and who we are.
        origin: The name that our resources have there.
        instance: What tells us from another broker of the same name; the same whenever we come back.
        prefetch: How many messages of all pipes together may be on their way to us.

    Raises:
        Disconnected: Nobody is there.
        TriomqError: The peer refuses us.
    """
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            link, connected = await connect(
                url, ssl_context, nursery, {ORIGIN_PROPERTY: origin, INSTANCE_PROPERTY: instance}
            )
            try:
                peering = Peering(link, connected, handler, prefetch)
                await peering.begin()
                yield peering
            finally:
                with trio.CancelScope(shield=True):
                    await link.close()
        except trio.Cancelled:
            raise
        except BaseException as error:
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
