"""Reaching a running broker from a command, and what a command says when it cannot."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TypeAlias

import typer

from triomq.app.cli.failing import fail
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
def telling() -> Iterator[None]:
    """Turn what triomq raises on purpose into a line and an exit code; end silently when our reader has gone."""
    try:
        yield
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None
    except TriomqError as error:
        fail(str(error))
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain at its end about what is left in the buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


@contextmanager
def reaching(url: str) -> Iterator[BlockingConnection]:
    """Connect for the length of a block; errors end the command as ``telling`` says."""
    with telling(), open_blocking(url) as connection:
        yield connection
