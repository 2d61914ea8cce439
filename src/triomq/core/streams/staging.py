"""Staged commits: records that nobody sees until all of a batch are published together, or none.

    stage(batch, part 0, attempt 0, chunk) ─┐
    stage(batch, part 0, attempt 1, chunk) ─┤  memory         commit(batch, {0: 1, 1: 0})
    stage(batch, part 1, attempt 0, chunk) ─┘                    │ prepare: decode, route, some at a time
                                                                 ▼
                   one turn: every queue is asked (Fits), then told (Publish); the writer's record ─▶ one batch on disk

Rules:

- A *target* is a queue or a stream by its name, or a sink. A partitioned stream spreads records by their keys, any
  other queue takes them all; from a sink they go where their keys lead.
- A *writer* is one program's way into one target. Its batches have growing numbers, and the highest one that was
  committed is remembered, on disk with its records: so a commit that is repeated, since its answer was lost, publishes
  nothing. When there are too many the one that has not committed for longest is forgotten, but none within a week:
  then a new one is refused. So names belong to queries, not to their runs.
  A writer without a name is not remembered, and a commit of it that is repeated finds nothing (``UnknownStage``).
- A *part* of a batch is a task's, and may be staged several times (*attempts*), of which the commit names one each. The
  two latest of each part stay: a task may run twice at a time, and what a program that was killed has left behind is
  not to fill the batch that it writes again.
- The commit is a ``Transaction``: into streams, their partitions and ordinary queues alike, visible in one turn and in
  one batch of the store. If one target refuses, as a full queue does, or a record would reach no queue, nothing
  happens.
- Stages are in memory alone. After a restart, or an hour, they are gone (``UnknownStage``), and their writer stages the
  batch again: to keep them on disk would cost a second write for each record, and save nothing that is not repeated
  anyway.
- Properties are in the core's own form and are looked at when they are staged: no reader is to meet what cannot be
  decoded (``staged_chunk``).

What a commit does in its one turn is little for each record, and nothing for a stream, which takes whole chunks:
decoding and routing were done before, in steps with checkpoints between them (``prepared``). If it changes meanwhile
where records go they are done again.
"""

from collections.abc import Mapping
from time import time as unix_time
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from triomq.chunks import read_chunk_head
from triomq.core.persistence.keyed_records import KeyedRecords
from triomq.core.publishing.pressure import Pressure, PublishingPaused
from triomq.core.refusals import Restarting
from triomq.core.streams.prepared import Prepared
from triomq.core.streams.stage_target import StageTarget
from triomq.core.streams.staged_chunk import StagedChunk, read_staged
from triomq.core.topology.shares import STAGED, WRITERS
from triomq.errors import LimitExceeded, UnknownStage
from triomq.store import RecordKind

if TYPE_CHECKING:
    from triomq.core.publishing.publishing import Publisher
    from triomq.core.topology.directory import Directory

MOST_BATCH = 64 * 1024 * 1024
"""Bytes of chunks of one batch of a writer, unless a caller says otherwise: what one turn publishes."""

_BATCHES = 4
"""How many such batches all writers of a domain may have staged: they are in memory. A user may have half of them."""

_PART_OF_MEMORY = 4
"""What of the broker's memory all of them may have if it is small: a commit waits while there is too little, so stages
that were the reason would have it wait, and all publishers, until they expire."""

_PLACE = 1024
"""Bytes that a chunk is counted with beside its own: about what a batch takes that has one of few bytes."""

WRITER_SECONDS = 7 * 24 * 3600
"""Seconds since its last commit for which a writer is remembered in any case: no client repeats a commit so long."""

STAGED_SECONDS = 3600.0
"""Seconds after which a batch that is staged and not committed is dropped: its writer has gone."""

_ATTEMPTS = 2
"""Attempts at a part that stay; see above."""


class StageKey(NamedTuple):
    """What a stage belongs to: one batch of one writer of a user into one target.

    Two users that give a writer the same name have a writer each: none can commit, drop or skip what is another's.
    """

    target: StageTarget
    writer: str
    batch: int
    user: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """What the writer is recorded under."""
        return _writer_names(self.target, self.writer, self.user)


def _writer_names(target: StageTarget, writer: str, user: str) -> tuple[str, ...]:
    names = target.record_names(writer)
    return (*names, *[""] * (3 - len(names)), user) if user else names


def _user_of(names: tuple[str, ...]) -> str:
    return names[3] if len(names) > 3 else ""


def stages_of(directory: "Directory") -> "Stages":
    """Return what is staged in a domain."""
    if directory.stages is None:
        directory.stages = Stages(directory)
    return directory.stages


