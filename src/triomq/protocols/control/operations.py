"""What a broker can be asked about itself: operations as types, and one table from their names to them.

The fields of an operation are its arguments, in JSON an object with these names. An argument that is not known is an
error: it would have narrowed the answer, and silence would pretend that it had.
"""

from collections.abc import Mapping
from typing import Annotated, Generic, Literal, TypeVar

import msgspec

from triomq.protocols.control.records import (
    ActorRecord,
    BindingRecord,
    ConnectionRecord,
    MessageRecord,
    Page,
    QueueRecord,
    SinkRecord,
    Totals,
)

__all__ = [
    "OPERATIONS",
    "Browse",
    "GetTotals",
    "ListBindings",
    "ListConnections",
    "ListQueues",
    "ListSinks",
    "Operation",
    "OperationRow",
    "ShowTree",
    "name_of",
]

R_co = TypeVar("R_co", covariant=True)
Count = Annotated[int, msgspec.Meta(ge=0)]

PAGE = 500
"""Items asked for at once, unless told otherwise: a page of queues is then about as long as a frame."""


class Operation(msgspec.Struct, Generic[R_co], frozen=True, gc=False, forbid_unknown_fields=True):
    """The base of all operations; ``R_co`` is what answers it. None of them changes anything."""


class ListQueues(Operation[Page[QueueRecord]], frozen=True, gc=False):
    """Which queues are there in this virtual host?

    Args:
        pattern: Shell pattern of names, as ``mail.*``.
        order: By ``name``, in pages; or ``ready``, one page of those with most ready messages.
        after: Only names that come later than this one.
        limit: Most items of the page.
    """

    pattern: str = "*"
    order: Literal["name", "ready"] = "name"
    after: str = ""
    limit: Count = PAGE


class ListSinks(Operation[Page[SinkRecord]], frozen=True, gc=False):
    """Which sinks are there in this virtual host?

    Args:
        pattern: Shell pattern of names.
        after: Only names that come later than this one.
        limit: Most items of the page.
    """

    pattern: str = "*"
    after: str = ""
    limit: Count = PAGE


class ListBindings(Operation[Page[BindingRecord]], frozen=True, gc=False):
    """Which bindings lead out of the sinks of this virtual host?

    Args:
        source: Only those of this sink; empty for all.
        after: How many to pass over.
        limit: Most items of the page.
    """

    source: str = ""
    after: Count = 0
    limit: Count = PAGE


class ListConnections(Operation[Page[ConnectionRecord]], frozen=True, gc=False):
    """Who is connected to this virtual host?

    Args:
        after: How many to pass over, oldest first.
        limit: Most items of the page.
    """

    after: Count = 0
    limit: Count = PAGE


class Browse(Operation[Page[MessageRecord]], frozen=True, gc=False):
    """Which messages are ready in a queue? They stay there, unmarked.

    Args:
        queue: Its name.
        after: Only messages whose id is greater.
        limit: Most items of the page.
        body: Most octets of each body.
    """

    queue: str
    after: Count = 0
    limit: Count = PAGE
    body: Count = 2**32


class ShowTree(Operation[Page[ActorRecord]], frozen=True, gc=False):
    """Which actors live in the whole broker? Parents come before their children.

    Args:
        children: Most children shown of each actor, troubled ones first; 0 shows all.
        after: How many actors to pass over.
        limit: Most items of the page.
    """

    children: Count = 0
    after: Count = 0
    limit: Count = PAGE


class GetTotals(Operation[Totals], frozen=True, gc=False):
    """How does the whole broker do?"""


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
        OperationRow("browse", Browse, Page[MessageRecord]),
        OperationRow("tree", ShowTree, Page[ActorRecord]),
        OperationRow("totals", GetTotals, Totals),
    )
}
"""Name to operation; client and server read the same table."""

_NAMES = {row.operation: row.name for row in OPERATIONS.values()}


def name_of(operation: Operation[object]) -> str:
    """Give an operation's name on the wire."""
    return _NAMES[type(operation)]
