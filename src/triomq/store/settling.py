"""Bitmaps of what is settled in a segment, as integers: bit *n* is the message at position *n*."""

from collections.abc import Iterable

from triomq.store.operations import Range


def bits_of(first: int, count: int, ranges: Iterable[Range]) -> int:
    """Give the bits of those of a segment's messages whose ids are in some ranges."""
    bits = 0
    for start, length in ranges:
        low, high = max(start, first) - first, min(start + length, first + count) - first
        if low < high:
            bits |= (1 << high) - (1 << low)
    return bits


def octets_of(bits: int) -> bytes:
    """Give the octets that a bitmap is kept as; none for an empty one."""
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")
