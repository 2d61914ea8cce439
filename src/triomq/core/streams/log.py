"""The records of a stream: what can be read, where it is, and what goes.

    offset ──▶  base                    next_id
                 │ chunk │ chunk │ chunk │   the last one is open
                 └ segment ──────┴ segment

Rules:

- Each record has an *offset*: from 0, in the order of arrival, never used again. Its *time* is the broker's, and never
  goes back: not with the system's clock, and not with a restart.
- Records stand in *chunks*, which are the same bytes in memory, on disk and on a wire. The last chunk is open: it has
  its records as they were published, until others need its bytes or it is one of many.
- Reading removes nothing. So there is nothing *ready* that a consumer could take away, ``unsettled`` is 0, and what
  consumers settle gives room to their windows and does nothing else.
- What goes is decided by ``retention``, in whole segments.
- The last chunks have their records as runs too (``_HOT``), since feeds at the end of a stream are the rule. A reader
  further behind decodes a chunk, and holds no more than that one.

A log belongs to the domain, as every backlog does: an incarnation of the stream that crashes takes no record with it.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import inf
from secrets import randbits
from time import time as unix_time

from triomq.chunks import MovableChunk, merge_chunks
from triomq.core.backlog import Backlog, Entry, ReadDone, Remains, page_of
from triomq.core.batch import Batch
from triomq.core.message import Head, QueueMessage
from triomq.core.streams.chunk import SHORT, SPAN, Chunk
from triomq.core.streams.publishers import Publishers
from triomq.core.streams.retention import RetentionLimits, Segments
from triomq.core.streams.start import Bounds, FromOffset, Place, Since, Start

_HOT = 1024 * 1024
"""Bytes of the last chunks that are in memory as runs too, for feeds that keep up: a second of a busy stream."""

_HOT_CHUNKS = 256
"""The same for their number: of a stream with a record now and then each is a chunk."""

_MERGED = 32
"""Small chunks that are merged: one takes more beside its bytes than in them."""

_MICRO = 1_000_000


class StreamLog(Backlog):
    """The records of a stream in memory; made with its queue's state, outlives the stream's incarnations.

    ``next_id`` is the next offset, ``base`` the lowest one that can be read, ``identity`` is random and stays for as
    long as the stream exists. ``wall`` gives the seconds since 1970.

    Args:
        limits: What it may hold.
        now: Gives the time of the domain's clock, in seconds.
        identity: Of a stream that exists already; 0 for a new one.
    """

    __slots__ = (
        "_chunks",
        "_cold",
        "_hot",
        "_hot_bytes",
        "_last_time",
        "_now",
        "_outstanding",
        "base",
        "identity",
        "positions",
        "publishers",
        "segments",
        "wall",
    )

    def __init__(self, limits: RetentionLimits, now: Callable[[], float], identity: int = 0) -> None:
        super().__init__()
        self.next_id = self.base = 0
        self.identity = identity or randbits(63)
        self.segments = Segments(limits)
        self.positions: dict[str, int] = {}
        self.publishers: Publishers | None = None  # unless it is to store once what is sent again
        self.wall = unix_time
        self._now = now
        self._chunks: list[Chunk] = []
        self._hot: deque[Chunk] = deque()  # those with runs, but for the open one
        self._hot_bytes = 0
        self._cold: list[Chunk] = []  # small ones in a row that are not hot any more
        self._last_time = 0
        self._outstanding: dict[Batch, None] = {}

    @property
    def last_batch(self) -> int:
        """The batch that has all that was pushed so far, for who waits for it; 0 without a store."""
        return 0

    is_stored = False
    """Whether the records are in a store too."""

    retry_at = inf
    """When what could not be read is tried again, in seconds of the domain's clock."""

    @property
    def open_batch(self) -> int:
        """The batch of the store that has what was pushed last; 0 without one."""
        return 0

    def begin(self, tell: Callable[[Callable[[], None]], None]) -> None:
        """Begin an incarnation of the stream.

        Args:
            tell: Has a function called in a turn of the stream, which then looks for what it can deliver.
        """

    def end(self) -> None:
        """Call nothing any more: the incarnation has ended."""

    def catch_up(self) -> None:
        """Let be read what is on disk."""

    def retry(self) -> None:
        """Let readers ask again for what could not be read, if it is time to."""

    @property
    def stop(self) -> int:
        """One more than the highest offset that can be read."""
        return self.next_id

    @property
    def bounds(self) -> Bounds:
        """What can be read."""
        return Bounds(self.identity, self.base, self.stop, self._last_time)

    @property
    def ready(self) -> int:
        """How many records can be read."""
        return self.stop - self.base

    @property
    def ready_bytes(self) -> int:
        """About how many bytes the stream has, wherever they are."""
        return self.segments.size

    @property
    def buffered_bytes(self) -> int:
        """Bytes in memory."""
        return self.segments.size

    # Coming

    def push(
        self,
        head: Head,
        contents: Sequence[bytes],
        size: int,
        deadline: float = inf,
        level: int = 0,
        heads: Sequence[Head] | None = None,
    ) -> None:
        """Append records; deadline and level mean nothing here."""
        count = len(contents)
        if not count:
            return
        now = max(self._last_time, int(self.wall() * _MICRO))
        chunk = self._open_chunk(now)
        chunk.add(head, contents, size, heads)
        self.next_id += count
        self.segments.grow(self.next_id, size, now)
        self._grown(size)

    def push_chunk(self, movable: MovableChunk) -> None:
        """Append the records of a chunk that was checked, as a chunk of their own; no record is looked at."""
        now = max(self._last_time, int(self.wall() * _MICRO))
        chunk = Chunk.of(movable.moved(self.next_id, now))
        self._last_time = chunk.last_time
        self._append(chunk)
        self.next_id = chunk.stop
        self.segments.grow(self.next_id, chunk.size, chunk.last_time)
        self._grown(chunk.size)

    def _append(self, chunk: Chunk) -> None:
        """Append a chunk of bytes, or an empty one that is open."""
        if self._chunks:
            self._close(self._chunks[-1])
        self.segments.begin_chunk(chunk.first, chunk.time)
        self._chunks.append(chunk)

    def _grown(self, size: int) -> None:
        """Count bytes that were appended."""

    def _open_chunk(self, now: int) -> Chunk:
        """Return the chunk that takes records which come now."""
        if self._chunks:
            last = self._chunks[-1]
            if last.data is None and last.size < SHORT and now - last.time <= SPAN and not self.segments.is_full(now):
                return last
        self._last_time = now
        chunk = Chunk(self.next_id, now)
        self._append(chunk)
        return chunk

    def _close(self, chunk: Chunk) -> None:
        """Let no more records into the open chunk; of those that are not among the last only the bytes stay."""
        if chunk.runs is None or (self._hot and self._hot[-1] is chunk):
            return
        self._hot.append(chunk)
        self._hot_bytes += chunk.size
        while self._hot_bytes > _HOT or len(self._hot) > _HOT_CHUNKS:
            oldest = self._hot.popleft()
            self._hot_bytes -= oldest.size
            self._encode(oldest)
            oldest.forget_runs()
            self._cool(oldest)

    def _cool(self, chunk: Chunk) -> None:
        """Merge a chunk that is in memory as bytes alone with those before it, when there are many small ones."""
        cold = self._cold
        if cold and (chunk.first != cold[-1].stop or self.segments.is_beginning(chunk.first)):
            cold.clear()
        cold.append(chunk)
        if len(cold) < _MERGED and sum(len(each.encoded()) for each in cold) < SHORT:
            return
        if len(cold) > 1:
            merged = Chunk.of(merge_chunks([each.encoded() for each in cold]))
            position = bisect_right(self._chunks, merged.first, key=_first_of) - 1
            self._chunks[position : position + len(cold)] = [merged]
            self.segments.resize(merged.first, merged.size - sum(len(each.encoded()) for each in cold))
        cold.clear()

    def _encode(self, chunk: Chunk) -> bytes:
        """Return the bytes of a chunk, and count them as what it takes."""
        if chunk.data is not None:
            return chunk.data
        size, data = chunk.size, chunk.encoded()
        self.segments.resize(chunk.first, len(data) - size)
        return data

    # Going

    def drop_old(self) -> bool:
        """Drop what retention does not keep; return whether anything has gone."""
        below = self.segments.drop(int(self.wall() * _MICRO), self.stop)
        if below is None:
            return False
        self.base = below
        self._drop_chunks(below)
        return True

    def drop_below(self, offset: int) -> None:
        """Drop the records below an offset that can be read or is the next one, whatever retention says."""
        last = self.find(offset)
        self.base = offset
        self.segments.drop_below(offset)
        self._drop_chunks(offset if last is None else last.first)

    def _drop_chunks(self, below: int) -> None:
        count = bisect_right(self._chunks, below - 1, key=_first_of)
        del self._chunks[:count]
        if self._cold and self._cold[0].first < below:
            self._cold.clear()
        while self._hot and self._hot[0].first < below:
            self._hot_bytes -= self._hot.popleft().size

    def next_deadline(self) -> float:
        """Return when records become too old, in seconds of the domain's clock; infinity if that is not known."""
        expiry = self.segments.next_expiry(self.stop)
        return inf if expiry is None else self._now() + max(0.0, expiry / _MICRO - self.wall())

    def expired_level(self, now: float) -> int | None:
        """Return None: records have no deadline of their own."""
        return None

    def release(self, remains: list[Remains]) -> None:
        """Hand over what is in memory, since the stream is deleted."""
        remains.extend(run.contents for chunk in self._chunks for run in chunk.runs or ())
        self._chunks = []
        self._hot.clear()
        self._cold.clear()

    # Reading

    def offset_of(self, place: Place) -> int:
        """Return the offset at which a feed begins."""
        if isinstance(place, FromOffset):
            return max(self.base, place.offset)
        if isinstance(place, Since):
            return self._offset_since(int(place.time * _MICRO))
        if place is Start.FIRST:
            return self.base
        return self.next_id if place is Start.NEXT else self._last_chunk()

    def _last_chunk(self) -> int:
        """Return the first offset of the last chunk that can be read."""
        readable = self.find(self.stop - 1)
        return self.stop if readable is None else max(self.base, readable.first)

    def _offset_since(self, time: int) -> int:
        """Return the offset of the first chunk with a record of a time or later."""
        position = bisect_right(self._chunks, time - 1, key=_last_time_of)
        return self._chunks[position].first if position < len(self._chunks) else self.next_id

    def find(self, offset: int) -> Chunk | None:
        """Return the chunk with an offset, if it is in memory and may be read."""
        if not self.base <= offset < self.stop:
            return None
        position = bisect_right(self._chunks, offset, key=_first_of) - 1
        return self._chunks[position] if position >= 0 else None

    def read(self, first: int, most_records: int, most_bytes: int) -> list[bytes]:
        """Return the chunks in memory from the one with an offset on: up to so much, at least one if there is any."""
        chunks: list[bytes] = []
        records = size = 0
        offset = first
        while records < most_records and (found := self.find(offset)) is not None:
            if chunks and size + found.size > most_bytes:
                break
            if found is self._chunks[-1] and found.data is None:
                self._close(found)
            data = self._encode(found)
            chunks.append(data)
            size += len(data)
            records += found.stop - offset
            offset = found.stop
        return chunks

    def request(self, offset: int, done: Callable[[list[Chunk]], None], since: int = 0) -> Callable[[], None] | None:
        """Read the chunk with an offset from the store.

        Args:
            offset: An offset that can be read.
            done: Called in a turn of the stream with the next chunks, and an empty one behind them; with an empty one
                alone if they could not be read, and are to be asked for again.
            since: Leave out chunks whose records are all older, in microseconds since 1970.

        Returns:
            What cancels the request; None if there is nothing to read at the offset yet.
        """
        return None

    # Groups

    def set_position(self, group: str, offset: int, user: str = "", used: int = 0) -> int:
        """Set the next offset that a group wants; return the batch of the store that has it, 0 without one.

        Args:
            group: The group.
            offset: The offset.
            user: Who has made the position.
            used: The time, in seconds since 1970.
        """
        self.positions[group] = offset
        return 0

    def forget_group(self, group: str) -> bool:
        """Forget a group; return whether it was known."""
        return self.positions.pop(group, None) is not None

    def lag(self, group: str) -> int:
        """Return how many records are there that a group has not read."""
        return max(0, self.stop - max(self.base, self.positions[group]))

    # What consumers have

    def hand_out(self, batch: Batch) -> None:
        """Count a batch as unsettled, so that its room comes back if the stream crashes."""
        self._outstanding[batch] = None

    def holds(self, batch: Batch) -> bool:
        """Return whether a batch was handed out and is not settled as a whole."""
        return batch in self._outstanding

    def outstanding(self) -> list[Batch]:
        """Return the batches that are not settled."""
        return list(self._outstanding)

    @property
    def has_outstanding(self) -> bool:
        """Whether a consumer has records that it has not settled."""
        return bool(self._outstanding)

    def accept(
        self, batch: Batch, positions: Sequence[int] | None = None, *, consumed: bool = False
    ) -> tuple[int, int]:
        """Settle deliveries; return how many records and how many bytes are unsettled no longer."""
        contents = batch.contents
        if positions is None and batch.left == len(contents):
            count, size = batch.left, batch.size
        else:
            count = size = 0
            for position in batch.unsettled() if positions is None else positions:
                content = contents[position]
                if content is not None:
                    contents[position] = None
                    count += 1
                    size += len(content)
        batch.left -= count
        if not batch.left:
            contents.clear()
            del self._outstanding[batch]
        return count, size

    def requeue(self, batch: Batch, positions: Sequence[int] | None = None, *, marked: bool = True) -> tuple[int, int]:
        """Settle deliveries: their records are where they were."""
        return self.accept(batch, positions)

    # Looking at records

    def entries(self, after: int = -1) -> Iterator[Entry]:
        """Yield the records in memory with offsets above ``after``."""
        offset = max(after + 1, self.base)
        while (chunk := self.find(offset)) is not None:
            yield from entries_of((chunk,), offset)
            offset = chunk.stop

    def browse(self, after: int, limit: int, done: ReadDone) -> list[Entry] | None:
        """Return records by their offsets."""
        return page_of(islice(self.entries(after), limit))


def _first_of(chunk: Chunk) -> int:
    return chunk.first


def _last_time_of(chunk: Chunk) -> int:
    return chunk.last_time


def entries_of(chunks: Iterable[Chunk], offset: int) -> Iterator[Entry]:
    """Yield the records of chunks from an offset on."""
    for chunk in chunks:
        for run in chunk.read() if chunk.count else ():
            for place, content in enumerate(run.contents):
                if run.first + place >= offset:
                    head = run.head if run.heads is None else run.heads[place]
                    yield Entry(run.first + place, 0, inf, QueueMessage(head, content))
