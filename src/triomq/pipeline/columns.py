"""From chunks of a stream to batches of Arrow, without an object in Python for each record.

    chunk ─┬─ lengths of values ──── cumulative sum ───▶ offsets ┐
    chunk ─┤  values ──────────────── joined, or as they stand ─▶┴─ value
           ├─ run heads ──── one name, so many times ────────────▶ exchange
           ├─ keys ───────── one for a run, or lengths and bytes ─▶ key, routing_key
           ├─ times of runs ─ one time, so many times ───────────▶ timestamp
           └─ properties ──── each distinct one decoded once ────▶ headers, properties (by option alone)

- Small chunks become one batch: a batch costs some 0.3 ms in Spark, whatever is in it. A chunk that is large enough is
  a batch by itself, and Arrow's buffer then is the chunk's own memory.
- Arrow's ``binary`` has offsets of 32 bits. Batches end at 4 MiB, and a chunk that is larger than that has been
  appended at once, in a frame; the sum is checked, so that one of 2 GiB would be an error, and not other values.
- AMQP's keys and names are bytes. Where they are no UTF-8 the text column has U+FFFD in their place; ``key`` has the
  bytes.
"""

import json
from array import array
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from triomq.chunks import Column, Columns
from triomq.pipeline.source_options import SparkSourceOptions
from triomq.pipeline.source_schema import LOG_APPEND_TIME, arrow_schema, source_schema
from triomq.properties import CORE_CODEC, HeaderValue, Properties, decode_core
from triomq.protocols import BasicProperties, decode_properties

BATCH_BYTES: Final = 4 * 1024 * 1024
"""Bytes of values from which on a batch is complete; see above."""

BATCH_RECORDS: Final = 32768
"""Records likewise: from 16,000 on larger batches are no faster, and only take more memory."""

_PROPERTIES_BYTES: Final = 64 * 1024 * 1024
"""Bytes of properties of one batch at most: a chunk has once what its records share, and Arrow has it for each."""

_AMQP_CODEC: Final = 1
"""The tag of properties as AMQP's content headers carry them; see ``triomq.endpoints.content``."""


class RecordBatches:
    """Makes the batches of one partition; created by its reader.

    Args:
        topic: The stream's name.
        partition: Which one.
        options: Which columns there are.
    """

    def __init__(self, topic: str, partition: int, options: SparkSourceOptions) -> None:
        self._topic = pa.scalar(topic, pa.string())
        self._partition = pa.scalar(partition, pa.int32())
        self.schema = arrow_schema(source_schema(options))

    def of(self, chunks: Iterable[Columns]) -> Iterator[pa.RecordBatch]:
        """Yield batches of a sensible size; a chunk that does not begin where the one before it ends begins another."""
        group: list[Columns] = []
        records = size = 0
        for columns in chunks:
            head = columns.head
            if group and (
                records + head.count > BATCH_RECORDS
                or size + head.values_size > BATCH_BYTES
                or head.first != group[-1].head.stop
            ):
                yield from self._batches(group)
                group, records, size = [], 0, 0
            group.append(columns)
            records += head.count
            size += head.values_size
        if group:
            yield from self._batches(group)

    def _batches(self, chunks: Sequence[Columns]) -> Iterator[pa.RecordBatch]:
        """Yield chunks in a row as one batch, or as several where properties that they share are large."""
        count = sum(columns.head.count for columns in chunks)
        keys = _bytes_array([columns.keys() for columns in chunks], count)
        ones = pa.repeat(pa.scalar(1, pa.int64()), count)
        arrays = [
            keys,
            _bytes_array([columns.values for columns in chunks], count),
            pa.repeat(self._topic, count),
            pa.repeat(self._partition, count),
            pc.cumulative_sum(ones, start=chunks[0].head.first - 1),
            _times(chunks, count),
            pa.repeat(pa.scalar(LOG_APPEND_TIME, pa.int32()), count),
            _texts(_bytes_array([_sinks(columns) for columns in chunks], count)),
            _texts(keys),
        ]
        if len(arrays) == len(self.schema):
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            return
        decoded = _Decoded(chunks, list(self.schema)[len(arrays) :])
        for start in range(0, count, decoded.most):
            some = [each.slice(start, decoded.most) for each in arrays]
            yield pa.RecordBatch.from_arrays([*some, *decoded.take(start)], schema=self.schema)


