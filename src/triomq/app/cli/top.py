"""``triomq top``: the live tree of a running broker, its queues and their rates.

It outlives the broker that it looks at: while that is away it says so and tries again. Exit codes as for ``triomq get``.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.live import Live

from triomq.app.cli.keys import open_keys
from triomq.app.cli.queues import WIDE
from triomq.app.cli.reaching import DEFAULT_URL, JsonOption, UrlOption, telling
from triomq.app.cli.sampling import Rates, Sample, rates, take_sample
from triomq.app.cli.top_view import TopView
from triomq.clients import BlockingConnection, open_blocking
from triomq.errors import Disconnected

__all__ = ["top"]

Wait = Callable[[float], str]


class Seen(msgspec.Struct, frozen=True):
    """What is known at one moment: the last sample, the rates at its time, and whether the broker is away now."""

    sample: Sample
    rates: Rates | None
    note: str = ""


def top(
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.05)] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print what is seen after one interval, and end.")] = False,
    json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show the live tree of a running triomq broker, its queues, connections and rates; q ends it.

    Where the output is no terminal it is printed once, and with --json a line for each look.
    """
    with telling(), open_keys() as wait:
        try:
            if once or not (json or sys.stdout.isatty()):
                _print_once(watch(url, interval, wait), json=json)
            elif json:
                for seen in watch(url, interval, wait):
                    _print_json(seen)
            else:
                _show(watch(url, interval, wait))
        except KeyboardInterrupt:
            raise typer.Exit(0) from None


def watch(url: str, interval: float, wait: Wait) -> Iterator[Seen]:
    """Look at a broker again and again until q is pressed, also at the one that comes after it.

    Raises:
        TriomqError: The broker cannot be reached at the first look, or refuses.
    """
    connection: BlockingConnection | None = open_blocking(url)
    seen = Seen(take_sample(_there(connection)), None)
    while True:
        yield seen
        if wait(interval) == "q":
            break
        try:
            connection = connection or open_blocking(url)
            sample = take_sample(connection)
            seen = Seen(sample, None if seen.note else rates(seen.sample, sample))
        except Disconnected as error:
            if connection is not None:
                connection.close()
            connection = None
            seen = Seen(seen.sample, None, f"{error}; trying again")
    if connection is not None:
        connection.close()
