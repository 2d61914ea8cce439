"""Reports of a trace log: what is in them, and that there is a whole one or none."""

import re
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from triomq.analytics import ReportPlan, ReportSummary, find_files, make_report
from triomq.analytics.report import LOG_SCHEMA, _swap
from triomq.analytics.report_by_spark import require_written
from triomq.errors import ReportError, TraceLogError

from .made_log import BEGAN, NOON, clock_set_back, dead_letter, event, job_of_three_tries, normal_message, write_log

TABLES = (
    *("dead_letters", "job_failures", "jobs", "log", "lost_peers", "slowest", "throughput"),
    *("unsettled", "unsettled_by_queue", "waits", "waits_by_minute"),
)


def draw(directory: Path) -> None:
    (directory / "report.html").write_text("a page")


def refuse(directory: Path) -> None:
    raise ReportError("no page today")


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def documented() -> dict[str, list[str]]:
    """Read the columns of all tables in the reference."""
    text = (Path(__file__).parents[2] / "docs" / "reference" / "report-tables.rst").read_text(encoding="utf-8")
    rows = re.findall(r"^``(\w+)`` +(``(?:.*\n +)*.*``)$", text, re.MULTILINE)
    return {name: re.findall(r"``(\w+)``", columns) for name, columns in rows}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with something for most tables, in two hours."""
    write_log(tmp_path / "log", [*normal_message(), *dead_letter(10, 2), *job_of_three_tries(), *clock_set_back(3600)])
    return write_log(tmp_path / "log", [event(3601, "queued", "orders", 9)], began=BEGAN + 5)


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def computing(request: pytest.FixtureRequest) -> SparkSession | None:
    """What computes a report: Spark, or None for DuckDB."""
    if request.param == "spark":
        return request.getfixturevalue("spark")
    pytest.importorskip("duckdb", reason="duckdb missing: pip install 'triomq[report]'")
    return None


def test_report_has_all_tables_and_replaces_an_older_one(
    computing: SparkSession | None, log: Path, tmp_path: Path
) -> None:
    plan = ReportPlan(log, tmp_path / "report")
    cut = find_files(log).files[-1]
    cut.write_bytes(cut.read_bytes()[:-100])
    partitions = computing and computing.conf.get("spark.sql.shuffle.partitions")
    steps: list[str] = []
    summary = make_report(computing, plan, plan.find(), draw, steps.append)
    assert names(tmp_path) == ["log", "report"]
    assert names(tmp_path / "report") == ["report.html", "tables"]
    assert names(tmp_path / "report" / "tables") == sorted(TABLES)
    assert steps == ["log", "messages", *(step for step in steps if step in TABLES and step != "log"), "page"]
    assert (summary.first, summary.events, summary.nodes, summary.clock_set_back) == (NOON, 24, ["one"], 1)
    assert len(summary.skipped) == 1
    assert summary.skipped[0].startswith(f"{cut}: it is damaged or not whole")
    assert (computing and computing.conf.get("spark.sql.shuffle.partitions")) == partitions
    tables = tmp_path / "report" / "tables"
    assert {name: pq.read_table(tables / name).column_names for name in TABLES} == documented()
    letters = pq.read_table(tmp_path / "report" / "tables" / "dead_letters").to_pylist()
    assert sorted(letter["reason"] for letter in letters) == ["expired", "rejected"]
    make_report(computing, ReportPlan(log, tmp_path / "report", since=NOON + timedelta(hours=1)), plan.find(), draw)
    assert names(tmp_path) == ["log", "report"]


def test_report_that_breaks_off_leaves_the_older_one(computing: SparkSession | None, log: Path, tmp_path: Path) -> None:
    plan = ReportPlan(log, tmp_path / "report", since=NOON + timedelta(hours=1), strict=True)
    (tmp_path / "report").mkdir()
    with pytest.raises(ReportError, match="no page today"):
        make_report(computing, plan, plan.find(), refuse)
    assert (names(tmp_path), names(tmp_path / "report")) == (["log", "report"], [])


def test_file_that_is_damaged_inside_is_named_and_skipped(
    computing: SparkSession | None, log: Path, tmp_path: Path
) -> None:
    plan = ReportPlan(log, tmp_path / "report")
    found = plan.find()
    bad = found.files[0]
    whole = bad.read_bytes()
    end = int.from_bytes(whole[-8:-4], "little") + 8
    bad.write_bytes(b"PAR1" + b"\xff" * (len(whole) - 4 - end) + whole[-end:])
    with pytest.raises(TraceLogError, match=rf"{bad.name}: it is damaged; .* leave out --strict"):
        make_report(computing, ReportPlan(log, tmp_path / "report", strict=True), found, draw)
    summary = make_report(computing, plan, found, draw)
    assert summary.skipped == [f"{bad}: it is damaged inside"]
    assert summary.events > 0


@pytest.mark.parametrize("missing", [0, 2, 5])
def test_table_whose_rows_are_on_a_disk_of_an_executor_makes_no_report(tmp_path: Path, missing: int) -> None:
    folder = tmp_path / "waits"
    if missing < 5:  # an executor that shares nothing does not even leave the folder
        folder.mkdir()
        pq.write_table(pa.table({"x": range(5 - missing)}), folder / "part-0.parquet")
    if not missing:
        require_written(folder, 5, tmp_path)
        return
    with pytest.raises(ReportError, match=f"{missing} of 5 rows of the table waits to disks of their own; .*share"):
        require_written(folder, 5, tmp_path)


def test_older_report_is_back_if_the_new_one_cannot_take_its_place(tmp_path: Path) -> None:
    out, old = tmp_path / "report", tmp_path / "old"
    out.mkdir()
    (out / "report.html").write_text("a page")
    with pytest.raises(FileNotFoundError):
        _swap(tmp_path / "nothing", out, old)
    assert (names(tmp_path), names(out)) == (["report"], ["report.html"])


def test_plan_needs_a_log_with_events(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    with pytest.raises(TraceLogError, match="nothing does not exist"):
        ReportPlan(tmp_path / "nothing", out).find()
    with pytest.raises(TraceLogError, match="log has no events until 2026-01-31 11:00:00 UTC"):
        ReportPlan(log, out, until=NOON - timedelta(hours=1)).find()
    for path in log.rglob("*.parquet"):
        path.write_bytes(b"half")
    with pytest.raises(TraceLogError, match=r"none of the \d files of .* can be read; .*: it is damaged or not whole"):
        ReportPlan(log, out).find()


def test_what_is_no_report_is_not_replaced(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "precious"
    out.mkdir()
    ReportPlan(log, out).find()
    (out / "thesis.tex").write_text("all of it")
    with pytest.raises(ReportError, match="precious exists and is no report; remove it, or give another --out"):
        ReportPlan(log, out).find()
    with pytest.raises(ReportError, match=r"thesis\.tex exists and is no report"):
        ReportPlan(log, out / "thesis.tex").find()
    with pytest.raises(ReportError, match="nowhere does not exist; create it"):
        ReportPlan(log, tmp_path / "nowhere" / "report").find()


def test_summary_has_the_columns_of_its_table() -> None:
    assert LOG_SCHEMA.names == list(ReportSummary.__struct_fields__)
