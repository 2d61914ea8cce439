"""``spark.readStream`` with ``mode=queue``: micro-batches out of ordinary queues, which the broker hands out by leases.

    latestOffset(start, limit) ── ACK start ─▶ ledger: what is done is gone
                               ── LEASE ─────▶ queue ─▶ ledger: what the next batch has, and its end
    partitions(start, end) ─────── nothing asked, as for streams
    read(range) ── FETCH ─▶ ledger, as often as tasks are repeated

A queue gives each message out once; its ledger gives a range of offsets as often as it is asked for, also after a
restart of the driver or of the broker. So everything behind the plan is that of streams: offsets in the checkpoint,
ranges, tasks. What is different:

- What is not acknowledged an hour after its lease goes back to the queue. A batch that stands still for so long cannot
  be read again (``RecordsLost``); its messages come in a later one.
- Messages that were leased for a batch that never got into the checkpoint belong to the next batch. If they have gone
  back meanwhile they come again, and nothing is lost.
- A lease takes what is ready, so a trigger has a bound even if the options have none (``MOST_AT_ONCE``,
  ``TRIGGER_BYTES``), and other consumers of the queue get theirs.
- ``availableNow`` ends at what was ready when it began.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from triomq.clients import GroupPosition, PartitionBounds, TapConnection
from triomq.errors import ConfigError, NotFound, OtherStream, Refused
from triomq.pipeline.connecting import BrokerLink
from triomq.pipeline.limits import TRIGGER_BYTES, share
from triomq.pipeline.offsets import QueryOffset, from_json, initial_offset, plan_batch, to_json
from triomq.pipeline.options import option_name
from triomq.pipeline.ranges import OffsetRange, cut_ranges, read_range
from triomq.pipeline.source_options import SparkSourceOptions
from triomq.pipeline.subscription import ByPlace, Place

if TYPE_CHECKING:
    import pyarrow as pa

MOST_AT_ONCE: Final = 100_000
"""Messages of one micro-batch where the options do not say: a tenth of what a group may have leased."""

_LARGEST: Final = 500_000
"""The same where all is wanted that there is: half of it, so that a batch which is repeated leaves room."""

_LEASE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of one lease: what a broker moves in a turn."""

_NOT_FOR_QUEUES: Final = (
    "subscribe_pattern",
    "assign",
    "starting_offsets",
    "ending_offsets",
    "starting_timestamp",
    "ending_timestamp",
)


class _Seen(msgspec.Struct, frozen=True, gc=False):
    """What a queue has: the bounds of the ledger, and messages that are ready."""

    bounds: PartitionBounds
    ready: int

    @property
    def stop(self) -> int:
        """The offset behind all of them, if nobody else takes any."""
        return self.bounds.next + self.ready


class QueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A query's source; made anew in each process, and a copy for each task.

    Args:
        options: The source's.

    Raises:
        ConfigError: They do not fit a queue.
    """

    def __init__(self, options: SparkSourceOptions) -> None:
        for field in _NOT_FOR_QUEUES:
            if getattr(options, field) not in ("", None):
                raise ConfigError(
                    f"option {option_name(field)} is for streams; with mode queue, subscribe names the queues, and "
                    "what is ready is read"
                )
        self._options = options
        self._link = BrokerLink(options)
        self._places = {Place(name, 0): None for name in options.names()}.keys()
        self._done: ByPlace[GroupPosition] = {}  # what was acknowledged last
        self._seen: ByPlace[_Seen] = {}
        self._target: ByPlace[int] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """Make it again of its options: a task has a connection of its own."""
        return type(self), (self._options,)

    # In the driver

    def initialOffset(self) -> dict[str, Any]:
        """Return where a query begins that has no checkpoint: with what its group has leased and not acknowledged."""
        positions = {
            place: GroupPosition(each.bounds.identity, each.bounds.first) for place, each in self._look().items()
        }
        return initial_offset(positions, self._options.group)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that Spark is to hand to ``latestOffset``, where its trigger does not want all."""
        options = self._options
        if options.max_bytes_per_trigger is not None and options.max_offsets_per_trigger is None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        return ReadMaxRows(options.max_offsets_per_trigger or MOST_AT_ONCE)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what there is now, and nothing that comes later."""
        self._target = {place: each.stop for place, each in self._look().items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Acknowledge what is done, lease what comes next, and return where that ends: ``start`` if there is nothing.

        Args:
            start: Where the last batch has ended, which is in the checkpoint; or the initial offset.
            limit: How much the batch may have.

        Raises:
            OtherStream: The checkpoint is that of another ledger.
            NotFound: There is no such queue.
        """
        before = from_json(start)
        if not before.init and before.positions != self._done:
            for place in before.positions.keys() & self._places:
                self._acknowledge(place, before.positions[place])
            self._done = before.positions
        self._seen = self._look()
        firsts = {place: self._first(place, before, each) for place, each in self._seen.items()}
        taken = self._lease(firsts, limit)
        unread = {place: each for place, each in before.positions.items() if place not in firsts}
        positions = {**unread, **taken}
        if positions == before.positions and not before.init:
            return start
        begins = {
            place: first for place, first in firsts.items() if before.init or first != before.positions.get(place)
        }
        return to_json(QueryOffset(positions=positions, begins=begins, group=self._options.group))

    def _look(self) -> ByPlace[_Seen]:
        """Return what the queues have; the ledgers are made that are not there."""
        return {place: self._leased(place, 0) for place in self._places}

    def _leased(self, place: Place, most: int, most_bytes: int = _LEASE_BYTES) -> _Seen:
        request = partial(
            TapConnection.lease,
            queue=place.stream,
            group=self._options.group,
            most_records=most,
            most_bytes=min(most_bytes, _LEASE_BYTES),
        )
        return _Seen(*self._link.call(request))

    def _acknowledge(self, place: Place, position: GroupPosition) -> None:
        request = partial(
            TapConnection.ack, stream=place.stream, group=self._options.group, positions={place.partition: position}
        )
        try:
            self._link.call(request)
        except (NotFound, OtherStream) as error:
            raise OtherStream(
                f"the checkpoint is that of other leases of queue {place.stream!r} by group {self._options.group!r}: "
                "the queue was deleted since, or it was in memory and the broker has restarted, or the group has "
                f"another one's name ({error}); start the query with another checkpointLocation"
            ) from error

    def _first(self, place: Place, before: QueryOffset, seen: _Seen) -> GroupPosition:
        """Return where the batch begins in one queue: what went back to it before it was planned comes again."""
        known = before.positions.get(place)
        bounds = seen.bounds
        if known is None or known.identity != bounds.identity:
            return GroupPosition(bounds.identity, bounds.first)
        return GroupPosition(bounds.identity, max(known.next, bounds.first))

    def _lease(self, firsts: ByPlace[GroupPosition], limit: ReadLimit) -> ByPlace[GroupPosition]:
        """Lease the next messages, and return where the batch ends in each queue."""
        due = {}
        for place, first in firsts.items():
            stop = self._seen[place].stop if self._target is None else self._target.get(place, 0)
            if first.next < stop:
                due[OffsetRange(place, first.identity, first.next, stop)] = stop - first.next
        counts = share(due, _most(limit, self._options))
        size = _most_bytes(limit, self._options)
        ends = dict(firsts)
        for wanted, count in counts.items():
            own_size = None if size is None else max(1, size // len(counts))  # one message comes in any case
            stop = self._lease_up_to(wanted, wanted.first + count, own_size)
            ends[wanted.place] = GroupPosition(wanted.identity, max(wanted.first, min(wanted.first + count, stop)))
        return ends

    def _lease_up_to(self, wanted: OffsetRange, stop: int, size: int | None) -> int:
        """Lease until a ledger ends at an offset, or so many bytes were leased, or nothing is ready; return its end."""
        seen = self._seen[wanted.place]
        while seen.ready and seen.bounds.next < stop and (size is None or size > 0):
            before = seen.bounds.next
            most_bytes = _LEASE_BYTES if size is None else min(size, _LEASE_BYTES)
            try:
                seen = self._leased(wanted.place, stop - before, most_bytes)
            except Refused:
                if before <= wanted.first:
                    raise
                break  # the group may have no more; what it has can be done, and makes room
            if size is not None:
                size -= most_bytes  # how much has come is not said, but it was no more, unless it is one message
            if seen.bounds.next == before:
                break
        self._seen = {**self._seen, wanted.place: seen}
        return seen.bounds.next

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return where the queues end, for the query's progress."""
        positions = {
            place: GroupPosition(each.bounds.identity, each.stop)
            for place, each in (self._seen or self._look()).items()
        }
        return to_json(QueryOffset(positions=positions, group=self._options.group))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan a batch; after a crash the same one again."""
        return cut_ranges(plan_batch(from_json(start), from_json(end)), self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: it comes one batch late, and never for the last one."""

    def stop(self) -> None:
        """Close the connection."""
        self._link.close()

    # In an executor

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one part."""
        return read_range(self._options, partition)


def _most(limit: ReadLimit, options: SparkSourceOptions) -> int:
    """Return how many messages a batch may have."""
    if isinstance(limit, ReadMaxRows):
        return int(limit.max_rows)
    if isinstance(limit, ReadAllAvailable):
        return _LARGEST
    return options.max_offsets_per_trigger or _LARGEST


def _most_bytes(limit: ReadLimit, options: SparkSourceOptions) -> int | None:
    """Return how many bytes a batch may have; None if that does not count."""
    if isinstance(limit, ReadMaxBytes):
        return int(limit.max_bytes)
    if isinstance(limit, ReadAllAvailable) or options.max_offsets_per_trigger is not None:
        return options.max_bytes_per_trigger
    return TRIGGER_BYTES
