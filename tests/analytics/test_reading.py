"""Rows of a trace log in Spark."""

from datetime import timedelta
from pathlib import Path
from shutil import copyfile

import pytest
from pyspark.sql import DataFrame, SparkSession

from triomq.analytics import find_files, read_trace, stream_trace
from triomq.analytics.files import PHYSICAL_TYPES
from triomq.analytics.reading import TRACE
from triomq.errors import TraceLogError
from triomq.tracelog.parquet import COLUMNS

from .made_log import BEGAN, NOON, event, normal_message, write_log

pytestmark = pytest.mark.spark


def ids(rows: DataFrame) -> list[int]:
    """Return the ids of messages in rows, in the order of the log."""
    return [row.msg_id for row in rows.sort("process", "seq").collect()]


def test_columns_are_those_that_the_trace_log_writes() -> None:
    assert set(COLUMNS) <= set(PHYSICAL_TYPES)


def test_rows_are_those_of_all_files_with_the_process_that_wrote_them(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "a [log] {of} us", normal_message())
    write_log(log, [event(3600, "queued", "orders", 9)], began=BEGAN + 5)
    rows = read_trace(spark, log)
    assert rows.schema == TRACE
    found = rows.sort("process", "seq").collect()
    assert [(row.process - BEGAN, row.seq, row.kind, row.msg_id) for row in found] == [
        (0, 0, "queued", 1),
        (0, 1, "delivered", 1),
        (0, 2, "accepted", 1),
        (5, 0, "queued", 9),
    ]
    assert found[0].ts.timestamp() == NOON.timestamp()
    assert (found[0].size, found[0].protocol, found[1].protocol, found[0].job) == (100, "amqp", "dmp", None)


def test_rows_are_of_a_time(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path, [event(1800 * half, "queued", "orders", half) for half in range(5)])
    half = timedelta(minutes=30)
    assert ids(read_trace(spark, log, NOON + half, NOON + 3 * half)) == [1, 2]
    assert ids(read_trace(spark, log, since=NOON + 3 * half)) == [3, 4]
    assert ids(read_trace(spark, log, until=NOON + half)) == [0]


def test_log_without_files_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    rows = read_trace(spark, tmp_path)
    assert (rows.schema, rows.collect()) == (TRACE, [])


def test_damaged_file_is_passed_over_unless_it_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path, [event(3600 * hour, "queued", "orders", hour) for hour in range(3)])
    cut = find_files(log).files[1]
    cut.write_bytes(cut.read_bytes()[:-100])
    assert ids(read_trace(spark, log)) == [0, 2]
    with pytest.raises(TraceLogError, match=cut.name):
        read_trace(spark, log, strict=True)


def test_stream_has_the_rows_of_files_as_they_come(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "a [log]", normal_message())
    stream = stream_trace(spark, log)
    assert stream.schema == TRACE
    query = stream.writeStream.format("memory").queryName("rows_of_files").start()
    try:
        query.processAllAvailable()
        damaged = log / "date=2026-01-31" / "hour=12" / "trace-one-7-000001.parquet"
        damaged.write_bytes(b"PAR1 half")
        report = log / "report" / "tables" / "unsettled"
        report.mkdir(parents=True)
        copyfile(find_files(log).files[0], report / "part-00000.parquet")
        write_log(log, [event(3600, "queued", "orders", 9)], began=BEGAN + 5)
        query.processAllAvailable()
        assert ids(spark.table("rows_of_files")) == [1, 1, 1, 9]
    finally:
        query.stop()


def test_stream_of_a_directory_that_is_not_there_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TraceLogError, match="does not exist"):
        stream_trace(spark, tmp_path / "nothing")
