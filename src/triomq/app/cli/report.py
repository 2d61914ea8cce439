"""``triomq pipeline report``: what a trace log says, in tables and on a page.

Exit codes: 0 if there is a report; 1 if not, with the reason; 2 for a wrong command line; 130 after Ctrl-C.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from triomq.app.cli.output import fail, printable
from triomq.app.cli.spark_progress import spark_progress
from triomq.app.cli.tables import make_table, print_table, time_text
from triomq.errors import PipelineError, ReportError, TraceLogError

if TYPE_CHECKING:
    from triomq.analytics import ReportPlan, ReportSummary

_SHOWN = 10
"""Skipped files that are listed; the page has all."""

QUIET: Mapping[str, object] = {"spark.ui.enabled": "false", "spark.log.level": "OFF"}
"""Settings of Spark for a command: nothing is printed but errors."""

_AGES = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}

Trace = Annotated[Path, typer.Argument(metavar="TRACE", help="The trace log.", envvar="TRIOMQ_TRACE_DIRECTORY")]
Master = Annotated[
    str, typer.Option(metavar="URL", help="Of Spark: local[4], spark://host:7077; by default what is configured.")
]
_TIME = "2h, 30min or 7d ago, or a time such as 2026-01-31T13:00, in UTC if it does not say."
Engine = Annotated[
    Literal["auto", "duckdb", "spark"],
    typer.Option(help="What computes: duckdb here for less than a million events, spark for more; or one of them."),
]
Since = Annotated[str, typer.Option(metavar="TIME", help=f"From then on: {_TIME}")]
Until = Annotated[str, typer.Option(metavar="TIME", help=f"Before that: {_TIME}")]


def report(
    trace: Trace,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to make; an older report there is replaced.")],
    engine: Engine = "auto",
    master: Master = "",
    since: Since = "",
    until: Until = "",
    exact: Annotated[bool, typer.Option("--exact", help="Exact percentiles, which need more memory.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if a file cannot be read.")] = False,
) -> None:
    """Compute what a trace log says: waits, throughput, failures, dead letters; tables and a page."""
    now = datetime.now(UTC)
    begin, end = parse_time(since, now, "--since"), parse_time(until, now, "--until")
    if begin and end and begin >= end:
        raise typer.BadParameter(f"it begins at {begin:%Y-%m-%d %H:%M:%S} and ends at {end:%Y-%m-%d %H:%M:%S}")
    if master and engine == "duckdb":
        raise typer.BadParameter("--master is Spark's, and --engine is duckdb; leave out one of them")
    try:
        plan = _plan(trace, out, begin, end, exact=exact, strict=strict)
        summary = _make(plan, engine="spark" if master else engine, master=master)
    except (TraceLogError, ReportError, PipelineError, OSError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        typer.echo("triomq: interrupted; no report was made", err=True)
        raise typer.Exit(130) from None
    _show(summary, out)


def _plan(
    trace: Path, out: Path, since: datetime | None, until: datetime | None, *, exact: bool, strict: bool
) -> "ReportPlan":
    from triomq.analytics import ReportPlan
    from triomq.analytics.page import require_page

    require_page()
    return ReportPlan(trace, out, since, until, exact=exact, strict=strict)


def _make(plan: "ReportPlan", *, engine: str, master: str) -> "ReportSummary":
    from triomq.analytics import make_report
    from triomq.analytics.page import draw_report

    found = plan.find()
    if _chosen(engine, found.rows) == "duckdb":
        return make_report(None, plan, found, draw_report)
    require_spark()
    from triomq.pipeline import SPARK_ERRORS, open_session, reason_of

    with spark_progress() as progress:
        progress.step("starting Spark")
        with open_session(f"triomq report {plan.trace}", master=master, conf=QUIET) as spark:
            progress.follow(spark)
            try:
                return make_report(spark, plan, found, draw_report, progress.step)
            except SPARK_ERRORS as error:
                raise ReportError(reason_of(error, "Spark cannot compute the report")) from None


def _chosen(engine: str, rows: int) -> str:
    """Return what computes: what was asked for, or what fits the size of a log; the other one if that is not here.

    Raises:
        ReportError: It is not here.
    """
    from triomq.analytics import SMALL_LOG

    has_duckdb, has_spark = (find_spec(name) is not None for name in ("duckdb", "pyspark"))
    if engine == "auto" and rows >= SMALL_LOG and not has_spark:
        raise ReportError(
            f"the log has {rows:,} events, which are for Spark: pip install 'triomq[spark,report]'; or have them "
            "computed in memory, by --engine duckdb"
        )
    if engine == "auto":
        engine = "spark" if rows >= SMALL_LOG or (has_spark and not has_duckdb) else "duckdb"
    if engine == "duckdb" and not has_duckdb:
        raise ReportError("DuckDB is missing, which computes this: pip install 'triomq[report]'")
    return engine


def require_spark() -> None:
    """Raise how to install Spark, if it is not here.

    Raises:
        ReportError: It is not.
    """
    try:
        import pyspark  # noqa: F401
    except ModuleNotFoundError:
        raise ReportError("PySpark is missing, which computes this: pip install 'triomq[spark,report]'") from None


def parse_time(text: str, now: datetime, option: str) -> datetime | None:
    """Read a time, or how long ago it was; empty is None.

    Raises:
        typer.BadParameter: It is neither.
    """
    if not text:
        return None
    age = re.fullmatch(r"(\d+(?:\.\d+)?) ?(s|min|m|h|d)", text.strip())
    try:
        if age is not None:
            return now - timedelta(seconds=float(age[1]) * _AGES[age[2]])
        time = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"found {text!r}; expected {_TIME}", param_hint=option) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _show(summary: "ReportSummary", out: Path) -> None:
    """Print what the report is about, and where it is."""
    assert summary.first is not None
    assert summary.last is not None
    table = make_table("trace log", words=("",))
    rows: dict[str, str] = {
        "from": f"{summary.first.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
        "for": time_text((summary.last - summary.first).total_seconds()),
        "events": f"{summary.events:,}",
        "brokers": ", ".join(map(printable, summary.nodes)),
    }
    notes: dict[str, tuple[int, Callable[[int], str]]] = {
        "lost": (summary.lost, lambda count: f"{count:,} events, which brokers had no room for"),
        "missing": (summary.missing, lambda count: f"{count:,} events, of files that are not there or were skipped"),
        "clock set back": (summary.clock_set_back, lambda count: f"{count:,} messages, which are in no percentile"),
        "skipped": (len(summary.skipped), lambda count: f"{count:,} files"),
    }
    rows |= {name: text(count) for name, (count, text) in notes.items() if count}
    for name, value in rows.items():
        table.add_row(name, value)
    print_table(table)
    show_skipped(summary.skipped)
    typer.echo(f"{out / 'report.html'} in {summary.seconds:.1f} s")


def show_skipped(files: list[str]) -> None:
    """Print which files could not be read, each with the reason."""
    for line in files[:_SHOWN]:
        typer.echo(f"triomq: skipped {printable(line)}", err=True)
    if len(files) > _SHOWN:
        typer.echo(f"triomq: and {len(files) - _SHOWN} more files", err=True)
