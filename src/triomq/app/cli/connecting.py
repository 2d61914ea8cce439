"""How a command connects to a running broker, and how it ends when the broker cannot be reached or refuses."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TypeAlias

import typer

from triomq.app.cli.output import fail
from triomq.clients import BlockingConnection, open_blocking
from triomq.errors import ConfigError, TriomqError

DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/"

UrlOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="TRIOMQ_URL",
        metavar="URL",
        show_envvar=True,
        show_default=True,
        help="The broker: amqp://user:password@host:port/virtual-host, amqps:// for TLS, or amqp+unix://user:password@/path/to/socket.",
    ),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, one object on each line.")]


@contextmanager
def failing() -> Iterator[None]:
    """End the command with a line and an exit code if triomq raises an error; silently if its reader has gone."""
    try:
        yield
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None
    except TriomqError as error:
        fail(str(error))
    except BrokenPipeError:
        # The reader has seen enough; at its end Python would complain about what is left in the buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


@contextmanager
def connected(url: str) -> Iterator[BlockingConnection]:
    """Connect for the length of a block, and treat errors as ``failing`` does."""
    with failing(), open_blocking(url) as connection:
        yield connection
