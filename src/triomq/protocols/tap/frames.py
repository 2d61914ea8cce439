"""Frames: a length of four bytes, the highest first, and so many bytes of one message.

    0000 0012  96 11 01 a6 o r d e r s …
    ========== ==
    length     the message, see ``messages``

Rules:

- A length is judged before anything behind it is stored.
- Bytes are joined once for each frame, or a few times where small frames stand between large ones; a message's chunks
  are a view into that, so that a hundred thousand records cost no copy but this one.
- What comes in drops is gathered in blocks: a list of single bytes would take eight times what has come.
"""

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from triomq.protocols.tap.codes import PeerError
from triomq.protocols.tap.messages import TapMessage

LENGTH: Final = 4
"""Bytes of a length."""

_SMALL: Final = 4096
"""What is shorter is gathered: to store it by itself would take more than its own size."""

_BLOCK: Final = 64 * 1024
"""So much is gathered in a block."""

_BIN_32: Final = struct.Struct(">BI")  # MessagePack's bin 32
_EMPTY_BIN: Final = b"\xc4\x00"
_encode = msgspec.msgpack.Encoder().encode


class FrameReader:
    """Cuts a stream into frames; owned by one engine.

    Args:
        largest: bytes of a frame behind its length.
    """

    __slots__ = ("_data", "_later", "_later_size", "_needed", "_position", "begun", "largest")

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self.begun = 0
        """How many frames were begun: it changes with each."""
        self._data: bytes = b""
        self._position = 0
        self._later: list[bytes | bytearray] = []  # what has come behind ``_data``
        self._later_size = 0
        self._needed = LENGTH  # bytes from ``_position`` on without which nothing can be told

    @property
    def unread(self) -> int:
        """How many bytes have come that no frame was made of yet."""
        return len(self._data) - self._position + self._later_size

    def feed(self, data: bytes) -> None:
        """Take bytes."""
        self._later_size += len(data)
        later = self._later
        if len(data) >= _SMALL or not self.unread:
            later.append(data)
        elif later and isinstance(later[-1], bytearray) and len(later[-1]) < _BLOCK:
            later[-1] += data
        else:
            later.append(bytearray(data))

    def next(self) -> memoryview | None:
        """Return the next frame behind its length; None if it is not whole.

        Raises:
            PeerError: it is larger than it may be.
        """
        if not self._gather():
            return None
        if self._needed == LENGTH:
            self.begun += 1
            size = int.from_bytes(self._data[self._position : self._position + LENGTH], "big")
            if size > self.largest:
                raise PeerError("MALFORMED", f"a frame has {size} bytes; at most {self.largest} are allowed here")
            self._needed = LENGTH + size
            if not self._gather():
                return None
        start, self._position = self._position + LENGTH, self._position + self._needed
        self._needed = LENGTH
        return memoryview(self._data)[start : self._position]

    def _gather(self) -> bool:
        """Have what is needed in one piece; return whether it has come."""
        here = len(self._data) - self._position
        if here >= self._needed:
            return True
        if here + self._later_size >= self._needed:
            self._data = b"".join((memoryview(self._data)[self._position :], *self._later))
            self._later, self._later_size = [], 0
            self._position = 0
            return True
        if self._position:
            self._data = self._data[self._position :]  # or it would pin frames that were read
            self._position = 0
        return False

    def drop(self) -> None:
        """Forget what has come."""
        self._data, self._later = b"", []
        self._position = self._later_size = 0
        self._needed = LENGTH


def frame(message: TapMessage) -> bytes:
    """Write a message as a frame."""
    body = _encode(message)
    return len(body).to_bytes(LENGTH, "big") + body


def frame_with_chunks(message: TapMessage, chunks: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    """Write a message whose last field is empty bytes as a frame with chunks in their place, which are not copied."""
    size = sum(map(len, chunks))
    head = head_of(message) + _BIN_32.pack(0xC6, size)
    return [(len(head) + size).to_bytes(LENGTH, "big") + head, *chunks]


def head_of(message: TapMessage) -> bytes:
    """Write a message whose last field is empty bytes without that field."""
    return _encode(message).removesuffix(_EMPTY_BIN)
