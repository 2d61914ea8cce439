"""The screen of ``triomq top``, made of a sample and the rates since the one before."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text

from triomq.app.cli.output import printable, size_text
from triomq.app.cli.sampling import Flow, Rates, Sample
from triomq.app.cli.tables import lags_text, make_table, offsets_text, state_of, time_text
from triomq.app.cli.workers import schedule_table, worker_table
from triomq.protocols.control import ActorRecord, JobTotals

HEADING = 4
"""Lines of the heading, with that about jobs."""

_ALWAYS = 3
"""Tables that every screen has."""

_PARTS = (1 / 3, 1 / 6, 1 / 10, 1 / 5)
"""Most of the room that queues, workers, schedules and connections take."""


def top_view(sample: Sample, rates: Rates | None, note: str = "", *, lines: int | None = None) -> Group:
    """Lay out a screen: the heading, queues, workers and schedules if there are any, connections, the tree.

    Args:
        sample: What to show.
        rates: Messages in a second; None at the first sample.
        note: A further line, such as that the broker cannot be reached.
        lines: The lines of the screen; None sets no limit.
    """
    shares = _shares(sample, lines)
    tables = [_queues(sample, rates, shares.queues)]
    if sample.workers:
        tables.append(worker_table(sample.workers[: shares.workers]))
    if sample.schedules:
        tables.append(schedule_table(sample.schedules[: shares.schedules]))
    tables += [_connections(sample, shares.connections), _tree(sample, shares.actors)]
    for table in tables:
        table.header_style = "bold reverse"
    return Group(*_heading(sample, rates, note), *tables)


class _Shares(NamedTuple):
    """Lines of each table, without its title."""

    queues: int
    workers: int
    schedules: int
    connections: int
    actors: int


def _shares(sample: Sample, lines: int | None) -> _Shares:
    """Divide lines between the tables, of which each has one at least; the tree has what the others leave."""
    counts = len(sample.queues), len(sample.workers), len(sample.schedules), len(sample.connections)
    if lines is None:
        return _Shares(*counts, actors=len(sample.actors))
    titles = _ALWAYS + sum(map(bool, (sample.workers, sample.schedules)))
    room = max(titles, lines - HEADING - titles)
    queues, workers, schedules, connections = (
        min(count, max(1, int(room * part))) for count, part in zip(counts, _PARTS, strict=True)
    )
    rest = max(1, room - queues - workers - schedules - connections)
    return _Shares(queues, workers, schedules, connections, min(len(sample.actors), rest))


def _heading(sample: Sample, rates: Rates | None, note: str) -> Iterator[Text]:
    totals = sample.totals
    flow = rates.totals if rates is not None else None
    yield Text(
        f"triomq {printable(totals.version)}, up {time_text(totals.uptime)}, {size_text(totals.memory)} of memory, "
        f"{totals.connections} connections, {totals.consumers} consumers",
        style="bold",
    )
    published, delivered, settled = _flow(flow)
    yield Text(
        f"{totals.queues} queues: {totals.ready} ready, {totals.unsettled} unsettled; "
        f"each second {published} in, {delivered} out, {settled} settled"
    )
    if sample.jobs != JobTotals():
        yield Text(_jobs(sample.jobs))
    yield Text(printable(note), style="bold red")


def _jobs(jobs: JobTotals) -> str:
    """Return what is going on, and what has happened most often."""
    often = sorted(jobs.happened.items(), key=lambda item: -item[1])
    happened = ", ".join(f"{count} {printable(what)}" for what, count in often if count)
    now = f"jobs: {jobs.running} running, {jobs.parked} parked, {jobs.dead} dead"
    return f"{now}; so far {happened}" if happened else now


def _queues(sample: Sample, rates: Rates | None, most: int) -> Table:
    shown = sample.queues[:most]
    has_streams = any(queue.stream is not None for queue in shown)
    numbers = "ready", "unsettled", "consumers", "size", "in/s", "out/s", "settled/s"
    table = make_table("queue", *numbers, words=("state", "offsets", "behind") if has_streams else ("state",))
    flows = rates.queues if rates is not None else {}
    for queue in shown:
        table.add_row(
            Text(printable(queue.name)),
            *map(str, (queue.ready, queue.unsettled, queue.feeds)),
            size_text(queue.ready_bytes),
            *_flow(flows.get(queue.name)),
            state_of(queue.state, queue.restarts),
            *((offsets_text(queue.stream), lags_text(queue.stream)) if has_streams else ()),
        )
    return table


def _connections(sample: Sample, most: int) -> Table:
    table = make_table("connection", "channels", "consumers", "age", words=("user", "role", "name"))
    for connection in sample.connections[:most]:
        table.add_row(
            Text(printable(connection.peer)),
            *map(str, (connection.channels, connection.consumers)),
            time_text(connection.age),
            *(Text(printable(word)) for word in (connection.user, connection.role, connection.name)),
        )
    return table


def _tree(sample: Sample, most: int) -> Table:
    table = make_table("actor", "handled", "waiting", words=("kind", "state", "about"))
    for label, actor in islice(_labelled(sample.actors), most):
        state = state_of(actor.state, actor.restarts)
        about = Text(printable(actor.about))
        table.add_row(label, str(actor.handled), str(actor.waiting), Text(actor.kind), state, about)
    return table


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
