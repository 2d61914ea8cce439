"""Properties as services send them: type, trace, message-id and time; the last three differ in each message."""

import random
import struct

from loadgen import frames
from loadgen.batch import NUMBER, TICKS

CONTENT_TYPE, HEADERS, DELIVERY_MODE, MESSAGE_ID, TIMESTAMP = 0x8000, 0x2000, 0x1000, 0x0080, 0x0040
"""Bits of the properties' flags (specification 4.2.6.1)."""


def message_id(index: int) -> str:
    """Return a UUID that differs from all others by the batch's number and its own in the batch."""
    some = f"{random.Random(index).getrandbits(56):014x}"
    return f"{some[:8]}-{some[8:11]}0-4{some[11:]}-8000-{NUMBER.decode()}{index:04x}"


def traceparent(index: int) -> str:
    """Return a header of W3C Trace Context: version, trace, span, flags."""
    some, number = f"{random.Random(~index).getrandbits(128):032x}", NUMBER.decode()
    return f"00-{number}{some[:20]}{index:04x}-{number}{some[24:]}-01"


def properties(index: int, *, persistent: bool = False) -> bytes:
    """Return flags and values for the message of that number in its batch: about 130 octets.

    The timestamp counts milliseconds, as some clients do, so that one a message is no lie.
    """
    header = frames.short_string("traceparent") + b"S" + frames.long_string(traceparent(index).encode())
    flags = CONTENT_TYPE | HEADERS | MESSAGE_ID | TIMESTAMP | (DELIVERY_MODE if persistent else 0)
    mode = bytes([frames.PERSISTENT]) if persistent else b""
    timestamp = b"\0\0\1" + TICKS + struct.pack(">H", index)
    return b"".join(
        [
            struct.pack(">H", flags),
            frames.short_string("application/json"),
            frames.long_string(header),
            mode,
            frames.short_string(message_id(index)),
            timestamp,
        ]
    )
