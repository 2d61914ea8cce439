"""How commands end when they cannot do what they were asked for."""

from typing import Never

import typer

from triomq.app.cli.showing import printable


def fail(text: str) -> Never:
    """Say why, line by line, and end with 1."""
    for line in text.splitlines():
        typer.echo(f"triomq: {printable(line)}", err=True)
    raise typer.Exit(1)
