"""``triomq workers`` and ``triomq schedules``: who takes jobs of a running broker, and what is done again and again.

Exit codes as for ``triomq get``.
"""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from triomq.app.cli.connecting import DEFAULT_URL, JsonOption, UrlOption, connected
from triomq.app.cli.output import printable
from triomq.app.cli.tables import make_table, print_records, time_text
from triomq.protocols.control import ListSchedules, ListWorkers, ScheduleRecord, WorkerRecord


def workers(json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """List the workers of a running triomq broker: their queues, slots and jobs."""
    with connected(url) as connection:
        found = list(connection.control_all(ListWorkers()))
        print_records(found, worker_table(found), "there are no workers", json=json)


def schedules(json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """List the schedules of a running triomq broker: what they call, when, and when next."""
    with connected(url) as connection:
        found = list(connection.control_all(ListSchedules()))
        print_records(found, schedule_table(found), "there are no schedules", json=json)


def worker_table(found: Iterable[WorkerRecord]) -> Table:
    """Lay out workers: a slot is room for one job, free until the job comes."""
    table = make_table("worker", "free", "out", "done", "silent", "age", words=("queues", "user"))
    for worker in found:
        table.add_row(
            Text(printable(worker.name or worker.peer)),
            *map(str, (worker.free, worker.out, worker.done)),
            time_text(worker.silent),
            time_text(worker.age),
            Text(_queues(worker)),
            Text(printable(worker.user)),
        )
    return table


def _queues(worker: WorkerRecord) -> str:
    if worker.queues is None:
        return "(more than fit)"
    return ", ".join(f"{printable(queue.name)}:{queue.weight}" for queue in worker.queues)


def schedule_table(found: Iterable[ScheduleRecord]) -> Table:
    """Lay out schedules."""
    table = make_table("schedule", "next", "runs", words=("when", "queue", "user", "program"))
    for schedule in found:
        runs = f"{schedule.runs} of {schedule.run_count}" if schedule.run_count else str(schedule.runs)
        table.add_row(
            Text(printable(schedule.call or schedule.key)),
            _due(schedule),
            runs,
            Text(_when(schedule)),
            *(Text(printable(word)) for word in (schedule.queue, schedule.user, schedule.owner)),
        )
    return table


def _due(schedule: ScheduleRecord) -> str:
    if schedule.due is None:
        return "never"
    return time_text(schedule.due) if schedule.due > 0 else "now"


def _when(schedule: ScheduleRecord) -> str:
    if schedule.cron:
        return f"{printable(schedule.cron)} {printable(schedule.timezone)}"
    return f"every {schedule.interval:g} s"
