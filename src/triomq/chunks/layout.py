"""The format of a chunk: records of a stream in a row, in columns.

All numbers are little endian. A chunk is a multiple of eight bytes, and what has eight bytes each comes first, so that
columns are where processors and Arrow want them.

    ========== ====== ===============================================================================================
    head, 72 bytes
    -----------------------------------------------------------------------------------------------------------------
    bytes[4]          "TMQC"
    u16               version of the format, 1
    u16               0; for later
    u64        first  offset of the first record
    u64        time   when the first record was appended, in microseconds since 1970
    u64        last   when the last one was
    u32        count  records, at least one
    u32        R      runs, at least one
    u32        K      records that have a key of their own
    u32        P      records that have properties of their own
    u32               bytes of the run heads
    u32               bytes of the keys
    u32               bytes of the properties
    u32               bytes of the values
    u32               crc32 of all that follows the head
    u32               crc32 of the head up to here
    ---------- ------ -----------------------------------------------------------------------------------------------
    columns
    -----------------------------------------------------------------------------------------------------------------
    u64 x R           microseconds from ``time`` to when a run was appended; never falling, the last one is ``last``
    u32 x R           records of a run, at least one
    u32 x R           number of its run head
    u32 x count       bytes of a value
    u32 x K           bytes of a key
    u32 x P           bytes of properties
    run heads         MessagePack: an array of [codec, mark, sink, key or nil, properties or nil]
    keys              one behind the other, of the records that have one of their own
    properties        likewise
    values            of all records
    0 x 0 to 7        up to a multiple of eight
    ========== ====== ===============================================================================================

- What all records of a run share is in its head, once; many runs may have one head. A nil there means that each record
  has its own.
- Times count from the head's, and offsets from ``first``, so that records that were staged are given both by writing
  the head anew (``MovableChunk``), and nothing else is read.
- The two checksums cover every byte. Lengths are checked as well (``check_chunk``), since whoever knows the format can
  write a checksum: what has passed the check is read without any other.
- Sink, key and properties are opaque. ``codec`` says how properties are encoded, and ``mark`` is the codec's own.

Tried and dropped: a head for each record (15 times the price at the reader); keys and properties always in columns (an
ordinary AMQP publisher repeats 20 to 60 bytes for each record); MessagePack for runs (1 µs for a run, and chunks of one
record that are merged have as many runs as records).
"""

import struct
import sys
from array import array
from collections.abc import Iterable, Iterator
from typing import Literal
from zlib import crc32

import msgspec

from triomq.errors import ChunkDamaged

_MAGIC = b"TMQC"
_VERSION = 1
_LAST_OFFSET = 1 << 62
"""Above all offsets and times: a store's integers have 63 bits, and none of the two is to be near their end."""

_front = struct.Struct("<4sHHQQQIIIIIIIII")
_head = struct.Struct("<4sHHQQQIIIIIIIIII")

CHUNK_HEAD_SIZE = _head.size
"""Bytes from which the whole head can be read."""


class RunHead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the records of a run share.

    Args:
        codec: How properties are encoded.
        mark: The codec's own; opaque here.
        sink: The name that they were published to.
        key: The key that they were published with; None if each record has its own.
        properties: Their properties; None if each record has its own.
    """

    codec: int
    mark: int
    sink: bytes
    key: bytes | None
    properties: bytes | None


class ChunkHead(msgspec.Struct, frozen=True, gc=False):
    """The head of a chunk.

    Args:
        first: The offset of its first record.
        time: When that was appended, in microseconds since 1970.
        last_time: When the last one was.
        count: How many records it has.
        runs: How many runs.
        own_keys: Records with a key of their own.
        own_properties: Records with properties of their own.
        heads_size: Bytes of the run heads.
        keys_size: Bytes of the keys.
        properties_size: Bytes of the properties.
        values_size: Bytes of the values.
        checksum: Of what follows the head.
    """

    first: int
    time: int
    last_time: int
    count: int
    runs: int
    own_keys: int
    own_properties: int
    heads_size: int
    keys_size: int
    properties_size: int
    values_size: int
    checksum: int

    @property
    def stop(self) -> int:
        """The offset behind the last record's."""
        return self.first + self.count

    @property
    def numbers_size(self) -> int:
        """Bytes of the columns that are numbers."""
        return 16 * self.runs + 4 * (self.count + self.own_keys + self.own_properties)

    @property
    def padding(self) -> int:
        """Bytes at the end that make it a multiple of eight."""
        return -self._used & 7

    @property
    def size(self) -> int:
        """Bytes of the whole chunk."""
        return (self._used + 7) & ~7

    @property
    def _used(self) -> int:
        sizes = self.heads_size + self.keys_size + self.properties_size + self.values_size
        return _head.size + self.numbers_size + sizes


