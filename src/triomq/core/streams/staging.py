"""Staged commits: records that nobody sees until all of a batch are published together, or none.

    stage(batch, part 0, attempt 0, chunk) ─┐
    stage(batch, part 0, attempt 1, chunk) ─┤  memory         commit(batch, {0: 1, 1: 0})
    stage(batch, part 1, attempt 0, chunk) ─┘                    │ prepare: decode, route, some at a time
                                                                 ▼
                   one turn: every queue is asked (Fits), then told (Publish); the writer's record ─▶ one batch on disk

Rules:

- A *writer* is one program's way into one sink. Its batches have growing numbers, and the highest one that was
  committed is remembered, on disk with its records: so a commit that is repeated, since its answer was lost, publishes
  nothing. When there are too many the one that has not committed for longest is forgotten, but none within a week:
  then a new one is refused. So names belong to queries, not to their runs.
- A *part* of a batch is a task's, and may be staged several times (*attempts*), of which the commit names one each.
- The commit is a ``Transaction``: into streams, their partitions and ordinary queues alike, visible in one turn and in
  one batch of the store. If one target refuses, as a full queue does, or a record would reach no queue, nothing
  happens.
- Stages are in memory alone. After a restart, or an hour, they are gone (``UnknownStage``), and their writer stages the
  batch again: to keep them on disk would cost a second write for each record, and save nothing that is not repeated
  anyway.
- Properties are in the core's own form and are looked at when they are staged: no reader is to meet what cannot be
  decoded.

What a commit does in its one turn is little for each record: decoding and routing were done before, in steps with
checkpoints between them. If bindings change meanwhile they are done again.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from time import time as unix_time
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import trio

from triomq.actors import Ref
from triomq.chunks import Columns, RecordRun, check_chunk
from triomq.core.message import CORE_CODEC, Head, traits_of
from triomq.core.persistence.keyed_records import KeyedRecords
from triomq.core.properties import decode_core
from triomq.core.publishing.pressure import Pressure, PublishingPaused
from triomq.core.publishing.publish import Publish
from triomq.core.publishing.routed import CachedRoute, RoutedRun
from triomq.core.publishing.transaction import Transaction
from triomq.core.refusals import Restarting
from triomq.errors import ChunkDamaged, LimitExceeded, PreconditionFailed, UnknownStage, Unroutable
from triomq.store import RecordKind

if TYPE_CHECKING:
    from triomq.core.publishing.publishing import Publisher
    from triomq.core.topology.directory import Directory

MOST_BATCH = 64 * 1024 * 1024
"""Bytes of chunks of one batch of a writer: what one turn publishes."""

MOST_STAGED = 256 * 1024 * 1024
"""Bytes of chunks of all writers of a domain: they are in memory."""

MOST_WRITERS = 10_000
"""Writers that are remembered: each has a record on disk and in memory."""

WRITER_SECONDS = 7 * 24 * 3600
"""Seconds since its last commit for which a writer is remembered in any case: no client repeats a commit so long."""

STAGED_SECONDS = 3600.0
"""Seconds after which a batch that is staged and not committed is dropped: its writer has gone."""

_AT_ONCE = 2_000
"""Records that are prepared between two checkpoints: some milliseconds."""


class StageKey(NamedTuple):
    """What a stage belongs to: one batch of one writer into one sink."""

    sink: str
    writer: str
    batch: int


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


class _Batch:
    """What is staged of one batch: the chunks of each attempt at each part."""

    __slots__ = ("chunks", "deadline", "size")

    def __init__(self, deadline: float) -> None:
        self.chunks: dict[tuple[int, int], list[bytes]] = {}
        self.deadline = deadline
        self.size = 0


class Stages:
    """What is staged in one domain; part of its directory, so that it outlives the domain's incarnations.

    ``size`` is the bytes of all that is staged; ``wall`` gives the seconds since 1970.

    Args:
        directory: The domain's.
    """

    def __init__(self, directory: "Directory") -> None:
        self._directory = directory
        self._records = KeyedRecords(directory, RecordKind.WRITER)
        self._batches: dict[StageKey, _Batch] = {}
        found = {(sink, writer): _decode_committed(value) for (sink, writer), value in self._records.recovered()}
        # The one that has not committed for longest is the first.
        self._committed = dict(sorted(found.items(), key=lambda each: each[1].time))
        self.size = 0
        self.wall = unix_time

    def last_batch(self, sink: str, writer: str) -> int:
        """Return the highest batch that a writer has committed into a sink; -1 if there is none."""
        found = self._committed.get((sink, writer))
        return -1 if found is None else found.batch

    def stage(self, key: StageKey, part: int, attempt: int, chunk: bytes) -> None:
        """Stage records behind those of the same attempt; of a batch that was committed already, nothing is.

        The caller has asked whether the user may write to the sink.

        Args:
            key: The batch.
            part: The part of it.
            attempt: The attempt at that part.
            chunk: The records; their offsets and times count for nothing.

        Raises:
            PreconditionFailed: The chunk is damaged, or has properties that are not in the core's form.
            LimitExceeded: So much cannot be staged.
        """
        _check(chunk)
        if key.batch <= self.last_batch(key.sink, key.writer):
            return
        batch = self._batches.get(key)
        size = len(chunk)
        if self.size + size > MOST_STAGED or (batch.size if batch is not None else 0) + size > MOST_BATCH:
            raise LimitExceeded(
                f"{size} bytes more are too many to be staged: a batch may have {MOST_BATCH}, all together "
                f"{MOST_STAGED}; commit smaller batches, or wait until others are committed"
            )
        if batch is None:
            batch = self._batches[key] = _Batch(self._directory.clock.now() + STAGED_SECONDS)
            self._directory.clock.set(self, batch.deadline)
        batch.chunks.setdefault((part, attempt), []).append(chunk)
        batch.size += size
        self.size += size

    def abort(self, key: StageKey, part: int | None = None, attempt: int | None = None) -> None:
        """Drop what is staged of a batch: all of it, or one attempt at one part; what is not there is no error."""
        batch = self._batches.get(key)
        if batch is None:
            return
        if part is not None and attempt is not None:
            size = sum(map(len, batch.chunks.pop((part, attempt), ())))
            batch.size -= size
            self.size -= size
        if part is None or attempt is None or not batch.chunks:
            self._drop(key)

    def _drop(self, key: StageKey) -> None:
        batch = self._batches.pop(key, None)
        if batch is not None:
            self.size -= batch.size

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
            publisher: The client's, who is asked again whether it may write to the sink.
            key: The batch.
            attempts: Which attempt of each part.

        Raises:
            UnknownStage: One of them is not staged.
            Forbidden: The user may not.
            NoSuchSink, SinkInternal: Nothing can be published into the sink.
            QueueFull, QueueStopped: A queue refuses.
            Unroutable: A record would reach no queue.
            LimitExceeded: There are too many writers.
            PublishingPaused: The disk cannot be written.
        """
        while not self._is_committed(key):
            chunks = self._chunks(key, attempts)
            prepared = _Prepared(self._directory, publisher, key.sink)
            try:
                for chunk in chunks:
                    await prepared.add(chunk)
                if self._is_committed(key):
                    break  # by another one
                if prepared.is_valid:
                    publisher.run(self._publish, publisher, key, prepared)
            except PublishingPaused as paused:
                if paused.pressure is Pressure.DISK:
                    raise
                await publisher.wait_open(paused.pressure)
            except Restarting as restarting:
                await restarting.wait_over()
        self._drop(key)
        if self._directory.persistence is not None:
            await self._directory.persistence.wait_committed(self._directory.persistence.journal.require_commit())

    def _is_committed(self, key: StageKey) -> bool:
        return key.batch <= self.last_batch(key.sink, key.writer)

    def _chunks(self, key: StageKey, attempts: Mapping[int, int]) -> list[bytes]:
        staged = self._batches.get(key)
        chunks: list[bytes] = []
        for part, attempt in sorted(attempts.items()):
            found = None if staged is None else staged.chunks.get((part, attempt))
            if found is None:
                raise UnknownStage(
                    f"attempt {attempt} at part {part} of batch {key.batch} of writer {key.writer!r} is not staged; "
                    "stages do not outlive a restart, nor an hour: stage the batch again"
                )
            chunks += found
        return chunks

    def _publish(self, publisher: "Publisher", key: StageKey, prepared: "_Prepared") -> None:
        """Publish, and remember it, in the present turn."""
        name = key.sink, key.writer
        forgotten = self._forgettable(name)
        prepared.require_open()
        publisher.commit(prepared.transaction)
        if forgotten is not None:
            del self._committed[forgotten]
            self._records.remove(forgotten)
        self._committed.pop(name, None)
        committed = self._committed[name] = _Committed(key.batch, int(self.wall()))
        self._records.put(name, _encode_committed(committed))

    def _forgettable(self, name: tuple[str, str]) -> tuple[str, str] | None:
        """Return the writer that gives way to another one; None if there is room.

        Raises:
            LimitExceeded: There is none, and all writers have committed within a week.
        """
        if name in self._committed or len(self._committed) < MOST_WRITERS:
            return None
        oldest = next(iter(self._committed))
        if self._committed[oldest].time + WRITER_SECONDS > self.wall():
            raise LimitExceeded(
                f"{MOST_WRITERS} writers have committed within a week, and no more are remembered: use the name of a "
                "writer for all runs of its query"
            )
        return oldest


