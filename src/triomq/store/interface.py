"""What every store does; tests hold ``SqliteStore`` against a model in memory."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from triomq.store.operations import OperationBatch
from triomq.store.reading import Reading
from triomq.store.recovered import Piece


class StoreStatistics(msgspec.Struct, frozen=True, gc=False):
    """A snapshot of a store.

    Args:
        committed: Number of the last batch that is kept.
        queues: How many queues there are.
        messages: Messages that are kept and not settled, delayed ones too.
        octets: What the files take on disk; 0 in memory.
    """

    committed: int
    queues: int
    messages: int
    octets: int


class Reader(Protocol):
    """Reads bodies; has its own connection, so that it never waits for a commit."""

    def read(self, queue: int, first: int, stop: int, octets: int) -> Reading:
        """Give the segments that hold ids of a range, kept or spilled; those that are wholly settled are gone.

        What the disk has changed is named in ``Reading.damaged``, and does not hold up what is whole.

        Args:
            queue: The queue's number.
            first: The first id of the range.
            stop: The id behind its last one.
            octets: About how many octets of bodies to give at once; at least one segment is given if there is any.

        Raises:
            StoreError: They cannot be read.
        """

    def read_delayed(self, queue: int, numbers: Sequence[int]) -> list[bytes | None]:
        """Give the bodies of delayed messages by their numbers, None for those that are damaged or not there.

        Raises:
            StoreError: They cannot be read.
        """

    def close(self) -> None:
        """End."""


class Store(Reader, Protocol):
    """A store that is open; made and used by whoever is its host, in one thread."""

    @property
    def committed(self) -> int:
        """The number of the last batch that is kept."""

    def commit(self, batches: Sequence[OperationBatch]) -> int:
        """Keep batches, all in one transaction: when this returns they are on disk.

        Those that are kept already are left out.

        Returns:
            The number of the last batch that is kept.

        Raises:
            DiskFull, StoreUnwritable: Nothing of them is kept; the same batches may be tried again.
            StoreCorrupt: The file is damaged.
            ValueError: A batch asks for what cannot be: a queue that was not declared, an id that was there before.
        """

    def recover(self, *, segments: bool = True) -> Iterator[Piece]:
        """Go through all that is kept, bodies apart.

        Args:
            segments: Whether to give each segment; without them ``TotalsFound`` says what those of a queue come to, and
                it takes a tenth of the time.
        """

    def statistics(self) -> StoreStatistics:
        """Take a snapshot."""
