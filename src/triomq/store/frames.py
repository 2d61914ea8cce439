"""What a broker and the process of its store say to each other: a length in four octets, then MessagePack."""

import struct
from collections.abc import Sequence

import msgspec

from triomq import errors
from triomq.errors import StoreError
from triomq.store.operations import MessagesSettled, OperationBatch
from triomq.store.reading import Reading
from triomq.store.recovered import Piece


class _Frame(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of all frames."""


class Write(_Frame, frozen=True, tag=1):
    """Commit a batch; answered by ``BatchesCommitted`` or ``StoreFailed``."""

    batch: OperationBatch


class Read(_Frame, frozen=True, tag=2):
    """Read the segments of a range of ids, as of ``Reader.read``; answered by ``SegmentsFetched``."""

    number: int
    queue: int
    first: int
    stop: int
    octets: int


class ReadDelayed(_Frame, frozen=True, tag=3):
    """Read the bodies of delayed messages, as of ``Reader.read_delayed``; answered by ``DelayedFetched``."""

    number: int
    queue: int
    numbers: Sequence[int]


class BackUp(_Frame, frozen=True, tag=4):
    """Copy the store to a directory while it is in use; answered by ``BackedUp``."""

    number: int
    path: str


class SettleEarly(_Frame, frozen=True, tag=13):
    """Forget messages ahead of their batches, since there is no room for what stands before them; not answered."""

    operations: Sequence[MessagesSettled]


ToStore = Write | Read | ReadDelayed | BackUp | SettleEarly


class StoreFailed(_Frame, frozen=True, tag=5):
    """It cannot be done: to a ``Write``, that nothing of it is kept; before ``StoreOpened``, that there is no store.

    Args:
        kind: The name of a class of ``triomq.errors``.
        text: What the error says.
    """

    kind: str
    text: str

    @classmethod
    def of(cls, error: StoreError) -> "StoreFailed":
        """Carry an error over."""
        return cls(type(error).__name__, str(error))

    @property
    def error(self) -> StoreError:
        """The error."""
        kind = getattr(errors, self.kind, StoreError)
        error: StoreError = kind(self.text)
        return error


class PiecesRecovered(_Frame, frozen=True, tag=6):
    """Some of what is there; some come before ``StoreOpened``, if it was asked for."""

    pieces: Sequence[Piece]


class StoreOpened(_Frame, frozen=True, tag=7):
    """The store is open.

    Args:
        committed: The number of the last batch that is there.
        notices: What whoever runs the broker should know.
    """

    committed: int
    notices: Sequence[str]


class BatchesCommitted(_Frame, frozen=True, tag=8):
    """All batches up to this number are on disk."""

    number: int


class SegmentsFetched(_Frame, frozen=True, tag=9):
    """What was read of a range."""

    number: int
    reading: Reading


class DelayedFetched(_Frame, frozen=True, tag=10):
    """Bodies of delayed messages, None for those that are not there."""

    number: int
    bodies: list[bytes | None]


class FetchFailed(_Frame, frozen=True, tag=11):
    """Why something cannot be read."""

    number: int
    failed: StoreFailed


class BackedUp(_Frame, frozen=True, tag=12):
    """The copy is made, or why not."""

    number: int
    failed: StoreFailed | None = None


FromStore = (
    StoreFailed
    | PiecesRecovered
    | StoreOpened
    | BatchesCommitted
    | SegmentsFetched
    | DelayedFetched
    | FetchFailed
    | BackedUp
)

_length = struct.Struct("<I")
_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(ToStore | FromStore)


def encode_frame(frame: ToStore | FromStore) -> bytes:
    """Make the octets of a frame."""
    octets = _encode(frame)
    return _length.pack(len(octets)) + octets


class StoreFrameReader:
    """Puts frames together from what arrives; both ends have one."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
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
