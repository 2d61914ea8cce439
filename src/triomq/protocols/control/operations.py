"""What a broker can be asked about itself: operations as types, and one table from their names to them.

The fields of an operation are its arguments, in JSON an object with these names. An argument that is not known is an
error: it would have narrowed the answer, and silence would pretend that it had.
"""

from collections.abc import Mapping
from typing import Annotated, Generic, Literal, TypeVar

import msgspec

from triomq.protocols.control.definitions import Definitions
from triomq.protocols.control.job_records import (
    CancelledJob,
    DeadJobRecord,
    JobDetails,
    JobTotals,
    LiveJobRecord,
    RequeuedJob,
    ScheduleRecord,
    WorkerRecord,
)
from triomq.protocols.control.records import (
    ActorRecord,
    BindingRecord,
    ConnectionRecord,
    Forgotten,
    MessageRecord,
    Page,
    QueueRecord,
    SinkRecord,
    Totals,
)

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
Count = Annotated[int, msgspec.Meta(ge=0)]
Limit = Annotated[int, msgspec.Meta(ge=1)]

PAGE = 500
"""Items of a page by default: a page of queues is then about as long as a frame."""


class Operation(msgspec.Struct, Generic[R_co], frozen=True, gc=False, forbid_unknown_fields=True):
    """The base of all operations; ``R_co`` is what answers it. ``forget`` and those of one job change something."""


class Listing(Operation[Page[T]], Generic[T], frozen=True, gc=False, kw_only=True):
    """The base of operations that are answered in pages; each has an ``after``, which is where the page begins.

    Args:
        limit: Most items of the page; it has fewer when they do not fit into an answer.
    """

    limit: Limit = PAGE


class ListQueues(Listing[QueueRecord], frozen=True, gc=False):
    """Which queues are there in this virtual host?

    Args:
        pattern: Shell pattern of names, as ``mail.*``.
        order: By ``name``, in pages; or ``ready``, one page of those with most ready messages.
        after: Only names that come later than this one.
    """

    pattern: str = "*"
    order: Literal["name", "ready"] = "name"
    after: str = ""


class ListSinks(Listing[SinkRecord], frozen=True, gc=False):
    """Which sinks are there in this virtual host?

    Args:
        pattern: Shell pattern of names.
        after: Only names that come later than this one.
    """

    pattern: str = "*"
    after: str = ""


class ListBindings(Listing[BindingRecord], frozen=True, gc=False):
    """Which bindings lead out of the sinks of this virtual host?

    Args:
        source: Only those of this sink; empty for all.
        after: How many to pass over.
    """

    source: str = ""
    after: Count = 0


class ListConnections(Listing[ConnectionRecord], frozen=True, gc=False):
    """Who is connected to this virtual host?

    Args:
        after: How many to pass over, oldest first.
    """

    after: Count = 0


class ListWorkers(Listing[WorkerRecord], frozen=True, gc=False):
    """Who takes jobs in this virtual host, and how many?

    Args:
        after: How many to pass over, oldest first.
    """

    after: Count = 0


class ListSchedules(Listing[ScheduleRecord], frozen=True, gc=False):
    """What is done again and again in this virtual host?

    Args:
        order: By ``key``, in pages; or ``due``, one page of those that come next.
        after: Only keys that come later than this one.
    """

    order: Literal["key", "due"] = "key"
    after: str = ""


class ListJobs(Listing[LiveJobRecord], frozen=True, gc=False):
    """Which jobs of this virtual host have not ended? Those that run come first, then parked, waiting, delayed ones.

    Args:
        queue: Only those of this queue; empty for all.
        state: Only those in this state; empty for all.
        name: Shell pattern of what they call, as ``mail.*``.
        after: Where the page begins.
    """

    queue: str = ""
    state: str = ""
    name: str = "*"
    after: str = ""


class ListDeadJobs(Listing[DeadJobRecord], frozen=True, gc=False):
    """Which jobs of this virtual host have failed for good?

    Args:
        name: Shell pattern of what they called.
        after: Where the page begins.
    """

    name: str = "*"
    after: Count = 0


