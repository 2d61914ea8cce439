"""Samples of a running broker, and what happened in a second between two of them."""

import time

import msgspec

from triomq.clients import BlockingConnection
from triomq.protocols.control import (
    ActorRecord,
    ConnectionRecord,
    GetTotals,
    ListConnections,
    ListQueues,
    QueueRecord,
    ShowTree,
    Totals,
)

QUEUES = 50
CONNECTIONS = 20
CHILDREN = 8
"""More than this of each does not fit a screen, and asking for all would be work for a broker that has ten thousand."""


class Sample(msgspec.Struct, frozen=True):
    """A broker at one moment.

    Args:
        moment: When, on our own clock.
        totals: All of it.
        queues: The queues with most ready messages.
        connections: The oldest clients.
        actors: The tree, parents first, of each one's children the first few.
    """

    moment: float
    totals: Totals
    queues: list[QueueRecord]
    connections: list[ConnectionRecord]
    actors: list[ActorRecord]


class Flow(msgspec.Struct, frozen=True, gc=False):
    """Messages in a second.

    Args:
        published: Stored.
        delivered: Handed out.
        settled: Done with by their consumers: accepted, rejected or given back.
    """

    published: float
    delivered: float
    settled: float


class Rates(msgspec.Struct, frozen=True):
    """What happened in a second, in all and in each queue that stood in both samples."""

    totals: Flow
    queues: dict[str, Flow]


def take_sample(connection: BlockingConnection) -> Sample:
    """Ask a broker how it is; raises as ``BlockingConnection.control`` does."""
    return Sample(
        moment=time.monotonic(),
        totals=connection.control(GetTotals()),
        queues=connection.control(ListQueues(order="ready", limit=QUEUES)).items,
        connections=connection.control(ListConnections(limit=CONNECTIONS)).items,
        actors=list(connection.control_all(ShowTree(children=CHILDREN))),
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
    """Divide what was counted by the time; a count that fell is another queue's of that name, or of fewer queues."""
    published = after.published - before.published
    delivered = after.delivered - before.delivered
    settled = delivered - (after.unsettled - before.unsettled)
    return Flow(*(max(0.0, count / seconds) for count in (published, delivered, settled)))
