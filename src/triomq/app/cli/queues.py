"""``triomq queues``, ``triomq purge`` and ``triomq forget``: listing the queues of a running broker, and emptying them.

Exit codes as for ``triomq get``.
"""

import sys
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from triomq.app.cli.connecting import DEFAULT_URL, JsonOption, UrlOption, connected
from triomq.app.cli.output import printable, size_text
from triomq.app.cli.tables import lags_text, make_table, offsets_text, print_table, state_of
from triomq.protocols.control import ForgetPeer, ListQueues, ListWorkers, QueueRecord, WorkerRecord

_SELDOM = ("expired", "rejected", "exhausted", "dead_lettered")
"""Columns that are shown if any queue has a number in them: most queues drop no message."""


class QueueWorker(msgspec.Struct, frozen=True, gc=False):
    """A worker of a queue.

    Args:
        worker: Its name, or its address.
        weight: Of several workers that have room, those with the highest weight get its jobs.
        free: Jobs that it has room for, from whichever of its queues.
    """

    worker: str
    weight: int
    free: int


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
        served = _served(connection.control_all(ListWorkers()))
        if json:
            for queue in found:
                fields = msgspec.structs.asdict(queue)
                typer.echo(msgspec.json.encode({**fields, "workers": served.get(queue.name, [])}))
        elif found:
            print_table(_table(found, served))
        else:
            typer.echo(f"no queue has a name like {pattern!r}" if pattern != "*" else "there are no queues", err=True)


def _served(workers: Iterable[WorkerRecord]) -> dict[str, list[QueueWorker]]:
    """Return the workers of each queue."""
    served: dict[str, list[QueueWorker]] = {}
    for worker in workers:
        for queue in worker.queues or ():
            name = worker.name or worker.peer
            served.setdefault(queue.name, []).append(QueueWorker(name, queue.weight, worker.free))
    return served


def _table(found: list[QueueRecord], served: dict[str, list[QueueWorker]]) -> Table:
    reasons = [reason for reason in _SELDOM if any(getattr(queue, reason) for queue in found)]
    has_workers = any(queue.name in served for queue in found)
    has_streams = any(queue.stream is not None for queue in found)
    columns = "ready", "unsettled", "consumers", "size", "in", "out", "dropped", *reasons
    words = ("state", *(("workers",) if has_workers else ()), *(("offsets", "behind") if has_streams else ()))
    table = make_table("queue", *columns, words=words)
    for queue in found:
        counts = (queue.ready, queue.unsettled, queue.feeds)
        flows = (queue.published, queue.delivered, queue.dropped, *(getattr(queue, reason) for reason in reasons))
        row = [*map(str, counts), size_text(queue.ready_bytes), *map(str, flows)]
        state = state_of(queue.state, queue.restarts)
        workers = [_summary(served.get(queue.name, []))] if has_workers else []
        offsets = (offsets_text(queue.stream), lags_text(queue.stream)) if has_streams else ()
        table.add_row(Text(printable(queue.name)), *row, state, *workers, *offsets)
    return table


def _summary(workers: list[QueueWorker]) -> str:
    """Return a text such as ``2, room for 7, weights 10 40``."""
    if not workers:
        return ""
    weights = " ".join(map(str, sorted({worker.weight for worker in workers})))
    free = sum(worker.free for worker in workers)
    return f"{len(workers)}, room for {free}, weight{'s' * (' ' in weights)} {weights}"


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
