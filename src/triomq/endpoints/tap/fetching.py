"""FETCH: one range of a partition, which may be in memory, in the store, or not there yet.

    asked ─┬─ in memory ─────────────────────────────▶ answered
           ├─ in the store ──▶ reading, by a task ───▶ answered; asked again if retention was faster
           │                   writing, by the store ▶ answered, on the socket that is lent to it
           └─ not there ─────▶ waiting ── records ───▶ asked again
                                  └─ time, or a further request ──▶ answered with no chunks

The store's process writes to the client's socket itself where the socket can be lent: not through TLS. So what is on
disk does not pass through the broker, which has the request, the rights and the bounds.

One FETCH of a connection is worked on at a time, and what is asked behind it stands in line (``connection``): answers
keep the order of requests, and one client makes the broker hold one answer.
"""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from triomq.core import AskBounds, Bounds, QueueState, ReadRange, RecordRange, read_records, send_records
from triomq.endpoints.tap.leasing import ledger_of
from triomq.endpoints.tap.partitions import OtherIdentity, partition_of, shown
from triomq.errors import ActorError, Disconnected, NotFound, OutOfRange, TriomqError
from triomq.protocols.tap import FetchAsked

if TYPE_CHECKING:
    from triomq.endpoints.tap.connection import TapServerConnection

MOST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of chunks in one answer, and all that one client makes the broker hold; it is 40,000 records of 100 bytes, so
that asking for each costs nothing."""

LONGEST_WAIT: Final = 60.0
"""Seconds that a client may have us wait for records: proxies and firewalls forget silent connections after some
minutes."""

_MOST_RECORDS: Final = 1 << 62


class PendingFetch:
    """A FETCH that cannot be answered at once; made by ``fetch``, ends with an answer or the connection.

    To be asked again it is put before all events of its connection, as one of them.

    Args:
        connection: The client.
        event: What it asks.
        stream: The partition.
        deadline: Until when it waits for records.
        bounds: What the partition had.
    """

    __slots__ = ("_connection", "bounds", "deadline", "event", "stream")

    def __init__(
        self,
        connection: "TapServerConnection",
        event: FetchAsked,
        stream: QueueState,
        deadline: float,
        bounds: Bounds,
    ) -> None:
        self.event = event
        self.deadline = deadline
        self.bounds = bounds
        self.stream = stream
        self._connection = connection

    def arrived(self) -> None:
        """Ask again, soon: this comes in the middle of a turn of the stream's."""
        self._connection.in_turn(self._connection.arrived, self)


def fetch(connection: "TapServerConnection", event: FetchAsked, deadline: float | None = None) -> None:
    """Answer a FETCH, or begin to.

    Args:
        connection: The client.
        event: What it asks.
        deadline: Until when it waits for records; None is as long from now as it says.

    Raises:
        AccessRefused: The user may not read the stream.
        NotFound: There is no such stream, or partition.
        OtherIdentity: The partition is another one.
        Restarting: It cannot answer just now.
    """
    connection.require_read(event.stream)
    stream = _named(connection, event)
    bounds = connection.ask_unguarded(stream.ref, AskBounds())
    if event.identity not in (None, bounds.identity):
        raise OtherIdentity(event.stream, shown(bounds))
    if event.first < bounds.first:
        gone = OutOfRange(event.stream, event.first, bounds.first, bounds.stop)
        connection.engine.refuse(event.number, "OUT_OF_RANGE", str(gone), shown(bounds))
    elif event.stop is not None and event.stop <= event.first:
        connection.engine.records(event.number, shown(bounds), [])
    else:
        if deadline is None:
            deadline = trio.current_time() + min(event.wait / 1000, LONGEST_WAIT)
        _seek(connection, PendingFetch(connection, event, stream, deadline, bounds))


def _named(connection: "TapServerConnection", event: FetchAsked) -> QueueState:
    """Return what a FETCH reads: a partition of a stream, or with a group the ledger of a queue."""
    if event.group:
        return ledger_of(connection, event.stream, event.group, event.partition).state
    return partition_of(connection.directory, event.stream, event.partition, connection.session)


def fetch_again(connection: "TapServerConnection", pending: PendingFetch) -> None:
    """Answer a FETCH that had to wait; raises as ``fetch``."""
    fetch(connection, pending.event, pending.deadline)


def _seek(connection: "TapServerConnection", pending: PendingFetch) -> None:
    """Find the records, wherever they are."""
    event, bounds, stream = pending.event, pending.bounds, pending.stream
    records = _MOST_RECORDS if event.stop is None else event.stop - event.first
    size = min(event.most_bytes, MOST_BYTES)
    if event.first < bounds.stop:
        found = connection.ask_unguarded(stream.ref, ReadRange(event.first, records, size))
        if found is None:
            connection.work_on(pending, partial(_read_stored, connection, pending, records, size))
        else:
            connection.engine.records(event.number, shown(found.bounds), found.chunks)
    elif pending.deadline > trio.current_time():
        connection.wait_for(pending)
    else:
        connection.engine.records(event.number, shown(bounds), [])


async def _read_stored(connection: "TapServerConnection", pending: PendingFetch, records: int, size: int) -> None:
    """Have the store answer, on the client's socket or here; what is left is done in a turn of the client's."""
    descriptor = connection.lend()
    if descriptor is None:
        answer = await _relay(connection, pending, records, size)
    else:
        answer = await _send(connection, pending, records, size, descriptor)
    connection.ref.run_in_turn(connection.has_done, pending, answer)


async def _send(
    connection: "TapServerConnection", pending: PendingFetch, records: int, size: int, descriptor: int
) -> Callable[[], None]:
    """Have the store write the answer to the client's socket; return what is left to do."""
    number, first, bounds = pending.event.number, pending.event.first, shown(pending.bounds)
    room = connection.context.unread.room
    head = connection.engine.records_head(number, bounds)
    try:
        is_sent = await send_records(
            pending.stream,
            first,
            most_records=records,
            most_bytes=size,
            descriptor=descriptor,
            head=head,
            reader=connection.user,
            room=0 if room == inf else int(room),
        )
    except Disconnected:
        return connection.break_off
    except TriomqError as error:
        return partial(connection.refused, pending, error)
    if is_sent:
        return partial(connection.engine.records_written, number, bounds)
    return partial(connection.ask_again, pending)  # retention was faster


async def _relay(
    connection: "TapServerConnection", pending: PendingFetch, records: int, size: int
) -> Callable[[], None]:
    """Read from the store; return what answers."""
    answer: RecordRange | TriomqError
    event = pending.event
    try:
        answer = await read_records(pending.stream, event.first, most_records=records, most_bytes=size)
    except ActorError:
        answer = NotFound(f"stream {event.stream!r} is gone: it was deleted while it was read")
    except TriomqError as error:
        answer = error
    return partial(_answer, connection, pending, answer)


def _answer(connection: "TapServerConnection", pending: PendingFetch, answer: RecordRange | TriomqError) -> None:
    if isinstance(answer, RecordRange):
        connection.engine.records(pending.event.number, shown(answer.bounds), answer.chunks)
    elif isinstance(answer, OutOfRange):
        connection.ask_again(pending)  # retention was faster; the answer has the bounds of now
    else:
        connection.refused(pending, answer)
