"""Columns ``headers`` and ``properties`` to encoded properties.

Arrow's columns are encoded as dictionaries first, so that Python sees each different text once, and each row as some
small numbers. Rows with the same numbers have the same properties, which are made once. A row costs 0.5 µs then; one
with an id of its own some microseconds more.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from triomq.errors import ConfigError
from triomq.properties import HeaderValue, Properties, encode_core

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def encode_row_properties(
    count: int, headers: pa.ListArray | None, properties: pa.StructArray | None
) -> bytes | pa.BinaryArray:
    """Return the encoded properties of all rows, or, if they are not all alike, of each.

    Args:
        count: How many rows there are.
        headers: Their column ``headers``.
        properties: Their column ``properties``.

    Raises:
        ConfigError: A header has no name, or a number is out of its range.
    """
    of_headers = _HeaderColumn(headers) if headers is not None and headers.null_count < count else None
    fields = _fields(properties) if properties is not None and properties.null_count < count else {}
    if of_headers is None and not fields:
        return b""
    names, columns = list(fields), list(fields.values())
    made: dict[tuple[object, ...], bytes] = {}
    encoded: list[bytes] = []
    of_rows: Iterator[object] = iter((None,) * count) if of_headers is None else of_headers.rows()
    for row in zip(of_rows, *(column.codes for column in columns), strict=True):
        found = made.get(row)
        if found is None:
            given = {name: column.values[code] for name, column, code in zip(names, columns, row[1:], strict=True)}
            own = of_headers.decode(row[0]) if of_headers is not None else None
            found = made[row] = encode_core(Properties(headers=own or None, **given))
        encoded.append(found)
    if encoded and encoded.count(encoded[0]) == count:
        return encoded[0]
    return pa.array(encoded, pa.binary())


class _Coded:
    """A column as numbers, and what they stand for; -1 is the last value, None.

    Args:
        column: The column.
        convert: Makes of a value what stands in properties.
    """

    def __init__(self, column: pa.Array, convert: Callable[[Any], Any]) -> None:
        coded = column.dictionary_encode()
        self.values = [*map(convert, coded.dictionary.to_pylist()), None]
        indices = pc.fill_null(coded.indices, -1)
        data = memoryview(indices.buffers()[1] or b"").cast("B").cast("i")
        self.codes = data[indices.offset : indices.offset + len(indices)]


class _HeaderColumn:
    """The column ``headers``.

    Args:
        column: The column.
    """

    def __init__(self, column: pa.ListArray) -> None:
        offsets = array("i", column.offsets.to_pylist())
        self._starts, self._stops = offsets[:-1], offsets[1:]
        if column.null_count:  # what stands in a list that is null does not count
            for row, is_valid in enumerate(column.is_valid().to_pylist()):
                if not is_valid:
                    self._stops[row] = self._starts[row]
        names, values = column.values.flatten()
        self._names = _Coded(names, str)
        self._values = _Coded(values, _text_or_bytes)

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield what each row has, as numbers."""
        names, values = self._names.codes, self._values.codes
        for start, stop in zip(self._starts, self._stops, strict=True):
            yield names[start:stop].tobytes(), values[start:stop].tobytes()

    def decode(self, row: Any) -> dict[str, HeaderValue]:
        """Return the headers of a row; of several with one name the last one stays."""
        numbers = (memoryview(each).cast("i") for each in row)
        found = {self._names.values[name]: self._values.values[value] for name, value in zip(*numbers, strict=True)}
        if None in found:
            raise ConfigError("a row has a header whose key is null; a header has a name: filter it out")
        return found


def _text_or_bytes(value: str | bytes) -> str | bytes:
    """Return a text if it can be one, as header values mostly are."""
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _fields(properties: pa.StructArray) -> Mapping[str, _Coded]:
    """Return the fields in which some row has a value."""
    kinds: Sequence[pa.Field] = list(properties.type)
    found = {}
    for kind, column in zip(kinds, properties.flatten(), strict=True):
        if column.null_count < len(column):
            if kind.name == "timestamp":
                column = column.cast(pa.timestamp("us", kind.type.tz)).cast(pa.int64())
            found[kind.name] = _Coded(column, _CONVERTERS.get(kind.name, str))
    return found


def _priority(value: int) -> int:
    if not 0 <= value <= 255:
        raise ConfigError(f"a row has the priority {value}; allowed are 0 to 255")
    return value


def _expiration(value: float) -> float:
    if not 0 <= value < float("inf"):
        raise ConfigError(f"a row has the expiration {value}; it is in seconds, from 0 on")
    return float(value)


def _time(microseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise ConfigError(f"a row has a timestamp of {microseconds} µs since 1970; years are 1 to 9999") from None


_CONVERTERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "priority": _priority,
    "expiration": _expiration,
    "timestamp": _time,
}
