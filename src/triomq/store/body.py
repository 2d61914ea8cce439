"""The body of a segment: the contents of its messages, in runs that share a head; and the note beside it.

A segment spans ids in a row, but need not have a message for each: what was settled before it was written, and what was
not to be kept at all, is counted as settled from the start. So each run says where it begins.
"""

from collections.abc import Sequence
from zlib import crc32

import msgspec

__all__ = ["BodyRun", "RunNote", "checksum", "decode_body", "decode_notes", "encode_body", "encode_notes"]


class BodyRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Messages in a row that share a head.

    Args:
        offset: The position of the first one in its segment.
        head: What they share; opaque octets here.
        contents: Their octets.
    """

    offset: int
    head: bytes
    contents: Sequence[bytes]


class RunNote(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is known of a run without reading the body.

    Args:
        offset: As of the run.
        count: How many messages it has.
        size: Total of their octets.
        note: What the core wants to know besides; opaque octets here.
    """

    offset: int
    count: int
    size: int
    note: bytes


_encode = msgspec.msgpack.Encoder().encode
_runs = msgspec.msgpack.Decoder(list[BodyRun])
_notes = msgspec.msgpack.Decoder(list[RunNote])


def encode_body(runs: Sequence[BodyRun]) -> bytes:
    """Make the octets that are kept."""
    return _encode(runs)


def decode_body(body: bytes) -> list[BodyRun]:
    """Give the runs back."""
    return _runs.decode(body)


def encode_notes(notes: Sequence[RunNote]) -> bytes:
    """Make the note of a segment; none if no run has anything to say."""
    return _encode(notes) if any(each.note for each in notes) else b""


def decode_notes(note: bytes) -> list[RunNote]:
    """Give back what each run had to say; nothing if none had."""
    return _notes.decode(note) if note else []


def checksum(body: bytes) -> int:
    """Sum up octets, so that it is noticed when a disk gives others back than it was given."""
    return crc32(body)