class _Decoded:
    """Columns that properties have to be decoded for: distinct ones once, then an index for each record.

    ``most`` is for how many records they are taken at once.

    Args:
        chunks: With the records.
        fields: The columns.
    """

    def __init__(self, chunks: Sequence[Columns], fields: Sequence[pa.Field]) -> None:
        numbers: dict[tuple[int, bytes], int] = {}
        indices = array("i")
        for columns in chunks:
            _number_properties(columns, numbers, indices)
        found = [_read_properties(codec, encoded) for codec, encoded in numbers]
        self._columns = [pa.array([_VALUE_OF[field.name](each) for each in found], field.type) for field in fields]
        self._where = pa.Array.from_buffers(pa.int32(), len(indices), [None, pa.py_buffer(indices)])
        self.most = max(1, _PROPERTIES_BYTES // max(1, *(len(encoded) for _, encoded in numbers)))

    def take(self, start: int) -> list[pa.Array]:
        """Return the columns of some records, from one of them on."""
        return [column.take(self._where.slice(start, self.most)) for column in self._columns]


def _bytes_array(columns: Sequence[Column], count: int) -> pa.Array:
    """Return the bytes of each record, of several chunks."""
    lengths = b"".join([bytes(4), *(column.lengths.tobytes() for column in columns)])
    offsets = pc.cumulative_sum_checked(pa.Array.from_buffers(pa.int32(), count + 1, [None, pa.py_buffer(lengths)]))
    data = columns[0].data if len(columns) == 1 else b"".join([column.data for column in columns])
    return pa.Array.from_buffers(pa.binary(), count, [None, offsets.buffers()[1], pa.py_buffer(data)])


def _texts(array_of_bytes: pa.Array) -> pa.Array:
    """Return the same bytes as texts; no copy is made where all of them are UTF-8."""
    try:
        return array_of_bytes.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([each.decode(errors="replace") for each in array_of_bytes.to_pylist()], pa.string())


def _sinks(columns: Columns) -> Column:
    """Return the name of the sink of each record."""
    lengths, pieces = array("I"), []
    for head, count in zip(columns.run_heads, columns.run_counts, strict=True):
        lengths.extend(array("I", [len(head.sink)]) * count)
        pieces.append(head.sink * count)
    return Column(lengths, b"".join(pieces))


def _times(chunks: Sequence[Columns], count: int) -> pa.Array:
    """Return when each record was appended."""
    times = b"".join([columns.times() for columns in chunks])
    return pa.Array.from_buffers(pa.timestamp("us", tz="UTC"), count, [None, pa.py_buffer(times)])


# Properties


def _number_properties(columns: Columns, numbers: dict[tuple[int, bytes], int], indices: "array[int]") -> None:
    """Add the number of each record's properties.

    Args:
        columns: The records.
        numbers: What was found so far, in the order of its numbers; grows.
        indices: Grows by one for each record.
    """
    all_shared = all(head.properties is not None for head in columns.run_heads)
    each = [] if all_shared else columns.properties().each()
    start = 0
    for head, count in zip(columns.run_heads, columns.run_counts, strict=True):
        stop = start + count
        if head.properties is not None:
            indices.extend(array("i", [numbers.setdefault((head.codec, head.properties), len(numbers))]) * count)
        else:
            indices.extend(numbers.setdefault((head.codec, own), len(numbers)) for own in each[start:stop])
        start = stop


def _read_properties(codec: int, encoded: bytes) -> Properties | BasicProperties:
    """Decode properties; what a wire has for itself alone, such as eMQP's, is none."""
    if codec == CORE_CODEC:
        return decode_core(encoded)
    return decode_properties(encoded) if codec == _AMQP_CODEC else Properties()


def _headers(found: Properties | BasicProperties) -> list[tuple[str, bytes | None]] | None:
    """Return the headers as Kafka has them: None where there are none."""
    headers: Mapping[str, HeaderValue] | None = found.headers
    return [(_text(name), _header_bytes(value)) for name, value in headers.items()] if headers else None


def _header_bytes(value: HeaderValue) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode(errors="surrogateescape")
    return json.dumps(value, default=_jsonable, separators=(",", ":")).encode()


def _jsonable(value: HeaderValue) -> HeaderValue:
    """Return what JSON has for a value that it has no word for: texts, and bytes in base64."""
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _properties(found: Properties | BasicProperties) -> dict[str, Any]:
    """Return the properties by name, with more of them than the column has."""
    fields: dict[str, Any] = msgspec.structs.asdict(found)
    if isinstance(found.timestamp, int):
        fields["timestamp"] = _moment(found.timestamp)
    return {name: _text(value) if isinstance(value, str) else value for name, value in fields.items()}


def _moment(seconds: int) -> datetime | None:
    """Return a time; None for one that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _text(value: str) -> str:
    """Return a text that can be encoded: bytes that are no UTF-8 come as half a surrogate."""
    return value if value.isascii() else value.encode(errors="surrogateescape").decode(errors="replace")


_VALUE_OF: Final[Mapping[str, Callable[[Properties | BasicProperties], object]]] = {
    "headers": _headers,
    "properties": _properties,
}
"""What a column has of a record's properties."""
