"""The command ``triomq``: options in, exit code out.

Exit codes: 0 after an orderly end; 1 when the configuration cannot work (a port in use); 2 for a wrong command line;
130 and 143 when a second SIGINT or SIGTERM cut the broker off.
"""

import logging
from typing import Annotated, Never

import trio
import typer

from triomq import __version__
from triomq.app.broker import Broker
from triomq.app.serve import serve as serve_until_stopped
from triomq.endpoints import AMQP
from triomq.errors import ConfigError
from triomq.transports import name_of

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


@app.command()
def serve(
    port: Annotated[int, typer.Option(help="Port for AMQP 0-9-1; 0 takes one that is free.", min=0, max=65535)] = 5672,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log each connection as well.")] = False,
) -> None:
    """Serve on the loopback addresses until SIGTERM or Ctrl-C, keeping messages in memory."""
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        code = trio.run(lambda: serve_until_stopped(AMQP(port=port), started=_announce))
    except ConfigError as error:
        _fail(str(error))
    raise typer.Exit(code)


def _announce(broker: Broker) -> None:
    """Say where it listens and how to connect."""
    addresses = [address for listening in broker.listening for address in listening.addresses]
    port = broker.listening[0].port
    places = ", ".join(name_of(address) for address in addresses)
    typer.echo(f"triomq {__version__} listens for AMQP 0-9-1 on {places}")
    typer.echo(f"connect with amqp://guest:guest@127.0.0.1:{port}")
    typer.echo("messages are kept in memory and end with this process; stop it with Ctrl-C")


def _fail(text: str) -> Never:
    typer.echo(f"triomq: {text}", err=True)
    raise typer.Exit(1)
