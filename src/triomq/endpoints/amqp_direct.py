"""The class direct on AMQP: leases for direct connections, and what a direct connection does to its principal one.

A direct feed takes what the consumers of its queue would get over AMQP. Each consumer has a feed of the core for
itself: at home it ends at the AMQP connection; while there is a direct feed another one stands in its place, which ends
there. Its windows are another matter, but channel.flow, no-local, priority and basic.cancel mean what they meant.
"""

from typing import TYPE_CHECKING, cast

import msgspec

from triomq.actors import Message as ActorMessage
from triomq.core import Directory, Feed, LeaseTarget, NoSuchQueue, QueueLocked, QueueStore, SinkInternal
from triomq.endpoints.amqp_answers import AnswerError
from triomq.endpoints.amqp_channel import Channel, Consumer, Handler
from triomq.errors import AccessRefused
from triomq.protocols.amqp import BasicReturn, DirectGet, DirectGetOk, DirectPut, DirectPutOk, Method

if TYPE_CHECKING:
    from triomq.endpoints.dmp_connection import DMPConnection

__all__ = ["DIRECT", "Grant", "MessagesLost", "ReturnMessage", "bring_home", "check_sink", "divert", "send_on"]

PRIVATE_BYTES = 64 * 1024 * 1024
"""The ceiling of a queue with a direct feed, or of a pipe, if it has no limit: nobody has to read it."""


class Grant(msgspec.Struct, frozen=True, eq=False):
    """What the endpoint remembers of a lease.

    Args:
        channel: Where it was asked for, and so where returns go.
        virtual_host: What the client calls the domain.
        store: The queue behind a feed.
    """

    channel: Channel
    virtual_host: str
    store: QueueStore | None = None


class ReturnMessage(ActorMessage, frozen=True):
    """To an AMQP connection: this message came over a direct one and reaches nobody (section 1.8.3.7, mandatory)."""

    channel: Channel
    method: BasicReturn
    properties: bytes
    body: bytes


class MessagesLost(ActorMessage, frozen=True):
    """To an AMQP connection: so many messages for a feed that a channel has leased were lost."""

    channel: Channel
    feed: str
    messages: int


# Leases


def _put(channel: Channel, method: DirectPut) -> None:
    connection = channel.connection
    check_sink(connection.directory, method.sink)
    grant = Grant(channel, connection.virtual_host)
    lease = connection.leases.grant(connection.session, LeaseTarget.SINK, method.sink, key=grant)
    channel.reply(DirectPutOk(lease))


def check_sink(directory: Directory, name: str) -> None:
    """See that one may publish into a sink; the empty name is the default one.

    Raises:
        NoSuchSink: There is none of that name.
        SinkInternal: Only other sinks may publish into it.
    """
    if name and directory.sink(name).options.internal:
        raise SinkInternal(name)


def _get(channel: Channel, method: DirectGet) -> None:
    connection, name = channel.connection, method.feed
    if not name:
        raise AnswerError(502, "a feed needs a name")
    store = connection.directory.queues.get(name)
    if store is None:
        raise NoSuchQueue(name)
    if store.owner is not connection.session:
        where = f"queue '{name}' in vhost '{connection.virtual_host}'"
        raise AccessRefused(f"{where} is not exclusive to this connection, as a feed must be")
    if store in connection.direct_feeds:
        raise QueueLocked(name)
    grant = Grant(channel, connection.virtual_host, store)
    lease = connection.leases.grant(connection.session, LeaseTarget.FEED, name, key=grant)
    channel.reply(DirectGetOk(lease))


DIRECT: dict[type[Method], Handler] = cast("dict[type[Method], Handler]", {DirectGet: _get, DirectPut: _put})
"""Method to handler; the rows pair each handler with the one type that it is written for."""


# Feeds that go elsewhere


def send_on(consumer: Consumer, direct: "DMPConnection") -> Feed:
    """Make the feed that takes a consumer's messages to a direct connection, in place of its own."""
    home = consumer.home
    return Feed(
        home.queue,
        direct.ref,
        key=consumer,
        outlet=direct.window,
        gate=home.gate,
        settles=False,
        exclusive=home.exclusive,
        priority=home.priority,
        no_local=home.no_local,
    )


def divert(grant: Grant, direct: "DMPConnection") -> None:
    """Let all consumers of a queue get their messages on a direct connection; what was not encoded yet goes there."""
    connection, store = grant.channel.connection, grant.store
    assert store is not None
    connection.direct_feeds[store] = direct
    store.set_ceiling(PRIVATE_BYTES)
    for channel in connection.channels.values():
        for consumer in channel.consumers.values():
            if consumer.home.queue is store.ref:
                connection.outlet.drop(consumer)
                consumer.feed = send_on(consumer, direct)
                connection.session.move_feed(consumer.home, consumer.feed)


def bring_home(grant: Grant, direct: "DMPConnection") -> None:
    """Let consumers get their messages over AMQP again; those whose channel has ended with its connection end now."""
    connection, store = grant.channel.connection, grant.store
    assert store is not None
    if connection.direct_feeds.get(store) is direct:
        del connection.direct_feeds[store]
    for feed in connection.session.feeds_to(direct.ref):
        consumer = feed.key
        assert isinstance(consumer, Consumer)
        if consumer.channel.open:
            consumer.feed = consumer.home
            connection.session.move_feed(feed, consumer.home)
        else:
            connection.session.close_feed(feed)
            consumer.end()
