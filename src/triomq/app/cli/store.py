"""``triomq store``: check, compact, back up and salvage a store.

Exit codes: 0 if all is well; 1 if not, with the reason; 2 for a wrong command line.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from triomq.app.cli.output import fail, printable, size_text
from triomq.app.cli.tables import print_table
from triomq.core import QueueOptions, decode_key, encode_key, encode_options, require_decodable
from triomq.errors import StoreError, StoreLocked
from triomq.store import DATABASE, REPORT, Report, back_up
from triomq.store import check as check_store
from triomq.store import compact as compact_store
from triomq.store import salvage as salvage_store

store = typer.Typer(help="Check, compact, back up or salvage a broker's data directory.", no_args_is_help=True)

_Data = Annotated[
    Path, typer.Option("--data", help="The data directory, as in `triomq serve --data`.", envvar="TRIOMQ_DATA_DIR")
]


@store.command()
def check(data: _Data) -> None:
    """Read the whole store, list its queues, and end with 1 if anything is damaged; no broker may use it."""
    with _failing():
        report = check_store(data, decode=require_decodable)
    print_table(_table(report))
    messages = sum(report.messages.values())
    typer.echo(f"format {report.version}, {_some(len(report.queues), 'queue')}, {_some(messages, 'message')}")
    for notice in report.notices:
        typer.echo(f"triomq: {printable(notice)}", err=True)
    if report.is_well and report.notices:
        typer.echo("triomq: nothing is damaged or missing; a broker starts on it as it is, and says the same", err=True)
    if not report.is_well:
        trouble = [f"{report.path}: {printable(complaint)}" for complaint in report.complaints]
        advice = "copy the directory before anything else; then start on a backup, or `triomq store salvage`"
        fail("\n".join([*trouble, advice]))


@store.command()
def compact(data: _Data) -> None:
    """Return unused space to the disk; no broker may use the store, which takes twice its space meanwhile."""
    with _failing():
        before, after = compact_store(data)
    typer.echo(f"{size_text(before)} before, {size_text(after)} now")


@store.command()
def backup(data: _Data, target: Annotated[Path, typer.Argument(help="The directory to create.")]) -> None:
    """Copy the store as it is at one moment, whether a broker uses it or not."""
    with _failing():
        back_up(data, target)
    typer.echo(f"{target} has a copy of all, {size_text((target / DATABASE).stat().st_size)}")


@store.command()
def salvage(data: _Data, target: Annotated[Path, typer.Argument(help="The directory to create.")]) -> None:
    """Copy what can be read of a damaged store to a new directory, and list what cannot; no broker may use it."""
    with _failing():
        done = salvage_store(data, target, declare=_declare_lost)
    lines = [
        f"{' '.join(map(printable, _names(queue.key)))}: {_some(queue.messages, 'message')}"
        + (f", {queue.lost} lost" if queue.lost else "")
        + (f", of which {queue.found} had no record and may have been settled" if queue.found else "")
        for queue in done.queues.values()
    ]
    lines += [f"damaged: {printable(complaint)}" for complaint in done.complaints]
    lost = sum(queue.lost for queue in done.queues.values())
    messages = sum(queue.messages for queue in done.queues.values())
    lines.append(f"{target} has {_some(len(done.queues), 'queue')} and {_some(messages, 'message')}; {lost} are lost")
    report = target / REPORT
    report.touch(0o600)
    report.write_text("\n".join([f"salvaged from {data}", *lines, ""]), encoding="utf-8")
    typer.echo("\n".join(lines))
    typer.echo(f"start a broker with --data {target}, or look at it with `triomq store check`; {data} is as it was")


def _declare_lost(number: int) -> tuple[bytes, bytes]:
    """Return name and options for a queue of which only the number is known."""
    return encode_key("default", f"salvaged-{number}"), encode_options(QueueOptions(durable=True))


@contextmanager
def _failing() -> Iterator[None]:
    """End the command with the reason if a store cannot be used."""
    try:
        yield
    except StoreLocked as error:
        fail(f"{error}\nwhile a broker uses it, `triomq store backup` makes a copy, which can be checked")
    except StoreError as error:
        fail(str(error))


def _table(report: Report) -> Table:
    table = Table("domain", "queue", box=None, pad_edge=False)
    for column in ("messages", "delayed", "size", "gaps", "missing"):
        table.add_column(column, justify="right")
    for queue in report.queues:
        gaps = sum(gap.count for gap in report.gaps if gap.queue == queue.queue)
        missing = report.missing.get(queue.queue, 0)
        table.add_row(
            *(Text(printable(name)) for name in _names(queue.key)),
            str(queue.messages),
            str(queue.delayed),
            size_text(queue.size),
            str(gaps),
            Text(str(missing), style="bold red" if missing else ""),
        )
    return table


def _some(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _names(key: bytes) -> list[str]:
    """Return the names of domain and queue, as far as they can be read; of a ledger that is its queue and its group."""
    try:
        domain, name, *group = decode_key(key)
    except (msgspec.DecodeError, ValueError):
        return ["?", key.hex(" ")]
    return [domain, f"{name}, leased by {group[0]}" if group else name]
