"""The records of a chunk: as columns, without an object for each; as runs; and one by one.

The chunk must have been checked (``check_chunk``); otherwise what is read of a damaged one is anything.
"""

from array import array
from collections.abc import Iterator

import msgspec

from triomq.chunks.column import Column, cut_pieces
from triomq.chunks.encoding import RecordRun
from triomq.chunks.layout import ChunkParts, read_chunk_head


class StreamRecord(msgspec.Struct, frozen=True, gc=False):
    """One record of a stream.

    Args:
        offset: Its offset.
        time: When it was appended, in microseconds since 1970.
        codec: How its properties are encoded.
        sink: The name that it was published to.
        key: The key that it was published with.
        properties: Its encoded properties.
        value: Its body.
        mark: The codec's own mark for the properties.
    """

    offset: int
    time: int
    codec: int
    sink: bytes
    key: bytes
    properties: bytes
    value: bytes
    mark: int = 0


class Columns:
    """The columns of a chunk that has been checked; they refer to its bytes.

    Args:
        data: The chunk.

    ``head`` is the chunk's, ``run_heads`` has the head of each run, ``run_counts`` how many records it has.
    """

    __slots__ = ("_parts", "head", "run_counts", "run_heads")

    def __init__(self, data: bytes | memoryview) -> None:
        self.head = read_chunk_head(data)
        self._parts = ChunkParts(data, self.head)
        heads = self._parts.heads()
        self.run_heads = [heads[number] for number in self._parts.run_heads]
        self.run_counts = self._parts.run_counts

    @property
    def values(self) -> Column:
        """The values; no copy is made."""
        return Column(self._parts.lengths, self._parts.values)

    def keys(self) -> Column:
        """Return the keys, also of runs that share one."""
        shared = [head.key for head in self.run_heads]
        return self._expanded(shared, self._parts.key_lengths, self._parts.keys)

    def longest_key(self) -> int:
        """Return the bytes of the longest key."""
        shared = [len(head.key) for head in self.run_heads if head.key is not None]
        return max(max(shared, default=0), max(self._parts.key_lengths, default=0))

    def properties(self) -> Column:
        """Return the properties, also of runs that share them."""
        shared = [head.properties for head in self.run_heads]
        return self._expanded(shared, self._parts.property_lengths, self._parts.properties)

    def own_properties(self) -> list[bytes]:
        """Return the properties of the records that have their own."""
        return cut_pieces(self._parts.property_lengths, self._parts.properties)

    def times(self) -> "array[int]":
        """Return when each record was appended, in microseconds since 1970; of eight bytes each."""
        times = array("Q")
        for time, count in zip(self._parts.run_times, self.run_counts, strict=True):
            times.extend(array("Q", [self.head.time + time]) * count)
        return times

    def _expanded(self, shared: list[bytes | None], lengths: "memoryview[int]", data: memoryview) -> Column:
        """Return a column for all records.

        Args:
            shared: By run, what its records share; None if each has its own.
            lengths: Of those that have their own.
            data: Likewise.
        """
        if not any(each is not None for each in shared):
            return Column(lengths, data)
        every, pieces = array(lengths.format), []
        position = start = 0
        for each, count in zip(shared, self.run_counts, strict=True):
            if each is not None:
                every.extend(array(lengths.format, [len(each)]) * count)
                pieces.append(each * count)
                continue
            own = lengths[position : position + count]
            size = sum(own)
            every.frombytes(own.tobytes())
            pieces.append(data[start : start + size].tobytes())
            position, start = position + count, start + size
        return Column(every, b"".join(pieces))

    def runs(self) -> Iterator[tuple[int, RecordRun]]:
        """Yield the runs, each with the time when it was appended, in microseconds since 1970.

        Keys and properties that records share are one for the run; otherwise there is one for each of its records.
        """
        parts = self._parts
        values = cut_pieces(parts.lengths, parts.values)
        keys, properties = (
            cut_pieces(parts.key_lengths, parts.keys),
            cut_pieces(parts.property_lengths, parts.properties),
        )
        value = key = own = 0  # how many were given
        for time, count, head in zip(parts.run_times, parts.run_counts, self.run_heads, strict=True):
            of_run: bytes | list[bytes] | None = head.key
            if of_run is None:
                of_run, key = keys[key : key + count], key + count
            theirs: bytes | list[bytes] | None = head.properties
            if theirs is None:
                theirs, own = properties[own : own + count], own + count
            run = RecordRun(head.codec, head.sink, of_run, theirs, values[value : value + count], head.mark)
            value += count
            yield self.head.time + time, run

    def records(self) -> Iterator[StreamRecord]:
        """Yield the records one by one."""
        offset = self.head.first
        for time, run in self.runs():
            count, key, properties = len(run.values), run.key, run.properties
            keys = [key] * count if isinstance(key, bytes) else key
            theirs = [properties] * count if isinstance(properties, bytes) else properties
            for own_key, own_properties, value in zip(keys, theirs, run.values, strict=True):
                yield StreamRecord(offset, time, run.codec, run.sink, own_key, own_properties, value, run.mark)
                offset += 1
