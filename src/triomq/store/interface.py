"""The protocol of a store; tests compare ``SqliteStore`` with a model in memory."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from triomq.store.operations import OperationBatch
from triomq.store.reading import ChunksRead, Reading
from triomq.store.recovered import Piece


class StoreStatistics(msgspec.Struct, frozen=True, gc=False):
    """A snapshot of a store.

    Args:
        committed: Number of the last batch on disk.
        queues: How many queues there are.
        messages: Messages that are not settled, delayed ones and the records of streams too.
        records: How many sinks, bindings, schedules, results and the like there are.
        size: What the files take on disk, in bytes.
    """

    committed: int
    queues: int
    messages: int
    records: int
    size: int


class Reader(Protocol):
    """Reads bodies, over its own connection, so that it never waits for a commit."""

    def read(self, queue: int, first: int, stop: int, max_bytes: int) -> Reading:
        """Return the segments that hold ids of a range, durable or spilled; those that are wholly settled are gone.

        What the disk has damaged is named in ``Reading.damaged``; all that is whole is returned.

        Args:
            queue: The queue's number.
            first: The first id of the range.
            stop: The id behind its last one.
            max_bytes: About how many bytes of bodies to return at once; at least one segment is given if there is any.

        Raises:
            StoreError: They cannot be read.
        """

    def read_chunks(self, queue: int, first: int, stop: int, max_bytes: int, since: int = 0) -> ChunksRead:
        """Return whole chunks of a stream that hold offsets of a range; what is damaged is named beside them.

        Args:
            queue: The stream's number.
            first: The first offset of the range.
            stop: The offset behind its last one.
            max_bytes: About how many bytes to return at once; at least one chunk is given if there is any.
            since: Leave chunks out whose records were all appended before this time, in microseconds since 1970.

        Raises:
            StoreError: They cannot be read.
        """

    def read_delayed(self, queue: int, numbers: Sequence[int]) -> list[bytes | None]:
        """Return the bodies of delayed messages by their numbers, None for those that are damaged or not there.

        Raises:
            StoreError: They cannot be read.
        """

    def read_record(self, kind: int, key: bytes) -> bytes | None:
        """Return the value of a record, None if it is not there.

        Raises:
            StoreError: It cannot be read.
        """

    def close(self) -> None:
        """Close the connections."""


class Store(Reader, Protocol):
    """An open store; created and used by its host, in one thread."""

    @property
    def committed(self) -> int:
        """The number of the last batch on disk."""

    def commit(self, batches: Sequence[OperationBatch]) -> int:
        """Write batches, all in one transaction: when this returns they are on disk.

        Batches that are on disk already are skipped.

        Returns:
            The number of the last batch on disk.

        Raises:
            DiskFull, StoreUnwritable: Nothing of them was written; the same batches may be tried again.
            StoreCorrupt: The file is damaged.
            ValueError: A batch cannot be applied: a queue was not declared, or an id is taken.
        """

    def recover(self, *, segments: bool = True) -> Iterator[Piece]:
        """Yield all that the store has, except bodies.

        Args:
            segments: Whether to yield each segment; without them ``TotalsFound`` has the totals of each queue, which
                takes a tenth of the time.
        """

    def statistics(self) -> StoreStatistics:
        """Return a snapshot."""
