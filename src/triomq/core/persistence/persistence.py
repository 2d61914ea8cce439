"""What all queues of a broker share that has a store: the journal, and the backpressure of the disk.

    declare, publish, settle ──▶ Journal.open_batch ──▶ sent ──▶ committed (on disk)
                                  filled in turns       sent           confirmed to publishers

Rules:

- The journal is told what happens in the very turn; it sends a batch when the process has time, and calls back, outside
  of any turn, when the batch is on disk. A caller that must not answer before remembers the batch's number and compares
  it with ``committed``: the numbers only grow.
- What is told once is remembered: a *sync point* is the number of the batch with the last operation whose client gets
  its reply only when that is on disk, such as a durable declare. Protocols hold back replies that follow it.
- The store is *behind* while more than ``MOST_UNWRITTEN`` bytes are on their way; publishers find that out before a
  turn's first publish, as everything else that makes them wait (``publishing``).
- A store that cannot be written is not behind: waiting would not help. Publishers of persistent messages get the fault.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from triomq.core.persistence.records import HeadCodec, decode_key, decoding
from triomq.errors import StoreError
from triomq.store import Journal, RecordFound, RecordKeyFound, RecordKind

if TYPE_CHECKING:
    from triomq.core.topology.directory import Directory

QUEUE_MEMORY = 8 * 1024 * 1024
"""Bytes of messages that a queue has in memory if there is a store; the others are only there."""

MOST_UNWRITTEN = 16 * 1024 * 1024
"""Bytes on their way to the disk above which publishers have to wait."""


KEYED_KINDS = frozenset(
    {
        RecordKind.JOB,
        RecordKind.SCHEDULE,
        RecordKind.RESULT,
        RecordKind.POSITION,
        RecordKind.WRITER,
        RecordKind.PUBLISHER,
        RecordKind.LEDGER,
        RecordKind.RESOURCE,
    }
)
"""Kinds whose keys are a domain and names; each domain's belong to one owner (``KeyedRecords``)."""

_LOOK = 0.05
"""Seconds between two looks at whether the store has failed."""

_Keyed = list[RecordFound | RecordKeyFound]


class Persistence:
    """The recording of one broker; created by the code that opens it, with the store, and handed to each domain's
    directory.

    Args:
        journal: The store's, to which all changes are written.
        queue_memory: Bytes of messages that each queue has in memory.
    """

    __slots__ = (
        "_behind",
        "_directories",
        "_keyed",
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
        self.sync_point = 0  # number of the last batch with an operation whose client waits for the disk
        self.sync_points = 0  # how often something of that kind was done
        self.behind = False  # whether so much is on its way to the disk that publishers have to wait
        self._behind: dict[Callable[[], None], None] = {}
        self._unwritable: dict[Callable[[], None], None] = {}
        self._next_queue = 0
        self._directories: list[Directory] = []
        self._keyed: dict[tuple[int, str], _Keyed] | None = None  # by kind and domain, unless nobody has asked yet
        journal.on_fault(self._fault_changed)

    def watch(self, directory: "Directory") -> None:
        """Add a domain, whose publishers are told to look again when the store falls behind or fails."""
        self._directories.append(directory)

    def _fault_changed(self, fault: StoreError | None) -> None:
        self._notify_publishers()
        self._catch_up()
        if fault is None:
            waiting, self._unwritable = self._unwritable, {}
            for callback in waiting:
                callback()

    def _notify_publishers(self) -> None:
        """Make publishers find their routes again: then the guards see whether the store is behind or failed."""
        for directory in self._directories:
            directory.changed()

    def when_writable(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, outside of any turn, when the store can be written again."""
        self._unwritable[callback] = None

    def forget_writable(self, callback: Callable[[], None]) -> None:
        """Withdraw a callback that was not called yet."""
        self._unwritable.pop(callback, None)

    def number_queue(self) -> int:
        """Return a number that no queue has, not even one that is only on disk."""
        if not self._next_queue:
            recovered = self.journal.recovered
            self._next_queue = 1 if recovered is None else recovered.next_queue
        self._next_queue += 1
        return self._next_queue - 1

    def recovered_records(self, kind: RecordKind, domain: str) -> _Keyed:
        """Return the records that the store had of a kind and a domain, in the order of their keys.

        Raises:
            StoreCorrupt: The key of a record of any of these kinds cannot be decoded.
        """
        if self._keyed is None:
            self._keyed = self._group_keyed()
        return self._keyed.get((kind, domain), [])

    def forget_recovered(self, kind: RecordKind, domain: str) -> None:
        """Drop what ``recovered_records`` returns: their owner has them now."""
        if self._keyed is not None:
            self._keyed.pop((kind, domain), None)

    def _group_keyed(self) -> dict[tuple[int, str], _Keyed]:
        grouped: dict[tuple[int, str], _Keyed] = {}
        recovered = self.journal.recovered
        if recovered is None:
            return grouped
        found: _Keyed = [each for each in recovered.records if each.kind in KEYED_KINDS]
        for record in found + recovered.keys:
            with decoding("record", record.key):
                domain = decode_key(record.key)[0]
            grouped.setdefault((record.kind, domain), []).append(record)
        recovered.records = [each for each in recovered.records if each.kind not in KEYED_KINDS]
        recovered.keys = []
        return grouped

    def mark_sync_point(self) -> None:
        """Mark the open batch as one whose commit a client waits for."""
        self.sync_point = self.journal.require_commit()
        self.sync_points += 1

    def look(self) -> None:
        """Check whether publishers have to wait from now on; called before a turn's first publish.

        The caller skips this call while ``journal.pending_bytes`` is at most ``MOST_UNWRITTEN``.
        """
        if not self.behind and self._has_too_much:
            self.behind = True
            self._notify_publishers()
            self.journal.when_committed(self.journal.require_commit(), self._catch_up)

    @property
    def _has_too_much(self) -> bool:
        return self.journal.pending_bytes > MOST_UNWRITTEN and self.journal.fault is None

    async def wait_synced(self) -> None:
        """Wait until the last sync point is on disk."""
        await self.wait_committed(self.sync_point)

    async def wait_committed(self, number: int) -> None:
        """Wait until the batch with a number is on disk."""
        if self.journal.committed >= number:
            await trio.lowlevel.checkpoint()
        else:
            committed = trio.Event()
            self.journal.when_committed(number, committed.set)
            await committed.wait()

    @property
    def has_all(self) -> bool:
        """Whether all that was added so far is on disk."""
        return self.journal.committed >= self.journal.require_commit()

    async def wait_all_or_fault(self) -> None:
        """Wait until all that was added so far is on disk, or it turns out that the store cannot be written."""
        number, committed = self.journal.require_commit(), trio.Event()
        self.journal.when_committed(number, committed.set)
        while self.journal.committed < number and self.journal.fault is None:
            with trio.move_on_after(_LOOK):
                await committed.wait()

    def when_caught_up(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, outside of any turn, when the store is not behind any more, or has failed."""
        self._behind[callback] = None

    def forget_caught_up(self, callback: Callable[[], None]) -> None:
        """Withdraw a callback that was not called yet."""
        self._behind.pop(callback, None)

    def _catch_up(self) -> None:
        if not self.behind:
            return
        if self._has_too_much:
            self.journal.when_committed(self.journal.require_commit(), self._catch_up)
            return
        self.behind = False
        self._notify_publishers()
        waiting, self._behind = self._behind, {}
        for callback in waiting:
            callback()

    def when_committed(self, number: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, outside of any turn, when the batch with a number is on disk."""
        self.journal.when_committed(number, callback)
