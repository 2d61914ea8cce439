"""A reader: the place of one feed in a stream."""

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

from triomq.core.backlog import Run
from triomq.core.batch import Batch
from triomq.core.dispatch.dispatch import BATCH_BYTES
from triomq.core.dispatch.feed import Feed
from triomq.core.streams.chunk import Chunk
from triomq.core.streams.log import StreamLog


class FeedReader:
    """One feed, and what it reads next; made by the stream when the feed is opened, ends with it.

    It holds the records of one chunk at most, also when retention drops that meanwhile: what has begun to go out goes
    out. ``offset`` is that of its next record, ``missed`` counts records that had gone before it came to them.

    Args:
        feed: The feed.
        offset: Where it begins.
        since: A time before which nothing is wanted, in microseconds since 1970; it counts until the first record.
    """

    __slots__ = ("_cancel", "_index", "_runs", "feed", "missed", "offset", "since")

    def __init__(self, feed: Feed, offset: int, since: int = 0) -> None:
        self.feed = feed
        self.offset = offset
        self.since = since
        self.missed = 0
        self._runs: list[Run] = []
        self._index = 0  # of the run that has the next record
        self._cancel: Callable[[], None] | None = None  # what is being read for it

    @property
    def is_reading(self) -> bool:
        """Whether its next records are being read from the store."""
        return self._cancel is not None

    def next_run(self, log: StreamLog) -> Run | None:
        """Return the run with the next record; None if there is none yet, or it is not in memory."""
        while True:
            for index in range(self._index, len(self._runs)):
                run = self._runs[index]
                self._index = index  # not behind the last one, which may grow
                if self.offset < run.first + len(run.contents):
                    if self.offset < run.first:  # those between are damaged
                        self.missed += run.first - self.offset
                        self.offset = run.first
                    return run
            if self.offset < log.base:
                self.missed += log.base - self.offset
                self.offset = log.base
            chunk = log.find(self.offset)
            if chunk is None:
                return None
            runs = chunk.read()
            if runs is self._runs:
                return None
            self._runs, self._index = runs, 0

    def fetch(self, log: StreamLog, done: Callable[["FeedReader"], None]) -> bool:
        """Read the next chunks from the store, if that has them; return whether something is being read.

        Args:
            log: The stream's.
            done: Called, in a turn of the stream, when they are here.
        """

        def arrived(chunks: list[Chunk]) -> None:
            self._cancel = None
            self._runs, self._index = [run for chunk in chunks for run in chunk.read()], 0
            first = chunks[0].first  # others are damaged, or too old
            if first > self.offset:
                self.missed += 0 if self.since else first - self.offset
                self.offset = first
            done(self)

        self._cancel = log.request(self.offset, arrived, self.since)
        return self._cancel is not None

    def close(self) -> None:
        """End: nothing is wanted any more."""
        if self._cancel is not None:
            self._cancel()
            self._cancel = None

    def next_size(self, run: Run) -> int:
        """Return the bytes of the next record."""
        return len(run.contents[self.offset - run.first])

    def take(self, run: Run) -> Batch:
        """Return the next records of a run, as many as the feed has room for, at least one; go on behind them."""
        skip = self.offset - run.first
        most, room = self.feed.room()
        count = _fitting(run, skip, max(1, most), min(room, BATCH_BYTES))
        whole = not skip and count == len(run.contents)
        contents = list[bytes | None](run.contents if whole else run.contents[skip : skip + count])
        size = run.size if whole else sum(map(len, run.contents[skip : skip + count]))
        heads = run.heads if run.heads is None else run.heads[skip : skip + count]
        head = run.head if heads is None else heads[0]
        ids = range(self.offset, self.offset + count)
        self.since = 0
        self.offset += count
        return Batch(head, contents, ids, False, size, count, self.feed, heads=heads)

    def go_back(self, offset: int) -> None:
        """Read again from an offset that was handed out and never sent."""
        if offset < self.offset:
            self.offset = offset
            self._runs, self._index = [], 0


def _fitting(run: Run, skip: int, most: int, most_bytes: int) -> int:
    """Count the records of a run behind the first ones that fit; at least one."""
    count = min(len(run.contents) - skip, most)
    if run.size <= most_bytes:
        return count
    sizes = list(accumulate(map(len, run.contents[skip : skip + count])))
    return max(1, bisect_right(sizes, most_bytes))
