"""The body of a segment: the contents of its messages, in runs that share a head."""

from collections.abc import Sequence
from zlib import crc32

import msgspec

__all__ = ["BodyRun", "checksum", "decode_body", "encode_body"]


class BodyRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Messages in a row that share a head, which is opaque octets here."""

    head: bytes
    contents: Sequence[bytes]


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(list[BodyRun])


def encode_body(runs: Sequence[BodyRun]) -> bytes:
    """Make the octets that are kept."""
    return _encode(runs)


def decode_body(body: bytes) -> list[BodyRun]:
    """Give the runs back."""
    return _decoder.decode(body)


def checksum(body: bytes) -> int:
    """Sum up octets, so that it is noticed when a disk gives others back than it was given."""
    return crc32(body)
