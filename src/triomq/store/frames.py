"""What a broker and the process of its store say to each other: a length in four octets, then MessagePack."""

import struct
from collections.abc import Sequence

import msgspec

from triomq import errors
from triomq.errors import StoreError
from triomq.store.operations import Batch
from triomq.store.recovered import Piece

__all__ = [
    "BackUp",
    "BackedUp",
    "Committed",
    "Failed",
    "Fetched",
    "Found",
    "FrameReader",
    "FromStore",
    "Opened",
    "Read",
    "ToStore",
    "Write",
    "encode_frame",
]


class _Frame(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of all frames."""


class Write(_Frame, frozen=True, tag=1):
    """Commit a batch; answered by ``Committed`` or ``Failed``."""

    batch: Batch


class Read(_Frame, frozen=True, tag=2):
    """Read the bodies of segments; answered by ``Fetched``."""

    number: int
    queue: int
    firsts: Sequence[int]


class BackUp(_Frame, frozen=True, tag=3):
    """Copy the store to a file while it is in use; answered by ``BackedUp``."""

    number: int
    path: str


ToStore = Write | Read | BackUp


class Failed(_Frame, frozen=True, tag=4):
    """It cannot be done: to a ``Write``, that nothing of it is kept; before ``Opened``, that there is no store.

    Args:
        kind: The name of a class of ``triomq.errors``.
        text: What the error says.
    """

    kind: str
    text: str

    @classmethod
    def of(cls, error: StoreError) -> "Failed":
        """Carry an error over."""
        return cls(type(error).__name__, str(error))

    @property
    def error(self) -> StoreError:
        """The error."""
        kind = getattr(errors, self.kind, StoreError)
        error: StoreError = kind(self.text)
        return error


class Found(_Frame, frozen=True, tag=5):
    """Some of what is there; some come before ``Opened``, if it was asked for."""

    pieces: Sequence[Piece]


class Opened(_Frame, frozen=True, tag=6):
    """The store is open.

    Args:
        committed: The number of the last batch that is there.
        notices: What whoever runs the broker should know.
    """

    committed: int
    notices: Sequence[str]


class Committed(_Frame, frozen=True, tag=7):
    """All batches up to this number are on disk."""

    number: int


class Fetched(_Frame, frozen=True, tag=8):
    """Bodies, None where a segment is gone; or why they cannot be read."""

    number: int
    bodies: Sequence[bytes | None]
    failed: Failed | None = None


class BackedUp(_Frame, frozen=True, tag=9):
    """The copy is made, or why not."""

    number: int
    failed: Failed | None = None


FromStore = Failed | Found | Opened | Committed | Fetched | BackedUp

_length = struct.Struct("<I")
_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(ToStore | FromStore)


def encode_frame(frame: ToStore | FromStore) -> bytes:
    """Make the octets of a frame."""
    octets = _encode(frame)
    return _length.pack(len(octets)) + octets


class FrameReader:
    """Puts frames together from what arrives; both ends have one."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        """Start between two frames."""
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[ToStore | FromStore]:
        """Give the frames that are whole now.

        Raises:
            msgspec.DecodeError: The other end does not speak as it should: it has another version.
        """
        buffer = self._buffer
        buffer += data
        frames, position = [], 0
        while len(buffer) - position >= 4:
            stop = position + 4 + _length.unpack_from(buffer, position)[0]
            if stop > len(buffer):
                break
            with memoryview(buffer) as view, view[position + 4 : stop] as octets:
                frames.append(_decoder.decode(octets))
            position = stop
        del buffer[:position]
        return frames
