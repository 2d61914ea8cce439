"""The frames between a broker and the process of its store: a length in four bytes, then MessagePack.

Batches may have megabytes of contents, so neither end copies them:

- ``encode_frame`` returns buffers for one gather write. A body that was gathered goes into it piece by piece; to its
  reader a frame looks the same whether its bodies were gathered or not.
- ``StoreFrameReader`` receives into a buffer of its own, and a batch that it has read refers to that: its bodies are
  parts of the buffer. The buffer is used again only when nothing refers to it any more. That is so as soon as the batch
  is committed, so one buffer, in the processor's cache, does for all; a new one for each batch costs page faults.
"""

import struct
from collections.abc import Sequence

import msgspec

from triomq import errors
from triomq.errors import StoreError
from triomq.store.body import ARRAY, ARRAY_CODE, BINARY, BINARY_CODE, LARGE
from triomq.store.gathered import GatheredBody, Octets
from triomq.store.operations import MessagesSettled, OperationBatch
from triomq.store.reading import ChunksRead, ChunksSent, Reading
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


class ReadRecord(_Frame, frozen=True, tag=14):
    """Read the value of a record, as of ``Reader.read_record``; answered by ``RecordFetched``."""

    number: int
    kind: int
    key: bytes


class ReadChunks(_Frame, frozen=True, tag=16):
    """Read chunks of a stream, as of ``Reader.read_chunks``; answered by ``ChunksFetched``."""

    number: int
    queue: int
    first: int
    stop: int
    max_bytes: int
    since: int


class SendChunks(_Frame, frozen=True, tag=18):
    """Write chunks of a stream to a socket, whose descriptor comes with this frame; answered by ``SendingEnded``.

    Args:
        number: The request's.
        queue: As of ``Reader.read_chunks``, like what follows.
        first: Likewise.
        stop: Likewise.
        max_bytes: Likewise.
        head: The beginning of a message whose last field, MessagePack's ``bin``, is the chunks.
        reader: Who gets them: what all answers to one reader may leave unread is bounded.
        room: Bytes that answers to all readers may leave unread; 0 is no bound.
    """

    number: int
    queue: int
    first: int
    stop: int
    max_bytes: int
    head: bytes
    reader: str = ""
    room: int = 0


Fetching = Read | ReadDelayed | ReadRecord | ReadChunks
"""What is read, and answered by its number."""

ToStore = Write | Fetching | SendChunks | BackUp | SettleEarly


class StoreFailed(_Frame, frozen=True, tag=5):
    """An error: after a ``Write``, nothing of it was written; before ``StoreOpened``, the store cannot be opened;
    else its files were moved, removed or replaced.

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
        identity: The store's, for later hosts to find it again.
    """

    committed: int
    notices: Sequence[str]
    identity: bytes = b""


class BatchesCommitted(_Frame, frozen=True, tag=8):
    """All batches up to this number are on disk, in the answer to a ``Write``, or since lost files are back."""

    number: int


class SegmentsFetched(_Frame, frozen=True, tag=9):
    """The segments of a range."""

    number: int
    reading: Reading


class DelayedFetched(_Frame, frozen=True, tag=10):
    """The bodies of delayed messages, None for those that are not there."""

    number: int
    bodies: list[bytes | None]


class RecordFetched(_Frame, frozen=True, tag=15):
    """The value of a record, None if it is not there."""

    number: int
    value: bytes | None


class ChunksFetched(_Frame, frozen=True, tag=17):
    """Chunks of a stream."""

    number: int
    chunks: ChunksRead


class SendingEnded(_Frame, frozen=True, tag=19):
    """The end of what was to be written to a socket."""

    number: int
    sent: ChunksSent


class FetchFailed(_Frame, frozen=True, tag=11):
    """The error because of which segments, bodies, chunks or a record cannot be read."""

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
    | RecordFetched
    | ChunksFetched
    | SendingEnded
    | FetchFailed
    | BackedUp
)

_length = struct.Struct("<I")
_encoder = msgspec.msgpack.Encoder()
_encode = _encoder.encode
_decoder = msgspec.msgpack.Decoder(ToStore | FromStore)

Buffers = list[bytes | bytearray | memoryview]

_SIZE = 64 * 1024
"""Bytes of a buffer that frames are received into, unless one needs more."""
_LEAST = 4 * 1024
"""Bytes of room from which on it is worth a system call to receive more."""


