"""``spark.read``: what stands in streams when the batch is planned, or what of it the options want."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from triomq.errors import ConfigError
from triomq.pipeline.connecting import BrokerLink
from triomq.pipeline.ranges import OffsetRange, cut_ranges, read_range
from triomq.pipeline.source_options import SparkSourceOptions, read_source_options
from triomq.pipeline.source_schema import check_source_schema
from triomq.pipeline.subscription import StreamSubscription

if TYPE_CHECKING:
    import pyarrow as pa

_STREAMS_ONLY = {
    "max_offsets_per_trigger": "maxOffsetsPerTrigger",
    "max_bytes_per_trigger": "maxBytesPerTrigger",
    "group": "group",
}


def batch_reader(schema: StructType, options: Mapping[str, str]) -> "BatchReader":
    """Return the source of ``spark.read``.

    Args:
        schema: The columns that are wanted: the source's, unless the user has said others.
        options: As Spark hands them over.

    Raises:
        ConfigError: An option is wrong.
        WrongSchema: The user has said other columns.
    """
    read = read_source_options(options)
    check_source_schema(schema, read)
    return BatchReader(read)


class BatchReader(DataSourceReader):
    """Plans a batch in the driver, and reads its parts in executors, whither Spark sends a copy.

    Args:
        options: The source's.
    """

    def __init__(self, options: SparkSourceOptions) -> None:
        if options.mode == "queue":
            raise ConfigError("option mode is queue, which is for readStream: a batch acknowledges nothing")
        for field, name in _STREAMS_ONLY.items():
            if getattr(options, field) not in ("", None):
                raise ConfigError(f"option {name} is for readStream: a batch is read once, and as a whole")
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Plan the batch: its offsets are fixed from here on."""
        link = BrokerLink(self._options)
        try:
            subscription = StreamSubscription(link, self._options)
            starts, stops = subscription.starts("earliest"), subscription.stops()
        finally:
            link.close()
        ranges = [
            OffsetRange(place, start.identity, start.next, stop.next)
            for place, start in starts.items()
            if (stop := stops.get(place)) is not None and start.next < stop.next
        ]
        return cut_ranges(ranges, self._options)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one part."""
        return read_range(self._options, partition)
