"""The command ``triomq``: options in, exit code out.

Exit codes: 0 after an orderly end; 1 when the configuration cannot work (a port in use); 2 for a wrong command line;
130 and 143 when a second SIGINT or SIGTERM cut the broker off.
"""

from typing import Annotated

import typer

from triomq import __version__
from triomq.app.cli.check import check
from triomq.app.cli.messages import get, publish
from triomq.app.cli.queues import purge, queues
from triomq.app.cli.serve import serve
from triomq.app.cli.top import top

__all__ = ["main"]

app = typer.Typer(
    help="triomq: a message broker and actor framework on Trio.", no_args_is_help=True, add_completion=False
)


def main() -> None:
    """Run the command line."""
    app()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"triomq {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and stop.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Read the options that all commands share."""


app.command()(serve)
app.command()(check)
app.command()(publish)
app.command()(get)
app.command()(queues)
app.command()(purge)
app.command()(top)
