"""Publishing over a direct connection."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from triomq.clients.dmp.link import DirectLink, check_announced, open_link
from triomq.errors import LocalProtocolError
from triomq.protocols import BasicProperties
from triomq.protocols.amqp import DirectPut, DirectPutOk
from triomq.protocols.dmp import MessageRun, Settings

if TYPE_CHECKING:
    from triomq.clients.amqp.channel import AMQPChannel

FEW = 100
"""Publishes after which other tasks get their turn, however small they are."""


class DMPSink:
    """A way into one exchange; made by ``open_dmp_sink``, ends with its block. Several tasks may use it.

    Args:
        channel: The channel that has leased it.
        exchange: The exchange.
        link: The direct connection.
    """

    def __init__(self, channel: "AMQPChannel", exchange: str, link: DirectLink) -> None:
        self.exchange = exchange
        """The exchange that it leads into."""
        self._channel = channel
        self._link = link
        self._few = FEW

    def __repr__(self) -> str:
        """Show where it leads."""
        return f"<DMPSink {self.exchange!r}>"

    async def publish(
        self,
        routing_key: str,
        body: bytes,
        properties: BasicProperties | None = None,
        *,
        mandatory: bool = False,
        immediate: bool = False,
        persistent: bool = True,
    ) -> None:
        """Publish one message; when this returns it is on its way, and nothing tells when it has arrived.

        Leaving the block waits until the broker has read all of them. Waits while the broker takes nothing.

        Args:
            routing_key: How it is routed.
            body: Its body, at most 16 MiB.
            properties: Its properties.
            mandatory: Whether it is to come back if no queue takes it: on the channel that has leased the sink, among
                its ``returns``.
            immediate: Whether it is to come back if no consumer takes it at once.
            persistent: Whether it survives a restart of the broker, unless ``properties.delivery_mode`` is set.

        Raises:
            TriomqError: What the broker has closed the connection with, perhaps because of an earlier message.
            LocalProtocolError: It cannot be written on a direct connection.
        """
        link = self._link
        link.check()
        encoded = self._channel.encode(properties, persistent)
        link.engine.send_message(self.exchange, routing_key, encoded, body, mandatory=mandatory, immediate=immediate)
        link.write()
        self._few -= 1
        if not self._few:
            self._few = FEW
            await trio.lowlevel.checkpoint()
        while link.full:
            await link.may_publish.park()


def _take_nothing(run: MessageRun) -> None:
    raise LocalProtocolError("nothing comes out of a sink")


@asynccontextmanager
async def open_dmp_sink(channel: "AMQPChannel", exchange: str) -> AsyncIterator[DMPSink]:
    """Open a direct connection into an exchange (6/DMP); leaving the block waits until the broker has read everything.

    It needs the channel only for what comes back; the session that the channel belongs to lives until the last of its
    connections ends. After a reconnect it is to be opened again.

    Args:
        channel: A channel to a broker that has direct connections.
        exchange: The exchange; empty for the default one.

    Raises:
        Refused: The broker has no direct connections, or none to this exchange: the channel is closed then.
    """
    check_announced(channel)
    lease = (await channel.call(DirectPut(exchange), DirectPutOk)).lease
    async with open_link(channel, lease, "sink", _take_nothing, Settings()) as (link, _):
        yield DMPSink(channel, exchange, link)
        await link.finish()
        if not link.finished_well:
            link.check()
