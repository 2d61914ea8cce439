"""STAGE, COMMIT and ABORT: batches that are published whole or not at all; the core does it (``core.streams.staging``).

A COMMIT takes as long as its records take to be routed and to be on disk. Requests behind it stand in line.
"""

from functools import partial
from typing import TYPE_CHECKING

from triomq.core import PublishingPaused, StageKey, stages_of
from triomq.errors import Refused, TriomqError
from triomq.protocols.tap import AbortAsked, CommitAsked, StageAsked

if TYPE_CHECKING:
    from triomq.endpoints.tap.connection import TapServerConnection


def _key(event: StageAsked | CommitAsked | AbortAsked) -> StageKey:
    return StageKey(event.sink, event.writer, event.batch)


def stage(connection: "TapServerConnection", event: StageAsked) -> None:
    """Stage a chunk; a sink that is not there is refused now, not with the commit."""
    connection.require_write(event.sink)
    if event.sink:
        connection.directory.sink(event.sink)
    stages_of(connection.directory).stage(_key(event), event.part, event.attempt, event.chunk)
    connection.engine.done(event.number)


def commit(connection: "TapServerConnection", event: CommitAsked) -> None:
    """Begin to publish a batch."""
    connection.require_write(event.sink)
    connection.work_on(event, partial(_commit, connection, event))


async def _commit(connection: "TapServerConnection", event: CommitAsked) -> None:
    error: TriomqError | None = None
    try:
        await stages_of(connection.directory).commit(connection.publisher, _key(event), event.attempts)
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
    connection.require_write(event.sink)
    stages_of(connection.directory).abort(_key(event), event.part, event.attempt)
    connection.engine.done(event.number)