class _Prepared:
    """A transaction that is made of chunks, bit by bit."""

    def __init__(self, directory: "Directory", publisher: "Publisher", sink: str) -> None:
        self._directory = directory
        self._publisher = publisher
        self._sink = sink
        self._version = directory.version
        self._routes: dict[bytes, tuple[CachedRoute, Head]] = {}
        self._first: RoutedRun | None = None
        self.transaction = Transaction(directory)

    @property
    def is_valid(self) -> bool:
        """Whether all routes that were found still stand."""
        return self._directory.version == self._version

    def require_open(self) -> None:
        """Pass the guards again, in the turn of the commit; raises what ``Publisher.admit`` does."""
        if self._first is not None:
            route = CachedRoute(self._first.route.sink, self._first.route.key)
            self._publisher.admit([self._first._replace(route=route)])

    async def add(self, chunk: bytes) -> None:
        """Add the records of a chunk; raises what ``Publisher.admit`` does, and ``Unroutable``."""
        done = 0
        for _, run in Columns(chunk).runs():
            for start in range(0, len(run.values), _AT_ONCE):
                self._publisher.run(self._add, run, start, min(start + _AT_ONCE, len(run.values)))
                done += _AT_ONCE
                await trio.lowlevel.checkpoint()
        if not done:
            await trio.lowlevel.checkpoint()

    def _add(self, run: RecordRun, start: int, stop: int) -> None:
        count = stop - start
        keys = [run.key] * count if isinstance(run.key, bytes) else run.key[start:stop]
        properties = [run.properties] * count if isinstance(run.properties, bytes) else run.properties[start:stop]
        gathered: dict[tuple[Ref, ...], tuple[list[Head], list[bytes]]] = {}
        for key, own, value in zip(keys, properties, run.values[start:stop], strict=True):
            queues, head = self._route(key, own, value)
            heads, contents = gathered.setdefault(queues, ([], []))
            heads.append(head)
            contents.append(own + value)
        for queues, (heads, contents) in gathered.items():
            for _, group in groupby(zip(heads, contents, strict=True), key=lambda pair: pair[0].traits):
                self._publish(queues, list(group))

    def _publish(self, queues: Sequence[Ref], pairs: Sequence[tuple[Head, bytes]]) -> None:
        heads, contents = [head for head, _ in pairs], [content for _, content in pairs]
        alike = all(head is heads[0] for head in heads)
        message = Publish(heads[0], contents, sum(map(len, contents)), heads=None if alike else heads)
        self.transaction.publish(queues, message)

    def _route(self, key: bytes, properties: bytes, value: bytes) -> tuple[tuple[Ref, ...], Head]:
        """Find where a record goes, and its head."""
        name = key + b"\0" + properties  # routes may depend on headers
        known = self._routes.get(name)
        if known is None:
            known = self._routes[name] = self._find(key.decode("utf-8", "surrogateescape"), properties, value)
        return known[0].queues, known[1]

    def _find(self, key: str, properties: bytes, value: bytes) -> tuple[CachedRoute, Head]:
        read = decode_core(properties) if properties else None
        stop = len(properties)
        traits = traits_of(
            persistent=True,
            has_expiration=read is not None and read.expiration is not None,
            has_priority=read is not None and read.priority is not None,
        )
        head = Head(self._sink, key, 0, stop, stop, traits=traits)
        run = RoutedRun(CachedRoute(self._sink, key), head, (properties + value,), stop + len(value))
        [admitted] = self._publisher.admit([run])
        if not admitted.route.queues:
            raise Unroutable(
                f"the record with key {key!r} reaches no queue from sink {self._sink!r}: nothing is committed"
            )
        if self._first is None:
            self._first = admitted
        return admitted.route, head


def _check(chunk: bytes) -> None:
    try:
        check_chunk(chunk)
    except ChunkDamaged as error:
        raise PreconditionFailed(str(error)) from None
    columns = Columns(chunk)
    for head in columns.run_heads:
        if head.codec != CORE_CODEC:
            raise PreconditionFailed(
                f"properties of codec {head.codec}; those that are staged are of codec {CORE_CODEC}"
            )
    for _, run in columns.runs():
        own = (run.properties,) if isinstance(run.properties, bytes) else set(run.properties)
        for encoded in own:
            if encoded:
                try:
                    decode_core(encoded)
                except msgspec.MsgspecError as error:
                    raise PreconditionFailed(f"the properties of a record cannot be decoded: {error}") from None
