"""Retention: which records of a stream go, and when.

Records go by whole *segments*, which are chunks in a row: a bound that is exceeded takes the oldest segment, never the
last one. So a bound is met as soon as a second segment begins, and an idle stream keeps its last records
however old they are. Segments are a
quarter of the smallest bound at most, so that a small bound means something.

    [ segment ][ segment ][ segment ][ last, grows ]
     └ goes when all of them together are above a bound, or when its newest record is too old

A reader holds nothing back: what it has in hand it reads to the end, then it goes on at the first record there is.
"""

from collections import deque

import msgspec

from triomq.core.topology.options import QueueOptions, StreamOptions

IN_MEMORY = 64 * 1024 * 1024
"""Bytes that a stream holds that is not on disk, unless it is declared with another bound: it would grow for ever."""

_PARTS = 4
"""Segments into which the smallest bound is cut, at least."""

_SECOND = 1_000_000  # microseconds


class RetentionLimits(msgspec.Struct, frozen=True, gc=False):
    """What a stream may hold, and the most of a segment; 0 for no limit.

    Args:
        size: Bytes.
        count: Records.
        age: Microseconds.
        segment: Bytes of a segment.
    """

    size: int
    count: int
    age: int
    segment: int

    @classmethod
    def of(cls, options: QueueOptions, ceiling: int, *, in_memory: bool) -> "RetentionLimits":
        """Return the limits of a stream; a ceiling of 0 is none."""
        stream = options.stream or StreamOptions()
        bounds = [bound for bound in (options.max_bytes, ceiling) if bound]
        size = min(bounds, default=IN_MEMORY if in_memory else 0)
        segment = min(stream.segment_bytes, max(1, size // _PARTS)) if size else stream.segment_bytes
        return cls(size, options.max_length or 0, int((stream.max_age or 0) * _SECOND), segment)


class Segment(msgspec.Struct, gc=False):
    """Chunks in a row that go together: from an offset up to another, their bytes, and their first and last time."""

    first: int
    stop: int
    size: int
    time: int
    last_time: int


class Segments:
    """The segments of a stream; made with its log. ``size`` is the bytes of all of them."""

    __slots__ = ("_segments", "limits", "size")

    def __init__(self, limits: RetentionLimits) -> None:
        self.limits = limits
        self.size = 0
        self._segments: deque[Segment] = deque()

    def __len__(self) -> int:
        """Count the segments."""
        return len(self._segments)

    def begin_chunk(self, first: int, time: int) -> None:
        """Let a chunk begin, in the last segment or a new one."""
        if not self._segments or self.is_full(time):
            self._segments.append(Segment(first, first, 0, time, time))

    def is_full(self, time: int) -> bool:
        """Return whether what comes at a time belongs to another segment than the last one."""
        last, limits = self._segments[-1], self.limits
        return (
            last.size >= limits.segment
            or (limits.count > 0 and (last.stop - last.first) * _PARTS >= limits.count)
            or (limits.age > 0 and (time - last.time) * _PARTS >= limits.age)
        )

    def is_beginning(self, offset: int) -> bool:
        """Return whether a segment begins at an offset."""
        for segment in reversed(self._segments):
            if segment.first <= offset:
                return segment.first == offset
        return False

    def grow(self, stop: int, size: int, time: int) -> None:
        """Count what was appended to the last segment: up to an offset, so many bytes, at a time."""
        last = self._segments[-1]
        last.stop = stop
        last.size += size
        last.last_time = time
        self.size += size

    def resize(self, first: int, difference: int) -> None:
        """Count a chunk that takes more or fewer bytes than was thought; the one with an offset."""
        for segment in reversed(self._segments):
            if segment.first <= first:
                segment.size += difference
                self.size += difference
                return

    def drop(self, now: int, up_to: int) -> int | None:
        """Drop the segments that are too many or too old; return the offset below which records go, if any do.

        Args:
            now: The time, in microseconds since 1970.
            up_to: What is at this offset or above it stays: it cannot be read yet.
        """
        segments, limits = self._segments, self.limits
        below: int | None = None
        while len(segments) > 1 and segments[0].stop <= up_to:
            oldest = segments[0]
            too_old = limits.age > 0 and oldest.last_time + limits.age <= now
            too_large = limits.size > 0 and self.size > limits.size
            too_many = limits.count > 0 and segments[-1].stop - oldest.first > limits.count
            if not (too_old or too_large or too_many):
                break
            segments.popleft()
            self.size -= oldest.size
            below = oldest.stop
        return below

    def drop_below(self, offset: int) -> None:
        """Drop the segments that end at an offset or before it, whatever the limits are."""
        segments = self._segments
        while segments and segments[0].stop <= offset:
            self.size -= segments.popleft().size

    def next_expiry(self, up_to: int) -> int | None:
        """Return when the oldest segment is too old, in microseconds since 1970; None if never, as far as is known.

        Args:
            up_to: As for ``drop``.
        """
        if self.limits.age and len(self._segments) > 1 and self._segments[0].stop <= up_to:
            return self._segments[0].last_time + self.limits.age
        return None
