"""SQL over the rows of a trace log: by Spark, or by DuckDB in this process, with one text for both.

    throughput(events) ─▶ query("SELECT … FROM {events} …") ─┬─ a DataFrame ──▶ Spark    any size, on any machines
                                                             └─ a LocalTable ─▶ DuckDB   below a million rows: no start

Each table of a report is defined once, in SQL that both read alike, so that their numbers cannot drift apart. What only
Spark knows by a name DuckDB learns as a macro (``local_table``). The little that is written differently is here:
arrays, structs, and what to do with a table that is used more than once.

Arrow's own functions were looked at for small logs, and dropped: they have no windows and no joins by order, so the
stays of messages would be another program that has to be kept equal.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from triomq.analytics.local_table import LocalTable

T = TypeVar("T", "DataFrame", "LocalTable")

_FEW: Final = 100_000
"""Rows that every task of Spark's can have in some 10 MB, which saves a shuffle of what they are joined with."""


def query(text: str, **tables: T) -> T:
    """Return the table that a text of SQL makes of others.

    Args:
        text: The SQL, with ``{name}`` where a table is meant.
        tables: The tables by these names, all of one kind.
    """
    table: Any = next(iter(tables.values()))
    if is_local(table):
        local: T = table.query(text, tables)
        return local
    # Not the tables themselves: Spark makes views of them and drops these, and what was persisted goes with its view.
    of_spark: dict[str, Any] = dict(tables)
    found: T = table.sparkSession.sql(text, **{name: each.where("true") for name, each in of_spark.items()})
    return found


def is_local(table: object) -> bool:
    """Return whether a table is DuckDB's. Spark's are many classes, of which some need no Java."""
    return hasattr(table, "is_local")


def keep(table: T) -> T:
    """Return a table that is computed now, and only once; DuckDB's are."""
    any_table: Any = table
    kept: T = any_table if is_local(table) else any_table.localCheckpoint()
    return kept


def near(table: T) -> T:
    """Return a kept table so that each task of Spark's has all of it, if it is small."""
    if is_local(table) or table.count() > _FEW:
        return table
    from pyspark.sql import functions as sf

    hinted: T = sf.broadcast(table)
    return hinted


def is_empty(table: T) -> bool:
    """Return whether a table has no rows."""
    return bool(table.isEmpty())


def array_text(table: T, values: Sequence[float]) -> str:
    """Return an array of numbers in SQL."""
    listed = ", ".join(map(str, values))
    return f"[{listed}]" if is_local(table) else f"array({listed})"


def struct_text(table: T, fields: Mapping[str, str]) -> str:
    """Return a struct in SQL.

    Args:
        table: The kind of table that it is for.
        fields: What each field is.
    """
    if is_local(table):
        return f"struct_pack({', '.join(f'{name} := {value}' for name, value in fields.items())})"
    pairs = (f"'{name}', {value}" for name, value in fields.items())
    return f"named_struct({', '.join(pairs)})"


def each_text(table: T, array: str, item: str, value: str) -> str:
    """Return in SQL the array of a value of each item of another one."""
    return f"[{value} for {item} in {array}]" if is_local(table) else f"transform({array}, {item} -> {value})"
