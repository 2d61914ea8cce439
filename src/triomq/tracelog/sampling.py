"""Sampling: which messages of a queue are traced.

A part of them, by id, so that which ids of a run are traced is arithmetic and costs nothing for those that are not.
With a rate of p in w these are the ids n where ``n * p % w < p``, which is ``ceil(k * w / p)`` for each whole k. Any w
ids in a row have p of them, and one in w is each id that w divides.

A publisher that sets the header ``traceparent`` (W3C Trace Context) decides for its message: the flag in it wins. Such
messages are remembered by their ids until they leave the queue. The header is looked for only where properties are long
enough to have one, so that messages without headers cost nothing.
"""

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import repeat
from zlib import crc32

from triomq.core import Head

_NAME = b"traceparent"

_VALUE = re.compile(rb"traceparent[^-]{0,8}[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-([0-9a-f]{2})")
"""The header in properties of any wire: between name and value there are at most a type and a length."""

LEAST = len(_NAME) + 55
"""Bytes of properties below which they cannot have the header; its value has 55."""

_FLAGS = {b"00": False, b"01": True}
"""The flags that there are today; any others are looked for as if the header was elsewhere."""

_MOST = 100_000
"""Ids of one queue that are remembered; what is beyond is sampled by id."""


_FINEST = 10**9
"""The largest denominator of a rate; so 0.7 is 7 in 10, and what 1 / 3 is as a float is 1 in 3."""


def _fraction(rate: float) -> tuple[int, int]:
    """Return a rate as so many in so many."""
    found = Fraction(rate).limit_denominator(_FINEST)
    return found.numerator, found.denominator


