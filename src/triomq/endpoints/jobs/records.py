"""What is on disk of a job beside its message: what must be known of it before that comes out of its queue.

One record for each durable job that holds a unique key, that has a parent, or that was cancelled while it waited. It is
written in the turn in which the job is published, so that there are both or neither, and removed at its end. A plain
job has none.
"""

from collections.abc import Iterator
from typing import Final, Protocol, TypeAlias

import msgspec

Names: TypeAlias = tuple[str, ...]


class Records(Protocol):
    """Where the records are; without a store there are none, and nothing is written."""

    def put(self, names: Names, value: bytes, *, is_new: bool = False) -> int:
        """Write a record, in place of what was there under its names."""

    def remove(self, names: Names) -> None:
        """Remove a record, if it is there."""

    def recovered(self) -> Iterator[tuple[Names, bytes]]:
        """Yield what the store had when the broker was opened."""


class NoRecords:
    """The records of a broker without a store."""

    def put(self, names: Names, value: bytes, *, is_new: bool = False) -> int:
        """Do nothing."""
        return 0

    def remove(self, names: Names) -> None:
        """Do nothing."""

    def recovered(self) -> Iterator[tuple[Names, bytes]]:
        """Yield nothing."""
        return iter(())


class JobRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job on disk: see ``Job`` and ``Terms``; ``is_cancelled`` makes it a tombstone."""

    queue: str
    user: str
    requester: bytes
    unique: str
    parent: tuple[bytes, int]
    is_cancelled: bool = False


encode_record: Final = msgspec.msgpack.Encoder().encode
decode_record: Final = msgspec.msgpack.Decoder(JobRecord).decode


def names_of(job: bytes) -> Names:
    """Return under which names a job's record is: its id, octet by octet, since it may be no UTF-8."""
    return (job.decode("latin-1"),)


def id_of(names: Names) -> bytes:
    """Return whose record is under some names."""
    return names[0].encode("latin-1")
