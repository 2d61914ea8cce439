"""``triomq pipeline``: what the trace log says."""

import typer

from triomq.app.cli.report import report
from triomq.app.cli.trace_path import trace
from triomq.app.cli.watch import watch

pipeline = typer.Typer(help="Ask the trace log: a report, a watch, the path of a message.", no_args_is_help=True)
pipeline.command()(report)
pipeline.command()(watch)
pipeline.command()(trace)
