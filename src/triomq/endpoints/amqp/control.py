"""The class control on AMQP: a request's octets, what an inspector finds, and back to octets that fit into a frame."""

import logging
from collections.abc import Callable, Iterable
from itertools import islice
from typing import cast

from triomq.core import ForgetOrigin
from triomq.endpoints.amqp.channel import ServerChannel
from triomq.endpoints.amqp.definitions import describe
from triomq.endpoints.amqp.permissions import require_read
from triomq.endpoints.amqp.refusals import AMQPRefusal
from triomq.endpoints.management.inspector import BrokerInspector, DomainInspector
from triomq.endpoints.management.jobs import JobInspector
from triomq.endpoints.management.paging import Paged, fill_page
from triomq.errors import RemoteProtocolError
from triomq.protocols.amqp import ControlRequest, ControlResponse
from triomq.protocols.control import (
    OPERATIONS,
    BrowseQueue,
    CancelJob,
    CancelledJob,
    Definitions,
    ExportDefinitions,
    ForgetPeer,
    Forgotten,
    GetJobTotals,
    GetTotals,
    ListBindings,
    ListConnections,
    ListDeadJobs,
    Listing,
    ListJobs,
    ListQueues,
    ListSchedules,
    ListSinks,
    ListWorkers,
    Operation,
    RequeuedJob,
    RequeueJob,
    ShowJob,
    ShowTree,
    decode_operation,
    encode,
)
from triomq.security import ADMINISTRATOR

_AROUND = 16
"""Octets of a control.response that are not its result: the frame's eight, two numbers, a length."""

_OfDomain = Callable[[DomainInspector, Operation[object]], object]
_OfBroker = Callable[[BrokerInspector, Operation[object]], object]

# What shows the virtual host of the connection alone, which all of its users may see.
_OF_DOMAIN: dict[type[Operation[object]], _OfDomain] = cast(
    "dict[type[Operation[object]], _OfDomain]",
    {
        BrowseQueue: DomainInspector.browse,
        ListBindings: DomainInspector.list_bindings,
        ListConnections: DomainInspector.list_connections,
        ListQueues: DomainInspector.list_queues,
        ListSchedules: DomainInspector.list_schedules,
        ListSinks: DomainInspector.list_sinks,
        ListWorkers: DomainInspector.list_workers,
    },
)
# What shows more than that.
_OF_BROKER: dict[type[Operation[object]], _OfBroker] = cast(
    "dict[type[Operation[object]], _OfBroker]",
    {GetTotals: BrokerInspector.get_totals, ShowTree: BrokerInspector.show_tree},
)


def control_request(channel: ServerChannel, method: ControlRequest) -> None:
    """ReplyCode a control.request.

    Raises:
        AMQPRefusal: The operation is not known (404) or its arguments are wrong (406).
        Refused: What it asks about is not there, or locked.
    """
    operation = _operation(method)
    room = channel.connection.engine.frame_max - _AROUND
    found = _ask(channel, operation, room)
    if isinstance(operation, Listing):
        found = fill_page(cast("Iterable[Paged[object]]", found), limit=operation.limit, room=room)
    channel.reply(ControlResponse(encode(found)))


def _operation(method: ControlRequest) -> Operation[object]:
    try:
        return decode_operation(method.operation, method.arguments)
    except KeyError:
        raise AMQPRefusal(404, f"no operation '{method.operation}'; there are {', '.join(OPERATIONS)}") from None
    except RemoteProtocolError as error:
        raise AMQPRefusal(406, str(error)) from None