def encode_head(head: ChunkHead) -> bytes:
    """Return the bytes of a head.

    Raises:
        ValueError: A number is out of its range, so the records need more chunks than one.
    """
    try:
        front = _front.pack(_MAGIC, _VERSION, 0, *msgspec.structs.astuple(head))
    except struct.error:
        raise ValueError(f"a chunk has at most 4 GiB, and this one would have {head.size} bytes; cut it") from None
    return front + crc32(front).to_bytes(4, "little")


def read_chunk_head(data: bytes | memoryview, position: int = 0) -> ChunkHead:
    """Return the head of a chunk, after checking it alone; see ``check_chunk``.

    Args:
        data: The chunk, or what begins with its head.
        position: Where it begins.

    Raises:
        ChunkDamaged: It is not the head of a chunk, or not what was written.
    """
    front = data[position : position + _head.size]
    if len(front) < _head.size:
        raise ChunkDamaged(f"{len(front)} bytes where a chunk was expected; its head alone has {_head.size}")
    magic, version, later, *numbers, checksum = _head.unpack(front)
    if magic != _MAGIC or crc32(front[:-4]) != checksum:
        raise ChunkDamaged("the head of a chunk is not what was written, so its offsets are not known")
    if version != _VERSION or later:
        raise ChunkDamaged(
            f"a chunk has version {version}, and this version of triomq knows version {_VERSION}; install a later one"
        )
    return ChunkHead(*numbers)


def split_chunks(data: bytes | memoryview) -> Iterator[memoryview]:
    """Yield the chunks that stand one behind the other; only their heads are checked.

    Raises:
        ChunkDamaged: The bytes are not whole chunks.
    """
    view = memoryview(data)
    while view:
        size = read_chunk_head(view).size
        if size > len(view):
            raise ChunkDamaged(f"a chunk of {size} bytes ends after {len(view)}")
        yield view[:size]
        view = view[size:]


def check_chunk(data: bytes | memoryview) -> ChunkHead:
    """Check all of a chunk; what has passed can be read without looking out for damage.

    Args:
        data: The chunk, and nothing else.

    Returns:
        Its head.

    Raises:
        ChunkDamaged: It is not what was written, or nothing that ``encode_chunk`` makes; its offsets are named.
    """
    head = read_chunk_head(data)
    if head.size != len(data):
        raise _damaged(head, f"it should have {head.size} bytes, and has {len(data)}")
    if crc32(memoryview(data)[_head.size :]) != head.checksum:
        raise _damaged(head, "its checksum differs")
    if complaint := _inconsistency(head, ChunkParts(data, head)):
        raise _damaged(head, complaint)
    return head


def _damaged(head: ChunkHead, text: str) -> ChunkDamaged:
    return ChunkDamaged(f"the chunk with the records {head.first} to {head.stop - 1} is damaged: {text}")


