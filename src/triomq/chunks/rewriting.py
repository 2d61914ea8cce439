"""Chunks made of chunks: a part of one, several as one, and one at other offsets.

Values are copied as they are, in pieces that are as long as the chunks.
"""

from collections.abc import Sequence
from io import BytesIO
from itertools import pairwise

import msgspec

from triomq.chunks.encoding import assemble_chunk
from triomq.chunks.layout import (
    CHUNK_HEAD_SIZE,
    ChunkHead,
    ChunkParts,
    RunHead,
    check_chunk,
    encode_head,
    encode_run_heads,
    read_chunk_head,
    u32s,
    u64s,
)


class MovableChunk:
    """A chunk whose offsets and times are given later, at the price of its head: of its records nothing is read then.

    Args:
        data: The chunk, which is copied here.

    ``head`` is what it had.

    Raises:
        ChunkDamaged: Its head is not what was written.
    """

    __slots__ = ("_data", "head", "size")

    def __init__(self, data: bytes) -> None:
        self.head = read_chunk_head(data)
        self.size = len(data)
        self._data = BytesIO(bytes(memoryview(data)))  # what nobody else refers to is written to where it is

    def moved(self, first: int, time: int) -> bytes:
        """Return it at another place; a second time it is copied.

        Args:
            first: The offset that its first record is to have.
            time: When that is to have been appended, in microseconds since 1970; the others follow as they did.
        """
        head, last = self.head, time + self.head.last_time - self.head.time
        self._data.seek(0)
        self._data.write(encode_head(msgspec.structs.replace(head, first=first, time=time, last_time=last)))
        return self._data.getvalue()


def relabel_chunk(data: bytes, heads: Sequence[RunHead]) -> bytes:
    """Return a checked chunk with other heads of its runs, and one time for all of its records.

    Args:
        data: The chunk.
        heads: One for each run, in their order; they have keys and properties where the old ones have.
    """
    head = read_chunk_head(data)
    parts = ChunkParts(data, head)
    numbers = {each: number for number, each in enumerate(dict.fromkeys(heads))}
    encoded = encode_run_heads(list(numbers))
    lengths = memoryview(data)[CHUNK_HEAD_SIZE + 16 * head.runs : CHUNK_HEAD_SIZE + head.numbers_size]
    columns: list[bytes | memoryview] = [
        u64s([0]) * head.runs,
        u32s([*parts.run_counts, *(numbers[each] for each in heads)]),
        lengths,
        encoded,
        parts.keys,
        parts.properties,
        parts.values,
    ]
    return assemble_chunk(msgspec.structs.replace(head, last_time=head.time, heads_size=len(encoded)), columns)


def cut_chunk(data: bytes | memoryview, first: int, stop: int) -> bytes:
    """Return the records of a checked chunk that are in a range, as a chunk.

    Args:
        data: The chunk.
        first: The first offset of the range.
        stop: The offset behind its last one; at least one of its records must be in the range.
    """
    head = read_chunk_head(data)
    start, end = max(first, head.first) - head.first, min(stop, head.stop) - head.first
    if not start < end:
        raise ValueError(f"a chunk with the records {head.first} to {head.stop - 1} has none of {first} to {stop - 1}")
    if end - start == head.count:
        return bytes(data)
    parts = ChunkParts(data, head)
    runs = _Runs(parts.heads(), encoded=bytes(parts.encoded_heads))
    keys, properties = _Own(parts.key_lengths, parts.keys), _Own(parts.property_lengths, parts.properties)
    position = 0
    for time, count, number in zip(parts.run_times, parts.run_counts, parts.run_heads, strict=True):
        skipped, taken = max(0, min(count, start - position)), max(0, min(count, end - position))
        position += count
        if runs.heads[number].key is None:
            keys.take(count, skipped, taken)
        if runs.heads[number].properties is None:
            properties.take(count, skipped, taken)
        if skipped < taken:
            runs.add(head.time + time, taken - skipped, number)
    values = _Own(parts.lengths, parts.values)
    values.take(head.count, start, end)
    return runs.assemble(head.first + start, keys, properties, values)


