"""What is read of a queue: the segments of a range of ids, in order, a bounded amount at once."""

from collections.abc import Iterable

import msgspec


class SegmentRead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A segment with its body.

    Args:
        first: The id of its first message.
        count: How many ids it spans.
        settled: A bit for each position that is settled, as of ``SegmentFound``.
        body: The contents as ``decode_body`` reads them, also of what is settled.
        spilled: Whether it was only put out of memory, and not kept.
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
    """Messages that the store has and cannot give back: the disk has changed them.

    Args:
        first: The id of the first.
        count: How many ids they span; 0 if the disk has changed even that.
        settled: A bit for each position that is settled, as of ``SegmentFound``.
        reason: What is wrong.
    """

    first: int
    count: int
    settled: bytes
    reason: str


class Reading(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What was read of a range of ids.

    Args:
        segments: In the order of their ids; the first and the last may have ids outside of the range.
        up_to: The id below which all of the range has been given; its end if there is no more.
        damaged: What stands between the segments and cannot be given.
    """

    segments: list[SegmentRead]
    up_to: int
    damaged: list[Damaged] = []


def collect(found: Iterable[SegmentRead | Damaged], stop: int, octets: int) -> Reading:
    """Take segments until their bodies have some size, at least one.

    Args:
        found: Those of a range, in the order of their ids; no more are asked for than are taken.
        stop: The end of the range.
        octets: The size from which on no more are taken.
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
        if size >= octets:
            return Reading(segments, min(stop, each.stop), damaged)
    return Reading(segments, stop, damaged)
