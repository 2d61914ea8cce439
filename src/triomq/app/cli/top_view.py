"""What ``triomq top`` shows: one screen made of a sample and the rates since the one before."""

from collections.abc import Iterator
from itertools import islice

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text

from triomq.app.cli.queues import state_of
from triomq.app.cli.sampling import Flow, Rates, Sample
from triomq.app.cli.showing import octets, printable
from triomq.protocols.control import ActorRecord

__all__ = ["TopView"]

HEADING = 4  # lines above the first table


class TopView:
    """A renderable that fills the height of its console: the heading, queues, connections, the tree.

    Args:
        sample: What to show.
        rates: What happened in a second; None at the first sample.
        note: What else to say, such as that the broker is away.
    """

    def __init__(self, sample: Sample, rates: Rates | None, note: str = "") -> None:
        """Keep what is to be shown."""
        self._sample = sample
        self._rates = rates
        self._note = note

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Give each part a share of the lines that there are; all of it where there is no end of them."""
        yield from self._heading()
        room = None if options.height is None and not options.is_terminal else (options.height or console.height)
        sample = self._sample
        lines = None if room is None else max(3, room - HEADING - 4)
        queues = len(sample.queues) if lines is None else min(len(sample.queues), max(1, lines // 3))
        connections = len(sample.connections) if lines is None else min(len(sample.connections), max(1, lines // 5))
        actors = None if lines is None else max(1, lines - queues - connections)
        yield self._queues(queues)
        yield self._connections(connections)
        yield self._tree(actors)

    def _heading(self) -> Iterator[Text]:
        totals = self._sample.totals
        flow = self._rates.totals if self._rates is not None else None
        yield Text(
            f"triomq {totals.version}, up {_duration(totals.uptime)}, {octets(totals.memory)} of memory, "
            f"{totals.connections} connections, {totals.consumers} consumers",
            style="bold",
        )
        yield Text(
            f"{totals.queues} queues: {totals.ready} ready, {totals.unsettled} unsettled; "
            f"per second {_rate(flow, 'published')} in, {_rate(flow, 'delivered')} out, "
            f"{_rate(flow, 'settled')} settled"
        )
        yield Text(self._note, style="bold red")

    def _queues(self, most: int) -> Table:
        table = _table("queue", "ready", "unsettled", "consumers", "size", "in/s", "out/s", "settled/s", "state")
        flows = self._rates.queues if self._rates is not None else {}
        for queue in self._sample.queues[:most]:
            flow = flows.get(queue.name)
            table.add_row(
                Text(printable(queue.name)),
                *map(str, (queue.ready, queue.unsettled, queue.feeds)),
                octets(queue.ready_bytes),
                *(_rate(flow, which) for which in ("published", "delivered", "settled")),
                state_of(queue.state, queue.restarts),
            )
        return table

    def _connections(self, most: int) -> Table:
        table = _table("connection", "channels", "consumers", "age", "user")
        for connection in self._sample.connections[:most]:
            counts = map(str, (connection.channels, connection.consumers))
            table.add_row(printable(connection.peer), *counts, _duration(connection.age), printable(connection.user))
        return table

    def _tree(self, most: int | None) -> Group | Table:
        table = _table("actor", "handled", "waiting", "kind", "state")
        for label, actor in islice(_labelled(self._sample.actors), most):
            state = state_of(actor.state, actor.restarts)
            table.add_row(label, str(actor.handled), str(actor.waiting), actor.kind, state)
        return table


def _table(first: str, *columns: str) -> Table:
    """Make a table whose last column and first are words, and whose others are numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold reverse", expand=False)
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="left" if column in _WORDS else "right", no_wrap=True)
    return table


_WORDS = ("state", "user", "kind")


def _labelled(actors: list[ActorRecord]) -> Iterator[tuple[Text, ActorRecord]]:
    """Give each actor's name, set in by its depth, with how many of its children are not shown."""
    shown: dict[str, int] = {}
    for actor in actors:
        parent = actor.path.rpartition("/")[0] or "/"
        shown[parent] = shown.get(parent, 0) + (actor.path != "/")
    for actor in actors:
        depth = 0 if actor.path == "/" else actor.path.count("/")
        name = actor.path if actor.path == "/" else actor.path.rpartition("/")[2]
        hidden = actor.children - shown.get(actor.path, 0)
        more = f" (and {hidden} more)" if hidden > 0 else ""
        yield Text(f"{'  ' * depth}{printable(name)}{more}"), actor


def _rate(flow: Flow | None, which: str) -> str:
    return "–" if flow is None else f"{getattr(flow, which):.0f}"


def _duration(seconds: float) -> str:
    """Say a time in its two largest units."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
