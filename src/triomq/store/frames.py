"""The frames between a broker and the process of its store: a length in four bytes, then MessagePack."""

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
    max_bytes: int


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
    """Settle messages ahead of their batches, since there is no room for the batches before them; not answered."""

    operations: Sequence[MessagesSettled]


ToStore = Write | Read | ReadDelayed | BackUp | SettleEarly


class StoreFailed(_Frame, frozen=True, tag=5):
    """An error: after a ``Write``, nothing of it was written; before ``StoreOpened``, the store cannot be opened.

    Args:
        kind: The name of a class of ``triomq.errors``.
        text: The error's text.
    """

    kind: str
    text: str

    @classmethod
    def of(cls, error: StoreError) -> "StoreFailed":
        """Return the frame that carries an error."""
        return cls(type(error).__name__, str(error))

    @property
    def error(self) -> StoreError:
        """The error that the frame carries."""
        kind = getattr(errors, self.kind, StoreError)
        error: StoreError = kind(self.text)
        return error


class PiecesRecovered(_Frame, frozen=True, tag=6):
    """Some of what the store has; sent before ``StoreOpened`` when a broker starts, as often as it takes."""

    pieces: Sequence[Piece]


class StoreOpened(_Frame, frozen=True, tag=7):
    """The store is open.

    Args:
        committed: The number of the last batch in it.
        notices: Warnings for the operator of the broker.
    """

    committed: int
    notices: Sequence[str]


class BatchesCommitted(_Frame, frozen=True, tag=8):
    """All batches up to this number are on disk."""

    number: int


class SegmentsFetched(_Frame, frozen=True, tag=9):
    """The segments of a range."""

    number: int
    reading: Reading


class DelayedFetched(_Frame, frozen=True, tag=10):
    """The bodies of delayed messages, None for those that are not there."""

    number: int
    bodies: list[bytes | None]


class FetchFailed(_Frame, frozen=True, tag=11):
    """The error because of which segments or bodies cannot be read."""

    number: int
    failed: StoreFailed


class BackedUp(_Frame, frozen=True, tag=12):
    """The copy is complete, or the error because of which it is not."""

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
    """Return the bytes of a frame."""
    data = _encode(frame)
    return _length.pack(len(data)) + data


class StoreFrameReader:
    """Parses frames from the bytes that arrive; each end has one."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[ToStore | FromStore]:
        """Parse the frames that are complete now.

        Raises:
            msgspec.DecodeError: The bytes are no frame: the other end has another version.
        """
        buffer = self._buffer
        buffer += data
        frames, position = [], 0
        while len(buffer) - position >= 4:
            stop = position + 4 + _length.unpack_from(buffer, position)[0]
            if stop > len(buffer):
                break
            with memoryview(buffer) as view, view[position + 4 : stop] as part:
                frames.append(_decoder.decode(part))
            position = stop
        del buffer[:position]
        return frames
