"""What a store is told: numbered batches of operations, each batch whole on disk or not at all.

Everything that means something only to the core is opaque octets here: keys, options, heads, and the contents of
messages. A queue goes by a number that the core gives it; a message by its queue and its id, which only grows. What
belongs together is in one batch: a dead letter is an ``Append`` there and a ``Settle`` here, a transaction is all it
has to say to all its queues.
"""

from collections.abc import Sequence
from enum import IntEnum

import msgspec

Range = tuple[int, int]
"""Ids in a row: the first, and how many."""


class Kind(IntEnum):
    """What kinds of records there are beside queues; the numbers are on disk, so never reused."""

    SINK = 1
    BINDING = 2
    POLICY = 3
    JOB = 4
    SCHEDULE = 5
    STREAM = 6


class Put(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=1):
    """Keep a record, in place of the one with the same key if there is one."""

    kind: int
    key: bytes
    value: bytes


class Remove(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=2):
    """Forget a record, if it is there."""

    kind: int
    key: bytes


class DeclareQueue(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=3):
    """Let there be a queue; if it is there already it gets another key and value."""

    queue: int
    key: bytes
    value: bytes


class DeleteQueue(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=4):
    """Forget a queue and everything in it."""

    queue: int


class Append(msgspec.Struct, frozen=True, array_like=True, gc=False, kw_only=True, tag=5):
    """Keep messages of a queue: one segment, with ids in a row, above all that the queue ever had.

    Args:
        queue: The queue's number.
        first: The id of the first.
        count: How many there are, at least one.
        size: What the core counts for them, in octets; given back when the store is opened.
        body: The contents as ``encode_body`` makes them.
        settled: Ids among them that are settled already.
    """

    queue: int
    first: int
    count: int
    size: int
    body: bytes
    settled: Sequence[Range] = ()


class Settle(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=6):
    """Forget messages; ids that are not there are ignored, so that a range may span what was never kept."""

    queue: int
    ranges: Sequence[Range]


class Delivered(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=7):
    """Mark messages of one level up to an id as delivered, also for later lives of the broker; marks only rise."""

    queue: int
    level: int
    up_to: int


class Attempts(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=8):
    """Note how often a message came back; forgotten with the message."""

    queue: int
    id: int
    count: int


class Delay(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=9, kw_only=True):
    """Keep messages that are not ready yet; when they are, they are appended and dropped here in one batch.

    Args:
        queue: The queue's number.
        number: The core's own for them, unique in the queue.
        due: When they are ready, in seconds since 1970.
        count: How many there are.
        size: As of ``Append``.
        body: The contents as ``encode_body`` makes them.
    """

    queue: int
    number: int
    due: float
    count: int
    size: int
    body: bytes


class Drop(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=10):
    """Forget messages that were delayed, by their numbers; those that are not there are ignored."""

    queue: int
    numbers: Sequence[int]


class Spill(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=11, kw_only=True):
    """Put messages out of memory that nobody has asked to be kept: gone when the broker starts again, never synced.

    The fields are those of ``Append``. Recovery never shows them. Segments of a queue, kept or spilled, do not overlap.
    """

    queue: int
    first: int
    count: int
    body: bytes
    settled: Sequence[Range] = ()


class Unspill(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=12):
    """Forget messages that were put out of memory; ids that are not there are ignored."""

    queue: int
    ranges: Sequence[Range]


Operation = (
    Put | Remove | DeclareQueue | DeleteQueue | Append | Settle | Delivered | Attempts | Delay | Drop | Spill | Unspill
)


class Batch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Operations that are done together, in order; numbers grow by one, and go on where they were before a restart."""

    number: int
    operations: Sequence[Operation]