def merge_chunks(chunks: Sequence[bytes | memoryview]) -> bytes:
    """Return several chunks as one, after checking them.

    Args:
        chunks: Each begins at the offset where the one before has ended. A time that falls from one to the next, which
            does not happen, counts as the one before.

    Raises:
        ChunkDamaged: One of them is damaged.
        ValueError: They are not in a row, or have more than 4 GiB.
    """
    heads = [check_chunk(chunk) for chunk in chunks]
    for before, after in pairwise(heads):
        if before.stop != after.first:
            raise ValueError(f"records up to {before.stop - 1} are followed by those from {after.first} on")
    runs = _Runs([])
    keys, properties, values = _Own(), _Own(), _Own()
    for head, parts in zip(heads, map(ChunkParts, chunks, heads), strict=True):
        numbers = runs.numbers_of(parts)
        for time, count, number in zip(parts.run_times, parts.run_counts, parts.run_heads, strict=True):
            runs.add(head.time + time, count, numbers[number])
        keys.add(parts.key_lengths, parts.keys)
        properties.add(parts.property_lengths, parts.properties)
        values.add(parts.lengths, parts.values)
    return runs.assemble(heads[0].first, keys, properties, values)


_NOTHING = memoryview(b"")


class _Own:
    """What records have each of their own, keys or properties or values: the pieces of a column.

    Args:
        lengths: Of the chunk that is cut.
        data: Likewise.
    """

    __slots__ = ("_data", "_lengths", "_position", "_start", "count", "lengths", "pieces", "size")

    def __init__(self, lengths: "memoryview[int]" = _NOTHING, data: memoryview = _NOTHING) -> None:
        self._lengths, self._data = lengths, data
        self._position = self._start = 0  # how many records, and bytes, were looked at
        self.lengths: list[bytes | memoryview] = []
        self.pieces: list[bytes | memoryview] = []
        self.count = self.size = 0

    def take(self, count: int, start: int, stop: int) -> None:
        """Look at so many records more, and take those of them between two positions."""
        begin, place = self._position, self._start
        skipped = sum(self._lengths[begin : begin + start])
        taken = sum(self._lengths[begin + start : begin + stop])
        if start < stop:
            self.add(self._lengths[begin + start : begin + stop], self._data[place + skipped : place + skipped + taken])
        self._position += count
        self._start += sum(self._lengths[begin : begin + count])

    def add(self, lengths: "memoryview[int]", data: memoryview) -> None:
        """Add what stands one behind the other."""
        self.count += len(lengths)
        self.size += len(data)
        self.lengths.append(u32s(lengths))
        self.pieces.append(data)


class _Runs:
    """The runs of a chunk that is made.

    Args:
        heads: Those that are known.
        encoded: The same as they stand in a chunk.
    """

    __slots__ = ("_counts", "_encoded", "_known", "_numbers", "_times", "_which", "heads")

    def __init__(self, heads: list[RunHead], encoded: bytes = b"") -> None:
        self.heads = heads
        self._encoded = encoded
        self._known: dict[RunHead, int] = {}
        self._numbers: dict[bytes, list[int]] = {}  # of the heads of a chunk, as they are encoded there
        self._times: list[int] = []
        self._counts: list[int] = []
        self._which: list[int] = []

    def numbers_of(self, parts: ChunkParts) -> list[int]:
        """Return the numbers here for the heads of a chunk."""
        encoded = bytes(parts.encoded_heads)
        numbers = self._numbers.get(encoded)
        if numbers is None:
            numbers = [self._known.setdefault(head, len(self._known)) for head in parts.heads()]
            self._numbers[encoded] = numbers
        return numbers

    def add(self, time: int, count: int, number: int) -> None:
        """Add a run, joined to the one before if nothing differs."""
        if self._times and time <= self._times[-1] and number == self._which[-1]:
            self._counts[-1] += count
            return
        self._times.append(max(time, self._times[-1]) if self._times else time)
        self._counts.append(count)
        self._which.append(number)

    def assemble(self, first: int, keys: _Own, properties: _Own, values: _Own) -> bytes:
        """Return the chunk."""
        encoded = self._encoded or encode_run_heads(list(self._known))
        time, last = self._times[0], self._times[-1]
        head = ChunkHead(
            first,
            time,
            last,
            values.count,
            len(self._counts),
            keys.count,
            properties.count,
            len(encoded),
            keys.size,
            properties.size,
            values.size,
            0,
        )
        numbers = u64s([each - time for each in self._times]), u32s([*self._counts, *self._which])
        columns = [*numbers, *values.lengths, *keys.lengths, *properties.lengths, encoded]
        return assemble_chunk(head, columns + keys.pieces + properties.pieces + values.pieces)
