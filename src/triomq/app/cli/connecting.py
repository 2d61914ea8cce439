"""How a command connects to a running broker, and how it ends when the broker cannot be reached or refuses."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TypeAlias

import typer

from triomq.app.cli.output import end_output, fail
from triomq.clients import BlockingConnection, open_blocking
from triomq.errors import ConfigError, TriomqError

DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/"

_NO_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)
"""What writing fails with on a full disk, or on a terminal that is gone."""

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
    except BrokenPipeError:  # the reader has seen enough
        end_output()
        raise typer.Exit(0) from None
    except OSError as error:
        if error.errno not in _NO_OUTPUT or error.filename is not None:
            raise
        end_output()
        fail(f"the output cannot be written: {error.strerror}")


@contextmanager
def connected(url: str) -> Iterator[BlockingConnection]:
    """Connect for the length of a block, and treat errors as ``failing`` does."""
    with failing(), open_blocking(url) as connection:
        yield connection
