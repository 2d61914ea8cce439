"""The partitions of a stream, by its name: what clients of tap name, in place of queues."""

from triomq.core import Bounds, Directory, QueueState, Session
from triomq.core import partitions_of as parts_of
from triomq.errors import NotFound, OtherStream
from triomq.protocols.tap import PartitionBounds


class OtherIdentity(OtherStream):
    """The partition is another one than the client has read.

    Args:
        name: The stream's name.
        bounds: What the partition is now.
    """

    def __init__(self, name: str, bounds: PartitionBounds) -> None:
        self.bounds = bounds
        super().__init__(f"stream {name!r} was deleted and declared anew; what was read of it were other records")


def partitions_of(directory: Directory, name: str, session: Session) -> list[QueueState]:
    """List the partitions of a stream, from 0 on; a stream that was declared without is its own only one.

    Raises:
        NotFound: There is no such stream.
        QueueLocked: It belongs to another session.
    """
    found = parts_of(directory, name)
    if not found and directory.has_for(session.user, name):
        raise NotFound(f"{name!r} is a queue and no stream: its messages can be leased (from Spark: mode=queue)")
    if not found:
        raise NotFound(f"there is no stream {name!r} here; declare it first")
    return [directory.queue(part.name, session) for part in found]


def partition_of(directory: Directory, name: str, number: int, session: Session) -> QueueState:
    """Find one partition of a stream; raises as ``partitions_of``, also if it has fewer partitions."""
    found = partitions_of(directory, name, session)
    if number >= len(found):
        raise NotFound(f"stream {name!r} has no partition {number}; it has {len(found)}, from 0 on")
    return found[number]


def shown(bounds: Bounds, position: int | None = None) -> PartitionBounds:
    """Return bounds as they stand on the wire."""
    return PartitionBounds(bounds.identity, bounds.first, bounds.stop, position)
