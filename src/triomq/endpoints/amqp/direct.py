"""The class direct on AMQP: leases for direct connections, and what those do to the connection that has leased."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from triomq.core import Batch, LeaseTarget, NoSuchQueue, QueueLocked, QueueState
from triomq.endpoints.amqp.channel import Consumer, Handler, ServerChannel
from triomq.endpoints.amqp.refusals import AMQPRefusal
from triomq.endpoints.base.delivery_writer import DeliveryWriter
from triomq.endpoints.direct import DirectFeed, Grant, ReturnMessage, Undelivered, check_sink, direct_feed
from triomq.errors import AccessRefused
from triomq.protocols.amqp import BasicReturn, DirectGet, DirectGetOk, DirectPut, DirectPutOk, Method

if TYPE_CHECKING:
    from triomq.endpoints.amqp.connection import AMQPServerConnection

PRIVATE_BYTES = 64 * 1024 * 1024
"""The ceiling of a queue with a direct feed, or of a pipe, if it has no limit: it may never be read."""

_REASONS = {Undelivered.NO_ROUTE: (312, "NO_ROUTE"), Undelivered.NO_CONSUMERS: (313, "NO_CONSUMERS")}


# Leases


def _put(channel: ServerChannel, method: DirectPut) -> None:
    connection = channel.connection
    check_sink(connection.directory, method.sink)
    grant = Grant(channel, connection.virtual_host)
    lease = connection.leases.grant(connection.session, LeaseTarget.SINK, method.sink, key=grant)
    channel.reply(DirectPutOk(lease))


def _get(channel: ServerChannel, method: DirectGet) -> None:
    connection, name = channel.connection, method.feed
    if not name:
        raise AMQPRefusal(502, "a feed needs a name")
    queue = connection.directory.queues.get(name)
    if queue is None:
        raise NoSuchQueue(name)
    if queue.owner is not connection.session:
        where = f"queue '{name}' in vhost '{connection.virtual_host}'"
        raise AccessRefused(f"{where} is not exclusive to this connection, as a feed must be")
    if queue in connection.direct_feeds:
        raise QueueLocked(name)
    grant = Grant(channel, connection.virtual_host, queue)
    lease = connection.leases.grant(connection.session, LeaseTarget.FEED, name, key=grant)
    channel.reply(DirectGetOk(lease))


DIRECT: dict[type[Method], Handler] = cast("dict[type[Method], Handler]", {DirectGet: _get, DirectPut: _put})
"""Method to handler; the rows pair each handler with the one type that it is written for."""


# Messages that go elsewhere, and those that come back


class AMQPDirectFeeds(dict[QueueState, DirectFeed]):
    """The queues whose messages direct connections take, in place of one connection's consumers.

    Args:
        channels: The connection's channels, by their numbers.
        writer: The connection's writing half.
    """

    def __init__(self, channels: Mapping[int, ServerChannel], writer: DeliveryWriter) -> None:
        super().__init__()
        self._channels = channels
        self._writer = writer

    def attach(self, queue: QueueState, direct: DirectFeed) -> None:
        """Move all consumers of a queue to a direct connection, also what is not encoded yet."""
        self[queue] = direct
        queue.set_ceiling(PRIVATE_BYTES)
        for channel in self._channels.values():
            for consumer in channel.consumers.values():
                if consumer.home.queue is queue.ref:
                    self._writer.drop(partial(_is_for, consumer))
                    consumer.move(direct_feed(consumer.home, direct))

    def detach(self, queue: QueueState, direct: DirectFeed) -> None:
        """Send messages of consumers to come over AMQP again, if this direct connection is attached."""
        if self.get(queue) is direct:
            del self[queue]


def _is_for(consumer: Consumer, batch: Batch) -> bool:
    return batch.feed is not None and batch.feed.key is consumer


def give_back(connection: "AMQPServerConnection", message: ReturnMessage) -> None:
    """Return a message that came over a direct connection (section 1.8.3.7, mandatory and immediate)."""
    channel = message.lessee
    assert isinstance(channel, ServerChannel)
    if not channel.open:
        return
    method = BasicReturn(*_REASONS[message.reason], message.sink, message.key)
    connection.engine.send_content(channel.number, method, message.properties, message.body)
