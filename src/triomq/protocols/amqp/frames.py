"""Frames (AMQP 0-9-1 section 4.2.3): type, channel, size, payload, and the octet 206 at the end."""

import struct

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
FRAME_HEADER = struct.Struct(">BHI")
# What a frame takes besides its payload: seven octets before it, one behind.
OVERHEAD = 8

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Put a payload into a frame."""
    return b"%b%b\xce" % (FRAME_HEADER.pack(kind, channel, len(payload)), payload)
