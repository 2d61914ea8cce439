"""What a store recovers when it is opened: everything but the bodies of messages.

It comes in pieces, since it may be much; ``assemble`` puts them together.
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec


class RecordFound(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=1):
    """A record."""

    kind: int
    key: bytes
    value: bytes


class RecordKeyFound(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=8):
    """A record of a kind that is read singly: without its value.

    Args:
        kind: Its kind.
        key: Its key.
        size: Bytes of its value.
    """

    kind: int
    key: bytes
    size: int


class QueueFound(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=2):
    """A queue; comes before anything that is in it.

    Args:
        queue: Its number.
        key: As it was declared.
        value: As it was declared.
        next_id: One more than the highest id that was ever stored.
    """

    queue: int
    key: bytes
    value: bytes
    next_id: int


class SegmentFound(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=3):
    """A segment; those of one queue come in the order of their ids.

    Args:
        queue: The queue's number.
        first: The id of its first message.
        count: How many messages it was made of.
        left: How many of them are not settled.
        size: What the core counted for all of them, also for those that are settled, in bytes.
        settled: A bit for each position that is settled, the lowest of the first byte for the first; empty if none is.
    """

    queue: int
    first: int
    count: int
    left: int
    size: int
    settled: bytes

    def unsettled(self) -> list[int]:
        """Return the positions that are not settled."""
        bits = int.from_bytes(self.settled, "little")
        return [position for position in range(self.count) if not bits >> position & 1]


class TotalsFound(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=7):
    """The totals of a queue's segments.

    Args:
        queue: The queue's number.
        count: Messages that are not settled.
        size: About how many bytes those have.
        missing: Messages that were stored and not settled, and are not there: the disk has damaged their rows.
    """

    queue: int
    count: int
    size: int
    missing: int = 0


class ChunkFound(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=9):
    """A chunk of a stream; those of one stream come in the order of their offsets.

    Args:
        queue: The stream's number.
        first: The offset of its first record.
        count: How many records it has.
        size: Its bytes.
        time: When its last record was appended, in microseconds since 1970.
    """

    queue: int
    first: Annotated[int, msgspec.Meta(ge=0)]
    count: Annotated[int, msgspec.Meta(gt=0)]
    size: Annotated[int, msgspec.Meta(ge=0)]
    time: Annotated[int, msgspec.Meta(ge=0)]


class DelayedFound(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=4):
    """Messages that are not ready before ``due``, in seconds since 1970; in the order of their numbers."""

    queue: int
    number: int
    due: float
    count: int
    size: int


class DeliveredFound(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=5):
    """The id up to which messages of a level were delivered."""

    queue: int
    level: int
    up_to: int


class AttemptsFound(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=6):
    """How often a message was returned."""

    queue: int
    id: int
    count: int


Piece = (
    RecordFound
    | RecordKeyFound
    | QueueFound
    | SegmentFound
    | TotalsFound
    | ChunkFound
    | DelayedFound
    | DeliveredFound
    | AttemptsFound
)


class RecoveredQueue(msgspec.Struct):
    """A queue and what is in it.

    Args:
        found: The queue.
        count: Messages that are not settled, delayed ones apart; the records of a stream.
        size: About how many bytes those have.
        segments: Their segments, if the store was asked for them.
        delayed: Those that are not ready yet.
        delivered: The ids up to which messages were delivered, by level.
        attempts: How often messages were returned, by id.
        missing: As of ``TotalsFound``.
        chunks: The chunks of a stream.
    """

    found: QueueFound
    count: int = 0
    size: int = 0
    segments: list[SegmentFound] = []
    delayed: list[DelayedFound] = []
    delivered: dict[int, int] = {}
    attempts: dict[int, int] = {}
    missing: int = 0
    chunks: list[ChunkFound] = []


class Recovered(msgspec.Struct):
    """Everything that was recovered.

    Args:
        records: In the order of their kinds and keys.
        keys: Records of the kinds that are read singly, in the same order.
        queues: By number.
    """

    records: list[RecordFound] = []
    keys: list[RecordKeyFound] = []
    queues: dict[int, RecoveredQueue] = {}

    @property
    def next_queue(self) -> int:
        """A number above those of all queues."""
        return max(self.queues, default=0) + 1


def assemble(pieces: Iterable[Piece]) -> Recovered:
    """Return the pieces, put together by queue."""
    recovered = Recovered()
    for piece in pieces:
        match piece:
            case RecordFound():
                recovered.records.append(piece)
            case RecordKeyFound():
                recovered.keys.append(piece)
            case QueueFound():
                recovered.queues[piece.queue] = RecoveredQueue(piece)
            case SegmentFound():
                queue = recovered.queues[piece.queue]
                queue.segments.append(piece)
                queue.count += piece.left
                queue.size += piece.size * piece.left // piece.count
            case TotalsFound():
                queue = recovered.queues[piece.queue]
                queue.count, queue.size, queue.missing = piece.count, piece.size, piece.missing
            case ChunkFound():
                queue = recovered.queues[piece.queue]
                queue.chunks.append(piece)
                queue.count += piece.count
                queue.size += piece.size
            case DelayedFound():
                recovered.queues[piece.queue].delayed.append(piece)
            case DeliveredFound():
                recovered.queues[piece.queue].delivered[piece.level] = piece.up_to
            case AttemptsFound():
                recovered.queues[piece.queue].attempts[piece.id] = piece.count
    return recovered
