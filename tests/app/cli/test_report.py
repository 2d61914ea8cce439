"""``triomq pipeline report`` as far as it comes without Spark: times, small logs, what is wrong at once."""

import re
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sparks import missing_packages
from triomq.app.cli import report
from triomq.app.cli.commands import make_app
from triomq.app.cli.report import parse_time
from triomq.errors import ReportError

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("", None),
        ("2h", NOW - timedelta(hours=2)),
        ("30min", NOW - timedelta(minutes=30)),
        ("1.5 d", NOW - timedelta(hours=36)),
        ("2026-01-30", datetime(2026, 1, 30, tzinfo=UTC)),
        ("2026-01-30T13:00+02:00", datetime(2026, 1, 30, 13, tzinfo=timezone(timedelta(hours=2)))),
    ],
)
def test_time_is_one_or_how_long_ago_it_was(text: str, time: datetime | None) -> None:
    assert parse_time(text, NOW, "--since") == time


@pytest.mark.parametrize("text", ["yesterday", "2 weeks", "h", "2026-13-01", "99999999999d"])
def test_time_that_is_none_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="expected 2h, 30min or 7d ago, or a time"):
        parse_time(text, NOW, "--since")


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(make_app(["pipeline"]), ["pipeline", *arguments])
    return result.exit_code, " ".join(result.output.split())


def test_span_that_ends_before_it_begins_is_refused(tmp_path: Path) -> None:
    span = ("--since", "2026-01-02", "--until", "2026-01-01")
    code, output = run("report", str(tmp_path), "--out", str(tmp_path / "out"), *span)
    assert (code, "it begins at 2026-01-02" in output) == (2, True)


@pytest.mark.skipif(bool(missing_packages()), reason=missing_packages())
def test_log_that_cannot_be_read_is_an_error_before_spark_is_started(tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="the extra `report` is not installed")
    code, output = run("report", str(tmp_path / "nothing"), "--out", str(tmp_path / "out"))
    assert (code, list(tmp_path.iterdir())) == (1, [])
    assert "nothing does not exist; a trace log is the folder" in output
    (tmp_path / "log").mkdir()
    code, output = run("report", str(tmp_path / "log"), "--out", str(tmp_path / "out"), "--since", "2026-01-31")
    assert (code, [path.name for path in tmp_path.iterdir()]) == (1, ["log"])
    assert "log has no events since 2026-01-31 00:00:00 UTC" in output


def small_log(directory: Path) -> Path:
    """Write 5,000 messages that came within 5 s."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    micros = [int(NOW.timestamp() * 1e6) + number * 1000 for number in range(5001)]
    columns = {"seq": pa.array(range(5001)), "node": ["one"] * 5001, "kind": ["queued"] * 5001, "domain": ["/"] * 5001}
    columns |= {
        "ts": pa.array(micros, pa.timestamp("us", "UTC")),
        "queue": ["q"] * 5001,
        "msg_id": pa.array(range(5001)),
    }
    folder = directory / "date=2026-01-31/hour=12"
    folder.mkdir(parents=True)
    pq.write_table(pa.table(columns), folder / "trace-one-1-1.parquet")
    return directory


def test_small_log_is_reported_without_spark_and_its_rates_are_those_of_its_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for extra in ("plotly", "duckdb"):
        pytest.importorskip(extra, reason="the extra `report` is not installed")
    monkeypatch.setitem(sys.modules, "pyspark", None)  # as if it were not installed
    code, output = run("report", str(small_log(tmp_path / "log")), "--out", str(tmp_path / "out"))
    assert (code, "5,001" in output) == (0, True), output
    page = (tmp_path / "out" / "report.html").read_text()
    (rate, *_) = re.findall(r'"y":\[([0-9.]+)\]', page)
    assert float(rate) == pytest.approx(1000, rel=0.001)


def test_what_computes_is_chosen_by_size_and_by_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"duckdb", "pyspark"}
    monkeypatch.setattr(report, "find_spec", lambda name: name if name in installed else None)
    assert [report._chosen("auto", rows) for rows in (0, 999_999, 1_000_000)] == ["duckdb", "duckdb", "spark"]
    assert (report._chosen("spark", 1), report._chosen("duckdb", 10**9)) == ("spark", "duckdb")
    installed.remove("duckdb")
    assert report._chosen("auto", 1) == "spark"
    with pytest.raises(ReportError, match=r"DuckDB is missing, which computes this: pip install 'triomq\[report\]'"):
        report._chosen("duckdb", 1)
    installed.clear()
    with pytest.raises(ReportError, match="DuckDB is missing"):
        report._chosen("auto", 1)
    with pytest.raises(ReportError, match=r"the log has 1,000,000 events, which are for Spark: .* by --engine duckdb"):
        report._chosen("auto", 1_000_000)


def test_master_is_for_spark(tmp_path: Path) -> None:
    code, output = run("report", str(tmp_path), "--out", "x", "--engine", "duckdb", "--master", "local[2]")
    assert (code, "--master is Spark's" in output) == (2, True)
