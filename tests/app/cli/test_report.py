"""``triomq pipeline report`` as far as it comes without Spark: times, and what is wrong before it is started."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sparks import missing_packages
from triomq.app.cli.commands import make_app
from triomq.app.cli.report import parse_time

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
