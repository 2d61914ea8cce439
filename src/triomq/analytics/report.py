"""A report of a trace log: its tables in a folder, and a page that shows them.

    trace log ─▶ rows ─┬───────────▶ throughput, jobs, job_failures, dead_letters, lost_peers, log ┐
                       └─▶ stays* ─▶ waits, waits_by_minute, unsettled, …, slowest                 ┴▶ OUT/tables/NAME/
                                                                                                      OUT/report.html
    * is computed once and stays in memory, or on disk where memory does not suffice

It is made in a hidden folder beside its place and renamed into it, so that a run which breaks off leaves nothing, and
an older report stays until there is a new one. What a folder has to have to be replaced is the table ``log``: anything
else that stands in the way was made by somebody for something.

A file of the log whose end can be read may still be damaged inside, which Spark finds in the middle. Then all is
computed again without that file, which is rare enough.
"""

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from triomq.analytics.files import TraceFiles, find_files
from triomq.analytics.job_tables import job_failures, jobs
from triomq.analytics.log_table import log
from triomq.analytics.losses import dead_letters, lost_peers, unsettled, unsettled_by_queue
from triomq.analytics.reading import read_files
from triomq.analytics.slowest_table import slowest
from triomq.analytics.stay_table import stays
from triomq.analytics.throughput_table import throughput
from triomq.analytics.wait_tables import waits, waits_by_minute
from triomq.errors import ReportError, TraceLogError

TABLES: Final = "tables"
_LOG: Final = "log"

_ROWS_OF_PARTITION: Final = 400_000
"""Rows for each partition behind a shuffle: some 50 MB, of which each core has one in the 1 GB that Spark takes."""

_PARTITIONS: Final = "spark.sql.shuffle.partitions"

_MOST_DAMAGED: Final = 20
"""Files that may turn out to be damaged before it is given up: each means to begin again."""

_DAMAGED: Final = re.compile(r"[Ee]ncountered error while reading file (\S+)|FAILED_READ_FILE\S* .*?(\S+\.parquet)")


class ReportPlan(msgspec.Struct, frozen=True):
    """What a report is to be about.

    Args:
        trace: The trace log.
        out: The folder to make; it may be there if it is a report.
        since: The first moment, with a time zone; None for the log's beginning.
        until: The moment after the last one, with a time zone; None for the log's end.
        exact: Percentiles are not approximated.
        strict: A file that cannot be read is an error.
    """

    trace: Path
    out: Path
    since: datetime | None = None
    until: datetime | None = None
    exact: bool = False
    strict: bool = False

    def find(self) -> TraceFiles:
        """Return the files that it is made of; to be called before Spark is started, since it finds what is wrong.

        Raises:
            TraceLogError: There is no log, it has nothing of that time, or nothing that can be read.
            ReportError: What stands in the way is no report.
        """
        require_replaceable(self.out)
        found = find_files(self.trace, self.since, self.until, strict=self.strict)
        if not found.files:
            raise TraceLogError(_nothing(self, found))
        return found


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
    spark: SparkSession,
    plan: ReportPlan,
    found: TraceFiles,
    draw: Callable[[Path], object],
    step: Callable[[str], None] = lambda name: None,
) -> ReportSummary:
    """Make a report, whole or not at all.

    Args:
        spark: The session.
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


def require_replaceable(out: Path) -> None:
    """Raise what is wrong with the folder that a report is to be written to.

    Raises:
        ReportError: It is there and is no report, or the folder that it is to be made in is not there.
    """
    if not out.absolute().parent.is_dir():
        raise ReportError(f"{out.absolute().parent} does not exist; create it, or give another --out")
    if out.exists() and not (out / TABLES / _LOG).is_dir() and (not out.is_dir() or any(out.iterdir())):
        raise ReportError(f"{out} exists and is no report; remove it, or give another --out")


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
    spark: SparkSession, plan: ReportPlan, found: TraceFiles, directory: Path, step: Callable[[str], None]
) -> ReportSummary:
    began = time.monotonic()
    before = spark.conf.get(_PARTITIONS)
    parallel = spark.sparkContext.defaultParallelism
    spark.conf.set(_PARTITIONS, str(max(parallel, found.rows // _ROWS_OF_PARTITION)))
    try:
        for _ in range(_MOST_DAMAGED):
            try:
                about, odd = _write_spark_tables(
                    read_files(spark, found, plan.since, plan.until), plan, directory, step
                )
                break
            except (PySparkException, Py4JError) as error:  # raised again unless it names a damaged file
                found = _without_damaged(error, plan, found)
                shutil.rmtree(directory, ignore_errors=True)
        else:
            raise TraceLogError(f"{_MOST_DAMAGED} files of {plan.trace} are damaged; is the disk?")
    finally:
        spark.conf.set(_PARTITIONS, before)
    skipped = [f"{path}: {why}" for path, why in found.skipped.items()]
    asked = {"since": plan.since, "until": plan.until, "exact": plan.exact}
    seconds = round(time.monotonic() - began, 3)
    summary = ReportSummary(**about, clock_set_back=odd, skipped=skipped, **asked, seconds=seconds)  # type: ignore[arg-type]
    folder = directory / _LOG
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


def _write_spark_tables(
    events: DataFrame, plan: ReportPlan, directory: Path, step: Callable[[str], None]
) -> tuple[dict[str, object], int]:
    """Write all tables but ``log``; return what that has, and how many times are not known."""
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
            raise TraceLogError(_nothing(plan, TraceFiles([], {})))
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


def make_tables(events: DataFrame, stays: DataFrame, *, exact: bool) -> dict[str, Callable[[], DataFrame]]:
    """Return what makes each table of a report but ``log``, by its name; in the order in which they are made."""
    return {
        "throughput": partial(throughput, events),
        "waits": partial(waits, stays, exact=exact),
        "waits_by_minute": partial(waits_by_minute, stays, exact=exact),
        "jobs": partial(jobs, events, exact=exact),
        "job_failures": partial(job_failures, events),
        "dead_letters": partial(dead_letters, events),
        "lost_peers": partial(lost_peers, events),
        "unsettled_by_queue": partial(unsettled_by_queue, stays),
        "unsettled": partial(unsettled, events, stays),
        "slowest": partial(slowest, events, stays),
    }


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)


def _nothing(plan: ReportPlan, found: TraceFiles) -> str:
    since = f" since {plan.since:%Y-%m-%d %H:%M:%S %Z}" if plan.since else ""
    until = f" until {plan.until:%Y-%m-%d %H:%M:%S %Z}" if plan.until else ""
    if found.skipped:
        path, why = next(iter(found.skipped.items()))
        return f"none of the {len(found.skipped)} files of {plan.trace}{since}{until} can be read; {path}: {why}"
    return f"{plan.trace} has no events{since}{until}"


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
        raise TraceLogError(_nothing(plan, TraceFiles([], {path: "it is damaged"})))
    return TraceFiles(rest, {**found.skipped, path: "it is damaged inside"}, found.rows)
