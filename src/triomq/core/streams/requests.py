"""What is asked of a stream besides what every queue is asked."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from triomq.actors import Message, Request
from triomq.chunks import Columns
from triomq.core.streams.log import StreamLog
from triomq.core.streams.start import Bounds, Place, Since
from triomq.core.streams.stored import StoredLog
from triomq.errors import OutOfRange

if TYPE_CHECKING:
    from triomq.core.queue.queue_state import QueueState

_ALL: Final = 1 << 62
"""Records: more than there are."""


class AskBounds(Request[Bounds], frozen=True):
    """To a stream: return what of it can be read."""


class RecordRange(msgspec.Struct, frozen=True, gc=False):
    """Records that were asked for.

    Args:
        bounds: What the stream had then.
        chunks: Whole chunks, in order, the first one with the offset that was asked for; none if that is not there yet.
    """

    bounds: Bounds
    chunks: Sequence[bytes]


class ReadRange(Request[RecordRange | None], frozen=True):
    """To a stream: return records; None if they have to be read from the store (``read_records`` does it).

    Args:
        first: The first offset.
        most_records: How many records are wanted; the last chunk may have more.
        most_bytes: How many bytes of chunks, one chunk excepted.

    Raises (in the asker):
        OutOfRange: The records at the offset are gone.
    """

    first: int
    most_records: int
    most_bytes: int


class Resolved(msgspec.Struct, frozen=True, gc=False):
    """Where a reader begins: the stream's identity, and an offset."""

    identity: int
    offset: int


class ResolvePlace(Request[Resolved], frozen=True):
    """To a stream: return where a reader begins.

    Args:
        place: Where, unless the group has a position.
        group: The reader's group, if it has one.
    """

    place: Place
    group: str | None = None


class SetPosition(Request[int], frozen=True):
    """To a stream: a group has read up to an offset; it may be lower than before, and holds nothing back.

    Answers the batch of the store that has it, for ``Persistence.wait_committed``; 0 if there is none.

    Args:
        group: The group's name.
        offset: The next offset that it wants.
        user: Who sets it, and is charged for it if it is a new one; empty for the program itself.

    Raises (in the asker):
        ShareReached: It would be a new one, and the user has as many as it may.
    """

    group: str
    offset: int
    user: str = ""


class ForgetGroup(Request[bool], frozen=True):
    """To a stream: forget the position of a group; answers whether it had one."""

    group: str


class GoOn(Message, frozen=True):
    """To a stream: something of your log has happened outside of a turn; call this, and deliver what can be read."""

    call: Callable[[], None]


async def send_records(
    state: "QueueState",
    first: int,
    *,
    most_records: int,
    most_bytes: int,
    descriptor: int,
    head: bytes,
    reader: str = "",
    room: int = 0,
) -> bool:
    """Have the store's process write records of a stream to a socket, whose owner writes nothing to it meanwhile.

    To be called when ``ReadRange`` was answered by None: what is in memory is not written.

    Args:
        state: The stream's.
        first: The first offset.
        most_records: How many records are wanted; the last chunk may have more.
        most_bytes: How many bytes of chunks, one chunk excepted.
        descriptor: A duplicate of the socket's descriptor; owned from now on.
        head: The message around the chunks; see ``Journal.send_chunks``.
        reader: The user who gets them.
        room: Bytes that all such answers may leave unread, of which one user may have half; 0 is no bound.

    Returns:
        Whether they are written; if not the records have gone meanwhile, and nothing was written.

    Raises:
        Disconnected: Half of them may be written: the reader is gone or does not read, or the store has ended.
        StoreError: They cannot be read, and nothing was written.
    """
    log = state.backlog
    assert isinstance(log, StoredLog)
    return await log.send(first, most_records, most_bytes, descriptor, head, reader, room)


async def read_records(
    state: "QueueState", first: int, *, most_records: int, most_bytes: int, since: int = 0
) -> RecordRange:
    """Read records of a stream, wherever they are.

    Args:
        state: The stream's.
        first: The first offset.
        most_records: How many records are wanted; the last chunk may have more.
        most_bytes: How many bytes of chunks, one chunk excepted.
        since: Pass over chunks in the store that are wholly older, in microseconds since 1970.

    Raises:
        OutOfRange: The records at the offset are gone.
        ChunkDamaged: They are damaged.
        StoreError: They cannot be read.
        ActorError: The stream is deleted.
    """
    found = await state.ref.ask(ReadRange(first, most_records, most_bytes))
    if found is None:
        log = state.backlog
        assert isinstance(log, StoredLog)
        chunks = await log.fetch(first, most_records, most_bytes, since)
        bounds = log.bounds
        if first < bounds.first:  # they have gone meanwhile
            raise OutOfRange(state.name, first, bounds.first, bounds.stop)
        return RecordRange(bounds, chunks)
    return found


async def find_since(state: "QueueState", since: int) -> int:
    """Find the first record that was appended at a time or later.

    Args:
        state: The stream's.
        since: The time, in microseconds since 1970.

    Returns:
        Its offset; that of the next record if there is none.

    Raises:
        ChunkDamaged: The chunk that may have it is damaged.
        StoreError: It cannot be read.
        ActorError: The stream is deleted.
    """
    offset = (await state.ref.ask(ResolvePlace(Since(since / 1_000_000)))).offset  # of a chunk, perhaps one before
    while True:
        try:
            found = await read_records(state, offset, most_records=_ALL, most_bytes=1, since=since)
        except OutOfRange as gone:
            offset = gone.first
            continue
        if not found.chunks:
            return found.bounds.stop
        columns = Columns(found.chunks[0])
        offset = columns.head.first + bisect_left(columns.times(), since)
        if offset < columns.head.stop:
            return max(offset, found.bounds.first)


def position_of(state: "QueueState", group: str) -> int | None:
    """Return the next offset of a stream that a group wants; None if it has no position."""
    assert isinstance(state.backlog, StreamLog)
    return state.backlog.positions.get(group)
