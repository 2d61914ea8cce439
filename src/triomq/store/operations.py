"""The records of a store: numbered batches of operations, each batch whole on disk or not at all.

Everything that means something only to the core is opaque bytes here: keys, options, heads, and the contents of
messages. A queue has a number that the core gives it; a message is known by its queue and its id, which only grows.
Operations that belong together are in one batch: a dead letter is a ``MessagesAppended`` to one queue and a
``MessagesSettled`` of another, a transaction is all that it does to all its queues.
"""

from collections.abc import Sequence
from enum import IntEnum

import msgspec

from triomq.store.gathered import Octets

Range = tuple[int, int]
"""Ids in a row: the first, and their count."""


class RecordKind(IntEnum):
    """The kinds of records beside queues; the numbers are on disk, so they are never reused."""

    SINK = 1
    BINDING = 2
    POLICY = 3
    JOB = 4
    SCHEDULE = 5
    STREAM = 6
    RESULT = 7
    POSITION = 8
    WRITER = 9
    PUBLISHER = 10
    LEDGER = 11
    RESOURCE = 12


READ_SINGLY = frozenset({RecordKind.RESULT})
"""Kinds whose values may be many megabytes: a restart recovers their keys and sizes, and ``read_record`` reads one."""


class RecordPut(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=1):
    """Store a record, in place of the one with the same key if there is one."""

    kind: int
    key: bytes
    value: bytes


class RecordRemoved(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=2):
    """Delete a record, if it is there."""

    kind: int
    key: bytes


class RecordRangeRemoved(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=13):
    """Delete the records of a kind whose keys are in a range; keys are compared as bytes."""

    kind: int
    first: bytes
    stop: bytes


class QueueDeclared(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=3):
    """Create a queue; one that exists gets this key and value."""

    queue: int
    key: bytes
    value: bytes


class QueueDeleted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=4):
    """Delete a queue and everything in it."""

    queue: int


class MessagesAppended(msgspec.Struct, frozen=True, array_like=True, gc=False, kw_only=True, tag=5):
    """Store messages of a queue: one segment, with ids in a row, above all that the queue ever had.

    Args:
        queue: The queue's number.
        first: The id of the first.
        count: How many there are, at least one.
        size: What the core counts for them, in bytes; returned when the store is opened.
        settled: Ids among them that are settled already.
        body: The contents as ``gather_body`` makes them; the last field, as ``encode_frame`` wants it.
    """

    queue: int
    first: int
    count: int
    size: int
    settled: Sequence[Range] = ()
    body: Octets


class MessagesSettled(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=6):
    """Delete messages; ids that are not there are ignored, so that a range may span transient messages."""

    queue: int
    ranges: Sequence[Range]


class MessagesDelivered(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=7):
    """Mark messages of one level up to an id as delivered, also for later lives of the broker; marks only rise."""

    queue: int
    level: int
    up_to: int


class AttemptsCounted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=8):
    """Store how often a message was returned; deleted with the message."""

    queue: int
    id: int
    count: int


class MessagesDelayed(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=9, kw_only=True):
    """Store messages that are not ready yet; when they are, one batch appends them and drops them here.

    Args:
        queue: The queue's number.
        number: The core's number for them, unique in the queue.
        due: When they are ready, in seconds since 1970.
        count: How many there are.
        size: As of ``MessagesAppended``.
        body: As of ``MessagesAppended``.
    """

    queue: int
    number: int
    due: float
    count: int
    size: int
    body: Octets


class DelayedDropped(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=10):
    """Delete delayed messages, by their numbers; numbers that are not there are ignored."""

    queue: int
    numbers: Sequence[int]


class MessagesSpilled(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=11, kw_only=True):
    """Page out transient messages: they are deleted when the broker starts again, and never synced.

    The fields are those of ``MessagesAppended``. Recovery never returns them. Segments of a queue, durable or spilled,
    do not overlap.
    """

    queue: int
    first: int
    count: int
    settled: Sequence[Range] = ()
    body: Octets


class SpilledDropped(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=12):
    """Delete messages that were spilled; ids that are not there are ignored."""

    queue: int
    ranges: Sequence[Range]


class ChunkAppended(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=14, kw_only=True):
    """Store a chunk of a stream, whose offsets are above all that the stream ever had.

    A stream is a queue without messages; its ``next_id`` is one more than its next offset, since offsets begin at 0.

    Args:
        queue: The stream's number.
        first: The offset of the chunk's first record.
        count: How many records it has.
        time: When the last of them was appended, in microseconds since 1970.
        body: The chunk.
    """

    queue: int
    first: int
    count: int
    time: int
    body: Octets


class ChunksMerged(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=15):
    """Merge small chunks of a range of offsets into large ones, later, when there are a moment and room.

    No chunk that is made so has offsets outside of the range. What has not been done when the store's process ends is
    not done: the journal asks the next process for it again, and a broker that starts for what is small.
    """

    queue: int
    first: int
    stop: int


class ChunksDropped(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=16):
    """Delete the chunks of a stream that have no record at this offset or above it."""

    queue: int
    stop: int


Operation = (
    RecordPut
    | RecordRemoved
    | RecordRangeRemoved
    | QueueDeclared
    | QueueDeleted
    | MessagesAppended
    | MessagesSettled
    | MessagesDelivered
    | AttemptsCounted
    | MessagesDelayed
    | DelayedDropped
    | MessagesSpilled
    | SpilledDropped
    | ChunkAppended
    | ChunksMerged
    | ChunksDropped
)


class OperationBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Operations that are done together, in order.

    Numbers grow by one, and continue after a restart where they were before it.
    """

    number: int
    operations: Sequence[Operation]
