"""From runs of records, or from columns, to a chunk.

Who has columns, as Arrow does, writes them as they are (``encode_columns``): one run, and no object for a record.

What has runs is gathered (``encode_chunk``). There, a run of fewer than ``_FEW`` records has its keys and properties in
columns, also if there is one for all: the next run mostly has others, and so both can be one run, and do not need a
run head each.

Values are copied once: beyond some 100 KiB the allocator may ask the system for each piece of memory, whose pages then
fault one by one, and a further copy of so much may cost more than all the rest.
"""

from array import array
from collections.abc import Sequence
from io import BytesIO
from zlib import crc32

import msgspec

from triomq.chunks.column import Column
from triomq.chunks.layout import (
    CHUNK_HEAD_SIZE,
    ChunkHead,
    RunHead,
    encode_head,
    encode_run_heads,
    numbers_of,
    u32s,
    u64s,
)

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


def encode_columns(
    codec: int,
    sink: bytes,
    key: bytes | Column,
    properties: bytes | Column,
    values: Column,
    *,
    mark: int = 0,
    first: int = 0,
    time: int = 0,
) -> bytes:
    """Return a chunk that is one run of records; for who has columns already.

    Args:
        codec: How their properties are encoded.
        sink: The name that they were published to.
        key: The key of all of them, or the key of each.
        properties: The encoded properties of all of them, or of each.
        values: Their bodies, at least one.
        mark: The codec's own mark for their properties.
        first: The offset of the first record.
        time: When all of them were appended, in microseconds since 1970.

    Raises:
        ValueError: The columns do not fit together, or have more than 4 GiB.
    """
    count = len(values.lengths)
    keys = _NO_COLUMN if isinstance(key, bytes) else key
    own = _NO_COLUMN if isinstance(properties, bytes) else properties
    for column in (values, keys, own):
        if column is not _NO_COLUMN and not 0 < count == len(column.lengths):
            raise ValueError(f"a column has {len(column.lengths)} records, and the values are {count}")
        if sum(column.lengths) != len(column.data):
            raise ValueError(f"a column has {len(column.data)} bytes, and its lengths add up to {sum(column.lengths)}")
    run_head = RunHead(
        codec,
        mark,
        sink,
        key if isinstance(key, bytes) else None,
        properties if isinstance(properties, bytes) else None,
    )
    heads = encode_run_heads([run_head])
    head = ChunkHead(
        first,
        time,
        time,
        count,
        1,
        len(keys.lengths),
        len(own.lengths),
        len(heads),
        len(keys.data),
        len(own.data),
        len(values.data),
        0,
    )
    lengths = [numbers_of(column.lengths) for column in (values, keys, own)]
    columns = [u64s([0]), u32s([count, 0]), *lengths, heads, keys.data, own.data, values.data]
    return assemble_chunk(head, columns)


_NO_COLUMN = Column(array("I"), b"")


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
