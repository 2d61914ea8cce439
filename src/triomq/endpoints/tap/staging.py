"""STAGE, COMMIT and ABORT: batches that are published whole or not at all; the core does it (``core.streams.staging``).

A COMMIT takes as long as its records take to be routed and to be on disk. Requests behind it stand in line.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from triomq.core import PublishingPaused, StageKey, StageTarget, stages_of
from triomq.errors import Refused, TriomqError
from triomq.protocols.tap import AbortAsked, CommitAsked, StageAsked

if TYPE_CHECKING:
    from triomq.endpoints.tap.connection import TapServerConnection

_RECORDS_PER_PUSH: Final = 10
"""Records that are checked in the time of one push into a queue, of which a turn has a budget."""


def _key(connection: "TapServerConnection", event: StageAsked | CommitAsked | AbortAsked) -> StageKey:
    return StageKey(StageTarget(event.target, event.is_sink), event.writer, event.batch, connection.user)


def stage(connection: "TapServerConnection", event: StageAsked) -> None:
    """Stage a chunk; a target that is not there is refused now, not with the commit."""
    key = _key(connection, event)
    connection.require_write(key.target)
    key.target.require(connection.directory)
    stages = stages_of(connection.directory)
    most, user = connection.max_batch, connection.user
    count = stages.stage(key, event.part, event.attempt, event.chunk, most=most, user=user)
    connection.system.turn.charge(count // _RECORDS_PER_PUSH)
    connection.engine.done(event.number)


def commit(connection: "TapServerConnection", event: CommitAsked) -> None:
    """Begin to publish a batch."""
    key = _key(connection, event)
    connection.require_write(key.target)
    connection.work_on(event, partial(_commit, connection, event, key))


async def _commit(connection: "TapServerConnection", event: CommitAsked, key: StageKey) -> None:
    error: TriomqError | None = None
    try:
        await stages_of(connection.directory).commit(connection.publisher, key, event.attempts)
    except PublishingPaused as paused:
        error = Refused(f"nothing is committed: {paused.pressure.value}; try again later")
    except TriomqError as refused:
        error = refused
    connection.ref.run_in_turn(connection.has_done, event, partial(_answer, connection, event, error))


def _answer(connection: "TapServerConnection", event: CommitAsked, error: TriomqError | None) -> None:
    if error is None:
        connection.engine.done(event.number)
    else:
        connection.refused(event, error)


def abort(connection: "TapServerConnection", event: AbortAsked) -> None:
    """Drop what is staged."""
    key = _key(connection, event)
    connection.require_write(key.target)
    stages_of(connection.directory).abort(key, event.part, event.attempt)
    connection.engine.done(event.number)
