"""What is on disk of a job beside its message: what must be known of it before that comes out of its queue.

One record for each durable job that holds a unique key, that has a parent, or that was cancelled or has
expired while it waited. It is
written in the turn in which the job is published, so that there are both or neither, and removed at its end. A plain
job has none.
"""

from collections.abc import Iterator
from typing import Final, Protocol, TypeAlias

import msgspec

from triomq.endpoints.jobs.job import OVER, BookedJob, JobSender
from triomq.endpoints.jobs.terms import Terms
from triomq.errors import StoreCorrupt

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
    """A job on disk: see ``BookedJob`` and ``Terms``; ``is_over`` makes it a tombstone."""

    queue: str
    user: str
    requester: bytes
    unique: str
    parent: tuple[bytes, int]
    is_over: bool = False
    is_shared: bool = False


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(JobRecord).decode


class RecordedJobs:
    """Which jobs of a book have a record.

    Args:
        records: Where they are.
    """

    __slots__ = ("_records", "jobs", "partial")

    def __init__(self, records: Records) -> None:
        self._records = records
        self.jobs: set[bytes] = set()
        """Those that have one."""
        self.partial: set[bytes] = set()
        """Those of an earlier life whose message has not come out yet: their terms are known as far as recorded."""

    def recover(self) -> Iterator[BookedJob]:
        """Yield the jobs that the store has.

        Raises:
            StoreCorrupt: A record is none.
        """
        for names, value in self._records.recovered():
            try:
                found = _decode(value)
            except msgspec.DecodeError as error:
                raise StoreCorrupt(f"the record of a job cannot be read: {error}") from None
            name = names[0].encode("latin-1")
            terms = Terms(unique=found.unique, parent=found.parent, shared=found.is_shared)
            job = BookedJob(name, found.queue, JobSender(found.user, found.requester), terms, durable=True)
            if found.is_over:
                job.stage = "cancelled"
            self.jobs.add(name)
            self.partial.add(name)
            yield job

    def write(self, job: BookedJob) -> None:
        """Write what must be known of a job without its message."""
        is_over = job.stage in OVER
        unique = "" if is_over else job.terms.unique
        record = JobRecord(job.queue, job.user, job.requester, unique, job.terms.parent, is_over, job.terms.shared)
        self._records.put(_names_of(job.id), _encode(record), is_new=job.id not in self.jobs)
        self.jobs.add(job.id)

    def remove(self, job: bytes) -> None:
        """Remove the record of a job that has ended, if it has one."""
        if job in self.jobs:
            self.jobs.discard(job)
            self.partial.discard(job)
            self._records.remove(_names_of(job))


def _names_of(job: bytes) -> Names:
    return (job.decode("latin-1"),)  # an id may be no UTF-8