def _ask(channel: ServerChannel, operation: Operation[object], room: int) -> object:
    """Ask the operation's inspector; what shows more than the virtual host passes by the second branch alone."""
    connection = channel.connection
    if isinstance(operation, BrowseQueue):
        require_read(channel, "queue", operation.queue)  # a right to watch is none to read what others write
    if (look := _OF_DOMAIN.get(type(operation))) is not None:
        inspector = DomainInspector(
            connection.context,
            connection.directory,
            connection.session,
            connection.ref,
            browse=connection.ask_unguarded,
            properties=lambda message: connection.to_wire(message)[0],
            room=room,
        )
        return look(inspector, operation)
    if (handle := _OF_JOBS.get(type(operation))) is not None:
        return handle(channel, operation, room)
    if isinstance(operation, ExportDefinitions):
        return _definitions(channel, operation)
    if isinstance(operation, ForgetPeer):
        return _forget(channel, operation)
    return _OF_BROKER[type(operation)](BrokerInspector(connection.context, connection.ref), operation)


def _jobs(channel: ServerChannel, room: int) -> JobInspector:
    connection = channel.connection
    return JobInspector(
        connection.context.jobs.get(connection.directory.name),
        browse=connection.ask_unguarded,
        may_read=connection.access.may_read,
        room=room,
    )


def _cancel_job(channel: ServerChannel, operation: CancelJob, room: int) -> CancelledJob:
    """Cancel a job, which is the user's own, or anybody's if it is an administrator.

    Raises:
        AMQPRefusal: It is another user's (403).
    """
    connection = channel.connection

    def may(user: str) -> None:
        if user != connection.user:
            _require_administrator(channel, "cancelling another user's job")

    cancelled = _jobs(channel, room).cancel(operation, may)
    connection.note(logging.INFO, "job cancelled", job=operation.job)
    return cancelled


def _requeue_job(channel: ServerChannel, operation: RequeueJob, room: int) -> RequeuedJob:
    """Send a dead job again.

    Raises:
        AMQPRefusal: The user may not read dead letters (403).
    """
    connection = channel.connection
    desk = connection.context.jobs.get(connection.directory.name)
    if desk is not None:
        require_read(channel, "queue", desk.dead_letters)
    requeued = _jobs(channel, room).requeue(operation, connection.publisher)
    connection.note(logging.INFO, "job requeued", job=operation.job, requeued_as=requeued.id)
    return requeued


_OfJobs = Callable[[ServerChannel, Operation[object], int], object]
_OF_JOBS: dict[type[Operation[object]], _OfJobs] = cast(
    "dict[type[Operation[object]], _OfJobs]",
    {
        GetJobTotals: lambda channel, operation, room: _jobs(channel, room).get_totals(operation),
        ListJobs: lambda channel, operation, room: _jobs(channel, room).list_jobs(operation),
        ListDeadJobs: lambda channel, operation, room: _jobs(channel, room).list_dead(operation),
        ShowJob: lambda channel, operation, room: _jobs(channel, room).show(operation),
        CancelJob: _cancel_job,
        RequeueJob: _requeue_job,
    },
)


def _definitions(channel: ServerChannel, operation: ExportDefinitions) -> Iterable[Paged[Definitions]]:
    """Return what the broker consists of, passwords' hashes included, for an administrator.

    Raises:
        AMQPRefusal: The user is no administrator (403).
    """
    connection = channel.connection
    _require_administrator(channel, "definitions")
    parts = enumerate(describe(connection.context, connection.virtual_hosts), 1)
    return (Paged(number, part) for number, part in islice(parts, operation.after, None))


def _forget(channel: ServerChannel, operation: ForgetPeer) -> Forgotten:
    """Delete what a peer had made.

    Raises:
        AMQPRefusal: The user is no administrator (403).
    """
    connection = channel.connection
    _require_administrator(channel, "forget")
    count = connection.ask_unguarded(connection.domain, ForgetOrigin(operation.origin))
    connection.note(logging.WARNING, "origin forgotten", origin=operation.origin, count=count)
    return Forgotten(count)


def _require_administrator(channel: ServerChannel, what: str) -> None:
    connection = channel.connection
    user = connection.context.users.get(connection.user)
    if user is None or ADMINISTRATOR not in user.tags:
        raise AMQPRefusal(403, f"{what} refused for user '{connection.user}', who has no tag administrator")
