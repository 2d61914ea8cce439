"""Frames of WebSocket written by hand, right and wrong (RFC 6455 section 5.2), and read again."""

import struct
from typing import NamedTuple

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
TOKEN = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
"""A key and what answers it (RFC 6455 section 1.3)."""


def request(*fields: str, target: str = "/", method: str = "GET", without: str = "-") -> bytes:
    """Return the beginning of a connection; ``without`` leaves out the fields that begin like this."""
    usual = [
        "Host: localhost",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {KEY}",
    ]
    lines = [f"{method} {target} HTTP/1.1", *(line for line in usual if not line.startswith(without)), *fields, "", ""]
    return "\r\n".join(lines).encode("latin-1")


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    reserved: int = 0,
    mask: bytes | None = b"\x12\x34\x56\x78",
    length: int | None = None,
) -> bytes:
    """Return a frame as a client sends it; ``length`` is what it says that it has."""
    size = len(payload) if length is None else length
    masked = 0x80 if mask is not None else 0
    if size < 126:
        head = bytes([masked | size])
    elif size < 1 << 16:
        head = struct.pack(">BH", masked | 126, size)
    else:
        head = struct.pack(">BQ", masked | 127, size)
    if mask is not None:
        payload = mask + bytes(octet ^ mask[place % 4] for place, octet in enumerate(payload))
    return bytes([fin << 7 | reserved << 4 | opcode]) + head + payload


class Seen(NamedTuple):
    """A frame that a server has sent."""

    opcode: int
    payload: bytes

    @property
    def code(self) -> int:
        """The code of a Close frame; 1005 where it has none (RFC 6455 section 7.1.5)."""
        return int.from_bytes(self.payload[:2]) if self.payload else 1005


def frames_of(data: bytes) -> list[Seen]:
    """Read what a server has sent: whole frames, each a whole message, none of them masked."""
    found = []
    while data:
        first, size = data[0], data[1]
        assert first & 0xF0 == 0x80, f"expected a whole message without reserved bits, found {first:#x}"
        start = 2 + {126: 2, 127: 8}.get(size, 0)
        if start > 2:
            size = int.from_bytes(data[2:start])
        assert len(data) >= start + size, "a frame is cut"
        found.append(Seen(first & 0xF, data[start : start + size]))
        data = data[start + size :]
    return found
