"""What all commands print: names, bodies and sizes that are safe to show, and the reason why a command failed."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Never

import typer

_HEX_ROW = 32  # bytes on a line: 64 letters fit any terminal


def fail(text: str, code: int = 1) -> Never:
    """Print the reason to standard error, line by line, and end the command with an exit code."""
    for line in text.splitlines():
        typer.echo(f"triomq: {printable(line)}", err=True)
    raise typer.Exit(code)


def announce(text: str) -> None:
    """Print what a daemon says about itself: if nobody can read it, it works on, and prints nothing any more."""
    try:
        typer.echo(text)
    except (OSError, ValueError):  # a full disk, a pipe that nobody reads, a name that cannot be encoded
        end_output()


def end_output() -> None:
    """Print nothing any more: what is left in the buffer would fail again when the interpreter ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str, *, also: str = "") -> str:
    """Replace characters that a terminal would obey by escapes: any client can choose names and bodies.

    Args:
        text: From the broker.
        also: Characters that stay although they are not printable, such as line ends.
    """
    return "".join(letter if letter.isprintable() or letter in also else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def body_lines(body: bytes) -> Iterator[str]:
    """Yield the lines of a body: text as text, anything else in hexadecimal."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        yield from (body[start : start + _HEX_ROW].hex(" ", 4) for start in range(0, len(body), _HEX_ROW))
    else:
        yield from printable(text, also="\n\t").split("\n")


def size_text(count: int) -> str:
    """Return a number of bytes in the largest unit that fits: ``1.5 MiB``."""
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{count} B" if units[0] == "B" else f"{size:.1f} {units[0]}"
