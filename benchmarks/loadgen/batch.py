"""A batch: publishes that are sent together from one buffer, in which only those bytes are changed that differ.

No two messages of real traffic have the same head: each has its own message-id, its own span. To encode a head for
each would make the generator slower than what it measures. So the messages of a batch are encoded once, all equally
long, and two numbers tell them from all others: that of the message in its batch, which stays, and that of the batch.
The second stands at the same places in each message, so a changed digit of it is one assignment to a slice with a
stride, for all messages at once; about five of them per batch, whose cost `FlowResult.generator_share` contains.

    encode(0)   …content-type…{number}0000…   encode(1)   …content-type…{number}0001…   …
"""

import os
import re
import struct
import time
from collections.abc import Callable, Sequence

NUMBER = b"#" * 8
"""Where `encode` writes this, eight hexadecimal digits of the batch's number are put."""
TICKS = b"@" * 3
"""The same for three bytes of it in binary form."""
STAMP = struct.Struct("<Q")
"""Nanoseconds of the monotonic clock, in a body."""


class Batch:
    """Messages that are sent together; created for one publisher, which calls `renew` before each sending.

    Args:
        octets: the messages, equally long where anything of them changes.
        count: how many there are.
        stamp_at: where in each message the moment of its sending stands, None for none.
    """

    def __init__(self, octets: bytes, count: int, *, stamp_at: int | None = None) -> None:
        self.octets = bytearray(octets)
        self.count = count
        self._size = len(octets) // count
        self._places = _find_places(octets[: self._size])
        self._stamp_at = stamp_at
        self._number = int.from_bytes(os.urandom(4))  # publishers side by side do not send the same ids either
        self._written = b""
        self.renew()

    @classmethod
    def of(cls, publishes: Sequence[bytes], target: int) -> "Batch":
        """Repeat a sequence of publishes until the buffer holds about `target` octets, once at least."""
        once = b"".join(publishes)
        times = max(1, target // len(once))
        return cls(once * times, times * len(publishes))

    @classmethod
    def numbered(
        cls, encode: Callable[[int], bytes], target: int, *, multiple: int = 1, body_size: int | None = None
    ) -> "Batch":
        """Encode messages by their number in the batch until the buffer holds about `target` octets.

        Args:
            encode: returns the message of that number; all are equally long.
            target: octets of the buffer.
            multiple: messages that belong together, such as one for each of so many keys.
            body_size: octets of the body, at whose begin the moment of sending is written; None for no such stamp.
        """
        size = len(encode(0))
        count = max(1, target // (size * multiple)) * multiple
        octets = b"".join([encode(number) for number in range(count)])
        if len(octets) != size * count:
            raise ValueError("the messages of a batch differ in length; give their keys one length")
        return cls(octets, count, stamp_at=None if body_size is None else encode(0).rindex(b"x" * body_size))

    def renew(self) -> memoryview:
        """Make heads that no earlier batch had, and return the buffer; what was returned before must be sent."""
        octets, size = self.octets, self._size
        if self._places:
            self._number = (self._number + 1) & 0xFFFFFFFF
            number = b"%08x%b" % (self._number, (self._number & 0xFFFFFF).to_bytes(3, "big"))
            for place, (new, old) in enumerate(zip(number, self._written or bytes(len(number)), strict=True)):
                if new != old or not self._written:
                    digits = bytes([new]) * self.count
                    for start in self._places[place]:
                        octets[start::size] = digits
            self._written = number
        if self._stamp_at is not None:
            for start in range(self._stamp_at, len(octets), size):
                STAMP.pack_into(octets, start, time.monotonic_ns())
        return memoryview(octets)


def _find_places(message: bytes) -> list[list[int]]:
    """Return where each byte of a batch's number stands in a message: eight digits, then three bytes."""
    found: list[list[int]] = []
    for mark in (NUMBER, TICKS):
        starts = [match.start() for match in re.finditer(mark, message)]
        found += [[start + offset for start in starts] for offset in range(len(mark))]
    return found if any(found) else []
