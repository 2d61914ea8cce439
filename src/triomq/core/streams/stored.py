"""The records of a durable stream in a broker with a store: written before they are read, and most of them only there.

    offset ──▶  base               tail               stop            next_id
                 │ only in the store │ in memory too    │ on the way    │
                 │ read for readers  │ chunks           │ open, written │
                                                        └ readable from here on when their batch is on disk

Rules:

- *Nobody reads an offset before its sync*, on no way: a reader that had seen offset 7 could find another record there
  after a crash. So ``stop`` is what is on disk, and readers at the end are at most one batch behind.
- An open chunk gathers the runs of the journal's open batch, and becomes bytes when that is taken: one row for each
  stream and batch, however many publishes. Nothing is written for a stream in between.
- The tail is in memory up to what a queue may have there; the rest is read when a reader comes to it. Each reader
  holds what one read has brought, and no other reader is given it: ten readers at ten places are ten times 256 KiB.
- Small chunks are merged in the store when there are a megabyte or a thousand of them, or their segment is over
  (``ChunksMerged``); offsets stay. Merged chunks lie in one segment, so that retention finds their ends.
- All records wait for the sync, transient ones too: they have offsets, and offsets must not change.
- What cannot be read is tried again (``_RETRY``): the reader waits where it is, and loses nothing. A fault of the disk
  mostly passes, and a feed that was closed for it would only be opened again. Who asks for a range gets the error.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

import trio

from triomq.chunks import check_chunk, read_chunk_head
from triomq.core.backlog import Entry, ReadDone, Remains, page_of
from triomq.core.persistence.keyed_records import KeyedRecords
from triomq.core.persistence.persistence import Persistence
from triomq.core.persistence.records import encode_position
from triomq.core.streams.chunk import SHORT, SPAN, Chunk
from triomq.core.streams.log import StreamLog, entries_of
from triomq.core.streams.retention import RetentionLimits
from triomq.errors import ChunkDamaged, Disconnected, StoreError
from triomq.store import (
    ChunkAppended,
    ChunkFound,
    ChunksDropped,
    ChunksRead,
    ChunksSent,
    Fetch,
    RecordKind,
)

if TYPE_CHECKING:
    from triomq.core.topology.directory import Directory

_log = logging.getLogger("triomq.core")

_BLOCK = 256 * 1024
"""Bytes that are read for a reader at once: a merged chunk."""

_SEALED_BYTES = 1024 * 1024
"""Bytes of small chunks from which on they are merged: some milliseconds of the store's."""

_SEALED_CHUNKS = 1_000
"""The same for their number: a stream with a record now and then has a row for each."""

_LARGE = 128 * 1024
"""Bytes of a chunk that is not worth merging."""

_RETRY = 5.0
"""Seconds until feeds ask again for what could not be read: a disk that is unwell is not to be hurried."""

_TAIL_CHUNKS = 4_096
"""Chunks in memory: small ones take more beside their bytes than in them."""


class _OpenChunk:
    """The chunk of the open batch; made with its first record, finished when the batch is taken."""

    __slots__ = ("_chunk", "_log", "queue")

    def __init__(self, log: "StoredLog", chunk: Chunk) -> None:
        self.queue = log.queue
        self._log = log
        self._chunk = chunk

    def finish(self) -> ChunkAppended:
        """Return the operation that stores it."""
        chunk = self._chunk
        body = self._log.write(chunk)
        return ChunkAppended(queue=self.queue, first=chunk.first, count=chunk.count, time=chunk.last_time, body=body)


