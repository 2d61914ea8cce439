"""The intake of a queue with a TTL or priorities: which messages of a run share a deadline and a level.

A queue without either does not come here, unless messages have an expiration of their own.
"""

from collections.abc import Sequence
from itertools import groupby
from math import ceil, inf

import msgspec

from triomq.core.message import Head, QueueMessage
from triomq.core.properties import Codecs, Properties
from triomq.core.topology.options import QueueOptions

_GRAIN = 0.01  # seconds: deadlines are rounded up to it, so that messages that arrive together stay one run
_FOREVER = 1e10  # seconds: three centuries
_UNREADABLE = Properties()


class Part(msgspec.Struct, frozen=True, gc=False):
    """Messages of a run that share a deadline (seconds of the domain's clock) and a level."""

    contents: Sequence[bytes]
    size: int
    deadline: float
    level: int


def sort_out(
    head: Head, contents: Sequence[bytes], size: int, options: QueueOptions, codecs: Codecs, now: float
) -> list[Part]:
    """Split a run into parts, in order, as few as possible.

    Args:
        head: What the messages share; its flags show whether their properties are worth decoding.
        contents: Their bytes.
        size: Total of the bytes.
        options: The queue's.
        codecs: How properties are decoded.
        now: The time, in seconds of the domain's clock.
    """
    by_message = head.has_expiration or (head.has_priority and options.max_priority)
    if not by_message:
        return [Part(contents, size, _deadline(options.message_ttl, now), 0)]

    def place(content: bytes) -> tuple[float, int]:
        properties = codecs.read(QueueMessage(head, content)) or _UNREADABLE
        level = min(max(0, properties.priority or 0), options.max_priority)
        return _deadline(_shortest(options, properties), now), level

    parts = []
    for (deadline, level), group in groupby(contents, key=place):
        members = list(group)
        parts.append(Part(members, sum(map(len, members)), deadline, level))
    return parts


def _shortest(options: QueueOptions, properties: Properties) -> float | None:
    """Return the shorter of the queue's and the message's own time to live."""
    own, general = properties.expiration, options.message_ttl
    if own is None or general is None:
        return general if own is None else own
    return min(own, general)


def _deadline(seconds: float | None, now: float) -> float:
    """Return when a time to live ends; a message whose time to live is 0 or below is over now."""
    if seconds is None or not seconds < _FOREVER:  # so that no number is too large, nor is what is no number
        return inf
    return ceil((now + seconds) / _GRAIN) * _GRAIN if seconds > 0 else now
