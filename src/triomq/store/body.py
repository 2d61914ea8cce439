"""The body of a segment: the contents of its messages, in runs that share a head.

A segment spans ids in a row, but need not have a message for each: what was settled before it was written, and what was
not to be kept at all, is counted as settled from the start. So each run says where it begins.
"""

from collections.abc import Sequence
from zlib import crc32

import msgspec

from triomq.store.operations import Range

__all__ = ["BodyRun", "checksum", "decode_body", "encode_body", "gaps_of"]


class BodyRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Messages in a row that share a head.

    Args:
        offset: The position of the first one in its segment.
        head: What they share, and whatever else the core wants to know of them; opaque octets here.
        contents: Their octets.
    """

    offset: int
    head: bytes
    contents: Sequence[bytes]


_encode = msgspec.msgpack.Encoder().encode
_runs = msgspec.msgpack.Decoder(list[BodyRun])


def encode_body(runs: Sequence[BodyRun]) -> bytes:
    """Make the octets that are kept."""
    return _encode(runs)


def gaps_of(runs: Sequence[BodyRun], first: int, count: int) -> list[Range]:
    """Give the ids that a segment spans and that none of its runs has.

    Args:
        runs: In the order of their offsets.
        first: The segment's first id.
        count: How many ids it spans.
    """
    position, gaps = 0, []
    for run in [*runs, BodyRun(count, b"", ())]:
        if run.offset > position:
            gaps.append((first + position, run.offset - position))
        position = run.offset + len(run.contents)
    return gaps


def decode_body(body: bytes) -> list[BodyRun]:
    """Give the runs back."""
    return _runs.decode(body)


def checksum(body: bytes) -> int:
    """Sum up octets, so that it is noticed when a disk gives others back than it was given."""
    return crc32(body)