class QueueSampling:
    """Which messages of one queue are traced; made when the queue is first heard of, ends with it.

    Args:
        rate: Which part of them, from 0 to 1.
        lasting: Whether messages stay when they are settled, as those of streams do.
    """

    __slots__ = ("_excluded", "_flags_at", "_included", "_lasting", "_name_at", "_part", "_whole", "has_marks")

    def __init__(self, rate: float, *, lasting: bool = False) -> None:
        self._lasting = lasting
        self.has_marks = False
        """Whether there are messages of which something else than their ids decides."""
        self._part, self._whole = _fraction(rate)
        self._included: set[int] = set()
        self._excluded: set[int] = set()
        self._name_at = self._flags_at = 0  # in the message that had the header last

    @property
    def is_part(self) -> bool:
        """Whether some messages are traced and some are not, by their ids."""
        return 0 < self._part < self._whole

    @property
    def _is_whole(self) -> bool:
        """Whether all messages are, as far as ids decide."""
        return self._part == self._whole

    def look(self, first: int, head: Head, contents: Sequence[bytes], heads: Sequence[Head] | None = None) -> None:
        """Look for the header in messages that come into the queue."""
        if heads is None:
            if (shortest := head.properties_stop) - head.properties_start < LEAST:
                return
        else:
            alike = set(heads)  # a publisher has few of them
            if max([one.properties_stop - one.properties_start for one in alike]) < LEAST:
                return
            shortest = min([one.properties_stop for one in alike])
        if self._flags_at + 2 > shortest or not self._look_alike(first, contents):
            for number, (one, content) in enumerate(zip(heads or repeat(head), contents, strict=False), first):
                self._look_into(number, content, one.properties_start, one.properties_stop)

    def _look_alike(self, first: int, contents: Sequence[bytes]) -> bool:
        """Take the flags of messages that all have the same ones where the last message had them; return whether so."""
        name_at, flags_at = self._name_at, self._flags_at
        name_stop, flags_stop = name_at + len(_NAME), flags_at + 2
        flags = {content[flags_at:flags_stop] for content in contents}
        wanted = _FLAGS.get(flags.pop()) if len(flags) == 1 else None
        if wanted is None:
            return False
        if wanted and self._is_whole:
            return True  # header or not, they are traced
        if {content[name_at:name_stop] for content in contents} != {_NAME}:
            return False
        self._mark(range(first, first + len(contents)), wanted=wanted)
        return True

    def _look_into(self, number: int, content: bytes, start: int, stop: int) -> None:
        if content.find(_NAME, start, stop) >= 0 and (found := _VALUE.search(content, start, stop)) is not None:
            self._name_at, self._flags_at = found.start(), found.start(1)
            self._mark(range(number, number + 1), wanted=bool(int(found[1], 16) & 1))

    def include(self, ids: Sequence[int]) -> None:
        """Trace messages, whatever their ids."""
        self._mark(ids, wanted=True)

    def choose_instead(self, ids: range, places: Sequence[int]) -> None:
        """Trace those at some places of some messages, and no others of them."""
        if self.is_part:
            self._mark(ids, wanted=False)
            self._mark([ids[place] for place in places], wanted=True)

    def _mark(self, ids: Sequence[int], *, wanted: bool) -> None:
        """Remember messages that are traced, or not, although their ids say otherwise."""
        if wanted:
            if not self._is_whole and self._has_room(self._included):
                self._included.update(ids)
        elif self._part and self._has_room(self._excluded):
            self._excluded.update(self._choose_by_id(ids))
        self.has_marks = bool(self._included or self._excluded)

    def _has_room(self, marks: set[int]) -> bool:
        """Return whether more may be remembered; where nothing else ends that, the older half is forgotten."""
        if len(marks) >= _MOST and self._lasting:
            marks.difference_update(sorted(marks)[: _MOST // 2])
        return len(marks) < _MOST

    def has(self, number: int) -> bool:
        """Return whether a message is traced."""
        by_id = number * self._part % self._whole < self._part
        if not self.has_marks:
            return by_id
        return number in self._included or (by_id and number not in self._excluded)

    def choose(self, ids: Sequence[int]) -> Sequence[int]:
        """Return those of some ids, ascending, whose messages are traced."""
        if not self.has_marks:
            return self._choose_by_id(ids)
        included, excluded = self._included, self._excluded
        if included:
            if included.issuperset(ids):
                return ids
            by_id = set(self._choose_by_id(ids)) - excluded
            return [number for number in ids if number in included or number in by_id]
        return [number for number in self._choose_by_id(ids) if number not in excluded]

    def _choose_by_id(self, ids: Sequence[int]) -> Sequence[int]:
        part, whole = self._part, self._whole
        if part == whole or not part:
            return ids if part else ()
        if isinstance(ids, range) and ids.step == 1:
            if part == 1:
                return range(ids.start + -ids.start % whole, ids.stop, whole)
            before, last = (ids.start - 1) * part // whole, (ids.stop - 1) * part // whole
            return [-(-number * whole // part) for number in range(before + 1, last + 1)]
        return [number for number in ids if number * part % whole < part]

    def forget(self, ids: Sequence[int]) -> None:
        """Forget messages that are settled, or have left the queue."""
        if not self._lasting:
            self._included.difference_update(ids)
            self._excluded.difference_update(ids)
            self.has_marks = bool(self._included or self._excluded)

    def forget_all(self) -> None:
        """Forget all messages."""
        self._included.clear()
        self._excluded.clear()
        self.has_marks = False


class JobSampling:
    """Which jobs of one queue are traced: by their ids, which they have from anybody, so that each is traced whole.

    Args:
        rate: Which part of them, from 0 to 1.
    """

    __slots__ = ("_part", "_whole")

    def __init__(self, rate: float) -> None:
        self._part, self._whole = _fraction(rate)

    def choose(self, jobs: Sequence[bytes]) -> Sequence[int]:
        """Return the places of those of some jobs that are traced."""
        part, whole = self._part, self._whole
        if part == whole:
            return range(len(jobs))
        return [place for place, job in enumerate(jobs) if crc32(job) % whole < part] if part else ()
