"""The schedules of a program's code, registered with its broker.

A worker registers all of them when it starts; one that is there already, and is the same, goes on where it was. Those
that the same owner has registered before, and the code has no more, end. So an owner is one ``Jobs`` of one program:
``triomq worker mail:jobs`` is ``mail:jobs`` on every machine. While two versions of a program run, those of the worker
that was started last count.
"""

from functools import partial
from typing import Final

from msgspec.structs import replace

from triomq.clients import EMQPConnection
from triomq.jobs.decorators import JobSchedule
from triomq.jobs.orders import CallOptions, OrderForm
from triomq.jobs.registry import Jobs

_NOBODY: Final = "?"
"""The name of schedules without an owner: with one they go on where they were."""


async def register_schedules(jobs: Jobs, owner: str = "") -> None:
    """Tell the broker that jobs are connected with of their schedules; as often as one likes.

    Args:
        jobs: Which have them.
        owner: Whose they are, such as ``mail:jobs``; those that it has no more end. Without one none ends.

    Raises:
        NotConnected: They are not connected.
        Refused: The broker does not take them.
    """
    link = jobs.link()
    await link.run(partial(_register, link.connection, jobs.schedules, owner))


async def _register(connection: EMQPConnection, schedules: tuple[JobSchedule, ...], owner: str) -> None:
    for schedule in schedules:
        order = OrderForm(schedule.definition, CallOptions()).fill((), {})
        timetable = schedule.timetable
        extension = replace(
            order.extension, name=owner or _NOBODY, timezone=timetable.timezone, missed=timetable.missed
        )
        await connection.schedule(
            order.queue, order.payload, interval=timetable.interval, cron=timetable.cron, haste=timetable.haste,
            retry_count=order.headers.retry_count, job_timeout=order.headers.timeout, extension=extension,
        )  # fmt: skip
    if owner:
        await connection.unschedule_others(owner, [schedule.definition.encode((), {}) for schedule in schedules])
