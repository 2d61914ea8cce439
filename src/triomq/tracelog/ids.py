"""Ids in the properties of messages: the few fields that reports join by, without decoding all others."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import msgspec

from triomq.properties import CORE_CODEC, decode_core

LONGEST = 255
"""Characters of an id, as AMQP has them: ``traceparent`` has 55, but anybody may send as many as fit in a header."""

Ids = tuple[str | None, str | None, str | None]
"""Message id, correlation id, and the header ``traceparent``."""

_AMQP_CODEC, _EMQP_CODEC, JOB_CODEC = 1, 2, 3  # the tags of properties; they are written to disk, so never change

_OTHER, _MESSAGE_ID, _CORRELATION_ID, _HEADERS = range(-1, 3)

_SHORT_STRING, _TABLE = 0, -1  # which carry their length

# AMQP 0-9-1 section 4.2.6.1: the fields up to message-id, in order, with the octets that they take.
_FIELDS = (
    (0x8000, _SHORT_STRING, _OTHER),  # content-type
    (0x4000, _SHORT_STRING, _OTHER),  # content-encoding
    (0x2000, _TABLE, _HEADERS),
    (0x1000, 1, _OTHER),  # delivery-mode
    (0x0800, 1, _OTHER),  # priority
    (0x0400, _SHORT_STRING, _CORRELATION_ID),
    (0x0200, _SHORT_STRING, _OTHER),  # reply-to
    (0x0100, _SHORT_STRING, _OTHER),  # expiration
    (0x0080, _SHORT_STRING, _MESSAGE_ID),
)
_WANTED = 0x2480

_FLAGS_SIZE = 2

_CODECS = (CORE_CODEC, _AMQP_CODEC, _EMQP_CODEC, JOB_CODEC)

_TRACEPARENT = b"\x0btraceparentS"
"""The name in a table, and the type of its value, a long string."""


@lru_cache(maxsize=1024)
def _plan(flags: int) -> tuple[tuple[int, int], ...]:
    """Return size and meaning of the fields to go through; none if none of them is wanted."""
    return tuple((size, meaning) for flag, size, meaning in _FIELDS if flags & flag) if flags & _WANTED else ()


class AmqpIds:
    """Finds ids in properties of AMQP, flags first; made for those of one broker.

    Messages of one publisher have their fields mostly in the same places. So where some were found is remembered, by
    flags and size, as an expression with the lengths of all fields in it: a quarter of the time, and a message that is
    built in another way does not match.
    """

    def __init__(self) -> None:
        self._layouts: dict[tuple[bytes, int], tuple[re.Pattern[bytes], tuple[int, ...]]] = {}

    def find(self, encoded: bytes) -> Ids | None:
        """Return the ids; None if there are none."""
        layout = self._layouts.get((encoded[:2], len(encoded)))
        if layout is not None and (found := layout[0].fullmatch(encoded)) is not None:
            groups = found.groups()
            ids = [None if group < 0 else groups[group].decode("utf-8", "replace") for group in layout[1]]
            return ids[0], ids[1], ids[2]
        spans, fixed = _spans(encoded)
        if layout is None and len(self._layouts) < _MOST_LAYOUTS and spans:
            self._layouts[encoded[:2], len(encoded)] = _layout_of(encoded, spans, fixed)
        ids = [
            None if (span := spans.get(meaning)) is None else encoded[span[0] : span[1]].decode("utf-8", "replace")
            for meaning in (_MESSAGE_ID, _CORRELATION_ID, _HEADERS)
        ]
        return (ids[0], ids[1], ids[2]) if spans else None


_Span: TypeAlias = tuple[int, int]

_MOST_LAYOUTS = 1_000
"""Layouts that are remembered: each takes 100 µs to make, and some KiB."""


def _spans(encoded: bytes) -> tuple[dict[int, _Span], list[_Span]]:
    """Return where ids are, by what they mean; and where bytes are that must be the same if they are to be there."""
    spans: dict[int, _Span] = {}
    fixed = [(0, _FLAGS_SIZE)]
    position = _FLAGS_SIZE
    for size, meaning in _plan(int.from_bytes(encoded[:_FLAGS_SIZE], "big")):
        if size > 0:
            position += size
            continue
        start = position + (1 if size == _SHORT_STRING else 4)
        fixed.append((position, start))
        position, before = start + int.from_bytes(encoded[position:start], "big"), start
        if size == _SHORT_STRING:
            if meaning >= 0 and start < len(encoded):
                spans[meaning] = start, min(position, len(encoded))
        elif (at := encoded.find(_TRACEPARENT, before, position)) >= 0:
            begin = at + len(_TRACEPARENT) + 4
            fixed.append((at, begin))
            spans[meaning] = begin, min(len(encoded), begin + int.from_bytes(encoded[begin - 4 : begin], "big"))
    return spans, fixed


def _layout_of(
    encoded: bytes, spans: dict[int, _Span], fixed: list[_Span]
) -> tuple[re.Pattern[bytes], tuple[int, ...]]:
    """Return an expression for messages that are built alike, and which of its groups message and other ids are."""
    parts, place = [], 0
    known = sorted([(span, meaning) for meaning, span in spans.items()] + [(span, _OTHER) for span in fixed])
    groups = [meaning for _, meaning in known if meaning != _OTHER]
    for (start, stop), meaning in known:
        if start < place:  # it makes no sense; then it is no expression for anything
            return re.compile(b"(?!)"), (-1, -1, -1)
        parts.append(b"[\\0-\\xff]{%d}" % (start - place))
        parts.append(re.escape(encoded[start:stop]) if meaning == _OTHER else b"([\\0-\\xff]{%d})" % (stop - start))
        place = stop
    parts.append(b"[\\0-\\xff]*")
    numbers = tuple(
        groups.index(meaning) if meaning in groups else -1 for meaning in (_MESSAGE_ID, _CORRELATION_ID, _HEADERS)
    )
    return re.compile(b"".join(parts)), numbers


def core_ids(encoded: bytes) -> Ids | None:
    """Find ids in properties of the core's own form; None if there are none."""
    try:
        found = decode_core(encoded)
    except (msgspec.DecodeError, ValueError):
        return None
    parent = (found.headers or {}).get("traceparent")
    return found.message_id, found.correlation_id, parent if isinstance(parent, str) else None


def emqp_ids(encoded: bytes) -> Ids | None:
    """Find the id in properties of eMQP, which stands first, behind its length."""
    found = job_in(encoded)
    return (found.decode("utf-8", "replace"), None, None) if found else None


def job_in(encoded: bytes) -> bytes:
    """Cut out the same; nothing if there is none."""
    return encoded[3 : 3 + encoded[2]] if len(encoded) > 3 else b""


def may_have_ids(codec: int, flags: int, size: int) -> bool:
    """Return whether there may be ids in properties of so many bytes; AMQP's flags say that, and where they stand."""
    return codec in _CODECS and size > _FLAGS_SIZE and (codec != _AMQP_CODEC or not flags or bool(flags & _WANTED))


Finder: TypeAlias = Callable[[bytes], Ids | None]


def make_finders() -> dict[int, Finder]:
    """Return what finds ids, by the tag of a codec; properties of others have no ids here."""
    return {CORE_CODEC: core_ids, _AMQP_CODEC: AmqpIds().find, _EMQP_CODEC: emqp_ids, JOB_CODEC: emqp_ids}