class GetJobTotals(Operation[JobTotals], frozen=True, gc=False):
    """How do the jobs of this virtual host do?"""


class ShowJob(Operation[JobDetails], frozen=True, gc=False):
    """What is known of a job? Its arguments are for those alone who may read its queue.

    Args:
        job: Its id.
        place: That of its dead letter, if it is known to have one.
    """

    job: str
    place: Count = 0


class CancelJob(Operation[CancelledJob], frozen=True, gc=False):
    """Would you end a job? For whoever has sent it, and for administrators.

    Args:
        job: Its id.
        tree: Whether the jobs that it has sent are to end at once too.
    """

    job: str
    tree: bool = False


class RequeueJob(Operation[RequeuedJob], frozen=True, gc=False):
    """Would you send a job again that has failed for good? For whoever may read dead letters, and publish.

    Its dead letter stays where it is: whoever asks removes it when the answer has come, so that none is lost.

    Args:
        job: Its id.
        place: That of its dead letter; 0 looks for it, as far as dead letters are in memory.
    """

    job: str
    place: Count = 0


class BrowseQueue(Listing[MessageRecord], frozen=True, gc=False):
    """Which messages are ready in a queue? They stay there, unmarked.

    Args:
        queue: Its name.
        after: Only messages whose id is greater.
        body: Most octets of each body.
    """

    queue: str
    after: Count = 0
    body: Count = 2**32


class ShowTree(Listing[ActorRecord], frozen=True, gc=False):
    """Which actors live in the whole broker? Parents come before their children.

    Args:
        children: Most children shown of each actor, troubled ones first; 0 shows all.
        after: How many actors to pass over.
    """

    children: Count = 0
    after: Count = 0


class GetTotals(Operation[Totals], frozen=True, gc=False):
    """How does the whole broker do?"""


class ExportDefinitions(Listing[Definitions], frozen=True, gc=False):
    """What does the whole broker consist of? In parts, to be joined; for administrators.

    Args:
        after: How many parts to pass over.
    """

    after: Count = 0


class ForgetPeer(Operation[Forgotten], frozen=True, gc=False):
    """Would you delete all that a peer had made in this virtual host? For administrators.

    Args:
        origin: The peer, as records name it.
    """

    origin: Annotated[str, msgspec.Meta(min_length=1)]


class OperationRow(msgspec.Struct, frozen=True):
    """One operation: its name on the wire, its arguments, its result."""

    name: str
    operation: type[Operation[object]]
    result: object


OPERATIONS: Mapping[str, OperationRow] = {
    row.name: row
    for row in (
        OperationRow("queues", ListQueues, Page[QueueRecord]),
        OperationRow("sinks", ListSinks, Page[SinkRecord]),
        OperationRow("bindings", ListBindings, Page[BindingRecord]),
        OperationRow("connections", ListConnections, Page[ConnectionRecord]),
        OperationRow("workers", ListWorkers, Page[WorkerRecord]),
        OperationRow("schedules", ListSchedules, Page[ScheduleRecord]),
        OperationRow("jobs", ListJobs, Page[LiveJobRecord]),
        OperationRow("dead-jobs", ListDeadJobs, Page[DeadJobRecord]),
        OperationRow("job-totals", GetJobTotals, JobTotals),
        OperationRow("job", ShowJob, JobDetails),
        OperationRow("cancel-job", CancelJob, CancelledJob),
        OperationRow("requeue-job", RequeueJob, RequeuedJob),
        OperationRow("browse", BrowseQueue, Page[MessageRecord]),
        OperationRow("tree", ShowTree, Page[ActorRecord]),
        OperationRow("totals", GetTotals, Totals),
        OperationRow("definitions", ExportDefinitions, Page[Definitions]),
        OperationRow("forget", ForgetPeer, Forgotten),
    )
}
"""Name to operation; client and server read the same table."""

_NAMES = {row.operation: row.name for row in OPERATIONS.values()}


def name_of(operation: Operation[object]) -> str:
    """Return an operation's name on the wire."""
    return _NAMES[type(operation)]
