"""The command ``triomq``: its subcommands, each loaded when it is called.

Exit codes: 0 after an orderly end; 1 if the configuration cannot work (a port in use), or the data directory cannot;
2 for a wrong command line; 3 if the store is lost, or not all could be written to it before the end; 130 and 143 when a
second SIGINT or SIGTERM cut the broker off.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from triomq.version import __version__

_COMMANDS = {
    "serve": "triomq.app.cli.serve",
    "worker": "triomq.app.cli.worker",
    "check": "triomq.app.cli.check",
    "publish": "triomq.app.cli.messages",
    "get": "triomq.app.cli.messages",
    "queues": "triomq.app.cli.queues",
    "workers": "triomq.app.cli.workers",
    "schedules": "triomq.app.cli.workers",
    "jobs": "triomq.app.cli.jobs",
    "purge": "triomq.app.cli.queues",
    "forget": "triomq.app.cli.queues",
    "top": "triomq.app.cli.top",
    "user": "triomq.app.cli.user",
    "definitions": "triomq.app.cli.definitions",
    "store": "triomq.app.cli.store",
    "pipeline": "triomq.app.cli.pipeline",
}
"""The module of each command, in the order of the help.

A command is loaded when it is called: a broker needs no library that draws tables on a screen, which takes 2 MB.
"""


def main() -> None:
    """Run the command line with the arguments of the process."""
    make_app(sys.argv[1:])()


def make_app(arguments: Sequence[str]) -> typer.Typer:
    """Create the command line with the one command that these arguments begin with, or with all commands."""
    app = typer.Typer(
        help="triomq: a message broker and actor framework on Trio.", no_args_is_help=True, add_completion=False
    )
    app.callback()(_options)
    for name in arguments[:1] if arguments and arguments[0] in _COMMANDS else _COMMANDS:
        found = getattr(import_module(_COMMANDS[name]), name)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"triomq {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and stop.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Read the options that all commands share."""
