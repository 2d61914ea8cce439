"""The body of a segment: the contents of its messages, in runs that share a head.

A segment spans ids in a row, but need not have a message for each: ids of messages that were settled before it was
written, and of transient ones, count as settled from the start. So each run has the position where it begins.

A body is MessagePack, one piece of bytes in a file. On its way there it has three forms, so that large contents are not
copied between the socket that they came from and the one that leads to the store:

    contents ── gather_body ──▶ GatheredBody            the broker: contents where they are, and what stands between
                                 │ sendmsg
                                 ▼
                                memoryview              the store: a part of its receive buffer
                                 │ checksum, SQLite
                                 ▼
                                bytes                   what is read back

Small contents are encoded in one call, into bytes: to go through them one by one would cost more than to copy them.
"""

import struct
from collections.abc import Sequence
from zlib import crc32

import msgspec

from triomq.store.gathered import GatheredBody
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


ARRAY, BINARY = struct.Struct(">BI"), struct.Struct(">BI")
ARRAY_CODE, BINARY_CODE, _RUN_CODE = 0xDD, 0xC6, b"\x93"  # https://github.com/msgpack/msgpack/blob/master/spec.md

LARGE = 4 * 1024
"""Bytes per message from which contents are not copied: a piece of its own costs as much as to copy so many."""


def encode_body(runs: Sequence[BodyRun]) -> bytes:
    """Return a body as it is stored."""
    return _encode(runs)


def gather_body(runs: Sequence[BodyRun]) -> bytes | GatheredBody:
    """Return a body for the store, with large contents as they are; they must not change any more."""
    if not any(map(_has_large, runs)):
        return _encode(runs)
    between = bytearray(ARRAY.pack(ARRAY_CODE, len(runs)))
    pieces: list[bytes] = []
    for run in runs:
        if not _has_large(run):
            between += _encode(run)
            continue
        between += _RUN_CODE + _encode(run.offset) + _encode(run.head) + ARRAY.pack(ARRAY_CODE, len(run.contents))
        for content in run.contents:
            between += BINARY.pack(BINARY_CODE, len(content))
            pieces += (bytes(between), content)
            between.clear()
    if between:
        pieces.append(bytes(between))
    return GatheredBody(pieces, sum(map(len, pieces)))


def _has_large(run: BodyRun) -> bool:
    return sum(map(len, run.contents)) >= LARGE * len(run.contents)


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


def decode_body(body: bytes | memoryview) -> list[BodyRun]:
    """Return the runs of a body."""
    return _runs.decode(body)


_KEY = struct.Struct("<QQQ")


def checksum(body: bytes | memoryview, queue: int, number: int, count: int) -> int:
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
