"""Results that are kept, for those who ask for them later: after their requester has gone, or the broker was restarted.

    REPLY of a job with ``keep`` ── keep ──> bucket ──> record: (bucket, user, job) = result
    STATE with ``result`` ── read ──> memory, until it is on disk; then from there
    the minute is over ── sweep ──> all its buckets go, in one statement
    too many bytes ──> the oldest bucket goes, of the user who has most

Rules:

- Nothing is kept that nobody has asked to keep, and nothing for ever: a result is there for as long as was asked for,
  and at most a minute longer. Its bucket is named by the minute after which it ends, so that a range has all that end.
- A domain keeps ``MOST_BYTES``, each result counted with ``OVERHEAD`` for its place in memory. When there are more, the
  oldest bucket goes, a sixty-fourth of all, so that not each new result costs a removal; whatever time was left for it,
  since otherwise those who keep theirs for a year would leave no room to others. ``ResultStatistics.dropped`` counts.
- It goes of the user who has most. A bucket is of one user, so that nobody's results go since another keeps many.
- With a store a result is on disk, in the batch that settles its job: after a crash there is both, or the job runs
  again. Memory has its place alone, and its value until it is on disk. Without a store all of it is in memory.
- Large values are records as well, read one by one: of 64 KiB they take 0.16 ms to write and 0.06 to read. Messages of
  an internal queue would take as long, and an id to remember. One of 4 to 16 KiB takes a page of 16 on disk.

Tried and dropped: a removal for each result whose time is over (4 µs; one for all of a minute takes 0.4 µs for each).
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, TypeAlias

import msgspec

from triomq.core import RESULTS, KeyedRecords
from triomq.errors import StoreCorrupt, StoreError

_log = logging.getLogger("triomq.endpoints.jobs")

MOST_BYTES: Final = RESULTS.most
"""Bytes of the results of one domain."""

OVERHEAD: Final = 256
"""Bytes that a result counts for beside its value: with an id of 36 its place in memory takes about as many."""

LARGEST: Final = 1024 * 1024
"""Bytes of one result: larger ones would leave no room for others, and belong where files are."""

LONGEST: Final = 366 * 24 * 3600.0
"""Seconds that a result is kept at most: what is asked for longer is data, and has its place elsewhere."""

_BUCKETS: Final = 64
"""Buckets that all bytes make: so large a part of them is dropped at once."""

Name: TypeAlias = tuple[int, int]
"""Of a bucket: the minute after which it ends, counted from 1970, and a number that no other has."""


class Result(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How a job has ended.

    Args:
        end: In a word, as of ``job.End``.
        message: What the worker has answered; empty if that was too large to be kept.
        extension: What else it has said of that, as it was sent; empty for nothing.
        at: When, in Unix time; 0 if that is not known.
    """

    end: str
    message: bytes
    extension: bytes = b""
    at: float = 0.0


class ResultStatistics(msgspec.Struct, frozen=True, gc=False):
    """A snapshot of the results of a domain.

    Args:
        count: How many there are.
        size: Bytes that they count for.
        dropped: How many went before their time, since there were too many.
        refused: How many were too large to be kept.
    """

    count: int
    size: int
    dropped: int
    refused: int


class _Kept(msgspec.Struct, eq=False, gc=False):
    """The place of a result.

    Args:
        bucket: Where it is.
        user: Whose job it was.
        size: What it counts for.
        value: The result, unless it is on disk.
        batch: The number of the batch that writes it.
    """

    bucket: Name
    user: str
    size: int
    value: bytes | None = None
    batch: int = 0


class _ResultGroup(msgspec.Struct, eq=False):
    """The results that go together: those of one user, but for what earlier versions have put together."""

    user: str
    jobs: list[bytes]
    size: int = 0


