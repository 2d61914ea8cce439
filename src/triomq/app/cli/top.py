"""``triomq top``: the live tree of a running broker, its queues and their rates.

It goes on when its broker ends: it shows that, and connects again. Exit codes as for ``get``.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.live import Live

from triomq.app.cli.connecting import DEFAULT_URL, JsonOption, UrlOption, failing
from triomq.app.cli.keys import END, open_keys, wait_only
from triomq.app.cli.output import fail
from triomq.app.cli.sampling import Rates, Sample, rates, take_sample
from triomq.app.cli.tables import WIDE
from triomq.app.cli.top_view import top_view
from triomq.clients import BlockingConnection, open_blocking
from triomq.errors import Disconnected, TriomqError

Wait = Callable[[float], str]


class WatchedSample(msgspec.Struct, frozen=True):
    """The last sample, the rates since the one before, and a note if the broker cannot be reached now."""

    sample: Sample
    rates: Rates | None
    note: str = ""


class Watcher:
    """Takes samples of a broker, and of the one that comes after it; made and closed by the command."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: BlockingConnection | None = None

    def look(self) -> Sample:
        """Take a sample, over a new connection if the last one was lost.

        Raises:
            TriomqError: The broker cannot be reached, or refuses.
        """
        if self._connection is None:
            self._connection = open_blocking(self._url)
        try:
            return take_sample(self._connection)
        except TriomqError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def watch(look: Callable[[], Sample], interval: float, wait: Wait) -> Iterator[WatchedSample]:
    """Yield a sample now and after each interval, until q or Ctrl-D is pressed; wait for a broker that ends later.

    Raises:
        TriomqError: The broker cannot be reached at first, or refuses.
    """
    seen = WatchedSample(look(), None)
    while True:
        yield seen
        if wait(interval) in ("q", END):
            return
        try:
            sample = look()
        except Disconnected as error:
            seen = WatchedSample(seen.sample, None, f"{error}; trying again")
        else:
            seen = WatchedSample(sample, None if seen.note else rates(seen.sample, sample))


def top(
    interval: Annotated[float, typer.Option(help="Seconds between two samples.", min=0.05)] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print the sample after one interval, and end.")] = False,
    json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show the live tree of a running triomq broker, its queues, connections and rates; q ends it.

    Where the output is no terminal, it is printed once; with --json a line for each sample, without end.
    """
    with failing(), closing(Watcher(url)) as watcher:
        try:
            if once or not (json or sys.stdout.isatty()):
                _print_once(watch(watcher.look, interval, wait_only), json=json)
            elif json:
                for seen in watch(watcher.look, interval, wait_only):
                    _print_json(seen)
            else:
                # Not earlier: a terminal stops a background job that changes its settings.
                with open_keys() as wait:
                    _show(watch(watcher.look, interval, wait))
        except KeyboardInterrupt:
            raise typer.Exit(0) from None


def _print_once(looks: Iterator[WatchedSample], *, json: bool) -> None:
    """Print the second sample, the first that has rates."""
    first = next(looks)
    seen = next(looks, first)
    if seen.note:
        fail(seen.note)
    if json:
        _print_json(seen)
    else:
        console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
        console.print(top_view(seen.sample, seen.rates))


def _print_json(seen: WatchedSample) -> None:
    typer.echo(msgspec.json.encode(seen))


def _show(looks: Iterator[WatchedSample]) -> None:
    console = Console(highlight=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for seen in looks:
            live.update(top_view(seen.sample, seen.rates, seen.note, lines=console.height), refresh=True)
