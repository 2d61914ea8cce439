"""A report of a trace log: its tables in a folder, and a page that shows them.

    trace log ─▶ rows ─┬───────────▶ throughput, jobs, job_failures, dead_letters, lost_peers, log ┐
                       └─▶ stays* ─▶ waits, waits_by_minute, unsettled, …, slowest                 ┴▶ OUT/tables/NAME/
                                                                                                      OUT/report.html
    * is computed once and stays in memory, or with Spark on disk where memory does not suffice

The tables are the same whoever computes them (``relations``): Spark, for logs of any size, or DuckDB in this process,
which needs no Java and no start.

It is made in a hidden folder beside its place and renamed into it, so that a run which breaks off leaves nothing, and
an older report stays until there is a new one. What a folder has to have to be replaced is the table ``log``: anything
else that stands in the way was made by somebody for something.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from triomq.analytics.files import TraceFiles
from triomq.analytics.report_plan import LOG, TABLES, ReportPlan, require_replaceable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_LOG: Final = 1_000_000
"""Rows up to which a log is computed by DuckDB unless somebody says otherwise: some 300 MB of memory, and seconds."""


class ReportSummary(msgspec.Struct, frozen=True):
    """What the table ``log`` has: see ``log``.

    Args:
        clock_set_back: Messages whose wait or run would be negative, and is in no percentile.
        skipped: Files that could not be read, and why.
        since: As it was asked for.
        until: As it was asked for.
        exact: Whether percentiles are exact.
        seconds: How long it took to compute, without the start of Spark.
    """

    first: datetime | None
    last: datetime | None
    events: int
    nodes: list[str]
    lost: int
    missing: int
    clock_set_back: int
    skipped: list[str]
    since: datetime | None
    until: datetime | None
    exact: bool
    seconds: float


def make_report(
    spark: "SparkSession | None",
    plan: ReportPlan,
    found: TraceFiles,
    draw: Callable[[Path], object],
    step: Callable[[str], None] = lambda name: None,
) -> ReportSummary:
    """Make a report, whole or not at all.

    Args:
        spark: The session; None for DuckDB, in this process.
        plan: What it is about.
        found: What ``plan.find`` has returned.
        draw: Draws the page of a folder with tables.
        step: Is called with the name of what comes next.

    Raises:
        TraceLogError: A file cannot be read, and that is an error.
        ReportError: What stands in the way is no report, the page cannot be drawn, or executors have another disk.
        OSError: The folder cannot be written.
    """
    with _replacing(plan.out) as directory:
        summary = _write_tables(spark, plan, found, directory / TABLES, step)
        step("page")
        draw(directory)
    return summary


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """Give a hidden folder that takes the place of another one at the end."""
    out = out.absolute()
    hidden = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        made = hidden / "report"
        made.mkdir()
        yield made
        require_replaceable(out)  # it may have come meanwhile
        _swap(made, out, hidden / "old")
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _swap(made: Path, out: Path, old: Path) -> None:
    """Put a folder in the place of another one, which is back there if that fails."""
    if not out.exists():
        made.rename(out)
        return
    out.rename(old)
    try:
        made.rename(out)
    except BaseException:  # Ctrl-C too: there is a report at any time, the old one or the new one
        old.rename(out)
        raise


def _write_tables(
    spark: "SparkSession | None", plan: ReportPlan, found: TraceFiles, directory: Path, step: Callable[[str], None]
) -> ReportSummary:
    began = time.monotonic()
    if spark is None:
        from triomq.analytics.report_by_duckdb import write_by_duckdb

        about, odd, found = write_by_duckdb(plan, found, directory, step)
    else:
        from triomq.analytics.report_by_spark import write_by_spark

        about, odd, found = write_by_spark(spark, plan, found, directory, step)
    skipped = [f"{path}: {why}" for path, why in found.skipped.items()]
    asked = {"since": plan.since, "until": plan.until, "exact": plan.exact}
    seconds = round(time.monotonic() - began, 3)
    summary = ReportSummary(**about, clock_set_back=odd, skipped=skipped, **asked, seconds=seconds)  # type: ignore[arg-type]
    folder = directory / LOG
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist([msgspec.structs.asdict(summary)], LOG_SCHEMA), folder / "log.parquet")
    return summary


_TIME: Final = pa.timestamp("us", "UTC")
LOG_SCHEMA: Final = pa.schema(
    [
        ("first", _TIME),
        ("last", _TIME),
        ("events", pa.int64()),
        ("nodes", pa.list_(pa.string())),
        ("lost", pa.int64()),
        ("missing", pa.int64()),
        ("clock_set_back", pa.int64()),
        ("skipped", pa.list_(pa.string())),
        ("since", _TIME),
        ("until", _TIME),
        ("exact", pa.bool_()),
        ("seconds", pa.float64()),
    ]
)
