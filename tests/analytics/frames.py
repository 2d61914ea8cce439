"""Rows of stories as tables of Spark's or of DuckDB's, and tables as plain Python."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from triomq.analytics.local_table import TRACE_COLUMNS, LocalTable
from triomq.analytics.reading import TRACE
from triomq.analytics.relations import query

from .made_log import BEGAN, NOON, Event

Engine = SparkSession | LocalTable
"""What computes: Spark, or the database of any table in it."""

Table = Any
"""A ``DataFrame`` or a ``LocalTable``: tests ask the same of both."""


def frame(engine: Engine, *stories: Sequence[Event], node: str = "one", process: int = BEGAN) -> Table:
    """Return rows as ``read_trace`` does, of one process that wrote the stories one after the other."""
    rows = []
    for seq, row in enumerate(row for story in stories for row in story):
        given = {"ts": NOON + timedelta(seconds=float(str(row["at"]))), "seq": seq, "node": node, "process": process}
        rows.append({name: {**row, **given}.get(name) for name in TRACE.names})
    if isinstance(engine, LocalTable):
        return engine.add(pa.Table.from_pylist(rows, TRACE_COLUMNS))
    return engine.createDataFrame([tuple(row.values()) for row in rows], TRACE)


def union(one: Table, other: Table) -> Table:
    return query("SELECT * FROM {one} UNION ALL SELECT * FROM {other}", one=one, other=other)


def where(found: Table, condition: str) -> Table:
    return query(f"SELECT * FROM {{found}} WHERE {condition}", found=found)


def dicts(found: Table) -> list[dict[str, Any]]:
    """Return the rows of a table in their order."""
    if isinstance(found, DataFrame):
        return [row.asDict(recursive=True) for row in found.collect()]
    return found.read().to_pylist()


def rows(found: Table) -> list[Any]:
    """Return the rows of a table in their order, with their columns, and those of structs in them, as attributes."""
    return [_attributes(row) for row in dicts(found)]


def table(found: Table, *names: str) -> list[tuple[object, ...]]:
    """Return the rows of a table sorted, times as seconds after noon; of some columns, or of all."""
    plain = [tuple(_plain(row[name]) for name in (names or row)) for row in dicts(found)]
    return sorted(plain, key=lambda row: [(value is not None, str(type(value)), value) for value in row])


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.timestamp() - NOON.timestamp()
    return value


def _attributes(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{name: _attributes(each) for name, each in value.items()})
    return [_attributes(each) for each in value] if isinstance(value, list) else value
