"""The tables of a report, computed and written by Spark.

A file of the log whose end can be read may still be damaged inside, which Spark finds in the middle. Then all is
computed again without that file, which is rare enough.
"""

import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from triomq.analytics.files import TraceFiles
from triomq.analytics.log_table import log
from triomq.analytics.reading import read_files
from triomq.analytics.report_plan import ReportPlan, nothing_text
from triomq.analytics.report_tables import make_tables
from triomq.analytics.stay_table import stays
from triomq.errors import ReportError, TraceLogError

_ROWS_OF_PARTITION: Final = 400_000
"""Rows for each partition behind a shuffle: some 50 MB, of which each core has one in the 1 GB that Spark takes."""

_PARTITIONS: Final = "spark.sql.shuffle.partitions"

_MOST_DAMAGED: Final = 20
"""Files that may turn out to be damaged before it is given up: each means to begin again."""

_DAMAGED: Final = re.compile(r"[Ee]ncountered error while reading file (\S+)|FAILED_READ_FILE\S* .*?(\S+\.parquet)")


def write_by_spark(
    spark: SparkSession, plan: ReportPlan, found: TraceFiles, directory: Path, step: Callable[[str], None]
) -> tuple[dict[str, object], int, TraceFiles]:
    """Write all tables but ``log``; return what that has, how many times are not known, and what could be read."""
    before = spark.conf.get(_PARTITIONS)
    parallel = spark.sparkContext.defaultParallelism
    spark.conf.set(_PARTITIONS, str(max(parallel, found.rows // _ROWS_OF_PARTITION)))
    try:
        for _ in range(_MOST_DAMAGED):
            try:
                events = read_files(spark, found, plan.since, plan.until)
                return *_write_tables(events, plan, directory, step), found
            except (PySparkException, Py4JError) as error:  # raised again unless it names a damaged file
                found = _without_damaged(error, plan, found)
                shutil.rmtree(directory, ignore_errors=True)
        raise TraceLogError(f"{_MOST_DAMAGED} files of {plan.trace} are damaged; is the disk?")
    finally:
        spark.conf.set(_PARTITIONS, before)


def _write_tables(
    events: DataFrame, plan: ReportPlan, directory: Path, step: Callable[[str], None]
) -> tuple[dict[str, object], int]:
    persisted: list[DataFrame] = []

    def persist(frame: DataFrame) -> DataFrame:
        persisted.append(frame.persist())
        # At once, so that Spark knows how much it is when it plans what is made of it: most of these are all but empty.
        frame.count()
        return frame

    try:
        step("log")
        # Times as numbers: Spark gives those on the clock of this machine's time zone, some of which come twice a year.
        times = {name: sf.unix_micros(name) for name in ("first", "last")}
        about = log(events).withColumns(times).collect()[0].asDict()
        if not about["events"]:
            raise TraceLogError(nothing_text(plan, TraceFiles([], {})))
        step("messages")
        kept = stays(events, persist)
        for name, make in make_tables(events, kept, exact=plan.exact).items():
            step(name)
            _write_table(make(), directory / name, plan.out)
        return {**about, "first": _moment(about["first"]), "last": _moment(about["last"])}, kept.where("is_odd").count()
    finally:
        for frame in persisted:
            frame.unpersist()


def _write_table(table: DataFrame, folder: Path, out: Path) -> None:
    counted = Observation()
    writer = table.observe(counted, sf.count("*").alias("rows")).write
    writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(str(folder))
    require_written(folder, counted.get["rows"], out)


def require_written(folder: Path, rows: int, out: Path) -> None:
    """Require that a table is here with all of its rows.

    It is executors that write files. One on a machine with another disk writes to that, and neither it nor Spark knows
    that nobody will find them.

    Raises:
        ReportError: Some rows are elsewhere.
    """
    missing = rows - sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet"))
    if missing:
        raise ReportError(
            f"Spark's executors have written {missing:,} of {rows:,} rows of the table {folder.name} to disks of their "
            f"own; {out} has to be on a disk that all machines share, under the same path; give another --out"
        )


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)


def _without_damaged(error: Exception, plan: ReportPlan, found: TraceFiles) -> TraceFiles:
    """Return the files without the one that an error is about; raise the error if it is about something else."""
    match = _DAMAGED.search(str(error))
    name = "" if match is None else (match[1] or match[2]).rstrip(".").rpartition("/")[2]
    for path in found.files:
        if path.name == name:
            break
    else:
        raise error
    if plan.strict:
        raise TraceLogError(f"{path}: it is damaged; move it away, or leave out --strict to go on without it") from None
    rest = [each for each in found.files if each != path]
    if not rest:
        raise TraceLogError(nothing_text(plan, TraceFiles([], {path: "it is damaged"})))
    return TraceFiles(rest, {**found.skipped, path: "it is damaged inside"}, found.rows)
