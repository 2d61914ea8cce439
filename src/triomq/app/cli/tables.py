"""Tables on a terminal, and what stands in their cells."""

import sys
from collections.abc import Sequence

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from triomq.app.cli.output import printable
from triomq.protocols.control import StreamSummary

GROUPS_SHOWN = 3
"""Groups of a stream that a line has room for."""

WIDE = 10_000
"""Width of an output that is no terminal: nothing is cut there."""


def make_table(first: str, *numbers: str, words: tuple[str, ...] = ()) -> Table:
    """Create a table: names, then columns of numbers, which stand to the right, then columns of words."""
    table = Table(box=None, pad_edge=False, expand=False)
    table.add_column(first, no_wrap=True)
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    for column in words:
        table.add_column(column, no_wrap=True)
    return table


def print_table(table: Table) -> None:
    """Print a table as wide as it is, unless a terminal sets a limit."""
    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
    console.print(table)


def print_records(found: Sequence[msgspec.Struct], table: Table, nothing: str, *, json: bool) -> None:
    """Print what was found: a table, or a line of JSON for each; if it is nothing, say so where errors go."""
    if json:
        for record in found:
            typer.echo(msgspec.json.encode(record))
    elif found:
        print_table(table)
    else:
        typer.echo(nothing, err=True)


def state_of(state: str, restarts: int) -> Text:
    """Return the state of an actor; one that does not run is coloured."""
    again = f", restarted {restarts}×" if restarts else ""
    return Text(f"{state}{again}", style="" if state == "running" else "bold red")


def offsets_text(stream: StreamSummary | None) -> str:
    """Return what of a stream can be read: the first offset and the next one."""
    return "" if stream is None else f"{stream.first}…{stream.next}"


def lags_text(stream: StreamSummary | None) -> Text:
    """Return how far the groups of a stream are behind, the last ones first."""
    if stream is None or not stream.lags:
        return Text("" if stream is None or stream.lags is not None else "too many groups")
    lags = sorted(stream.lags.items(), key=lambda item: -item[1])
    shown = [f"{printable(group)} {lag}" for group, lag in lags[:GROUPS_SHOWN]]
    more = len(lags) - len(shown)
    return Text(", ".join(shown) + (f" and {more} more" if more else ""))


def time_text(seconds: float) -> str:
    """Return a time in its two largest units."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
