"""The schedules of a program's code, registered with its broker.

A worker registers all of them when it starts; one that is there already, and is the same, goes on where it was. Those
that the same owner has registered before, and the code has no more, end. So an owner is one ``Jobs`` of one program:
``triomq worker mail:jobs`` is ``mail:jobs`` on every machine. While two versions of a program run, those of the worker
that was started last count.

The broker makes the jobs. So middleware is asked for what is sent once, when a schedule is registered, and its answer
holds for all of them. A trace is left out: it would be one for all, and one that is new each time would have the
schedule begin anew with each worker that starts.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from triomq.clients import EMQPConnection
from triomq.jobs.decorators import JobSchedule
from triomq.jobs.orders import CallOptions, JobOrder, OrderForm
from triomq.jobs.registry import Jobs
from triomq.timetable import Timetable

_NOBODY: Final = "?"
"""The name of schedules without an owner: with one they go on where they were."""


async def register_schedules(jobs: Jobs, owner: str = "") -> None:
    """Tell the broker that jobs are connected with of their schedules; as often as one likes.

    Args:
        jobs: Which have them.
        owner: Whose they are, such as ``mail:jobs``; those that it has no more end. Without one none ends.

    Raises:
        NotConnected: They are not connected.
        Refused: The broker does not take them. What middleware raises to refuse one comes out as it is.
    """
    link = jobs.link()
    orders = [(schedule.timetable, _order(jobs, schedule)) for schedule in jobs.schedules]
    await link.run(partial(_register, link.connection, orders, owner))


def _order(jobs: Jobs, schedule: JobSchedule) -> JobOrder:
    """Return what is sent each time, as middleware wants it."""
    order = OrderForm(schedule.definition, CallOptions()).fill((), {})
    for middleware in jobs.middleware:
        order = middleware.before_enqueue(order)
    return order


async def _register(connection: EMQPConnection, orders: Sequence[tuple[Timetable, JobOrder]], owner: str) -> None:
    for timetable, order in orders:
        extension = replace(
            order.extension, name=owner or _NOBODY, timezone=timetable.timezone, missed=timetable.missed, trace=""
        )
        await connection.schedule(
            order.queue, order.payload, interval=timetable.interval, cron=timetable.cron, haste=timetable.haste,
            retry_count=order.headers.retry_count, job_timeout=order.headers.timeout, extension=extension,
        )  # fmt: skip
    if owner:
        await connection.unschedule_others(owner, [order.payload for _, order in orders])