class _Committed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is remembered of a writer: its highest batch, and when it was committed, in seconds since 1970."""

    batch: int
    time: int


_encode_committed = msgspec.msgpack.Encoder().encode
_decode_committed = msgspec.msgpack.Decoder(_Committed).decode


class _Attempt:
    """What is staged of one attempt at a part."""

    __slots__ = ("chunks", "size")

    def __init__(self) -> None:
        self.chunks: list[StagedChunk] = []
        self.size = 0


class _Batch:
    """What is staged of one batch.

    ``parts`` has the attempts at each part, the oldest first; ``size`` is the bytes of all of them, ``largest`` is what
    may be committed of it.
    """

    __slots__ = ("deadline", "largest", "parts", "size")

    def __init__(self, deadline: float) -> None:
        self.parts: dict[int, dict[int, _Attempt]] = {}
        self.deadline = deadline
        self.size = self.largest = 0

    def largest_with(self, part: int, attempt: int, size: int) -> int:
        """Return what may be committed of it with so many bytes more."""
        attempts = self.parts.get(part, {})
        there = attempts[attempt].size if attempt in attempts else 0
        return self.largest + max(0, there + size - _largest(attempts))

    def add(self, part: int, attempt: int, chunk: StagedChunk) -> int:
        """Add a chunk; return how many bytes more are staged, which may be fewer."""
        before = self.size
        attempts = self.parts.setdefault(part, {})
        if attempt not in attempts and len(attempts) == _ATTEMPTS:
            self.drop(part, next(iter(attempts)))
        self.largest -= _largest(attempts)
        found = attempts.setdefault(attempt, _Attempt())
        found.chunks.append(chunk)
        found.size += _size(chunk.data)
        self.size += _size(chunk.data)
        self.largest += _largest(attempts)
        return self.size - before

    def drop(self, part: int, attempt: int) -> int:
        """Drop an attempt; return how many bytes it had."""
        attempts = self.parts.get(part, {})
        if attempt not in attempts:
            return 0
        self.largest -= _largest(attempts)
        size = attempts.pop(attempt).size
        self.largest += _largest(attempts)
        self.size -= size
        if not attempts:
            del self.parts[part]
        return size


def _size(chunk: bytes) -> int:
    return len(chunk) + _PLACE


def _largest(attempts: Mapping[int, _Attempt]) -> int:
    return max((attempt.size for attempt in attempts.values()), default=0)


class Stages:
    """What is staged in one domain; part of its directory, so that it outlives the domain's incarnations.

    ``size`` is the bytes of all that is staged, about as memory has them; ``wall`` gives the seconds since 1970.

    Args:
        directory: The domain's.
    """

    def __init__(self, directory: "Directory") -> None:
        self._directory = directory
        self._records = KeyedRecords(directory, RecordKind.WRITER)
        self._batches: dict[StageKey, _Batch] = {}
        found = {names: _decode_committed(value) for names, value in self._records.recovered()}
        # The one that has not committed for longest is the first.
        self._committed = dict(sorted(found.items(), key=lambda each: each[1].time))
        for names in self._committed:
            directory.shares.take(WRITERS, _user_of(names))
        self.size = 0
        self.wall = unix_time

    def last_batch(self, target: StageTarget, writer: str, user: str = "") -> int:
        """Return the highest batch that a user's writer has committed into a target; -1 if there is none.

        Writers of earlier versions were nobody's, and go on as anybody's.
        """
        found = self._committed.get(_writer_names(target, writer, user)) or self._committed.get(
            target.record_names(writer)
        )
        return -1 if found is None else found.batch

    def stage(
        self, key: StageKey, part: int, attempt: int, chunk: bytes, *, most: int = MOST_BATCH, user: str | None = None
    ) -> int:
        """Stage records behind those of the same attempt; of a batch that was committed already, nothing is.

        The caller has asked whether the user may write to the target.

        Args:
            key: The batch.
            part: The part of it.
            attempt: The attempt at that part.
            chunk: The records; their offsets and times count for nothing.
            most: Bytes that may be committed of a batch; a chunk counts for ``_PLACE`` more than it has.
            user: Whose records they are; None if nobody is to answer for what they say of it.

        Returns:
            How many records were checked, each of which has taken some of the turn.

        Raises:
            PreconditionFailed: The chunk is damaged, or has properties that are not in the core's form, or another
                user's name.
            LimitExceeded: So much cannot be staged.
        """
        staged = read_staged(chunk, user)
        count = read_chunk_head(chunk).count
        if self._is_committed(key):
            return count
        batch = self._batches.get(key)
        size = _size(chunk)
        largest = size if batch is None else batch.largest_with(part, attempt, size)
        most_of_all, mark = _BATCHES * most, self._directory.memory.mark
        if mark:
            most_of_all = min(most_of_all, mark // _PART_OF_MEMORY)
        if largest > most:
            raise LimitExceeded(
                f"{size} bytes more are too many to be staged: a batch may have {most}; commit smaller batches"
            )
        self._directory.shares.require(STAGED, key.user, size, most=most_of_all)
        if batch is None:
            batch = self._batches[key] = _Batch(self._directory.clock.now() + STAGED_SECONDS)
            self._directory.clock.set(self, batch.deadline)
        self._count(key, batch.add(part, attempt, staged))
        return count

    def _count(self, key: StageKey, more: int) -> None:
        self.size += more
        if more > 0:
            self._directory.shares.take(STAGED, key.user, more)
        elif more < 0:
            self._directory.shares.give(STAGED, key.user, -more)

    def abort(self, key: StageKey, part: int | None = None, attempt: int | None = None) -> None:
        """Drop what is staged of a batch: all of it, or one attempt at one part; what is not there is no error."""
        batch = self._batches.get(key)
        if batch is None:
            return
        if part is not None and attempt is not None:
            self._count(key, -batch.drop(part, attempt))
        if part is None or attempt is None or not batch.size:
            self._drop(key)

    def _drop(self, key: StageKey) -> None:
        batch = self._batches.pop(key, None)
        if batch is not None:
            self._count(key, -batch.size)

    def expire(self) -> None:
        """Drop the batches whose writers have gone; called by the domain's clock.

        The oldest are the first. One that was committed meanwhile has left a deadline behind, which costs a look.
        """
        clock = self._directory.clock
        for key, batch in list(self._batches.items()):
            if batch.deadline > clock.now():
                clock.set(self, batch.deadline)
                break
            self._drop(key)

    async def commit(self, publisher: "Publisher", key: StageKey, attempts: Mapping[int, int]) -> None:
        """Publish one attempt of each part, all of it or nothing; when this returns, it is on disk.

        Args:
            publisher: The client's, who is asked again whether it may write to the target.
            key: The batch.
            attempts: Which attempt of each part.

        Raises:
            UnknownStage: One of them is not staged.
            Forbidden: The user may not.
            NoSuchQueue, NoSuchSink, SinkInternal: Nothing can be published into the target.
            QueueFull, QueueStopped: A queue refuses.
            Unroutable: A record would reach no queue.
            LimitExceeded: There are too many writers, or queues would get too much.
            PublishingPaused: The disk cannot be written.
        """
        is_published = False
        while not (is_published or self._is_committed(key)):
            batch = self._batches.get(key)
            chunks = self._chunks(key, attempts)
            prepared = Prepared(self._directory, publisher, key.target)
            try:
                for chunk in chunks:
                    await prepared.add(chunk)
                if self._batches.get(key) is batch and prepared.is_valid:  # else another one has committed it
                    publisher.run(self._publish, publisher, key, prepared)
                    is_published = True
            except PublishingPaused as paused:
                if paused.pressure is Pressure.DISK:
                    raise
                await publisher.wait_open(paused.pressure)
            except Restarting as restarting:
                await restarting.wait_over()
        self._drop(key)  # if another one has committed it
        if self._directory.persistence is not None:
            await self._directory.persistence.wait_committed(self._directory.persistence.journal.require_commit())

    def _is_committed(self, key: StageKey) -> bool:
        return bool(key.writer) and key.batch <= self.last_batch(key.target, key.writer, key.user)

    def _chunks(self, key: StageKey, attempts: Mapping[int, int]) -> list[StagedChunk]:
        staged = self._batches.get(key)
        chunks: list[StagedChunk] = []
        for part, attempt in sorted(attempts.items()):
            found = None if staged is None else staged.parts.get(part, {}).get(attempt)
            if found is None:
                raise UnknownStage(
                    f"attempt {attempt} at part {part} of batch {key.batch} of writer {key.writer!r} is not staged; "
                    "stages do not outlive a restart, nor an hour: stage the batch again"
                )
            chunks += found.chunks
        return chunks

    def _publish(self, publisher: "Publisher", key: StageKey, prepared: Prepared) -> None:
        """Publish, and remember it, in the present turn."""
        name, shares = key.names, self._directory.shares
        forgotten = self._forgettable(name) if key.writer else None
        prepared.require_open()
        publisher.commit(prepared.transaction)
        self._drop(key)
        if not key.writer:
            return
        if forgotten is not None:
            self._forget(forgotten)
        if self._committed.pop(name, None) is None:
            shares.take(WRITERS, key.user)
        committed = self._committed[name] = _Committed(key.batch, int(self.wall()))
        self._records.put(name, _encode_committed(committed))

    def _forget(self, name: tuple[str, ...]) -> None:
        del self._committed[name]
        self._directory.shares.give(WRITERS, _user_of(name))
        self._records.remove(name)

    def _forgettable(self, name: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the writer that gives way to another one; None if there is room.

        It is one of the same user, if that has its share; otherwise anybody's.

        Raises:
            ShareReached: There is none, and all such writers have committed within a week.
        """
        shares, user = self._directory.shares, _user_of(name)
        if name in self._committed or shares.has_room(WRITERS, user):
            return None
        is_its_own = user != "" and shares.count(WRITERS, user) >= WRITERS.share()
        oldest = next(each for each in self._committed if not is_its_own or _user_of(each) == user)
        if self._committed[oldest].time + WRITER_SECONDS > self.wall():
            shares.require(WRITERS, user)
        return oldest