class ResultBook:
    """The results of one domain's jobs; made with its ``JobBook``, and outlives the endpoints as that does.

    Args:
        records: Where they are on disk, if there is a store.
        now: Gives the Unix time.
        most: Bytes that they may count for.

    Raises:
        StoreCorrupt: A record of the store is none.
    """

    def __init__(self, records: KeyedRecords, now: Callable[[], float] = time.time, *, most: int = MOST_BYTES) -> None:
        self._records = records
        self._now = now
        self._most = most
        self._bucket_size = most // _BUCKETS
        self._kept: dict[bytes, _Kept] = {}
        self._buckets: dict[Name, _ResultGroup] = {}  # the oldest first
        self._ends: list[Name] = []  # a heap of the names of all buckets, and of some that are gone
        self._filling: dict[tuple[int, str], Name] = {}  # the bucket of a minute and a user that has room
        self._sizes: Counter[str] = Counter()  # by user, of whole buckets
        self._unwritten: deque[_Kept] = deque()
        self._size = 0
        self._dropped = self._refused = 0
        for names, size in records.recovered_sizes():
            self._recover(names, size)
        self._buckets = dict(sorted(self._buckets.items(), key=lambda item: item[0][1]))
        self._numbers = count(max((number for _, number in self._buckets), default=0) + 1)

    def _recover(self, names: tuple[str, ...], size: int) -> None:
        """Enter what the store has."""
        try:
            bucket, user, job = names
            name = (int(bucket[:8], 16), int(bucket[8:], 16))
        except ValueError as error:
            raise StoreCorrupt(f"the record of a result has a key that is none: {names} ({error})") from None
        if name not in self._buckets:
            self._add_bucket(name, user)
        self._enter(job.encode("latin-1"), _Kept(name, user, size + OVERHEAD))

    # Keeping

    def keep(self, job: bytes, user: str, seconds: float, result: Result) -> None:
        """Keep a result, in place of an earlier one of the same job.

        Args:
            job: The job's id.
            user: Whose it was: only he may read it.
            seconds: For how long.
            result: What there is to know.
        """
        value = _encode(result)
        if len(value) > LARGEST:
            self._refused += 1
            value = _encode(Result(result.end, b"", at=result.at))
        if job in self._kept:
            self._remove(job)
        now = self._now()
        minute = int((now + min(seconds, LONGEST)) // 60) + 1
        kept = _Kept(self._bucket_of(minute, user), user, len(value) + OVERHEAD, value)
        kept.batch = self._records.put(_names(kept, job), value, is_new=True)
        self._enter(job, kept)
        if self._records.is_durable:
            self._unwritten.append(kept)
            self._let_go()
        while self._size > self._most and self._buckets:
            self._dropped += self._drop_oldest()

    def _bucket_of(self, minute: int, user: str) -> Name:
        name = self._filling.get((minute, user))
        if name is None or self._buckets[name].size >= self._bucket_size:
            name = self._filling[minute, user] = (minute, next(self._numbers))
            self._add_bucket(name, user)
        return name

    def _add_bucket(self, name: Name, user: str) -> None:
        self._buckets[name] = _ResultGroup(user, [])
        heappush(self._ends, name)

    def _enter(self, job: bytes, kept: _Kept) -> None:
        self._kept[job] = kept
        bucket = self._buckets[kept.bucket]
        bucket.jobs.append(job)
        self._count(bucket, kept.size)

    def _count(self, bucket: _ResultGroup, more: int) -> None:
        bucket.size += more
        self._size += more
        self._sizes[bucket.user] += more
        if not self._sizes[bucket.user]:
            del self._sizes[bucket.user]

    def _let_go(self) -> None:
        """Forget the values that are on disk."""
        committed, unwritten = self._records.committed, self._unwritten
        while unwritten and unwritten[0].batch <= committed:
            unwritten.popleft().value = None

    # Their end

    def _remove(self, job: bytes) -> None:
        """Remove one result; its bucket still names it."""
        kept = self._kept.pop(job)
        self._records.remove(_names(kept, job))
        self._count(self._buckets[kept.bucket], -kept.size)

    def _drop_oldest(self) -> int:
        """Drop the bucket that was begun first of the user who has most; return how many results were in it."""
        user, _ = max(self._sizes.items(), key=lambda item: item[1])
        name = next(name for name, bucket in self._buckets.items() if bucket.user == user)
        dropped = self._forget(name)
        if len(self._ends) > 2 * len(self._buckets) + _BUCKETS:
            self._ends = list(self._buckets)
            heapify(self._ends)
        self._records.remove_range((_text(name), "", ""), (_text((name[0], name[1] + 1)), "", ""))
        return dropped

    def _forget(self, name: Name) -> int:
        """Forget a bucket; return how many results were in it."""
        bucket, before = self._buckets.pop(name), len(self._kept)
        if self._filling.get((name[0], bucket.user)) == name:
            del self._filling[name[0], bucket.user]
        for job in bucket.jobs:
            kept = self._kept.get(job)
            if kept is not None and kept.bucket == name:
                del self._kept[job]
        self._count(bucket, -bucket.size)
        return before - len(self._kept)

    def sweep(self) -> int:
        """Forget the results whose time is over, and return how many; to be called about once a minute, in a turn."""
        self._let_go()
        minute, before = int(self._now() // 60), len(self._kept)
        over = bool(self._ends) and self._ends[0][0] <= minute
        while self._ends and self._ends[0][0] <= minute:
            name = heappop(self._ends)
            if name in self._buckets:
                self._forget(name)
        if over:
            self._records.remove_range((_text((0, 0)), "", ""), (_text((minute + 1, 0)), "", ""))
        return before - len(self._kept)

    def forget(self, job: bytes) -> None:
        """Forget the result of a job, if there is one."""
        if job in self._kept:
            self._remove(job)

    # Reading

    def owner(self, job: bytes) -> str | None:
        """Return whose job a result is of; None if there is none."""
        kept = self._kept.get(job)
        return None if kept is None or kept.bucket[0] * 60 <= self._now() else kept.user

    def read(self, job: bytes, done: Callable[[Result | None], None]) -> None:
        """Look up a result.

        Args:
            job: Its job.
            done: Called with it, or with None if there is none, or none any more; at once or, when it has to be read
                from the disk, later and outside of any turn.
        """
        if self.owner(job) is None:
            done(None)
            return
        kept = self._kept[job]
        if kept.value is not None:
            done(_decode(kept.value))
        else:
            self._records.read(_names(kept, job), partial(_pass_on, job, done))

    def statistics(self) -> ResultStatistics:
        """Return a snapshot."""
        return ResultStatistics(len(self._kept), self._size, self._dropped, self._refused)


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Result).decode


def _names(kept: _Kept, job: bytes) -> tuple[str, str, str]:
    return _text(kept.bucket), kept.user, job.decode("latin-1")


def _text(name: Name) -> str:
    """Return the name of a bucket as records have it: in their order."""
    return f"{name[0]:08x}{name[1]:010x}"


def _pass_on(job: bytes, done: Callable[[Result | None], None], value: bytes | StoreError | None) -> None:
    """Pass on what was read."""
    result: Result | None = None
    try:
        if isinstance(value, StoreError):
            raise value
        result = None if value is None else _decode(value)
    except (StoreError, msgspec.DecodeError) as error:
        fields = {"job": job[:40].decode("utf-8", "replace"), "reason": str(error)}
        _log.error("a kept result cannot be read", extra={"fields": fields})
    done(result)
