"""Looking into a broker: what can be asked and what is answered, as types and as JSON; no wire of its own."""

from triomq.protocols.control.coding import decode_operation, decode_result, encode, sayable
from triomq.protocols.control.operations import (
    OPERATIONS,
    Browse,
    GetTotals,
    ListBindings,
    ListConnections,
    Listing,
    ListQueues,
    ListSinks,
    Operation,
    OperationRow,
    ShowTree,
    name_of,
)
from triomq.protocols.control.records import (
    ActorRecord,
    BindingRecord,
    ConnectionRecord,
    Cursor,
    MessageRecord,
    Page,
    QueueRecord,
    SinkRecord,
    Totals,
)

__all__ = [
    # What can be asked
    "OPERATIONS",
    # What is answered
    "ActorRecord",
    "BindingRecord",
    "Browse",
    "ConnectionRecord",
    "Cursor",
    "GetTotals",
    "ListBindings",
    "ListConnections",
    "ListQueues",
    "ListSinks",
    "Listing",
    "MessageRecord",
    "Operation",
    "OperationRow",
    "Page",
    "QueueRecord",
    "ShowTree",
    "SinkRecord",
    "Totals",
    # As JSON
    "decode_operation",
    "decode_result",
    "encode",
    "name_of",
    "sayable",
]