class StoredLog(StreamLog):
    """The log of a durable stream in a broker with a store.

    Args:
        limits: What it may hold.
        directory: The domain's.
        persistence: The broker's.
        queue: The stream's number in the store.
        name: Its name, for the log and for records.
        identity: Of a stream that exists already; 0 for a new one.
    """

    __slots__ = (
        "_begun",
        "_browsed",
        "_browses",
        "_failed",
        "_fetches",
        "_journal",
        "_memory",
        "_name",
        "_records",
        "_small",
        "_small_bytes",
        "_small_first",
        "_stop",
        "_tail_bytes",
        "_tail_first",
        "_tell",
        "_unsynced",
        "queue",
        "retry_at",
    )

    is_stored = True

    def __init__(
        self,
        limits: RetentionLimits,
        directory: "Directory",
        persistence: Persistence,
        queue: int,
        name: str,
        identity: int = 0,
    ) -> None:
        super().__init__(limits, directory.clock.now, identity)
        self.queue = queue
        self._name = name
        self._journal = persistence.journal
        self._memory = persistence.queue_memory
        self._records = KeyedRecords(directory, RecordKind.POSITION)
        self._stop = 0
        self._begun = 0  # the first offset of the last chunk
        self._tail_first = 0  # the lowest offset that is in memory
        self._tail_bytes = 0
        self._unsynced: deque[tuple[int, Chunk]] = deque()  # with the numbers of their batches
        self._small = self._small_bytes = self._small_first = 0  # chunks that are not merged
        self._fetches: set[Fetch] = set()
        self._failed: dict[Fetch, tuple[int, Callable[[list[Chunk]], None]]] = {}  # reads, and where they were to begin
        self.retry_at = inf
        self._browsed: list[Chunk] = []  # what was read for a browser last: its next page is mostly behind this one
        self._browses = False  # whether something is being read for one
        self._tell: Callable[[Callable[[], None]], None] = _call

    @property
    def stop(self) -> int:
        """One more than the highest offset that is on disk."""
        return self._stop

    @property
    def open_batch(self) -> int:
        """The batch of the store that has what was pushed last."""
        return self._journal.open_batch

    @property
    def last_batch(self) -> int:
        """The batch that has all that was pushed so far."""
        return self._journal.require_commit()

    @property
    def buffered_bytes(self) -> int:
        """Bytes in memory."""
        return self._tail_bytes

    @property
    def is_reading(self) -> bool:
        """Whether chunks are being read."""
        return bool(self._fetches)

    def recover(self, found: Sequence[ChunkFound], next_offset: int) -> None:
        """Begin with what the store has from before a restart of the broker."""
        for chunk in found:
            self.segments.begin_chunk(chunk.first, chunk.time)
            self.segments.grow(chunk.first + chunk.count, chunk.size, chunk.time)
            self._count_small(chunk.first, chunk.size)
        self.next_id = self._stop = self._tail_first = self.base = next_offset
        if found:
            self.base, self._begun, self._last_time = found[0].first, found[-1].first, found[-1].time

    def begin(self, tell: Callable[[Callable[[], None]], None]) -> None:
        """Begin an incarnation of the stream: what an earlier one was reading for its readers is not wanted."""
        self.end()
        self._tell = tell
        self.catch_up()

    def end(self) -> None:
        """End an incarnation of the stream."""
        for fetch in self._fetches:
            self._journal.cancel_fetch(fetch)
        self._fetches.clear()
        self._failed.clear()
        self.retry_at = inf
        self._browses = False
        self._tell = _call

    # Coming

    def _open_chunk(self, now: int) -> Chunk:
        if self._unsynced:
            last = self._unsynced[-1][1]
            if last.data is None and last.size < SHORT and now - last.time <= SPAN and not self.segments.is_full(now):
                return last
        self._last_time = now
        chunk = Chunk(self.next_id, now)
        self._append(chunk)
        return chunk

    def _append(self, chunk: Chunk) -> None:
        self.segments.begin_chunk(chunk.first, chunk.time)
        self._chunks.append(chunk)
        self._begun = chunk.first
        self._journal.add_open(_OpenChunk(self, chunk))
        number = self._journal.require_commit()
        if not self._unsynced or self._unsynced[-1][0] != number:
            self._journal.when_committed(number, self._committed)
        self._unsynced.append((number, chunk))

    def _grown(self, size: int) -> None:
        self._tail_bytes += size
        self._journal.grow(size)

    def write(self, chunk: Chunk) -> bytes:
        """Return the bytes of the open chunk: it is on its way to the disk."""
        size, data = chunk.size, self._encode(chunk)
        self._tail_bytes += len(data) - size
        chunk.size = len(data)
        self._close(chunk)
        return data

    def _cool(self, chunk: Chunk) -> None:
        """Do nothing: the store merges chunks."""

    def _committed(self) -> None:
        self._tell(self.catch_up)

    def catch_up(self) -> None:
        """Let be read what is on disk, and give back the memory of what need not be there."""
        committed = self._journal.committed
        while self._unsynced and self._unsynced[0][0] <= committed:
            _, chunk = self._unsynced.popleft()
            self._stop = chunk.stop
            self._count_small(chunk.first, chunk.size)
        self._trim()
        if self._small_bytes >= _SEALED_BYTES or self._small >= _SEALED_CHUNKS:
            self._seal(self._stop)

    def _count_small(self, first: int, size: int) -> None:
        """Count a chunk that is on disk, and have those before it merged if it belongs to another segment."""
        if self._small and self.segments.is_beginning(first):
            self._seal(first)
        if size >= _LARGE and not self._small:
            return
        if not self._small:
            self._small_first = first
        self._small += 1
        self._small_bytes += size

    def _seal(self, stop: int) -> None:
        """Have the store merge the chunks up to an offset that were not merged; they are of one segment."""
        first = max(self.base, self._small_first)
        if self._small > 1 and first < stop:
            self._journal.merge_chunks(self.queue, first, stop)
        self._small = self._small_bytes = 0

    def _trim(self) -> None:
        """Drop chunks from memory that are on disk, as far as there are too many; the last one stays."""
        chunks, count = self._chunks, 0
        most = len(chunks) - 1
        while count < most and chunks[count].stop <= self._stop:
            if self._tail_bytes <= self._memory and len(chunks) - count <= _TAIL_CHUNKS:
                break
            self._tail_bytes -= chunks[count].size
            count += 1
        if count:
            self._forget_first(count)

    def _forget_first(self, count: int) -> None:
        chunks = self._chunks
        self._tail_first = chunks[count].first if count < len(chunks) else self.next_id
        del chunks[:count]
        while self._hot and self._hot[0].first < self._tail_first:
            self._hot_bytes -= self._hot.popleft().size

    # Going

    def drop_old(self) -> bool:
        """Drop what retention does not keep; return whether anything has gone."""
        if not super().drop_old():
            return False
        self._journal.add(ChunksDropped(self.queue, self.base))
        return True

    def drop_below(self, offset: int) -> None:
        """Drop the records below an offset, in the store as well: a chunk goes there when all of it is below."""
        super().drop_below(offset)
        self._journal.add(ChunksDropped(self.queue, offset))

    def _drop_chunks(self, below: int) -> None:
        count = 0
        for chunk in self._chunks:
            if chunk.stop > below:
                break
            self._tail_bytes -= chunk.size
            count += 1
        if count:
            self._forget_first(count)

    def release(self, remains: list[Remains]) -> None:
        """Hand over what is in memory, since the stream is deleted, and forget its groups."""
        for group in list(self.positions):
            self.forget_group(group)
        if self.publishers is not None:
            self.publishers.release()
        super().release(remains)
        self._unsynced.clear()

    # Reading

    def _last_chunk(self) -> int:
        return min(super()._last_chunk() if self._chunks else self._begun, self._stop)

    def _offset_since(self, time: int) -> int:
        """Return the offset of the first chunk in memory with a record of a time; ``base`` if it may be further back.

        Then the store leaves out what is older (``request``).
        """
        if self._tail_first > self.base and not (self._chunks and self._chunks[0].time < time):
            return self.base if self._last_time >= time else self.next_id
        return super()._offset_since(time)

    def browse(self, after: int, limit: int, done: ReadDone) -> list[Entry] | None:
        """Return records by their offsets; None if they have to be read first, for the next call."""
        offset = max(after + 1, self.base)
        if offset >= min(self._stop, self._tail_first):
            return super().browse(after, limit, done)
        for chunk in self._browsed:
            if chunk.first <= offset < chunk.stop:
                return page_of(islice(entries_of(self._browsed, offset), limit))
        if not self._browses:
            self._browses = self.request(offset, self._arrived) is not None
        return None

    def _arrived(self, chunks: list[Chunk]) -> None:
        self._browsed, self._browses = chunks, False

    def request(self, offset: int, done: Callable[[list[Chunk]], None], since: int = 0) -> Callable[[], None] | None:
        """Read the next chunks from the store; see ``StreamLog.request``."""
        if offset >= min(self._stop, self._tail_first):
            return None

        def found(read: ChunksRead | StoreError) -> None:
            self._fetches.discard(fetch)
            if isinstance(read, StoreError):
                if not self._failed:
                    fields = {"queue": self._name, "offset": offset, "reason": str(read)}
                    _log.error("records cannot be read; they are tried again", extra={"fields": fields})
                self._failed[fetch] = offset, done
                self.retry_at = min(self.retry_at, self._now() + _RETRY)
                self._tell(_call_nothing)
                return
            chunks = self._checked(read)
            self._tell(lambda: done(chunks))

        fetch = self._journal.fetch_chunks(self.queue, offset, self._tail_first, _BLOCK, found, since=since)
        self._fetches.add(fetch)

        def cancel() -> None:
            self._fetches.discard(fetch)
            self._failed.pop(fetch, None)
            self._journal.cancel_fetch(fetch)

        return cancel

    def retry(self) -> None:
        """Let readers ask again for what could not be read, if it is time to."""
        if self._now() < self.retry_at:
            return
        failed, self._failed, self.retry_at = self._failed, {}, inf
        for offset, done in failed.values():
            done([Chunk(offset, 0)])

    def next_deadline(self) -> float:
        """Return when there is something to do, in seconds of the domain's clock; infinity if that is not known."""
        return min(super().next_deadline(), self.retry_at)

    def _checked(self, read: ChunksRead) -> list[Chunk]:
        """Return the chunks that are whole, and an empty one behind them, where the next read begins."""
        chunks: list[Chunk] = []
        for damaged in read.damaged:
            self._report(damaged.reason)
        for data in read.chunks:
            try:
                check_chunk(data)
            except ChunkDamaged as error:
                self._report(str(error))
                continue
            chunks.append(Chunk.of(data))
        end = Chunk(max(read.up_to, chunks[-1].stop if chunks else 0), 0)
        return [*chunks, end]

    def _report(self, reason: str) -> None:
        fields = {"queue": self._name, "reason": reason}
        _log.error("records are damaged and passed over; see `triomq store check`", extra={"fields": fields})

    async def fetch(self, first: int, most_records: int, most_bytes: int, since: int) -> list[bytes]:
        """Read chunks from the store that are not in memory; of those that are, if all others are older than ``since``.

        Raises:
            StoreError: They cannot be read.
            ChunkDamaged: The first of them cannot be.
        """
        answered = trio.Event()
        answer: list[ChunksRead | StoreError] = []

        def done(read: ChunksRead | StoreError) -> None:
            answer.append(read)
            answered.set()

        behind = self._tail_first
        stop = behind if since else min(behind, first + most_records)
        fetch = self._journal.fetch_chunks(self.queue, first, stop, most_bytes, done, since=since)
        try:
            await answered.wait()
        finally:
            self._journal.cancel_fetch(fetch)
        [read] = answer
        if isinstance(read, StoreError):
            raise read
        for damaged in read.damaged:
            if not read.chunks or damaged.first < read_chunk_head(read.chunks[0]).first:
                raise ChunkDamaged(f"the records from {damaged.first} on are damaged: {damaged.reason}")
        return read.chunks or (self.read(behind, most_records, most_bytes) if since else [])

    async def send(
        self, first: int, most_records: int, most_bytes: int, descriptor: int, head: bytes, reader: str, room: int
    ) -> bool:
        """Have the store write chunks to a socket; see ``send_records``."""
        answered = trio.Event()
        answer: list[ChunksSent | StoreError] = []

        def done(sent: ChunksSent | StoreError) -> None:
            answer.append(sent)
            answered.set()

        stop = min(self._tail_first, first + most_records)
        fetch = self._journal.send_chunks(descriptor, head, self.queue, first, stop, most_bytes, done, reader, room)
        try:
            await answered.wait()
        finally:
            self._journal.cancel_fetch(fetch)
        [sent] = answer
        if isinstance(sent, StoreError):
            raise sent
        if sent.size and not sent.is_whole:
            raise Disconnected("a reader is gone, has taken nothing of an answer for a minute, or the store has ended")
        return sent.is_whole

    # Groups

    def set_position(self, group: str, offset: int, user: str = "", used: int = 0) -> int:
        """Set the next offset that a group wants; return the batch that has it."""
        super().set_position(group, offset)
        self._records.put((self._name, group), encode_position((offset, user, used)))
        return self._journal.require_commit()

    def forget_group(self, group: str) -> bool:
        """Forget a group; return whether it was known."""
        if super().forget_group(group):
            self._records.remove((self._name, group))
            return True
        return False


def _call_nothing() -> None:
    """Do nothing in a turn of the stream: it looks for its next deadline behind it."""


def _call(function: Callable[[], None]) -> None:
    """Call a function: there is no actor that could be told."""
    function()
