"""Delivery modes: which of a run's messages are persistent (AMQP 0-9-1 section 1.8.1, delivery-mode).

Asked only in a broker that has a store. What stands before the octet is mostly the same in all messages of a run, so
it is compared as one slice.
"""

from triomq.endpoints.content.heads import HAS_DELIVERY_MODE, HAS_HEADERS, PropertiesShape

_PERSISTENT = b"\x02"
_CONTENT_TYPE, _CONTENT_ENCODING = 0x8000, 0x4000


def by_mode(shape: PropertiesShape, contents: list[bytes]) -> list[tuple[bool, list[bytes]]]:
    """Cut a run where the mode changes: whether the messages are persistent, and the messages, in order."""
    if not shape.flags & HAS_DELIVERY_MODE:
        return [(False, contents)]
    start = shape.properties_start
    parts: list[tuple[bool, list[bytes]]] = []
    begin, mode, known = 0, False, b""
    for number, content in enumerate(contents):
        if known and content.startswith(known, start):
            continue
        place = _place_of(shape.flags, content, start + 2)
        known = content[start : place + 1]
        found = content[place : place + 1] == _PERSISTENT
        if number and found is not mode:
            parts.append((mode, contents[begin:number]))
            begin = number
        mode = found
    parts.append((mode, contents[begin:] if begin else contents))
    return parts


def is_persistent(properties: bytes) -> bool:
    """Return whether encoded properties are those of a persistent message."""
    flags = int.from_bytes(properties[:2], "big")
    place = _place_of(flags, properties, 2)
    return bool(flags & HAS_DELIVERY_MODE) and properties[place : place + 1] == _PERSISTENT


def _place_of(flags: int, content: bytes, position: int) -> int:
    """Find the octet; the properties are well formed as far as their lengths, or it is beyond their end."""
    for flag in (_CONTENT_TYPE, _CONTENT_ENCODING):
        if flags & flag and position < len(content):
            position += 1 + content[position]
    if flags & HAS_HEADERS:
        position += 4 + int.from_bytes(content[position : position + 4], "big")
    return position
