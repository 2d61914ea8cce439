"""``triomq store``: look over a store, write it anew, copy it.

Exit codes: 0 if it was done and all is well; 1 if not, with the reason; 2 for a wrong command line.
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
from triomq.app.cli.queues import print_table
from triomq.core import QueueOptions, decode_key, encode_key, encode_options, require_decodable
from triomq.errors import StoreError, StoreLocked
from triomq.store import DATABASE, REPORT, Report, back_up
from triomq.store import check as look_over
from triomq.store import compact as write_anew
from triomq.store import salvage as write_out

store = typer.Typer(help="Look after the directory in which a broker keeps what is durable.", no_args_is_help=True)

_Data = Annotated[
    Path, typer.Option("--data", help="The directory, as `triomq serve --data` has it.", envvar="TRIOMQ_DATA_DIR")
]


@store.command()
def check(data: _Data) -> None:
    """Read all that is there, say what each queue has, and end with 1 if anything is damaged; no broker may have it."""
    with _failing():
        report = look_over(data, decode=require_decodable)
    print_table(_table(report))
    messages = sum(report.messages.values())
    typer.echo(f"format {report.version}, {_some(len(report.queues), 'queue')}, {_some(messages, 'message')}")
    if not report.is_well:
        trouble = [f"{report.path}: {printable(complaint)}" for complaint in report.complaints]
        advice = "keep a copy of the directory before anything else; then start on a backup, or `triomq store salvage`"
        fail("\n".join([*trouble, advice]))


@store.command()
def compact(data: _Data) -> None:
    """Give back what is not needed any more; no broker may have it, and for a while it takes twice its place."""
    with _failing():
        before, after = write_anew(data)
    typer.echo(f"{size_text(before)} before, {size_text(after)} now")


@store.command()
def backup(data: _Data, target: Annotated[Path, typer.Argument(help="The directory to make.")]) -> None:
    """Copy all that is there, as it is at one moment, whether a broker works with it or not."""
    with _failing():
        back_up(data, target)
    typer.echo(f"{target} has it all, {size_text((target / DATABASE).stat().st_size)}")


@store.command()
def salvage(data: _Data, target: Annotated[Path, typer.Argument(help="The directory to make.")]) -> None:
    """Write all that can be read of a damaged store to a new directory, and say what cannot; no broker may have it."""
    with _failing():
        done = write_out(data, target, declare=_declare_lost)
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
    """Declare a queue of which nothing is known but the number."""
    return encode_key("default", f"salvaged-{number}"), encode_options(QueueOptions(durable=True))


@contextmanager
def _failing() -> Iterator[None]:
    """End the command where a store cannot be had, saying why."""
    try:
        yield
    except StoreLocked as error:
        fail(f"{error}\nwhile a broker works with it, `triomq store backup` makes a copy, which can be checked")
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
    """Give the names of domain and queue, as far as they can be read."""
    try:
        return decode_key(key)
    except msgspec.DecodeError:
        return ["?", key.hex(" ")]
