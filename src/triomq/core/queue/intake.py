"""The intake of a queue with a TTL or priorities: which messages of a run share a deadline and a level.

A queue without either does not come here, unless messages have an expiration of their own.
"""

from collections.abc import Sequence
from itertools import groupby
from math import ceil, inf

import msgspec

from triomq.core.codecs import Codecs
from triomq.core.message import Head, QueueMessage, Stretch
from triomq.core.topology.options import QueueOptions
from triomq.properties import Properties

_GRAIN = 0.01  # seconds: deadlines are rounded up to it, so that messages that arrive together stay one run
_FOREVER = 1e10  # seconds: three centuries
_UNREADABLE = Properties()


class Part(msgspec.Struct, frozen=True, gc=False):
    """Messages of a run that share a deadline (seconds of the domain's clock) and a level."""

    head: Head
    contents: Sequence[bytes]
    size: int
    deadline: float
    level: int
    heads: Sequence[Head] | None = None


def sort_out(stretch: Stretch, size: int, options: QueueOptions, codecs: Codecs, now: float) -> list[Part]:
    """Split a run into parts, in order, as few as possible.

    Args:
        stretch: The run; its traits show whether the messages' properties are worth decoding.
        size: Total of the bytes.
        options: The queue's.
        codecs: How properties are decoded.
        now: The time, in seconds of the domain's clock.
    """
    traits = stretch.head.traits
    by_message = traits.has_expiration or (traits.has_priority and options.max_priority)
    if not by_message:
        deadline = _deadline(options.message_ttl, now)
        return [Part(stretch.head, stretch.contents, size, deadline, 0, stretch.heads)]

    def place(message: QueueMessage) -> tuple[float, int]:
        properties = codecs.read(message) or _UNREADABLE
        level = min(max(0, properties.priority or 0), options.max_priority)
        return _deadline(_shortest(options, properties), now), level

    parts = []
    for (deadline, level), group in groupby(stretch.messages(), key=place):
        messages = list(group)
        contents = [message.content for message in messages]
        heads = None if stretch.heads is None else [message.head for message in messages]
        parts.append(Part(messages[0].head, contents, sum(map(len, contents)), deadline, level, heads))
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
