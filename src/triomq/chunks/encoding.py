"""From runs of records to a chunk.

A run of fewer than ``_FEW`` records has its keys and properties in columns, also if there is one for all: the next run
mostly has others, and so both can be one run, and do not need a run head each.

Values are copied once: beyond some 100 KiB the allocator may ask the system for each piece of memory, whose pages then
fault one by one, and a further copy of so much may cost more than all the rest.
"""

from collections.abc import Sequence
from io import BytesIO
from zlib import crc32

import msgspec

from triomq.chunks.layout import CHUNK_HEAD_SIZE, ChunkHead, encode_head, encode_run_heads, u32s, u64s

_FEW = 8
"""Records of a run from which on what they share is written once: a run and its head take about as many lengths."""


_Head = tuple[int, int, bytes, bytes | None, bytes | None]
"""The fields of a ``RunHead``, which is slower to make."""


class RecordRun(msgspec.Struct, frozen=True, gc=False):
    """Records in a row that were published alike.

    Args:
        codec: How their properties are encoded.
        sink: The name that they were published to.
        key: The key of all of them, or the key of each.
        properties: The encoded properties of all of them, or of each.
        values: Their bodies, at least one.
        mark: The codec's own mark for their properties; opaque here.
    """

    codec: int
    sink: bytes
    key: bytes | Sequence[bytes]
    properties: bytes | Sequence[bytes]
    values: Sequence[bytes]
    mark: int = 0


def encode_chunk(first: int, time: int, runs: Sequence[RecordRun]) -> bytes:
    """Return a chunk.

    Args:
        first: The offset of its first record.
        time: When all of them were appended, in microseconds since 1970.
        runs: The records, at least one.

    Raises:
        ValueError: They have more than 4 GiB.
    """
    writer = ColumnWriter()
    for run in runs:
        writer.add(run)
    return writer.finish(first, time)


class ColumnWriter:
    """The columns of a chunk that is being written; created and ended by ``encode_chunk``."""

    __slots__ = ("_counts", "_heads", "_keys", "_properties", "_values", "_which")

    def __init__(self) -> None:
        self._heads: dict[_Head, int] = {}
        self._counts: list[int] = []
        self._which: list[int] = []
        self._keys: list[bytes] = []
        self._properties: list[bytes] = []
        self._values: list[bytes] = []

    def add(self, run: RecordRun) -> None:
        """Add the records of a run."""
        count = len(run.values)
        self._values += run.values
        key = _shared(run.key, count, self._keys)
        properties = _shared(run.properties, count, self._properties)
        number = self._heads.setdefault((run.codec, run.mark, run.sink, key, properties), len(self._heads))
        if self._which and self._which[-1] == number:
            self._counts[-1] += count
        else:
            self._which.append(number)
            self._counts.append(count)

    def finish(self, first: int, time: int) -> bytes:
        """Return the chunk; see ``encode_chunk``."""
        heads = encode_run_heads(list(self._heads))
        lengths, key_lengths, property_lengths = (
            list(map(len, pieces)) for pieces in (self._values, self._keys, self._properties)
        )
        numbers = (
            u64s([0] * len(self._counts)),
            u32s([*self._counts, *self._which]),
            u32s(lengths),
            u32s(key_lengths),
            u32s(property_lengths),
        )
        head = ChunkHead(
            first,
            time,
            time,
            len(self._values),
            len(self._counts),
            len(self._keys),
            len(self._properties),
            len(heads),
            sum(key_lengths),
            sum(property_lengths),
            sum(lengths),
            0,
        )
        return assemble_chunk(head, [*numbers, heads, *self._keys, *self._properties, *self._values])


def _shared(given: bytes | Sequence[bytes], count: int, own: list[bytes]) -> bytes | None:
    """Return what so many records share; if that is nothing, add what each has of its own."""
    if not isinstance(given, bytes):
        own += given
    elif count < _FEW:
        own += (given,) * count
    else:
        return given
    return None


def assemble_chunk(head: ChunkHead, columns: list[bytes | memoryview]) -> bytes:
    """Return a chunk.

    Args:
        head: Its head; the checksum in it does not count.
        columns: In their order, as long as the head says, in any number of pieces; padded here.
    """
    data = b"".join([bytes(CHUNK_HEAD_SIZE), *columns, bytes(head.padding)])
    checksum = crc32(memoryview(data)[CHUNK_HEAD_SIZE:])
    whole = BytesIO(data)
    del data  # what nobody else refers to is written to where it is, and is no copy when it is taken out
    whole.write(encode_head(msgspec.structs.replace(head, checksum=checksum)))
    return whole.getvalue()
