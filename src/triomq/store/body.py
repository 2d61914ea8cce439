"""The body of a segment: the contents of its messages, in runs that share a head.

A segment spans ids in a row, but need not have a message for each: ids of messages that were settled before it was
written, and of transient ones, count as settled from the start. So each run has the position where it begins.
"""

import struct
from collections.abc import Sequence
from zlib import crc32

import msgspec

from triomq.store.operations import Range


class BodyRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Messages in a row that share a head.

    Args:
        offset: The position of the first one in its segment.
        head: What they share, encoded by the core; opaque here.
        contents: One for each message.
    """

    offset: int
    head: bytes
    contents: Sequence[bytes]


_encode = msgspec.msgpack.Encoder().encode
_runs = msgspec.msgpack.Decoder(list[BodyRun])


def encode_body(runs: Sequence[BodyRun]) -> bytes:
    """Return a body as it is stored."""
    return _encode(runs)


def gaps_of(runs: Sequence[BodyRun], first: int, count: int) -> list[Range]:
    """Return the ids that a segment spans and that none of its runs has.

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
    """Return the runs of a body."""
    return _runs.decode(body)


_KEY = struct.Struct("<QQQ")


def checksum(body: bytes, queue: int, number: int, count: int) -> int:
    """Return the checksum of a body and of whose it is, so that damage to either is found.

    Args:
        body: As it is stored.
        queue: The queue's number.
        number: The first id of a segment, or the number of delayed messages.
        count: How many ids or messages.
    """
    return crc32(body, crc32(_KEY.pack(queue, number, count)))


def is_whole(body: object, expected: object, *key: object) -> bool:
    """Return whether a body is what was written; in stores of the first version the checksum covered the body alone.

    Args:
        body: As it was read.
        expected: The checksum that was read with it.
        key: The queue's number, the first id or number, and the count, as of ``checksum``; any values, if damaged.
    """
    if not isinstance(body, bytes) or not all(isinstance(each, int) and each >= 0 for each in key):
        return False
    return expected in (crc32(body, crc32(_KEY.pack(*key))), crc32(body))
