"""What is asked of a stream besides what every queue is asked."""

from collections.abc import Sequence

import msgspec

from triomq.actors import Message, Request
from triomq.core.streams.start import Bounds


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


class SetPosition(Request[None], frozen=True):
    """To a stream: a group has read up to an offset; it may be lower than before, and holds nothing back.

    Args:
        group: The group's name.
        offset: The next offset that it wants.
    """

    group: str
    offset: int


class ForgetGroup(Request[bool], frozen=True):
    """To a stream: forget the position of a group; answers whether it had one."""

    group: str


class Synced(Message, frozen=True):
    """To a stream: records are on disk, so they may be read."""
