"""What a connection does for each event; what takes longer to tell has files of its own."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import msgspec

from triomq.core import AskBounds, QueueState, SetPosition, find_since, groups_of, position_of, stream_names
from triomq.endpoints.tap.fetching import PendingFetch, fetch, fetch_again
from triomq.endpoints.tap.leasing import acknowledge, hold, lease, named_ledger
from triomq.endpoints.tap.login import challenge_answered, login_requested
from triomq.endpoints.tap.partitions import OtherIdentity, partition_of, partitions_of, shown
from triomq.endpoints.tap.staging import abort, commit, stage
from triomq.errors import ActorError, NotFound, TriomqError
from triomq.protocols.tap import (
    AbortAsked,
    AckAsked,
    ChallengeAnswered,
    CommitAsked,
    EndOfStream,
    Failed,
    FetchAsked,
    LeaseAsked,
    ListAsked,
    LoginRequested,
    OffsetsAsked,
    PartitionBounds,
    PingAsked,
    Request,
    ServerEvent,
    StageAsked,
)

if TYPE_CHECKING:
    from triomq.endpoints.tap.connection import TapServerConnection


_QUEUES_PER_PUSH = 20
"""Queues that can be looked at in the time of one push into a queue, of which a turn has a budget."""


def _ping(connection: "TapServerConnection", event: PingAsked) -> None:
    connection.engine.done(event.number)


def _list(connection: "TapServerConnection", event: ListAsked) -> None:
    connection.system.turn.charge(len(connection.directory.queues) // _QUEUES_PER_PUSH)
    names = stream_names(connection.directory, connection.session)
    connection.engine.streams(event.number, list(filter(connection.access.may_read, names)))


def _offsets(connection: "TapServerConnection", event: OffsetsAsked) -> None:
    """Answer what each partition has, and where the group is; a time is looked for by a task, perhaps on disk."""
    connection.require_read(event.stream)
    ledger = named_ledger(connection, event.stream, event.group)
    if ledger is not None:
        bounds = connection.ask_unguarded(ledger.state.ref, AskBounds())
        connection.engine.bounds(event.number, [shown(bounds, bounds.first)])  # what is done is gone
        return
    streams = partitions_of(connection.directory, event.stream, connection.session)
    found = []
    for stream in streams:
        bounds = connection.ask_unguarded(stream.ref, AskBounds())
        found.append(shown(bounds, position_of(stream, event.group) if event.group else None))
    if event.since is None:
        connection.engine.bounds(event.number, found)
    else:
        connection.work_on(event, partial(_find_since, connection, event, event.since, streams, found))


async def _find_since(
    connection: "TapServerConnection",
    event: OffsetsAsked,
    since: int,
    streams: Sequence[QueueState],
    bounds: Sequence[PartitionBounds],
) -> None:
    """Find a time in the partitions where the group has no position."""
    answer: Callable[[], None]
    try:
        found = [
            msgspec.structs.replace(each, position=min(await find_since(stream, since), each.next))
            if each.position is None
            else each
            for stream, each in zip(streams, bounds, strict=True)
        ]
        answer = partial(connection.engine.bounds, event.number, found)
    except ActorError:
        gone = NotFound(f"stream {event.stream!r} is gone: it was deleted while it was read")
        answer = partial(connection.refused, event, gone)
    except TriomqError as error:
        answer = partial(connection.refused, event, error)
    connection.ref.run_in_turn(connection.has_done, event, answer)


def _ack(connection: "TapServerConnection", event: AckAsked) -> None:
    """Set all positions, or none if one is of a partition that is another one or not there."""
    connection.require_read(event.stream)
    if (ledger := named_ledger(connection, event.stream, event.group)) is not None:
        acknowledge(connection, event, ledger)
        return
    streams = []
    for number, position in event.positions.items():
        stream = partition_of(connection.directory, event.stream, number, connection.session)
        bounds = connection.ask_unguarded(stream.ref, AskBounds())
        if position.identity not in (None, bounds.identity):
            raise OtherIdentity(event.stream, shown(bounds))
        streams.append((stream, position.next))
    groups = groups_of(connection.directory)
    for stream, _ in streams:
        groups.require_room(stream.name, event.group, connection.user, len(streams))
    for stream, offset in streams:
        connection.ask_unguarded(stream.ref, SetPosition(event.group, offset, connection.user))
    connection.engine.done(event.number)
    hold(connection, *(stream for stream, _ in streams))  # DONE says that they are on disk


REQUESTS: dict[type[Request], Callable[["TapServerConnection", Request], None]] = cast(
    "dict[type[Request], Callable[[TapServerConnection, Request], None]]",
    {
        AbortAsked: abort,
        AckAsked: _ack,
        CommitAsked: commit,
        FetchAsked: fetch,
        LeaseAsked: lease,
        ListAsked: _list,
        OffsetsAsked: _offsets,
        PingAsked: _ping,
        StageAsked: stage,
    },
)
"""Request to function; the rows pair each function with the types that it is written for."""


def _asked(connection: "TapServerConnection", event: Request) -> None:
    if connection.may_go_on(event):
        REQUESTS[type(event)](connection, event)


def _failed(connection: "TapServerConnection", event: Failed) -> None:
    connection.note(logging.WARNING, "connection failed", code=event.code, reason=event.text)
    connection.ending = event.text


def _end_of_stream(connection: "TapServerConnection", event: EndOfStream) -> None:
    if event.unfinished:
        connection.note(logging.WARNING, "a frame was not finished", bytes=event.unfinished)
    connection.ending = connection.ending or "closed by the client"


EVENTS: dict[type, Callable[["TapServerConnection", ServerEvent | PendingFetch], None]] = cast(
    "dict[type, Callable[[TapServerConnection, ServerEvent | PendingFetch], None]]",
    {
        **dict.fromkeys(REQUESTS, _asked),
        ChallengeAnswered: challenge_answered,
        EndOfStream: _end_of_stream,
        Failed: _failed,
        LoginRequested: login_requested,
        PendingFetch: fetch_again,
    },
)
"""Event to function, likewise."""
