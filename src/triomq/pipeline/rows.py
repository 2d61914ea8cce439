"""Rows to chunks: Arrow's buffers become the columns of chunks as they are, and no row becomes an object.

    RecordBatch ─▶ values, keys, properties ─▶ one group for each target ─▶ chunks of about 256 KiB

Rules:

- Rows for one target stay in their order. Those of a batch are brought together by a stable sort over the numbers of
  their targets, and only if there are several.
- A value that is null is an error: a message has a body, perhaps of no bytes, and no other sign of a deletion. Kafka's
  null values tell its log compaction to forget a key, which streams do not have.
- Arrays may be slices of larger ones: they begin at an offset, and lengths are taken by ``binary_length``, not from
  buffers.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from triomq.chunks import Column, encode_columns
from triomq.errors import ConfigError
from triomq.pipeline.row_plan import RowPlan, RowTarget
from triomq.pipeline.row_properties import encode_row_properties
from triomq.properties import CORE_CODEC, EXPIRES_MARK, PERSISTENT_MARK, PRIORITY_MARK, decode_core

CHUNK_BYTES: Final = 256 * 1024
"""Bytes of one column in a chunk: what a stream takes as it is, for readers that decode one at once."""

_MOST_RECORDS: Final = 65_536
"""Records in a chunk, however small they are."""

_LONGEST_NAME: Final = 255
"""Bytes of a name or of a key that every door of a broker can say."""

_Shared: TypeAlias = "bytes | pa.Array"
"""What all rows have, or what each has."""


def encode_rows(rows: pa.RecordBatch, plan: RowPlan) -> Iterator[tuple[RowTarget, bytes]]:
    """Yield chunks with the rows, each with where it goes.

    Args:
        rows: As Spark hands them over.
        plan: How they become records.

    Raises:
        ConfigError: A row has no value, or no target, or what is not allowed.
    """
    if not rows.num_rows:
        return
    columns = _RecordColumns(
        _values(rows.column("value")),
        _keys(rows, plan),
        encode_row_properties(
            rows.num_rows,
            rows.column("headers") if plan.has_headers else None,
            rows.column("properties") if plan.has_properties else None,
        ),
    )
    if plan.target is not None:
        yield from _chunks(RowTarget(plan.target, plan.is_sink), columns)
        return
    for name, group in _groups(rows.column(plan.target_column), plan, columns):
        yield from _chunks(RowTarget(name, plan.is_sink), group)


def _values(values: pa.Array) -> pa.Array:
    if values.null_count:
        raise ConfigError(
            f"{values.null_count} of {len(values)} rows have a value that is null; a message has a body, perhaps an "
            "empty one: filter them out, or write coalesce(value, '')"
        )
    return values


def _keys(rows: pa.RecordBatch, plan: RowPlan) -> "_Shared | None":
    """Return the keys; None where a row has none, if it is that of its target."""
    if plan.key is not None:
        return plan.key.encode()
    if not plan.key_column:
        return b"" if plan.is_sink else None
    keys = rows.column(plan.key_column)
    if keys.null_count == len(keys):
        return b"" if plan.is_sink else None
    if (longest := pc.max(pc.binary_length(keys)).as_py()) > _LONGEST_NAME:
        raise ConfigError(
            f"a row has a {plan.key_column} of {longest} bytes; a key has at most {_LONGEST_NAME}: write a hash of it, "
            "for example sha2(key, 256), or leave it out"
        )
    if not keys.null_count and pc.all(pc.equal(keys, keys[0])).as_py():
        return _bytes_of(keys[0])
    return keys


def _bytes_of(scalar: pa.Scalar) -> bytes:
    value = scalar.as_py()
    return value.encode() if isinstance(value, str) else value


class _RecordColumns(NamedTuple):
    """What records are made of."""

    values: pa.Array
    keys: "_Shared | None"
    properties: _Shared

    def take(self, order: pa.Array) -> "_RecordColumns":
        """Return the rows in another order."""
        return _RecordColumns(*(each.take(order) if isinstance(each, pa.Array) else each for each in self))

    def slice(self, start: int, count: int) -> "_RecordColumns":
        """Return some rows in a row; no copy is made."""
        return _RecordColumns(*(each.slice(start, count) if isinstance(each, pa.Array) else each for each in self))


def _groups(names: pa.Array, plan: RowPlan, columns: _RecordColumns) -> Iterator[tuple[str, _RecordColumns]]:
    """Yield the rows of each target."""
    if names.null_count:
        raise ConfigError(
            f"{names.null_count} of {len(names)} rows have a {plan.target_column} that is null, and go nowhere; filter "
            f"them out, or set the option {plan.target_column}"
        )
    coded = names.dictionary_encode()
    targets = coded.dictionary.to_pylist()
    for name in targets:
        if len(name.encode()) > _LONGEST_NAME or not (name or plan.is_sink):
            raise ConfigError(
                f"a row has the {plan.target_column} {name[:_LONGEST_NAME]!r}; a name has 1 to {_LONGEST_NAME} bytes"
            )
    if len(targets) == 1:
        yield targets[0], columns
        return
    ordered = columns.take(pc.array_sort_indices(coded.indices))  # which is stable
    start = 0
    for counted in pc.value_counts(coded.indices).to_pylist():  # in the order of the dictionary
        yield targets[counted["values"]], ordered.slice(start, counted["counts"])
        start += counted["counts"]


def _chunks(target: RowTarget, columns: _RecordColumns) -> Iterator[tuple[RowTarget, bytes]]:
    keys = columns.keys
    if keys is None:
        keys = target.name.encode()
    elif isinstance(keys, pa.Array) and keys.null_count:
        keys = pc.fill_null(keys, "" if target.is_sink else target.name)
    columns = columns._replace(keys=keys)
    offsets = [_offsets(each) for each in columns if isinstance(each, pa.Array)]
    mark = _mark(columns.properties)
    count, start = len(columns.values), 0
    while start < count:
        most = min(start + _MOST_RECORDS, count)
        stop = min(bisect_right(each, each[start] + CHUNK_BYTES, start, most + 1) - 1 for each in offsets)
        stop = max(stop, start + 1)
        part = columns.slice(start, stop - start)
        assert part.keys is not None
        key, properties = _column(part.keys), _column(part.properties)
        yield target, encode_columns(CORE_CODEC, b"", key, properties, _column_of(part.values), mark=mark)
        start = stop


def _offsets(texts: pa.Array) -> "memoryview[int]":
    """Return where each begins and the last one ends, in the data of the array."""
    data = memoryview(texts.buffers()[1] or b"").cast("B")
    is_large = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    offsets = data.cast("q") if is_large else data.cast("i")
    return offsets[texts.offset : texts.offset + len(texts) + 1]


def _mark(properties: _Shared) -> int:
    """Return the mark that a broker mostly gives the run: one that differs costs it a look at each byte."""
    if not isinstance(properties, bytes):
        return PERSISTENT_MARK
    read = decode_core(properties)
    mark = EXPIRES_MARK * (read.expiration is not None) | PRIORITY_MARK * (read.priority is not None)
    return PERSISTENT_MARK | mark


def _column(texts: _Shared) -> bytes | Column:
    return texts if isinstance(texts, bytes) else _column_of(texts)


def _column_of(texts: pa.Array) -> Column:
    offsets = _offsets(texts)
    lengths = pc.binary_length(texts).cast(pa.int32())
    start = lengths.offset
    numbers = memoryview(lengths.buffers()[1]).cast("B").cast("I")[start : start + len(lengths)]
    data = memoryview(texts.buffers()[2] or b"").cast("B")
    return Column(numbers, data[offsets[0] : offsets[-1]])
