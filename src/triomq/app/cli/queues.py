"""``triomq queues``, ``triomq purge`` and ``triomq forget``: listing the queues of a running broker, and emptying them.

Exit codes as for ``triomq get``.
"""

import sys
from enum import StrEnum
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from triomq.app.cli.connecting import DEFAULT_URL, JsonOption, UrlOption, connected
from triomq.app.cli.output import printable, size_text
from triomq.protocols.control import ForgetPeer, ListQueues, QueueRecord

WIDE = 10_000
"""Width of an output that is no terminal: nothing is cut there."""

_SELDOM = ("expired", "rejected", "exhausted", "dead_lettered")
"""Columns that are shown if any queue has a number in them: most queues drop no message."""


class Order(StrEnum):
    """The order in which queues are listed."""

    NAME = "name"
    READY = "ready"


def queues(
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="Only queues with names like this, such as 'mail.*'.")
    ] = "*",
    sort: Annotated[Order, typer.Option(help="By name, or those with most ready messages first.")] = Order.NAME,
    json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List the queues of a running triomq broker."""
    with connected(url) as connection:
        found = list(connection.control_all(ListQueues(pattern)))
        if sort is Order.READY:
            found.sort(key=lambda queue: -queue.ready)
        if json:
            for queue in found:
                typer.echo(msgspec.json.encode(queue))
        elif found:
            print_table(_table(found))
        else:
            typer.echo(f"no queue has a name like {pattern!r}" if pattern != "*" else "there are no queues", err=True)


def print_table(table: Table) -> None:
    """Print a table as wide as it is, unless a terminal sets a limit."""
    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
    console.print(table)


def _table(found: list[QueueRecord]) -> Table:
    reasons = [reason for reason in _SELDOM if any(getattr(queue, reason) for queue in found)]
    table = Table("queue", box=None, pad_edge=False)
    for column in ("ready", "unsettled", "consumers", "size", "in", "out", "dropped", *reasons):
        table.add_column(column, justify="right")
    table.add_column("state")
    for queue in found:
        counts = (queue.ready, queue.unsettled, queue.feeds)
        flows = (queue.published, queue.delivered, queue.dropped, *(getattr(queue, reason) for reason in reasons))
        row = [*map(str, counts), size_text(queue.ready_bytes), *map(str, flows)]
        table.add_row(Text(printable(queue.name)), *row, state_of(queue.state, queue.restarts))
    return table


def state_of(state: str, restarts: int) -> Text:
    """Return the state of an actor; one that does not run is coloured."""
    again = f", restarted {restarts}×" if restarts else ""
    return Text(f"{state}{again}", style="" if state == "running" else "bold red")


def purge(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Drop all ready messages of a queue; consumers keep unsettled ones."""
    with connected(url) as connection:
        if not yes and sys.stdin.isatty() and not typer.confirm(f"Drop all ready messages of {queue!r}?"):
            raise typer.Exit(1)
        count = connection.purge(queue)
        typer.echo(f'{{"purged":{count}}}' if json else f"{count} message{'s' * (count != 1)} dropped")


def forget(
    origin: Annotated[str, typer.Argument(metavar="ORIGIN", help="The peer, as 'triomq queues --json' names it.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Delete all that a peer had made here, with its messages, since it will not come back."""
    with connected(url) as connection:
        if not yes and sys.stdin.isatty() and not typer.confirm(f"Delete all that {origin!r} had made here?"):
            raise typer.Exit(1)
        found = connection.control(ForgetPeer(origin))
        typer.echo(msgspec.json.encode(found) if json else f"{found.count} thing{'s' * (found.count != 1)} deleted")
