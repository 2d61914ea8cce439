"""The screen of ``triomq top``, made of a sample and the rates since the one before."""

from collections.abc import Iterator
from itertools import islice

from rich.console import Group
from rich.table import Table
from rich.text import Text

from triomq.app.cli.output import printable, size_text
from triomq.app.cli.queues import state_of
from triomq.app.cli.sampling import Flow, Rates, Sample
from triomq.protocols.control import ActorRecord

HEADING = 3
TABLES = 3
"""Lines that every screen has."""


def top_view(sample: Sample, rates: Rates | None, note: str = "", *, lines: int | None = None) -> Group:
    """Lay out a screen: the heading, queues, connections, the tree.

    Args:
        sample: What to show.
        rates: Messages in a second; None at the first sample.
        note: A further line, such as that the broker cannot be reached.
        lines: The lines of the screen; None sets no limit.
    """
    queues, connections, actors = _shares(sample, lines)
    return Group(
        *_heading(sample, rates, note),
        _queues(sample, rates, queues),
        _connections(sample, connections),
        _tree(sample, actors),
    )


def _shares(sample: Sample, lines: int | None) -> tuple[int, int, int]:
    """Divide lines between the tables: at most a third for queues, a fifth for connections, the rest for the tree."""
    queues, connections, actors = len(sample.queues), len(sample.connections), len(sample.actors)
    if lines is not None:
        room = max(TABLES, lines - HEADING - TABLES)
        queues, connections = min(queues, max(1, room // 3)), min(connections, max(1, room // 5))
        actors = min(actors, max(1, room - queues - connections))
    return queues, connections, actors


def _heading(sample: Sample, rates: Rates | None, note: str) -> Iterator[Text]:
    totals = sample.totals
    flow = rates.totals if rates is not None else None
    yield Text(
        f"triomq {printable(totals.version)}, up {_duration(totals.uptime)}, {size_text(totals.memory)} of memory, "
        f"{totals.connections} connections, {totals.consumers} consumers",
        style="bold",
    )
    published, delivered, settled = _flow(flow)
    yield Text(
        f"{totals.queues} queues: {totals.ready} ready, {totals.unsettled} unsettled; "
        f"each second {published} in, {delivered} out, {settled} settled"
    )
    yield Text(printable(note), style="bold red")


def _queues(sample: Sample, rates: Rates | None, most: int) -> Table:
    table = _table("queue", "ready", "unsettled", "consumers", "size", "in/s", "out/s", "settled/s", "state")
    flows = rates.queues if rates is not None else {}
    for queue in sample.queues[:most]:
        table.add_row(
            Text(printable(queue.name)),
            *map(str, (queue.ready, queue.unsettled, queue.feeds)),
            size_text(queue.ready_bytes),
            *_flow(flows.get(queue.name)),
            state_of(queue.state, queue.restarts),
        )
    return table


def _connections(sample: Sample, most: int) -> Table:
    table = _table("connection", "channels", "consumers", "age", "user")
    for connection in sample.connections[:most]:
        table.add_row(
            Text(printable(connection.peer)),
            *map(str, (connection.channels, connection.consumers)),
            _duration(connection.age),
            Text(printable(connection.user)),
        )
    return table


def _tree(sample: Sample, most: int) -> Table:
    table = _table("actor", "handled", "waiting", "kind", "state")
    for label, actor in islice(_labelled(sample.actors), most):
        state = state_of(actor.state, actor.restarts)
        table.add_row(label, str(actor.handled), str(actor.waiting), Text(actor.kind), state)
    return table


def _table(first: str, *columns: str) -> Table:
    """Create a table, with numbers to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold reverse", expand=False)
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="left" if column in _WORDS else "right", no_wrap=True)
    return table


_WORDS = ("state", "user", "kind")


def _labelled(actors: list[ActorRecord]) -> Iterator[tuple[Text, ActorRecord]]:
    """Yield each actor with its name, indented by its depth, and the number of children that are not shown."""
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


def _flow(flow: Flow | None) -> tuple[str, str, str]:
    if flow is None:
        return "–", "–", "–"
    return f"{flow.published:.0f}", f"{flow.delivered:.0f}", f"{flow.settled:.0f}"


def _duration(seconds: float) -> str:
    """Return a time in its two largest units."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
