"""What is not on disk when a broker ends, in the words of those who have to do with it."""

from collections import Counter
from collections.abc import Iterable

from triomq.store.operations import (
    ChunkAppended,
    MessagesAppended,
    MessagesDelayed,
    MessagesSettled,
    OperationBatch,
    QueueDeclared,
    QueueDeleted,
    RecordKind,
    RecordPut,
    RecordRangeRemoved,
    RecordRemoved,
)

_NAMES = {
    RecordKind.JOB: "record of a job",
    RecordKind.SCHEDULE: "schedule",
    RecordKind.RESULT: "result of a job",
    RecordKind.POSITION: "position of a reader",
    RecordKind.WRITER: "commit of a writer",
}
"""Of kinds of records; all others are declarations."""


def count_unwritten(batches: Iterable[OperationBatch]) -> dict[str, int]:
    """Count what batches would have done for others, by what it is; marks and transient messages are left out."""
    counts: Counter[str] = Counter()
    for batch in batches:
        for operation in batch.operations:
            match operation:
                case MessagesSettled():
                    counts["acknowledgement or end of a job"] += sum(count for _, count in operation.ranges)
                case MessagesAppended():
                    counts["message"] += operation.count - sum(count for _, count in operation.settled)
                case MessagesDelayed():
                    counts["message"] += operation.count
                case ChunkAppended():
                    counts["record of a stream"] += operation.count
                case QueueDeclared() | QueueDeleted():
                    counts["declaration"] += 1
                case RecordPut() | RecordRemoved() | RecordRangeRemoved():
                    counts[_NAMES.get(RecordKind(operation.kind), "declaration")] += 1
                case _:
                    pass
    return dict(counts)


def words_of(counts: dict[str, int]) -> str:
    """Return counts as a list in words."""
    return ", ".join(f"{count} x {what}" for what, count in counts.items())
