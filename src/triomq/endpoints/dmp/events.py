"""What a direct connection does for each event of its engine, as a table: the lease, messages, and the end."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from triomq.core import Directory, Lease, LeaseTarget, NoSuchQueue
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.direct import Grant, check_sink
from triomq.endpoints.dmp.refusals import LeaseDenied, denial_of
from triomq.errors import Refused
from triomq.protocols.dmp import EndOfStream, Event, Failed, LeasePresented, MessageRun

if TYPE_CHECKING:
    from triomq.endpoints.dmp.connection import DMPServerConnection

# The lease


def _lease_presented(connection: "DMPServerConnection", event: LeasePresented) -> None:
    """Become what the lease is for, if that still may be."""
    assert connection.leases is not None
    try:
        lease = connection.leases.take(event.lease)
    except Refused as refused:
        raise denial_of(refused) from None
    try:
        _show(connection, lease)
    except Refused as refused:
        raise denial_of(refused) from None
    finally:
        connection.leases.done(lease)


def _show(connection: "DMPServerConnection", lease: Lease) -> None:
    grant = lease.key
    assert isinstance(grant, Grant)
    directory = grant.lessee.connection.directory
    _check_user(connection.context, lease)
    if lease.target is LeaseTarget.SINK:
        _check_sink(connection.context, lease, directory)
    else:
        _check_feed(connection.context, lease, grant, directory)
    connection.take_up(lease, grant, directory)


def _check_user(broker: BrokerContext, lease: Lease) -> None:
    """Check that the user is still there, and may have one more connection."""
    user = broker.users.get(lease.session.user)
    if user is None:
        raise LeaseDenied(403, f"there is no user '{lease.session.user}'")
    if not broker.quotas.has_room(user.name, "connections"):
        limit = broker.quotas.limit(user.name, "connections")
        raise LeaseDenied(530, f"user connection limit ({limit}) is reached")


def _check_sink(broker: BrokerContext, lease: Lease, directory: Directory) -> None:
    """Check that the sink is still there, and the user may publish into it."""
    check_sink(directory, lease.name)
    if not broker.users.access(lease.session.user, directory.name).may_write(lease.name):
        raise LeaseDenied(403, f"user '{lease.session.user}' may not publish into '{lease.name}'")


def _check_feed(broker: BrokerContext, lease: Lease, grant: Grant, directory: Directory) -> None:
    """Check that the queue is still the one that was leased, has no direct feed, and the user may read it."""
    if directory.queues.get(lease.name) is not grant.queue:
        raise NoSuchQueue(lease.name)
    if grant.queue in grant.lessee.connection.direct_feeds:
        raise LeaseDenied(530, f"feed '{lease.name}' has a connection already")
    if not broker.users.access(lease.session.user, directory.name).may_read(lease.name):
        raise LeaseDenied(403, f"user '{lease.session.user}' may not read '{lease.name}'")


# Messages, and the end


def _message_run(connection: "DMPServerConnection", event: MessageRun) -> None:
    assert connection.sink is not None
    connection.sink.publish(event)


def _failed(connection: "DMPServerConnection", event: Failed) -> None:
    connection.note(logging.WARNING, "direct connection failed", code=event.code, reason=event.text)
    connection.ending = event.text


def _end_of_stream(connection: "DMPServerConnection", event: EndOfStream) -> None:
    if event.unfinished:
        connection.note(logging.WARNING, "a message was not finished", octets=event.unfinished)
    connection.ending = connection.ending or "closed by the client"


EVENTS: dict[type[Event], Callable[["DMPServerConnection", Event], None]] = cast(
    "dict[type[Event], Callable[[DMPServerConnection, Event], None]]",
    {
        EndOfStream: _end_of_stream,
        Failed: _failed,
        LeasePresented: _lease_presented,
        MessageRun: _message_run,
    },
)
"""Event to function; the rows pair each function with the one type that it is written for."""