def _inconsistency(head: ChunkHead, parts: "ChunkParts") -> str:
    """Return what in a chunk does not fit together; empty if all does."""
    if not (head.count and head.runs and head.stop < _LAST_OFFSET and head.time <= head.last_time < _LAST_OFFSET):
        return "its head has numbers out of their range"
    times, counts, which = parts.run_times, parts.run_counts, parts.run_heads
    if times[0] or times[-1] != head.last_time - head.time or list(times) != sorted(times):
        return "its times fall, or do not fit its head"
    if min(counts) == 0 or sum(counts) != head.count:
        return "its runs do not have all of its records"
    try:
        heads = parts.heads()
    except (msgspec.MsgspecError, RecursionError):
        return "the heads of its runs cannot be decoded"
    if max(which) >= len(heads):
        return "a run has no head"
    own_keys = own_properties = 0
    for number, count in zip(which, counts, strict=True):
        own_keys += count if heads[number].key is None else 0
        own_properties += count if heads[number].properties is None else 0
    if (own_keys, own_properties) != (head.own_keys, head.own_properties):
        return "its runs do not fit the records with keys or properties of their own"
    sizes = sum(parts.lengths), sum(parts.key_lengths), sum(parts.property_lengths)
    if sizes != (head.values_size, head.keys_size, head.properties_size):
        return "the lengths of its records do not add up"
    return "there is something behind it" if any(parts.padding) else ""


_IS_LITTLE = sys.byteorder == "little"


def u32s(numbers: Iterable[int]) -> bytes:
    """Return a column of numbers."""
    return _encoded(array("I", numbers))


def u64s(numbers: Iterable[int]) -> bytes:
    """Return a column of large numbers."""
    return _encoded(array("Q", numbers))


def numbers_of(column: "memoryview[int] | array[int]") -> bytes | memoryview:
    """Return the bytes of a column of numbers, of four bytes each; no copy is made, except on big-endian machines."""
    return memoryview(column).cast("B") if _IS_LITTLE else u32s(column)


def _encoded(numbers: "array[int]") -> bytes:
    if not _IS_LITTLE:
        numbers.byteswap()
    return numbers.tobytes()


def _numbers(data: memoryview, code: Literal["I", "Q"]) -> "memoryview[int]":
    """Return a column as numbers; no copy is made, except on big-endian machines."""
    if _IS_LITTLE:
        return data.cast(code)
    numbers = array(code, data.tobytes())
    numbers.byteswap()
    return memoryview(numbers)


class ChunkParts:
    """Where everything stands in a chunk: one view for each column. Made of a chunk that is as long as its head says.

    Args:
        data: The chunk.
        head: Its head.
    """

    __slots__ = (
        "encoded_heads",
        "key_lengths",
        "keys",
        "lengths",
        "padding",
        "properties",
        "property_lengths",
        "run_counts",
        "run_heads",
        "run_times",
        "values",
    )

    def __init__(self, data: bytes | memoryview, head: ChunkHead) -> None:
        view = memoryview(data)
        stop = _head.size + 8 * head.runs
        self.run_times = _numbers(view[_head.size : stop], "Q")
        start, stop = stop, stop + 4 * head.runs
        self.run_counts = _numbers(view[start:stop], "I")
        start, stop = stop, stop + 4 * head.runs
        self.run_heads = _numbers(view[start:stop], "I")
        start, stop = stop, stop + 4 * head.count
        self.lengths = _numbers(view[start:stop], "I")
        start, stop = stop, stop + 4 * head.own_keys
        self.key_lengths = _numbers(view[start:stop], "I")
        start, stop = stop, stop + 4 * head.own_properties
        self.property_lengths = _numbers(view[start:stop], "I")
        start, stop = stop, stop + head.heads_size
        self.encoded_heads = view[start:stop]
        start, stop = stop, stop + head.keys_size
        self.keys = view[start:stop]
        start, stop = stop, stop + head.properties_size
        self.properties = view[start:stop]
        start, stop = stop, stop + head.values_size
        self.values = view[start:stop]
        self.padding = view[stop:]

    def heads(self) -> list[RunHead]:
        """Decode the heads of the runs."""
        return decode_run_heads(self.encoded_heads)


encode_run_heads = msgspec.msgpack.Encoder().encode
decode_run_heads = msgspec.msgpack.Decoder(list[RunHead]).decode
