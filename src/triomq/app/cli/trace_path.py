"""``triomq pipeline trace``: what became of one message or job.

Exit codes: 0 if it was found; 1 if not, or if the trace log cannot be read; 2 for a wrong command line, and if several
messages have the id, which are listed then.
"""

import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from triomq.analytics import FoundPaths, MessagePath
from triomq.app.cli.output import fail
from triomq.app.cli.report import Since, Until, parse_time
from triomq.app.cli.trace_view import view_choices, view_path
from triomq.errors import ReportError, TraceLogError

_SKIPPED_SHOWN = 3


def trace(
    wanted: Annotated[
        str, typer.Argument(metavar="ID", help="A message's or job's id, correlation id, trace id; or queue/number.")
    ],
    directory: Annotated[
        Path, typer.Argument(metavar="[TRACE]", help="The trace log.", envvar="TRIOMQ_TRACE_DIRECTORY")
    ],
    since: Since = "",
    until: Until = "",
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw a page as well.")] = None,
) -> None:
    """Show the path of one message or job: its queues, waits, consumers, and how it ended."""
    if find_spec("pyarrow") is None:
        fail("pyarrow missing, which reads a trace log: pip install 'triomq[trace]'")
    from triomq.analytics import find_paths  # only here, since it is an extra

    now = datetime.now(UTC)
    try:
        found = find_paths(directory, wanted, parse_time(since, now, "--since"), parse_time(until, now, "--until"))
    except TraceLogError as error:
        fail(str(error))
    for file, reason in list(found.skipped.items())[:_SKIPPED_SHOWN]:
        typer.echo(f"triomq: skipped {file}: {reason}", err=True)
    if len(found.skipped) > _SKIPPED_SHOWN:
        typer.echo(f"triomq: and {len(found.skipped) - _SKIPPED_SHOWN} more files", err=True)
    if not found.paths:
        fail(_nothing(wanted, found, directory))
    console = _console()
    if len(found.paths) > 1:
        console.print(view_choices(found.paths))
        typer.echo(_choose(found), err=True)
        raise typer.Exit(2)
    (path,) = found.paths
    console.print(view_path(path, console.width, plain=not console.encoding.startswith("utf")))
    if html is not None:
        _draw(path, wanted, html)


def _console() -> Console:
    """Create a console as wide as the terminal; any other output is wide enough for a line of a log."""
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False, soft_wrap=not sys.stdout.isatty())


def _nothing(wanted: str, found: FoundPaths, directory: Path) -> str:
    if found.first is None or found.last is None:
        return f"{directory} has no events of this time; is tracing on, and was it on then?"
    return (
        f"nothing has the id '{wanted[:200]}' in {found.files:,} files with {found.events:,} events, from "
        f"{found.first:%Y-%m-%d %H:%M:%S} to {found.last:%Y-%m-%d %H:%M:%S} UTC\n"
        "searched as message id, correlation id, job id, trace id and queue/number; a message that was not sampled is "
        "not in the log (--trace-rate), and the newest events are there after a minute"
    )


def _choose(found: FoundPaths) -> str:
    more = "; there are more" if found.is_cut else ""
    return (
        f"triomq: {len(found.paths)} messages have this id{more}. Give one of the first column as ID; where these are "
        "alike, also --since and --until"
    )


def _draw(path: MessagePath, wanted: str, file: Path) -> None:
    from triomq.analytics.page import draw_path

    try:
        draw_path(path, wanted, file)
    except (ReportError, OSError) as error:
        fail(str(error))
    typer.echo(f"triomq: {file}", err=True)
