"""Which octets of a message's properties may differ without a check, once properties like them were in order.

    flags  5 "a/b+c"  table's length  4 "id" S 0 0 0 36  0f3a…  36  c81e…  timestamp
    |--- fixed ---------------------------------------|  free  fixed  free |
             `free`

What has the fixed octets of properties that were in order, at the same places, is in order too: flags, every length,
names and type octets of header fields decide how the rest is cut, and no value of a field can be wrong. A text need
not be UTF-8, and a number may have any bits. So a reader that meets such properties compares a few slices in place of
decoding a table.

Names of header fields could be free; they are fixed, so that what a layout says of them holds for all that have it.
"""

from typing import NamedTuple

from triomq.protocols.fields import VALUE_SIZES
from triomq.protocols.properties import plan_of

LONGEST = 2048
"""Octets of properties that a layout is made of: longer ones are rare, and their layouts would be held on to."""

MOST_PARTS = 64
"""Parts of a layout: from here on comparing them costs as much as decoding."""

_BEFORE_MODE, _DELIVERY_MODE = 0xE000, 0x1000
_TABLE, _ARRAY = ord("F"), ord("A")


class Layout(NamedTuple):
    """What properties have in common that differ in values only.

    Args:
        parts: how many octets are fixed, free, fixed … in turn; the last ones are fixed, and may be none.
        names: of the header fields, without those inside of other fields.
        delivery_mode: the octet, which is fixed; 0 without one.
    """

    parts: tuple[int, ...]
    names: frozenset[bytes]
    delivery_mode: int


def layout_of(properties: bytes) -> Layout | None:
    """Return the layout of properties, flags first, that were found in order; None if they have too many parts."""
    if len(properties) > LONGEST:
        return None
    flags, position = int.from_bytes(properties[:2], "big"), 2
    free: list[tuple[int, int]] = []
    names: set[bytes] = set()
    delivery_mode = 0
    before = len(plan_of(flags & _BEFORE_MODE))
    for number, size in enumerate(plan_of(flags)):
        if size < 0:
            position = find_values(properties, position, free, names)
        elif flags & _DELIVERY_MODE and number == before:
            delivery_mode = properties[position]
            position += size
        else:
            start = position if size else position + 1
            position += size or 1 + properties[position]
            free.append((start, position))
    parts = parts_of([(start, stop) for start, stop in free if stop > start], len(properties))
    return Layout(parts, frozenset(names), delivery_mode) if len(parts) <= MOST_PARTS else None


def find_values(data: bytes, position: int, free: list[tuple[int, int]], names: set[bytes]) -> int:
    """Find the values of a table and of all that is inside it; return where it ends."""
    whole = stop = position + 4 + int.from_bytes(data[position : position + 4], "big")
    position += 4
    is_table = True
    outer: list[tuple[bool, int]] = []
    while True:
        while position == stop:
            if not outer:
                return whole
            is_table, stop = outer.pop()
        if is_table:
            name = data[position + 1 : position + 1 + data[position]]
            position += 1 + len(name)
            if not outer:
                names.add(name)
        code = data[position]
        position += 1
        size = VALUE_SIZES.get(code)
        if size is None:
            size = int.from_bytes(data[position : position + 4], "big")
            position += 4
            if code in (_TABLE, _ARRAY):
                outer.append((is_table, stop))
                is_table, stop = code == _TABLE, position + size
                continue
        free.append((position, position + size))
        position += size


def parts_of(free: list[tuple[int, int]], length: int) -> tuple[int, ...]:
    """Turn places into lengths; free places that touch are one."""
    parts: list[int] = []
    position = 0
    for start, stop in free:
        if parts and start == position:
            parts[-1] += stop - start
        else:
            parts += (start - position, stop - start)
        position = stop
    return (*parts, length - position)
