"""The sink of streaming queries: each micro-batch is there once, as a whole in each target.

Spark gives a batch the same number whenever it runs it again, and hands tasks the id of the query, which outlives
restarts: so (query, number) tells a batch from all others (see ``staged_part``). Neither is an option of the writer;
tasks read both, and send them to the driver with what they have staged. The driver commits in a process that is no
task, so nothing is remembered here.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from triomq.errors import ConfigError
from triomq.pipeline.options import read_options
from triomq.pipeline.row_plan import RowPlan, plan_rows
from triomq.pipeline.sink_options import SPARKS_OWN, SparkSinkOptions
from triomq.pipeline.staged_part import abort_messages, commit_messages, stage_part

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
"""Local properties that Spark sets for the tasks of a micro-batch."""


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query; made by Spark, in the driver, and sent to tasks.

    Args:
        options: Where to write.
        plan: How rows become records.
    """

    def __init__(self, options: SparkSinkOptions, plan: RowPlan) -> None:
        self._options = options
        self._plan = plan

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Stage the rows of a task."""
        context = TaskContext.get()
        assert context is not None
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            raise ConfigError(
                "Spark does not say which batch of which query this is; the sink knows PySpark 4.2 to 4.3, see which "
                "one this is"
            )
        return stage_part(self._options, self._plan, query, int(batch), context.partitionId(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Publish a batch."""
        commit_messages(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Drop what is staged of a batch: Spark runs it again, in a query that is started again."""
        abort_messages(self._options, messages)


def stream_writer(schema: "StructType", options: Mapping[str, str], *, overwrite: bool) -> StreamWriter:
    """Return the writer for a query.

    Args:
        schema: Its columns.
        options: As Spark hands them over.
        overwrite: Whether each batch is to replace what was there.

    Raises:
        ConfigError: The query cannot be written.
    """
    if overwrite:
        raise ConfigError("output mode complete: what was published is not replaced; write with output mode append")
    found = read_options(SparkSinkOptions, options, besides=SPARKS_OWN)
    if found.batch_key:
        raise ConfigError("option batchKey is for df.write; a query has a key of its own, which Spark makes")
    return StreamWriter(found, plan_rows(schema, found))
