"""What the queues of a broker share that is kept: the journal of the store, and how much of each queue is in memory."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from triomq.core.persistence.records import HeadCodec
from triomq.errors import StoreError
from triomq.store import Journal

if TYPE_CHECKING:
    from triomq.core.topology.directory import Directory

QUEUE_MEMORY = 8 * 1024 * 1024
"""Octets of messages that a queue has in memory if there is a store; the others are only there."""

_MOST_UNWRITTEN = 16 * 1024 * 1024
"""Octets on their way to the disk from which on publishers have to wait."""


class Persistence:
    """How a broker keeps things; made by whoever opens it, with the store, and lent to each domain's directory.

    Args:
        journal: What the store is told.
        queue_memory: Octets of messages that each queue has in memory.
    """

    __slots__ = (
        "_behind",
        "_directories",
        "_next_queue",
        "_unwritable",
        "behind",
        "heads",
        "journal",
        "queue_memory",
        "sync_point",
        "sync_points",
    )

    def __init__(self, journal: Journal, queue_memory: int = QUEUE_MEMORY) -> None:
        self.journal = journal
        self.queue_memory = queue_memory
        self.heads = HeadCodec()
        self.sync_point = 0  # the last batch with something whose doer is told only when it is on disk
        self.sync_points = 0  # how often something of that kind was done
        self.behind = False  # whether so much is on its way to the disk that publishers have to wait
        self._behind: dict[Callable[[], None], None] = {}
        self._unwritable: dict[Callable[[], None], None] = {}
        self._next_queue = 0
        self._directories: list[Directory] = []
        journal.on_fault(self._fault_changed)

    def watch(self, directory: "Directory") -> None:
        """Know one more domain."""
        self._directories.append(directory)

    def _fault_changed(self, fault: StoreError | None) -> None:
        self._notify_publishers()
        self._catch_up()
        if fault is None:
            waiting, self._unwritable = self._unwritable, {}
            for callback in waiting:
                callback()

    def _notify_publishers(self) -> None:
        """Let publishers look for their routes anew: then they see whether the store can be written, and is behind."""
        for directory in self._directories:
            directory.changed()

    def when_writable(self, callback: Callable[[], None]) -> None:
        """Have something called, once, outside of any turn, when the store can be written again."""
        self._unwritable[callback] = None

    def forget_writable(self, callback: Callable[[], None]) -> None:
        """Call that no more, should it not have been called yet."""
        self._unwritable.pop(callback, None)

    def number_queue(self) -> int:
        """Give a number that no queue has, not even one that is only on disk."""
        if not self._next_queue:
            recovered = self.journal.recovered
            self._next_queue = 1 if recovered is None else recovered.next_queue
        self._next_queue += 1
        return self._next_queue - 1

    def mark_sync_point(self) -> None:
        """Note that something has been said that whoever did it wants to know on disk."""
        self.sync_point = self.journal.last_batch
        self.sync_points += 1

    def look(self) -> None:
        """See whether publishers have to wait from now on; called before a turn's first publish."""
        if not self.behind and self._has_too_much:
            self.behind = True
            self._notify_publishers()
            self.journal.when_committed(self.journal.last_batch, self._catch_up)

    @property
    def _has_too_much(self) -> bool:
        return self.journal.pending_bytes > _MOST_UNWRITTEN and self.journal.fault is None

    async def wait_synced(self) -> None:
        """Wait until what was noted last is on disk."""
        await self.wait_committed(self.sync_point)

    async def wait_committed(self, number: int) -> None:
        """Wait until the batch with a number is on disk."""
        if self.journal.committed >= number:
            await trio.lowlevel.checkpoint()
        else:
            committed = trio.Event()
            self.journal.when_committed(number, committed.set)
            await committed.wait()

    def when_caught_up(self, callback: Callable[[], None]) -> None:
        """Have something called, once, outside of any turn, when the store is not behind any more, or has failed."""
        self._behind[callback] = None

    def forget_caught_up(self, callback: Callable[[], None]) -> None:
        """Call that no more, should it not have been called yet."""
        self._behind.pop(callback, None)

    def _catch_up(self) -> None:
        if not self.behind:
            return
        if self._has_too_much:
            self.journal.when_committed(self.journal.last_batch, self._catch_up)
            return
        self.behind = False
        self._notify_publishers()
        waiting, self._behind = self._behind, {}
        for callback in waiting:
            callback()

    def when_committed(self, number: int, callback: Callable[[], None]) -> None:
        """Have something called, once, outside of any turn, when the batch with a number is on disk."""
        self.journal.when_committed(number, callback)
