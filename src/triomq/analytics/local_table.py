"""Rows of a trace log in this process, asked by DuckDB in the words of Spark's SQL.

Small logs need nothing else: DuckDB has no start, 70 MB, and no Java. All of a table is computed when it is made, and
in memory; so this is for some million rows at most.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from triomq.analytics.files import PHYSICAL_TYPES, TraceFiles

if TYPE_CHECKING:
    import duckdb

_TIME: Final = pa.timestamp("us", "UTC")
_TYPES: Final = {"INT64": pa.int64(), "INT32": pa.int32(), "BYTE_ARRAY": pa.string()}
_OTHER_TYPES: Final = {"ts": _TIME, "attempt": pa.int16()}

TRACE_COLUMNS: Final = pa.schema(
    [(name, _OTHER_TYPES.get(name, _TYPES[stored])) for name, stored in PHYSICAL_TYPES.items()]
    + [("process", pa.int64())]
)
"""What rows have: as those of ``read_trace``."""

_WORDS: Final = (
    "SET default_null_order = 'nulls_first_on_asc_last_on_desc'",
    "SET TimeZone = 'UTC'",
    "SET enable_progress_bar = false",
    "CREATE MACRO minute_window(time, length) AS struct_pack(start := date_trunc('minute', time))",
    "CREATE MACRO unix_micros(time) AS epoch_us(time)",
    "CREATE MACRO collect_set(x) AS coalesce(array_agg(DISTINCT x) FILTER (x IS NOT NULL), [])",
    "CREATE MACRO collect_list(x) AS array_agg(x)",
    "CREATE MACRO try_element_at(items, place) AS list_extract(items, place)",
    "CREATE MACRO percentile(x, shares) AS quantile_cont(x, shares)",
    "CREATE MACRO approx_percentile(x, shares) AS quantile_disc(x, shares)",
)
"""What Spark's SQL has under these names; its ``window`` is a word of DuckDB's grammar."""


class LocalTable:
    """A table of DuckDB's, which is computed already.

    Args:
        connection: The database.
        name: The table's name there.
        numbers: The next tables' numbers.
    """

    is_local: Final = True

    def __init__(self, connection: "duckdb.DuckDBPyConnection", name: str, numbers: Iterator[int]) -> None:
        self._connection = connection
        self._name = name
        self._numbers = numbers

    def query(self, text: str, tables: Mapping[str, "LocalTable"]) -> "LocalTable":
        """Return the table that a text makes of this one and others of the same database; see ``relations.query``."""
        text = re.sub(r"\{(\w+)\}", lambda found: tables[found[1]]._name, text).replace(" window(", " minute_window(")
        name = f"made_{next(self._numbers)}"
        self._connection.sql(f"CREATE TEMP TABLE {name} AS {text}")
        return LocalTable(self._connection, name, self._numbers)

    def add(self, rows: pa.Table) -> "LocalTable":
        """Return a further table of the same database, with rows of a trace log."""
        name = f"rows_{next(self._numbers)}"
        self._connection.register("given", rows)
        self._connection.sql(f"CREATE TEMP TABLE {name} AS FROM given")
        self._connection.unregister("given")
        return LocalTable(self._connection, name, self._numbers)

    def isEmpty(self) -> bool:  # noqa: N802 # as Spark calls it
        """Return whether there are no rows."""
        return self.count() == 0

    def count(self) -> int:
        """Return how many rows there are."""
        return int(self._connection.sql(f"SELECT count(*) FROM {self._name}").fetchall()[0][0])

    def read(self) -> pa.Table:
        """Return the rows, times in UTC."""
        table = self._connection.sql(f"FROM {self._name}").to_arrow_table()
        return table.cast(pa.schema([(field.name, _in_utc(field.type)) for field in table.schema]))

    def drop(self) -> None:
        """Forget the rows."""
        self._connection.sql(f"DROP TABLE {self._name}")


def _in_utc(kind: pa.DataType) -> pa.DataType:
    """Return a type with times in UTC under this name, of which DuckDB has several."""
    if pa.types.is_timestamp(kind):
        return _TIME
    if pa.types.is_list(kind):
        return pa.list_(_in_utc(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct(
            [(kind.field(place).name, _in_utc(kind.field(place).type)) for place in range(kind.num_fields)]
        )
    return kind


def open_local(rows: pa.Table) -> LocalTable:
    """Return rows of a trace log as a table of a new database in memory.

    Args:
        rows: With ``TRACE_COLUMNS``.
    """
    import duckdb  # an extra; 0.1 s

    # No extension comes over the network: all that is used is in the package.
    off: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    connection = duckdb.connect(config=off)
    for word in _WORDS:
        connection.sql(word)
    return LocalTable(connection, "", count()).add(rows)


def read_local(
    found: TraceFiles,
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    broken: Callable[[Path], Any] = lambda path: None,
) -> LocalTable:
    """Return the rows of a time out of files that were found, as ``read_files`` does with Spark.

    Args:
        found: The files.
        since: The first moment; None for the log's beginning.
        until: The moment after the last one; None for the log's end.
        broken: Is called with a file that is damaged inside, and is passed over.
    """
    tables = [TRACE_COLUMNS.empty_table()]
    for path in found.files:
        try:
            tables.append(_read_file(path))
        except (pa.ArrowException, OSError):
            broken(path)
    rows = pa.concat_tables(tables)
    for moment, holds in ((since, pc.greater_equal), (until, pc.less)):
        if moment is not None:
            rows = rows.filter(holds(rows["ts"], pa.scalar(moment, _TIME)))
    return open_local(rows)


def _read_file(path: Path) -> pa.Table:
    with pq.ParquetFile(path) as file:
        there = [name for name in file.schema_arrow.names if name in TRACE_COLUMNS.names]
        rows = file.read(there)
    begun = re.search(r"-(\d+)-\d+\.parquet$", path.name)
    process = int(begun[1]) if begun and int(begun[1]) < 2**63 else None
    rows = rows.append_column("process", pa.array([process] * rows.num_rows, pa.int64()))
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in TRACE_COLUMNS
    ]
    return pa.table(columns, schema=TRACE_COLUMNS)
