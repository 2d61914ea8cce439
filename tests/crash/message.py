"""What is published: a body that says whose it is, and that can be told from any other and from a torn one."""

import struct
import zlib
from typing import NamedTuple

__all__ = ["DELAYED", "Message", "body_of", "read_body"]

DELAYED = 1
"""The publisher within the broker."""

_HEAD = struct.Struct(">IIQdH")


class Message(NamedTuple):
    """Whose it is, which of theirs, and as what it counts among those."""

    publisher: int
    number: int
    level: int = 0


def body_of(publisher: int, number: int, *, level: int = 0, due: float = 0.0, size: int = 0) -> bytes:
    """Make a body.

    Args:
        publisher: Whose it is.
        number: Which of theirs; ascends.
        level: Its priority.
        due: Before when it must not come out, in seconds since 1970.
        size: Octets that it has besides.
    """
    rest = _HEAD.pack(0, publisher, number, due, level)[4:] + bytes([number & 0xFF]) * size
    return struct.pack(">I", zlib.crc32(rest)) + rest


def read_body(body: bytes) -> tuple[Message, float]:
    """Give the message and its time back.

    Raises:
        ValueError: This is not what anybody published.
    """
    if len(body) < _HEAD.size or zlib.crc32(body[4:]) != int.from_bytes(body[:4], "big"):
        raise ValueError(f"nobody published {body[:60]!r}")
    _, publisher, number, due, level = _HEAD.unpack_from(body)
    return Message(publisher, number, level), due
