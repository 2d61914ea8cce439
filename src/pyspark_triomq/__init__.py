"""Where Spark finds the format ``triomq`` by itself: it imports every module whose name begins with ``pyspark_``.

An error while any of these modules is imported would break all sources in Python of that session, so this one imports
nothing but pyspark; the rest comes with the first use.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """The format ``triomq``: streams and queues of a broker, by tap."""

    def __init__(self, options: "MutableMapping[str, str]") -> None:
        super().__init__(options)
        from triomq.pipeline import check_pyspark

        check_pyspark()

    @classmethod
    def name(cls) -> str:
        """Return what stands in ``format(…)``."""
        return "triomq"

    def schema(self) -> "StructType":
        """Return the columns of the source."""
        from triomq.pipeline.source_options import read_source_options
        from triomq.pipeline.source_schema import source_schema

        return source_schema(read_source_options(self.options))

    def reader(self, schema: "StructType") -> "DataSourceReader":
        """Return the source of ``spark.read``."""
        from triomq.pipeline.batch_reader import batch_reader

        return batch_reader(schema, self.options)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":
        """Return the source of ``spark.readStream``."""
        from triomq.pipeline.stream_reader import stream_reader

        return stream_reader(schema, self.options)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        """Return the sink of ``df.write``."""
        from triomq.pipeline.batch_writer import batch_writer

        return batch_writer(schema, self.options, overwrite=overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":
        """Return the sink of ``df.writeStream``."""
        from triomq.pipeline.stream_writer import stream_writer

        return stream_writer(schema, self.options, overwrite=overwrite)
