"""A channel as its users see it: one that lives as long as its block, whatever becomes of the connection."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec
import trio

from triomq.clients.amqp.confirms import PendingConfirm, Publish
from triomq.clients.amqp.consuming_methods import ConsumingMethods
from triomq.clients.amqp.delivery import ReturnedMessage
from triomq.clients.amqp.line import Line, Owner
from triomq.clients.amqp.pipeline import Pipeline, check_body, check_properties
from triomq.clients.amqp.topology import Topology
from triomq.clients.amqp.transaction import ClientTransaction
from triomq.clients.dmp.following import Sinks, prefers_direct
from triomq.clients.transport_link import CLOSE_TIMEOUT
from triomq.errors import Disconnected, LocalProtocolError, TriomqError
from triomq.protocols import NO_PROPERTIES, BasicProperties, encode_properties
from triomq.protocols.amqp import (
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
)

if TYPE_CHECKING:
    from triomq.clients.amqp.connection import AMQPConnection

M = TypeVar("M", bound=Method)

PERSISTENT = encode_properties(BasicProperties(delivery_mode=2))

RETURNS_KEPT = 1000
"""How many returned messages wait in ``returns``; later ones are dropped, and counted."""

FEW = 100
"""Publishes without confirms after which other tasks get their turn, however small they are."""


class ChannelStatistics(msgspec.Struct, frozen=True, gc=False):
    """A channel at one moment.

    Args:
        unconfirmed: Publishes that the broker has yet to confirm.
        unsettled: Deliveries that are here and not settled.
        consumers: Consumers that are open.
        returns_dropped: Returned messages for which ``returns`` had no room.
    """

    unconfirmed: int
    unsettled: int
    consumers: int
    returns_dropped: int


class AMQPChannel(ConsumingMethods, Owner):
    """Made by ``AMQPConnection.open_channel``, ends with its block.

    Every method raises what the broker refuses it with, by the reply code: ``NotFound``, ``AccessRefused``,
    ``PreconditionFailed``, ``ResourceLocked`` and so on. A refusal closes the channel, as AMQP has it: whatever is
    done with it afterwards raises the same again, and a new one is to be opened. A lost connection raises
    ``Disconnected``. Several tasks may use one channel.

    A call that is cancelled leaves the channel as usable as it was; whether the broker has done what was asked is not
    known then.
    """

    def __init__(self, connection: "AMQPConnection", *, confirms: bool, prefetch: int) -> None:
        super().__init__(connection, prefetch=prefetch)
        self.line: Line | None = None
        """The channel on the present connection; None while there is none."""
        self._confirms = confirms
        self._error: TriomqError | None = None
        self._resend: list[Publish] = []
        self._transaction: ClientTransaction | None = None
        self._few = FEW
        self._encoded: tuple[BasicProperties | None, bool, bytes] = (None, True, PERSISTENT)
        self._put_return, self.returns = trio.open_memory_channel[ReturnedMessage](RETURNS_KEPT)
        """Messages that were returned and that no ``publish`` waits for, to be iterated over: all of a channel without
        confirms. At most 1000 wait."""
        self._returns_dropped = 0
        self._sinks: Sinks | None = None  # where the broker asks for direct connections

    def statistics(self) -> ChannelStatistics:
        """Return a snapshot."""
        line = self.line
        return ChannelStatistics(
            len(line.confirms.pending) if line else len(self._resend),
            len(line.acks) if line else 0,
            len(self._consumers),
            self._returns_dropped,
        )

    # Publishing

    async def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: BasicProperties | None = None,
        *,
        mandatory: bool = False,
        persistent: bool = True,
    ) -> None:
        """Publish one message; when this returns, the broker has it.

        On a channel without confirms it returns when the message is on its way, and what becomes of it is not known.
        Where the broker asks for direct connections, messages without confirms go over one for each exchange.
        Waits also while the broker has blocked publishing (connection.blocked). A cancelled publish may or may not
        have arrived.

        Args:
            exchange: Where to publish it; empty for the default exchange, which takes queues' names for keys.
            routing_key: How.
            body: Its body.
            properties: Its properties.
            mandatory: Whether it is an error if no queue takes it.
            persistent: Whether it survives a restart of the broker; ``properties.delivery_mode`` decides that, if it is
                set, before this.

        Raises:
            Unroutable: It is mandatory and no queue took it.
            LimitExceeded: The broker refused it: a queue is full, and rejects what is published.
            Disconnected: The connection is lost, and it may or may not have arrived.
        """
        if type(body) is not bytes:
            check_body(body)
        line = self.line
        if line is None or not line.go:
            line = await self.wait_publishable()
        if not self._confirms:
            encoded = self.encode(properties, persistent)
            sinks = self._sinks if self._transaction is None else None
            if sinks is None or not await sinks.publish(exchange, routing_key, mandatory, encoded, body):
                line.publish(None, exchange, routing_key, mandatory, encoded, body)
            self._few -= 1
            if not self._few:
                self._few = FEW
                await trio.lowlevel.checkpoint()
            return
        confirm = PendingConfirm()
        line.publish(confirm, exchange, routing_key, mandatory, self.encode(properties, persistent), body)
        await confirm.wait()

    @asynccontextmanager
    async def open_pipeline(self, *, limit: int = 1000) -> AsyncIterator[Pipeline]:
        """Publish many messages without waiting for each; leaving the block waits until all of them are confirmed.

        An error in the block leaves at once, and what is on its way may or may not have arrived.

        Args:
            limit: How many messages may be on their way at once.

        Raises:
            LocalProtocolError: The channel has no confirms: then ``publish`` does not wait anyway.
            Unroutable: No queue took a mandatory message.
            LimitExceeded: The broker refused a message.
        """
        if not self._confirms:
            raise LocalProtocolError(
                "a pipeline waits for confirms, and this channel has none; open it with confirms=True, or just publish"
            )
        pipeline = Pipeline(self, limit)
        yield pipeline
        await pipeline.wait_confirmed()

    def encode(self, properties: BasicProperties | None, persistent: bool) -> bytes:
        """Encode properties; the last ones are remembered, since publishers repeat them."""
        last = self._encoded
        if properties is last[0] and persistent is last[1]:
            return last[2]
        if properties is None:
            encoded = PERSISTENT if persistent else NO_PROPERTIES
        else:
            check_properties(properties)
            mode = 2 if persistent else None
            if mode is not None and properties.delivery_mode is None:
                encoded = encode_properties(msgspec.structs.replace(properties, delivery_mode=mode))
            else:
                encoded = encode_properties(properties)
            if properties.headers is not None:
                return encoded  # a dict may have changed when it comes again
        self._encoded = (properties, persistent, encoded)
        return encoded

    async def wait_publishable(self) -> Line:
        """Wait until the broker takes publishes; for pipelines."""
        while True:
            line = await self.ready()
            if line.go:
                return line
            if self._transaction is not None:
                self._transaction.check(line)
            await line.link.may_publish.park()

    # Transactions

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Open a transaction: all that is published and settled in the block takes effect at its end, or nothing of it.

        An error in the block rolls it back; what was settled in it is unsettled again then. A lost connection rolls
        back too, and the block raises ``Disconnected``. A channel that has once had a transaction publishes in
        transactions only.

        Raises:
            LocalProtocolError: The channel has confirms, which exclude transactions, or is in a transaction already.
            Disconnected: The connection was lost; if that was during the commit, it may have taken effect or not.
        """
        if self._confirms:
            raise LocalProtocolError("a channel with confirms cannot have transactions; open one with confirms=False")
        if self._transaction is None:
            self._transaction = ClientTransaction()
            if self._sinks is not None:
                await self._sinks.finish()
        line = await self.ready()
        async with self._transaction.run(line):
            yield

    # The line, and what becomes of it

    async def ready(self) -> Line:
        """Wait until the channel can be used; raises why it cannot be any more."""
        while True:
            line = self.line
            if line is not None and line.error is None and not line.closing:
                return line
            if self._error is not None:
                if line is not None:
                    line.reported = True
                raise type(self._error)(*self._error.args)
            await self.connection.wait_connected()

    async def call(self, method: Method, reply: type[M]) -> M:
        """Send any method and wait for its reply."""
        return await (await self.ready()).call(method, reply)

    @property
    def topology(self) -> Topology | None:
        """What is to be made again after a reconnect; None where nothing is."""
        return self.connection.topology

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be done with it any more."""
        return self._error is not None

    def current(self, name: str) -> str:
        """Return the present name of a queue, which may have another one since a reconnect."""
        topology = self.connection.topology
        return name if topology is None else topology.current(name)

    async def begin(self, line: Line) -> None:
        """Open the channel on a line, as it was on the last one; for the connection."""
        await line.open()
        if self._confirms:
            await line.call(ConfirmSelect(), ConfirmSelectOk)
        if self.shared_prefetch is not None:
            await line.call(BasicQos(0, self.shared_prefetch, True), BasicQosOk)
        if self._transaction is not None:
            self._transaction.begin_on(line)
        self.line = line
        if not self._confirms and prefers_direct(self):
            self._sinks = Sinks(self)
        resend, self._resend = self._resend, []
        for publish in resend:
            if not publish[0].abandoned:
                line.publish(*publish)
        for consumer in list(self._consumers):
            await consumer.begin(line)

    async def close(self) -> None:
        """Close it; raises what the broker has closed it with, unless a caller has got that already."""
        line = self.line
        if self._sinks is not None:
            await self._sinks.close()
        self._leave()
        if line is None:
            return
        asked = line.begin_close()
        if asked is not None:
            try:
                with trio.move_on_after(CLOSE_TIMEOUT):
                    await asked.wait()
            except Disconnected:
                return  # the end of the connection ends it too
        if line.error is not None and not line.reported:
            line.check()

    def abandon(self) -> None:
        """Close it without waiting for an answer."""
        if self._sinks is not None:
            self._sinks.abandon()
        self._leave()
        if self.line is not None:
            self.line.begin_close()

    def _leave(self) -> None:
        self._error = self._error or LocalProtocolError("this channel was closed when its block was left; open another")
        self.connection.forget(self)
        self._put_return.close()

    def failed(self, error: TriomqError) -> None:
        """End: there will be no connection any more."""
        self._error = self._error or error
        resend, self._resend = self._resend, []
        for publish in resend:
            publish[0].failed(len(publish[5]), error)
        for consumer in self._consumers:
            consumer.failed(error)
        self._put_return.close()

    def took_returned(self, message: ReturnedMessage) -> None:
        """Put a message that came back into ``returns``."""
        try:
            self._put_return.send_nowait(message)
        except trio.WouldBlock:
            self._returns_dropped += 1

    def took_lost(self, queue: str, messages: int) -> None:
        """Report lost messages to the direct feed of their queue."""
        if queue in self.lost_from:
            self.lost_from[queue](messages)

    def line_failed(self, line: Line, error: TriomqError) -> None:
        """End: the broker has closed the channel, and it is not opened again."""
        self._error = self._error or error
        self._put_return.close()

    def _leave_direct(self) -> None:
        """End direct connections: they would keep the old session, and all that is its own, alive."""
        if self._sinks is not None:
            self._sinks.abandon()
        for consumer in self._consumers:
            consumer.leave_direct()

    def line_lost(self, line: Line, error: TriomqError) -> None:
        """Store the publishes that may be sent again, once there is a connection, and fail the others."""
        self.line = None
        self._leave_direct()
        publishes = line.confirms.take_all()
        if self.connection.resends:
            self._resend = publishes + self._resend
        else:
            for publish in publishes:
                publish[0].failed(len(publish[5]), error)
