"""Rows of stories as DataFrames, and tables as plain Python."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, SparkSession

from triomq.analytics.reading import TRACE

from .made_log import BEGAN, NOON, Event


def frame(spark: SparkSession, *stories: Sequence[Event], node: str = "one", process: int = BEGAN) -> DataFrame:
    """Return rows as ``read_trace`` does, of one process that wrote the stories one after the other."""
    rows = []
    for seq, row in enumerate(row for story in stories for row in story):
        given = {"ts": NOON + timedelta(seconds=float(str(row["at"]))), "seq": seq, "node": node, "process": process}
        rows.append(tuple({**row, **given}.get(name) for name in TRACE.names))
    return spark.createDataFrame(rows, TRACE)


def table(found: DataFrame, *names: str) -> list[tuple[object, ...]]:
    """Return the rows of a table sorted, times as seconds after noon; of some columns, or of all."""
    rows = [tuple(map(_plain, row)) for row in (found.select(*names) if names else found).collect()]
    return sorted(rows, key=lambda row: [(value is not None, str(type(value)), value) for value in row])


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.timestamp() - NOON.timestamp()
    return value
