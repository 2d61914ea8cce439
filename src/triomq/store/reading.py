"""The result of reading a range of a queue's ids: segments in order, a bounded amount at once."""

from collections.abc import Iterable

import msgspec


class SegmentRead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A segment with its body.

    Args:
        first: The id of its first message.
        count: How many ids it spans.
        settled: A bit for each position that is settled, as of ``SegmentFound``.
        body: The contents as ``decode_body`` reads them, also of what is settled.
        spilled: Whether it is in the spill file, and not durable.
    """

    first: int
    count: int
    settled: bytes
    body: bytes
    spilled: bool

    @property
    def stop(self) -> int:
        """The id behind its last one."""
        return self.first + self.count


class Damaged(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Messages that the store has and cannot read: the disk has changed them.

    Args:
        first: The id of the first.
        count: How many ids they span; 0 if that is not known.
        settled: A bit for each position that is settled, as of ``SegmentFound``.
        reason: What is wrong.
    """

    first: int
    count: int
    settled: bytes
    reason: str


class ChunksRead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What was read of a range of offsets of a stream.

    Args:
        chunks: Whole, in the order of their offsets; the first and the last may have offsets outside of the range.
        up_to: The offset up to which the range has been read, exclusive; its end if there is no more.
        damaged: What stands between the chunks and cannot be read, in offsets.
    """

    chunks: list[bytes]
    up_to: int
    damaged: list[Damaged] = []


class ChunksSent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What was written to a socket.

    Args:
        size: How many bytes; 0 if there are no such records any more, -1 if the process has ended and nobody knows.
        is_whole: Whether that is all. If it is not, and the size is not 0, the other side may have half a message.
    """

    size: int
    is_whole: bool


class Reading(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What was read of a range of ids.

    Args:
        segments: In the order of their ids; the first and the last may have ids outside of the range.
        up_to: The id up to which the range has been read, exclusive; its end if there is no more.
        damaged: What stands between the segments and cannot be read.
    """

    segments: list[SegmentRead]
    up_to: int
    damaged: list[Damaged] = []


def collect(found: Iterable[SegmentRead | Damaged], stop: int, max_bytes: int) -> Reading:
    """Collect segments until their bodies have some size, at least one.

    Args:
        found: Those of a range, in the order of their ids; no more are asked for than are collected.
        stop: The end of the range.
        max_bytes: The size from which on no more are collected.
    """
    segments: list[SegmentRead] = []
    damaged: list[Damaged] = []
    size = 0
    for each in found:
        if isinstance(each, Damaged):
            damaged.append(each)
            continue
        segments.append(each)
        size += len(each.body)
        if size >= max_bytes:
            return Reading(segments, min(stop, each.stop), damaged)
    return Reading(segments, stop, damaged)
