"""Where in a stream a feed begins, and how far a stream reaches."""

from enum import Enum

import msgspec


class Start(Enum):
    """A place that depends on what a stream has when the feed is opened."""

    FIRST = "first"
    """The first record that there is."""
    LAST = "last"
    """The first record of the last chunk."""
    NEXT = "next"
    """The next record that is appended."""


class FromOffset(msgspec.Struct, frozen=True, gc=False):
    """The record at an offset; if that is gone the first one there is, if it does not exist yet the feed waits."""

    offset: int


class Since(msgspec.Struct, frozen=True, gc=False):
    """The first record that was appended at a time or later, in seconds since 1970."""

    time: float


Place = Start | FromOffset | Since
"""Where a feed begins."""


class Bounds(msgspec.Struct, frozen=True, gc=False):
    """What of a stream can be read.

    Args:
        identity: Random, of this declaration of the stream: declared anew it has another, and other records.
        first: The lowest offset.
        stop: One more than the highest offset.
        last_time: When the last record was appended, in microseconds since 1970; 0 if there was none.
    """

    identity: int
    first: int
    stop: int
    last_time: int
