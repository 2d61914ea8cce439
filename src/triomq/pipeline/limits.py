"""How much a micro-batch takes of each partition."""

from collections.abc import Mapping
from typing import Final

from triomq.errors import OutOfRange
from triomq.pipeline.connecting import BrokerLink
from triomq.pipeline.ranges import OffsetRange

TRIGGER_BYTES: Final = 32 * 1024 * 1024
"""Bytes of one micro-batch where the options do not say: half of what a broker takes of a sink as one batch. Without a
bound a query that is behind would plan all there is, and a plan that is too large for its sink stands in the checkpoint
for good."""

_SAMPLE: Final = 1000
"""Records whose mean size stands for those around them, if a chunk has so many."""


def share(counts: Mapping[OffsetRange, int], most: int) -> dict[OffsetRange, int]:
    """Return what each range gets of so many records: in proportion to what it has, but at least one.

    Args:
        counts: What each range has, or would get without this limit.
        most: All of them, unless there are more ranges.
    """
    total = sum(counts.values())
    if total <= most:
        return dict(counts)
    return {each: min(count, max(1, count * most // total)) for each, count in counts.items()}


def share_bytes(link: BrokerLink, counts: Mapping[OffsetRange, int], most: int) -> dict[OffsetRange, int]:
    """Return what each range gets of so many bytes, in the same way.

    A broker says how many records it has, not how large they are. So this is an estimate: chunks from the beginning and
    from the end of what would be read say what a record takes. Where sizes change between the two it is off.

    Args:
        link: Where to look at chunks.
        counts: What each range would get without this limit.
        most: Bytes, as the broker has them.
    """
    taken = dict(counts)
    sizes = {each: _mean_size(link, each, each.first) for each in taken}
    for _ in range(2):  # the second time with what is at the end that the first time gives
        total = sum(sizes[each] * count for each, count in taken.items())
        if total <= most:
            break
        taken = {each: max(1, int(count * most / total)) for each, count in taken.items()}
        for each, count in taken.items():
            sizes[each] = (sizes[each] + _mean_size(link, each, each.first + count)) / 2
    return taken


def _mean_size(link: BrokerLink, wanted: OffsetRange, offset: int) -> float:
    """Return the bytes of one record, on average, of those around an offset that stand in one chunk."""
    first = max(wanted.first, min(offset, wanted.stop - _SAMPLE))
    stop = min(first + _SAMPLE, wanted.stop)
    chunks = link.fetch(*wanted.place, first, stop, identity=wanted.identity, most_bytes=1)
    try:
        for columns in chunks:
            return columns.head.size / columns.head.count
    except OutOfRange:
        pass
    finally:
        chunks.close()
    return 0.0  # records that are gone take no room; the task that wants them says so
