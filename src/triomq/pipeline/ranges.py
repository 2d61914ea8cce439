"""Ranges of records: how they are cut for tasks, and how a task reads one."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec
from pyspark.sql.datasource import InputPartition

from triomq.chunks import Columns
from triomq.errors import NotFound, OutOfRange
from triomq.pipeline.columns import RecordBatches
from triomq.pipeline.connecting import BrokerLink
from triomq.pipeline.source_options import SparkSourceOptions
from triomq.pipeline.subscription import Place, StreamSubscription

if TYPE_CHECKING:
    import pyarrow as pa

FETCH_BYTES: Final = 4 * 1024 * 1024
"""Bytes of chunks that a task asks for at once: it works on so many while the next ones are on their way."""


class OffsetRange(msgspec.Struct, frozen=True, gc=False):
    """Offsets in a row of one partition, at least one: records to read.

    Args:
        place: Which one.
        identity: The partition's, when the range was planned.
        first: The first offset.
        stop: The offset to end before.
    """

    place: Place
    identity: int | None
    first: int
    stop: int


def cut_ranges(ranges: Sequence[OffsetRange], options: SparkSourceOptions) -> list[InputPartition]:
    """Return the tasks' parts: one for each range, or more of them if the options want that."""
    total = sum(each.stop - each.first for each in ranges)
    parts = []
    for each in ranges:
        count = each.stop - each.first
        pieces = 1
        if options.min_partitions is not None:
            pieces = -(-options.min_partitions * count // total)
        if options.max_records_per_partition is not None:
            pieces = max(pieces, -(-count // options.max_records_per_partition))
        pieces = max(1, min(pieces, count))
        edges = [each.first + count * piece // pieces for piece in range(pieces + 1)]
        parts += [
            InputPartition(msgspec.structs.replace(each, first=first, stop=stop)) for first, stop in pairwise(edges)
        ]
    return parts


def read_range(options: SparkSourceOptions, part: InputPartition) -> "Iterator[pa.RecordBatch]":
    """Yield the records of a task's part; Spark makes one without a range where there is nothing to read.

    Raises:
        RecordsLost: Some of them were dropped meanwhile.
        OtherStream: The stream was deleted and declared anew.
        Disconnected: The broker was not there for all of the retries.
    """
    wanted: OffsetRange | None = part.value
    if wanted is None:
        return
    link = BrokerLink(options)
    try:
        batches = RecordBatches(*wanted.place, options)
        yield from batches.of(_chunks(link, StreamSubscription(link, options), wanted, options))
    finally:
        link.close()


def _chunks(
    link: BrokerLink, subscription: StreamSubscription, wanted: OffsetRange, options: SparkSourceOptions
) -> Iterator[Columns]:
    """Yield the chunks of a range; where records are gone meanwhile, those behind them if that is no error."""
    first, is_queue = wanted.first, options.mode == "queue"
    group = options.group if is_queue else ""
    while first < wanted.stop:
        try:
            for columns in link.fetch(
                *wanted.place, first, wanted.stop, identity=wanted.identity, most_bytes=FETCH_BYTES, group=group
            ):
                yield columns
                first = columns.head.stop
            if first < wanted.stop:
                subscription.lose_end(wanted.place, wanted.stop, first)
                return
        except OutOfRange as gone:
            there = min(gone.first, wanted.stop)
            if is_queue:
                subscription.lose_leased(wanted.place, first, there)
            else:
                subscription.lose(wanted.place, first, there)
            first = there
        except NotFound as gone:
            if is_queue:
                raise
            # Or a batch that is in the checkpoint could never be done.
            subscription.lose_rest(wanted.place, first, wanted.stop, str(gone))
            return
