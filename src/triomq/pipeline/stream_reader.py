"""``spark.readStream``: plans micro-batches in the driver, and reads their parts in executors.

    latestOffset(start, limit) ── ACK start ─▶ broker: the group's place, for lag
                               ── OFFSETS ───▶ bounds ─▶ end, under the limits
    partitions(start, end) ─────── nothing asked: the two say it all, also after a crash ─▶ ranges for tasks
    read(range) ── FETCH ─▶ in an executor, over a connection of its own

What Spark does, and what follows from it (each has a test):

- It calls ``initialOffset`` more than once, and again in a new process: see ``triomq.pipeline.offsets``.
- ``commit`` comes one batch late, and never for the last one. ``latestOffset`` gets a start whose batch is in the
  checkpoint, and is called once more at the end; so the group's position is set there. Nothing depends on it.
- ``stop`` is not called when a query ends; a connection that is open then ends with its process, and holds nothing.
- Where there is nothing new the very ``start`` has to come back, or empty batches run for ever; but never the initial
  offset: a query has a first batch, with records or without, and where that begins is to be in the checkpoint.
- ``ReadAllAvailable`` means all there is, whatever the options say; a limit of two kinds does not exist, so bytes are
  limited here when records are limited there.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from triomq.clients import GroupPosition, PartitionBounds, TapConnection
from triomq.errors import AccessRefused, ConfigError, NotFound, OtherStream
from triomq.pipeline.connecting import BrokerLink
from triomq.pipeline.limits import TRIGGER_BYTES, share, share_bytes
from triomq.pipeline.offsets import QueryOffset, from_json, initial_offset, plan_batch, to_json
from triomq.pipeline.queue_reader import QueueReader
from triomq.pipeline.ranges import OffsetRange, cut_ranges, read_range
from triomq.pipeline.source_options import SparkSourceOptions, read_source_options
from triomq.pipeline.source_schema import check_source_schema
from triomq.pipeline.subscription import ByPlace, Place, StreamSubscription

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ONLY = {"ending_offsets": "endingOffsets", "ending_timestamp": "endingTimestamp"}


def stream_reader(schema: StructType, options: Mapping[str, str]) -> DataSourceStreamReader:
    """Return the source of ``spark.readStream``.

    Args:
        schema: The columns that are wanted: the source's, unless the user has said others.
        options: As Spark hands them over.

    Raises:
        ConfigError: An option is wrong.
        WrongSchema: The user has said other columns.
    """
    read = read_source_options(options)
    check_source_schema(schema, read)
    return QueueReader(read) if read.mode == "queue" else MicroBatchReader(read)


class MicroBatchReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A query's source; made anew in each process, and a copy for each task.

    Args:
        options: The source's.
    """

    def __init__(self, options: SparkSourceOptions) -> None:
        for field, name in _BATCH_ONLY.items():
            if getattr(options, field) not in ("", None):
                raise ConfigError(f"option {name} is for spark.read: a stream does not end")
        self._options = options
        self._link = BrokerLink(options)
        self._subscription = StreamSubscription(self._link, options)
        self._initial: dict[str, Any] = {}
        self._seen: ByPlace[PartitionBounds] | None = None
        self._target: ByPlace[PartitionBounds] | None = None
        self._group = options.group
        self._shown: ByPlace[GroupPosition] = {}

    def __reduce__(self) -> tuple[object, ...]:
        """Make it again of its options: a task has a connection of its own."""
        return type(self), (self._options,)

    # In the driver

    def initialOffset(self) -> dict[str, Any]:
        """Return where a query begins that has no checkpoint."""
        self._initial = self._initial or initial_offset(self._subscription.starts("latest"), self._options.group)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that Spark is to hand to ``latestOffset``, where its trigger does not want all."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        return ReadMaxBytes(options.max_bytes_per_trigger or TRIGGER_BYTES)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what there is now, and nothing that comes later."""
        self._target = self._subscription.bounds()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next batch ends: ``start`` itself if there is none.

        Args:
            start: Where the last one has ended, which is in the checkpoint; or the initial offset.
            limit: How much the batch may have.

        Raises:
            OtherStream: The checkpoint is that of another stream of the same name.
            RecordsLost: Records that come next are gone.
        """
        before = from_json(start)
        group = self._group = self._options.group or before.group
        self._show(before)
        bounds = self._seen = self._subscription.bounds()
        firsts = {place: self._first(place, before, each) for place, each in bounds.items()}
        due = [
            OffsetRange(place, first.identity, first.next, stop)
            for place, first in firsts.items()
            if first.next < (stop := self._stop(place, bounds[place]))
        ]
        taken = {
            each.place: GroupPosition(each.identity, each.first + n) for each, n in self._share(due, limit).items()
        }
        at_rest = {place: first for place, first in firsts.items() if place in before.positions}
        positions = {**self._unread(before), **at_rest, **taken}
        if positions == before.positions and not before.init:
            return start
        begins = {
            place: firsts[place]
            for place in positions
            if place in firsts and (before.init or firsts[place] != before.positions.get(place))
        }
        return to_json(QueryOffset(positions=positions, begins=begins, group=group))

    def _show(self, before: QueryOffset) -> None:
        """Have the broker show where the query is, so that its lag can be seen there."""
        changed: dict[str, dict[int, GroupPosition]] = {}
        for place, position in before.positions.items():
            if position != self._shown.get(place) and not before.init:
                changed.setdefault(place.stream, {})[place.partition] = position
        for name, positions in changed.items():
            try:
                self._link.call(partial(TapConnection.ack, stream=name, group=self._group, positions=positions))
            except (AccessRefused, NotFound, OtherStream):
                pass  # it is not subscribed any more; or the bounds, which are asked for next, have a better text
        self._shown = before.positions

    def _first(self, place: Place, before: QueryOffset, bounds: PartitionBounds) -> GroupPosition:
        """Return where the batch begins in one partition."""
        known = before.positions.get(place)
        if known is None:
            return GroupPosition(bounds.identity, bounds.first)
        if known.identity != bounds.identity:
            raise OtherStream(
                f"the checkpoint is that of another stream: {place.stream!r} was deleted and declared anew since, or "
                "it was in memory and the broker has restarted; start the query with another checkpointLocation"
            )
        if known.next < bounds.first:
            self._subscription.lose(place, known.next, bounds.first)
            return GroupPosition(bounds.identity, bounds.first)
        if known.next > bounds.next:
            self._subscription.lose_end(place, known.next, bounds.next)
            return GroupPosition(bounds.identity, bounds.next)
        return known

    def _stop(self, place: Place, bounds: PartitionBounds) -> int:
        """Return where reading ends in one partition: with ``availableNow`` where it did when the query was started."""
        if self._target is None:
            return bounds.next
        target = self._target.get(place)
        return target.next if target is not None and target.identity == bounds.identity else 0

    def _unread(self, before: QueryOffset) -> ByPlace[GroupPosition]:
        """Return the positions in what is not subscribed any more; a deleted stream has none."""
        assert self._seen is not None
        others = {place: each for place, each in before.positions.items() if place not in self._seen}
        if not others or not self._subscription.has_pattern:
            return others
        there = self._subscription.streams()
        for name in {place.stream for place in others}.difference(there):
            self._subscription.lose_stream(name)
        return {place: each for place, each in others.items() if place.stream in there}

    def _share(self, due: Sequence[OffsetRange], limit: ReadLimit) -> Mapping[OffsetRange, int]:
        """Return how many records are read of each range."""
        counts: Mapping[OffsetRange, int] = {each: each.stop - each.first for each in due}
        if isinstance(limit, ReadAllAvailable):
            return counts
        if isinstance(limit, ReadMaxRows):
            counts = share(counts, limit.max_rows)
        most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.max_bytes_per_trigger
        return counts if most is None else share_bytes(self._link, counts, most)

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return where the streams end, for the query's progress."""
        bounds = self._subscription.bounds() if self._seen is None else self._seen
        positions = {place: GroupPosition(each.identity, each.next) for place, each in bounds.items()}
        return to_json(QueryOffset(positions=positions, group=self._group))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan a batch; after a crash the same one again."""
        return cut_ranges(plan_batch(from_json(start), from_json(end)), self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: see above."""

    def stop(self) -> None:
        """Close the connection."""
        self._link.close()

    # In an executor

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one part."""
        return read_range(self._options, partition)
