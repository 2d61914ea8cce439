"""Files of the trace log: rows to Arrow to Parquet, under a hidden name until they are whole.

    DIR/date=2026-01-31/hour=13/trace-NODE-1769864400123456-000001.parquet

Readers such as Spark take a folder's files as they are at the moment, and pass over names that begin with a dot. So a
file is written as ``.trace-….parquet``, synced, and then renamed: it appears whole or never.

Texts that few rows differ in are dictionaries; times, numbers and ids are stored as differences from row to row. With
zstd a row takes 5 to 10 bytes.
"""

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from triomq.tracelog.rows import NUMBERS, RARE, TEXTS, Rows

_TYPES = {
    "ts": pa.timestamp("us", "UTC"),
    "seq": pa.int64(),
    "msg_id": pa.int64(),
    "session": pa.int64(),
    "attempt": pa.int16(),
    "size": pa.int32(),
    "from_id": pa.int64(),
}

_DIFFERENCES = ("ts", "seq", "msg_id")

_UNFINISHED = 600.0
"""Seconds after which nobody writes a file any more: it takes one or two."""

COLUMNS = ("ts", "seq", "node", *NUMBERS[1:], *RARE)
"""Columns of every file, whatever is in them, so that the schema stays the same."""

_ALWAYS = {"ts", "seq", "node", "kind"}

_SCHEMA = pa.schema([pa.field(name, _TYPES.get(name, pa.string()), name not in _ALWAYS) for name in COLUMNS])


def _texts(numbers: pa.Array, texts: list[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(numbers, pa.array(texts, pa.string()))


def _rare(values: dict[int, str | int], count: int, kind: pa.DataType) -> pa.Array:
    if not values:
        return pa.nulls(count, kind)
    column: list[str | int | None] = [None] * count
    for place, value in values.items():
        column[place] = value
    return pa.array(column, kind)


def to_table(rows: Rows, node: str, seq: int) -> pa.Table:
    """Return rows as a table.

    Args:
        rows: The rows.
        node: The broker's name.
        seq: The number of the first row.
    """
    count = len(rows)
    found: dict[str, pa.Array] = {
        "seq": pa.array(range(seq, seq + count), pa.int64()),
        "node": _texts(pa.array([0] * count, pa.int32()), [node]),
    }
    for name in NUMBERS:
        numbers = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(rows.numbers[name])])
        if name not in _ALWAYS:
            numbers = pa.compute.if_else(pa.compute.equal(numbers, -1), None, numbers)
        if name in TEXTS:
            found[name] = _texts(numbers.cast(pa.int32()), rows.texts[name].texts)
        else:
            found[name] = numbers.cast(_TYPES[name], safe=False)
    for name in RARE:
        found[name] = _rare(rows.rare[name], count, _TYPES.get(name, pa.string()))
    return pa.table({name: found[name] for name in COLUMNS})


class ParquetFiles:
    """Writes files of one broker; made with the process.

    Args:
        directory: The folder of the trace log.
        node: The broker's name.
        began: When the process has started, in microseconds since 1970: no two of a node have the same.
    """

    def __init__(self, directory: Path, node: str, began: int) -> None:
        self._directory = directory
        self._node = node
        self._began = began
        self._files = 0
        self._seq = 0
        self._remove_unfinished()

    def _remove_unfinished(self) -> None:
        """Remove what earlier processes of this broker have not finished; one may still write, if that was killed."""
        for path in self._directory.glob(f"date=*/hour=*/.trace-{self._node}-*.parquet"):
            with suppress(OSError):  # it has its name by now
                if path.stat().st_mtime < self._began / 1e6 - _UNFINISHED:
                    path.unlink()

    def write(self, rows: Rows) -> Path:
        """Write a file, which appears whole; return where it is.

        Raises:
            OSError: It cannot be written.
        """
        table = to_table(rows, self._node, self._seq)
        first = datetime.fromtimestamp(rows.numbers["ts"][0] / 1e6, UTC)
        folder = self._directory / f"date={first:%Y-%m-%d}" / f"hour={first:%H}"
        folder.mkdir(parents=True, exist_ok=True)
        self._files += 1
        name = f"trace-{self._node}-{self._began}-{self._files:06}.parquet"
        hidden = folder / f".{name}"
        try:
            pq.write_table(
                table,
                hidden,
                compression="zstd",
                use_dictionary=[name for name in COLUMNS if name not in _DIFFERENCES],
                column_encoding=dict.fromkeys(_DIFFERENCES, "DELTA_BINARY_PACKED"),
            )
            with hidden.open("rb") as written:
                os.fsync(written.fileno())
            hidden.rename(folder / name)
        except BaseException:
            hidden.unlink(missing_ok=True)
            raise
        self._seq += len(rows)
        return folder / name
