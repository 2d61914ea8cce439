"""``triomq pipeline watch``: figures and alerts of a trace log as it is written.

With ``--once`` a log is shown as it is, with its last minutes. With a checkpoint as well it is one that goes on, as for
a line of cron: its last minutes come at the next start, when they are complete.

Exit codes: 0 after Ctrl-C, or with ``--once`` when all was read; 1 if it cannot go on; 2 for a wrong command line.
"""

from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triomq.app.cli.output import fail, printable
from triomq.app.cli.report import QUIET, Master, Trace, require_spark, show_skipped
from triomq.app.cli.spark_progress import SparkProgress, spark_progress
from triomq.errors import PipelineError, ReportError, TraceLogError

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from triomq.analytics import Watch

_PATIENCE = 0.5
"""Seconds that each query is waited for at once, and Ctrl-C with it."""


def watch(
    trace: Trace,
    master: Master = "",
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to remember how far it is, to go on from there.")
    ] = None,
    alerts: Annotated[
        str, typer.Option(metavar="QUEUE", help="The queue or stream that alerts go to, as JSON; with --url.")
    ] = "",
    url: Annotated[
        str, typer.Option(envvar="TRIOMQ_TAP", metavar="URL", help="Its broker: tap://user:password@host:47280.")
    ] = "",
    wait_p95: Annotated[
        float | None, typer.Option(help="Seconds that the 95th of a queue's messages in a minute may wait.", min=0)
    ] = None,
    failures: Annotated[int | None, typer.Option(help="Runs of jobs that may fail in a minute.", min=0)] = None,
    dead_letters: Annotated[int | None, typer.Option(help="Dead letters of a queue in a minute.", min=0)] = None,
    lost_peers: Annotated[int | None, typer.Option(help="Peers that may be lost in a minute.", min=0)] = None,
    unsettled: Annotated[
        float | None, typer.Option(help="Seconds after which a delivery should be settled.", min=0)
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when all that is there has been read.")] = False,
) -> None:
    """Show what happens by the minute, and send alerts; the newest minutes come with the next file."""
    if bool(alerts) != bool(url):
        raise typer.BadParameter("--alerts says which queue, and --url which broker; give both, or neither")
    try:
        require_spark()
        from triomq.analytics import Rules, Watch
        from triomq.pipeline import SPARK_ERRORS, open_session, reason_of

        rules = Rules(wait_p95, failures, dead_letters, lost_peers, unsettled)
        sink: Mapping[str, str] = {"url": url, "topic": alerts} if alerts else {}
        watching = Watch(checkpoint, rules, sink, _show_figures, _show_alerts, once)
        run = _look if once and checkpoint is None else _follow
        session = open_session(f"triomq watch {trace}", master=master, conf=QUIET)
        with spark_progress(is_shown=False) as progress, session as spark:
            try:
                run(spark, trace, watching, progress)
            except SPARK_ERRORS as error:
                raise PipelineError(reason_of(error, "Spark has ended the watch")) from None
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    except (TraceLogError, ReportError, PipelineError, OSError) as error:
        fail(str(error))


def _look(spark: "SparkSession", trace: Path, watching: "Watch", progress: SparkProgress) -> None:
    """Show a log as it is."""
    from triomq.analytics import find_files, read_files

    found = find_files(trace)
    show_skipped([f"{path}: {why}" for path, why in found.skipped.items()])
    if found.rows:
        progress.follow(spark)
        watching.look(read_files(spark, found))
    else:
        typer.echo(f"triomq: {trace} has no events", err=True)


def _follow(spark: "SparkSession", trace: Path, watching: "Watch", progress: SparkProgress) -> None:
    """Run queries until one fails, all have read what there is, or Ctrl-C is pressed."""
    from triomq.analytics import stream_trace

    progress.hear()
    queries = watching.start(stream_trace(spark, trace))
    running = queries
    while running and not progress.is_interrupted:  # calls that end, since Ctrl-C breaks into none
        running = [query for query in running if not query.awaitTermination(_PATIENCE)]
    for query in queries:
        query.stop()
    if watching.all_there and not progress.is_interrupted:
        _show_rest(queries[0])


def _show_rest(query: "StreamingQuery") -> None:
    """Print from when on minutes are not over yet for a query that has ended."""
    progress = query.lastProgress
    if progress is not None and (watermark := progress.eventTime.get("watermark")):
        minute = watermark[:16].replace("T", " ")
        typer.echo(f"triomq: {minute} UTC and later comes at the next start, when it is complete", err=True)


def _show_figures(rows: "list[Row]", older: int) -> None:
    _show_older(older, "lines")
    for row in rows:
        counts = [f"{name} {row[name]}" for name in row.__fields__[4:] if row[name]]
        where = f"{row.node} {row.domain or ''} {row.queue or ''}"
        # Spark gives the time on the clock of this machine's time zone, without saying so.
        minute = row.minute.astimezone(UTC)
        typer.echo(printable(f"{minute:%Y-%m-%d %H:%M}  {where}  {', '.join(counts)}"))


def _show_alerts(alerts: list[str], older: int) -> None:
    _show_older(older, "alerts")
    for alert in alerts:
        typer.echo(f"alert  {printable(alert)}", err=True)


def _show_older(count: int, what: str) -> None:
    if count:
        typer.echo(f"triomq: {count:,} older {what} are left out", err=True)
