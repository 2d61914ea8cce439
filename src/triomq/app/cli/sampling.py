"""Samples of a running broker, and what happened in a second between two of them."""

import time

import msgspec

from triomq.clients import BlockingConnection
from triomq.protocols.control import (
    ActorRecord,
    ConnectionRecord,
    GetJobTotals,
    GetTotals,
    JobTotals,
    ListConnections,
    ListQueues,
    ListSchedules,
    ListWorkers,
    QueueRecord,
    ScheduleRecord,
    ShowTree,
    Totals,
    WorkerRecord,
)

QUEUES = 50
CONNECTIONS = 20
WORKERS = 20
SCHEDULES = 10
CHILDREN = 8
"""More than this of each does not fit a screen, and all of ten thousand would be work for the broker."""


class Sample(msgspec.Struct, frozen=True):
    """A broker at one moment.

    Args:
        moment: The time on our own clock, in seconds.
        totals: The sums of all queues.
        queues: The queues with most ready messages.
        connections: The oldest clients.
        actors: The tree, parents first, with the first few children of each.
        workers: The oldest clients that take jobs.
        schedules: Those whose jobs come next.
        jobs: How jobs do.
    """

    moment: float
    totals: Totals
    queues: list[QueueRecord]
    connections: list[ConnectionRecord]
    actors: list[ActorRecord]
    workers: list[WorkerRecord] = []
    schedules: list[ScheduleRecord] = []
    jobs: JobTotals = JobTotals()


class Flow(msgspec.Struct, frozen=True, gc=False):
    """Messages in a second.

    Args:
        published: Put into queues.
        delivered: Sent to consumers.
        settled: Accepted, rejected or put back by consumers.
    """

    published: float
    delivered: float
    settled: float


class Rates(msgspec.Struct, frozen=True):
    """Messages in a second, in all queues together and in each queue that is in both samples."""

    totals: Flow
    queues: dict[str, Flow]


def take_sample(connection: BlockingConnection) -> Sample:
    """Ask a broker for its numbers; raises the errors of ``BlockingConnection.control``."""
    return Sample(
        moment=time.monotonic(),
        totals=connection.control(GetTotals()),
        queues=connection.control(ListQueues(order="ready", limit=QUEUES)).items,
        connections=connection.control(ListConnections(limit=CONNECTIONS)).items,
        actors=list(connection.control_all(ShowTree(children=CHILDREN))),
        workers=connection.control(ListWorkers(limit=WORKERS)).items,
        schedules=connection.control(ListSchedules(order="due", limit=SCHEDULES)).items,
        jobs=connection.control(GetJobTotals()),
    )


def rates(before: Sample, after: Sample) -> Rates:
    """Compare two samples of the same broker."""
    seconds = after.moment - before.moment
    earlier = {queue.name: queue for queue in before.queues}
    return Rates(
        totals=_flow(before.totals, after.totals, seconds),
        queues={
            queue.name: _flow(earlier[queue.name], queue, seconds) for queue in after.queues if queue.name in earlier
        },
    )


def _flow(before: Totals | QueueRecord, after: Totals | QueueRecord, seconds: float) -> Flow:
    """Divide the growth of counts by the time; a count falls when a queue is deleted or made anew."""
    published = after.published - before.published
    delivered = after.delivered - before.delivered
    settled = delivered - (after.unsettled - before.unsettled)
    return Flow(*(max(0.0, count / seconds) for count in (published, delivered, settled)))