def encode_frame(frame: ToStore | FromStore) -> Buffers:
    """Return the bytes of a frame, in buffers to be written one behind the other."""
    front = bytearray(_length.size)
    if isinstance(frame, Write) and [
        each for each in frame.batch.operations if len(getattr(each, "body", b"")) >= LARGE
    ]:
        buffers = _gathered(frame.batch, front)
        _length.pack_into(front, 0, sum(map(len, buffers)) - _length.size)
        return buffers
    _encoder.encode_into(frame, front, _length.size)
    _length.pack_into(front, 0, len(front) - _length.size)
    return [front]


def _gathered(batch: OperationBatch, front: bytearray) -> Buffers:
    """Return a batch in buffers, behind what is in the first; bodies are buffers of their own unless they are small."""
    buffers: Buffers = [front]
    between = front
    between += _encode(Write(OperationBatch(batch.number, ())))[:-1]  # up to the number of operations
    between += ARRAY.pack(ARRAY_CODE, len(batch.operations))
    for operation in batch.operations:
        body: Octets = getattr(operation, "body", b"")
        if len(body) < LARGE:
            between += _encode(operation)
            continue
        # The body is the last field. So without it all is encoded but what it ends with, an empty body of two bytes.
        between += _encode(msgspec.structs.replace(operation, body=b""))[:-2]
        between += BINARY.pack(BINARY_CODE, len(body))
        buffers += body.pieces if isinstance(body, GatheredBody) else [body]
        between = bytearray()
        buffers.append(between)
    return buffers


class StoreFrameReader:
    """Parses frames from the bytes that arrive; each end has one.

    Args:
        size: Bytes of its buffer, unless a frame needs more.
    """

    __slots__ = ("_buffer", "_size", "_start", "_stop")

    def __init__(self, size: int = _SIZE) -> None:
        self._size = size
        self._buffer = bytearray(size)
        self._start = self._stop = 0  # where in the buffer the unfinished frame is

    def feed(self, data: bytes) -> list[ToStore | FromStore]:
        """Parse the frames that are complete with some more bytes.

        Raises:
            msgspec.DecodeError: The bytes are no frame: the other end has another version.
        """
        if self._start < self._stop:
            return self._fill(memoryview(data))
        frames, position = _parse(memoryview(data), 0)  # mostly all of it, and small
        if position < len(data):
            frames += self._fill(memoryview(data)[position:])
        return frames

    def _fill(self, data: memoryview) -> list[ToStore | FromStore]:
        """Parse with bytes that are copied to where they could have been received."""
        frames: list[ToStore | FromStore] = []
        while data:
            with self.room() as room:
                count = min(len(room), len(data))
                room[:count] = data[:count]
            data = data[count:]
            frames += self.received(count)
        return frames

    def room(self) -> memoryview:
        """Return where the next bytes are to be received; to be released before they are parsed."""
        if self._start and self._is_free():
            rest = self._buffer[self._start : self._stop]
            self._buffer[: len(rest)] = rest
            self._start, self._stop = 0, len(rest)
        if not self.has_room:
            rest = self._buffer[self._start : self._stop]
            self._buffer = bytearray(max(self._size, 2 * self._needed))  # for this frame and one more like it
            self._buffer[: len(rest)] = rest
            self._start, self._stop = 0, len(rest)
        return memoryview(self._buffer)[self._stop :]

    @property
    def has_room(self) -> bool:
        """Whether the next bytes have room behind the frames that were read last, so that those need not go first."""
        return self._start + self._needed <= len(self._buffer)

    @property
    def _needed(self) -> int:
        """Bytes of the unfinished frame, as far as that is known."""
        if self._stop - self._start < _length.size:
            return _LEAST
        return _length.size + int(_length.unpack_from(self._buffer, self._start)[0])

    def _is_free(self) -> bool:
        """Return whether nothing refers to the buffer: only then can its size change."""
        try:
            self._buffer.append(self._buffer.pop())
        except BufferError:
            return False
        return True

    def received(self, count: int) -> list[ToStore | FromStore]:
        """Parse the frames that are complete with the bytes that were received; see ``feed``.

        The bodies of batches are parts of the buffer.
        """
        self._stop += count
        frames, self._start = _parse(memoryview(self._buffer)[: self._stop], self._start)
        return frames

    def shrink(self) -> None:
        """Give the room of large frames back, if nothing is unfinished."""
        if self._start == self._stop and len(self._buffer) > self._size:
            self._buffer, self._start, self._stop = bytearray(self._size), 0, 0


def _parse(data: memoryview, position: int) -> tuple[list[ToStore | FromStore], int]:
    """Return the frames that are complete from a position on, and where the next one begins."""
    frames, end = [], len(data)
    while end - position >= _length.size:
        stop = position + _length.size + _length.unpack_from(data, position)[0]
        if stop > end:
            break
        frames.append(_decoder.decode(data[position + _length.size : stop]))
        position = stop
    return frames, position
