"""``triomq jobs``: the jobs of a running broker: list, show, cancel, requeue, dead.

Exit codes as for ``triomq get``.
"""

import json as json_module
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from triomq.app.cli.connecting import DEFAULT_URL, JsonOption, UrlOption, connected
from triomq.app.cli.output import printable
from triomq.app.cli.tables import make_table, print_records, time_text
from triomq.clients import BlockingConnection
from triomq.errors import NotFound
from triomq.protocols.control import (
    CancelJob,
    DeadJobRecord,
    JobDetails,
    ListDeadJobs,
    ListJobs,
    LiveJobRecord,
    RequeuedJob,
    RequeueJob,
    ShowJob,
)

jobs = typer.Typer(
    help="Look at the jobs of a running triomq broker; cancel them, or send them again.", no_args_is_help=True
)

JobArgument = Annotated[str, typer.Argument(metavar="ID", help="The job's id, as `triomq jobs list` shows it.")]
NameOption = Annotated[str, typer.Option(help="Only jobs that call this, such as 'mail.*'.")]

_IDS = {"ignore_unknown_options": True}
"""Ids may begin with a minus."""

_LONGEST = 100
"""Letters of an error in a table."""


@jobs.command("list")
def list_jobs(
    queue: Annotated[str, typer.Option(help="Only jobs of this queue.")] = "",
    state: Annotated[str, typer.Option(help="Only running, cancelling, parked, waiting or delayed ones.")] = "",
    name: NameOption = "*",
    count: Annotated[int, typer.Option(help="Most jobs; 0 is all.", min=0)] = 100,
    json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List jobs that have not ended: first those that run, then parked, waiting and delayed ones."""
    with connected(url) as connection:
        found: list[LiveJobRecord] = []
        for record in connection.control_all(ListJobs(queue, state, name)):
            if count and len(found) == count:
                typer.echo(f"the first {count}; --count 0 lists all", err=True)
                break
            found.append(record)
        print_records(found, _table(found), "no such jobs", json=json)


@jobs.command()
def dead(
    name: NameOption = "*",
    json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List jobs that have failed for good, the oldest first."""
    with connected(url) as connection:
        found = list(connection.control_all(ListDeadJobs(name)))
        print_records(found, _dead_table(found), "no job has failed for good", json=json)


@jobs.command(context_settings=_IDS)
def show(job: JobArgument, json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Show a job: where it is, its arguments, and why it has failed."""
    with connected(url) as connection:
        found = _details(connection, job)
        if json:
            typer.echo(msgspec.json.encode(found))
        else:
            _print_details(found)


@jobs.command(context_settings=_IDS)
def cancel(
    job: JobArgument,
    tree: Annotated[bool, typer.Option("--tree", help="The jobs that it has sent too, at once.")] = False,
    json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Cancel a job: one that waits ends at once, one that runs when its worker has ended it."""
    with connected(url) as connection:
        found = connection.control(CancelJob(job, tree))
        if json:
            typer.echo(msgspec.json.encode(found))
        else:
            typer.echo("cancelled" if found.has_ended else "its worker has been asked to end it")


@jobs.command(context_settings=_IDS)
def requeue(job: JobArgument, json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Send a job again that has failed for good, with a new id, and remove its dead letter."""
    with connected(url) as connection:
        found = connection.control(RequeueJob(job, _place(connection, job)))
        _remove_dead_letter(connection, job, found)
        typer.echo(msgspec.json.encode(found) if json else f"sent again as {printable(found.id)}")


def _details(connection: BlockingConnection, job: str) -> JobDetails:
    try:
        return connection.control(ShowJob(job))
    except NotFound:
        place = _place(connection, job)  # there may be more dead letters than are looked at
        if not place:
            raise
        return connection.control(ShowJob(job, place))


def _place(connection: BlockingConnection, job: str) -> int:
    """Return where the dead letter of a job is; 0 if it has none."""
    return next((dead.place for dead in connection.control_all(ListDeadJobs()) if dead.id == job), 0)


def _remove_dead_letter(connection: BlockingConnection, job: str, requeued: RequeuedJob) -> None:
    """Take the dead letter out; those before it go back to their places.

    Not before the job was sent again: if this is cut off in between there are both, and nothing is lost.
    """
    while (message := connection.get(requeued.dead_letters)) is not None:
        headers = message.properties.headers or {}
        if headers.get("x-job-id") == job:
            connection.accept(message)
            break
    connection.requeue_all()


# What is printed


def _table(found: list[LiveJobRecord]) -> Table:
    table = make_table("job", "attempt", words=("state", "calls", "queue", "user"))
    for job in found:
        state = f"{job.state}, in {time_text(job.due)}" if job.due else job.state
        words = (state, job.name, job.queue, job.user)
        table.add_row(Text(printable(job.id)), str(job.attempt), *(Text(printable(word)) for word in words))
    return table


def _dead_table(found: list[DeadJobRecord]) -> Table:
    table = make_table("job", "attempts", words=("state", "calls", "queue", "ended", "error"))
    for job in found:
        error = f"{job.type}: {job.message}" if job.message else job.type
        words = (job.state, job.name, job.queue, _moment(job.time), _shortened(error))
        table.add_row(Text(printable(job.id)), str(job.attempts), *(Text(printable(word)) for word in words))
    return table


def _print_details(job: JobDetails) -> None:
    typer.secho(f"{printable(job.name or job.id)}: {printable(job.state)}", bold=True)
    rows = {
        "id": job.id,
        "queue": job.queue,
        "user": job.user,
        "attempts": str(job.attempt or ""),
        "begins in": time_text(job.due) if job.due else "",
        "ended": "" if job.time is None else _moment(job.time),
        "arguments": _arguments(job),
        "error": ": ".join(filter(None, (job.type, job.message))),
    }
    for title, value in rows.items():
        if value:
            typer.echo(f"    {title}: {printable(value)}")
    if job.traceback:
        typer.echo(printable(job.traceback.rstrip("\n"), also="\n"))


def _arguments(job: JobDetails) -> str:
    """Return arguments as they would stand in a call."""
    if job.args is None:
        return ""
    named = [f"{name}={_shown(value)}" for name, value in (job.kwargs or {}).items()]
    return ", ".join([*map(_shown, job.args), *named]) or "none"


def _shown(value: object) -> str:
    return json_module.dumps(value, ensure_ascii=False)


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _shortened(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
