"""The sink of ``df.write``: exactly once with the option ``batchKey``, otherwise at least once.

A batch job has no name that outlives it, so who wants exactly once gives one. Then all parts are staged, and committed
together, as a micro-batch is. Without it each task commits what it has as it goes, some MiB at a time, so that a job of
any size needs little memory here and at the broker; a task that fails and is run again writes its rows again.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from secrets import randbits
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from triomq.errors import ConfigError, UnknownStage
from triomq.pipeline.connecting import BrokerLink
from triomq.pipeline.options import read_options
from triomq.pipeline.row_plan import RowPlan, plan_rows
from triomq.pipeline.sink_options import SPARKS_OWN, SparkSinkOptions
from triomq.pipeline.staged_part import PartStager, abort_messages, commit_messages, commit_parts, stage_part

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_AT_ONCE: Final = 8 * 1024 * 1024
"""Bytes of chunks that a task commits at once: a commit costs a sync of the disk, some milliseconds."""


class BatchWriter(DataSourceArrowWriter):
    """Writes one DataFrame; made by Spark, in the driver, and sent to tasks.

    Args:
        options: Where to write.
        plan: How rows become records.
    """

    def __init__(self, options: SparkSinkOptions, plan: RowPlan) -> None:
        self._options = options
        self._plan = plan

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Stage the rows of a task; without ``batchKey`` also publish them."""
        options = self._options
        if not options.batch_key:
            publish_part(options, self._plan, iterator)
            return WriterCommitMessage()
        context = TaskContext.get()
        part = context.partitionId() if context is not None else 0
        return stage_part(options, self._plan, options.batch_key, options.batch_number, part, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what is staged."""
        commit_messages(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop what is staged."""
        abort_messages(self._options, messages)


def batch_writer(schema: "StructType", options: Mapping[str, str], *, overwrite: bool) -> BatchWriter:
    """Return the writer for a DataFrame.

    Args:
        schema: Its columns.
        options: As Spark hands them over.
        overwrite: Whether it is to replace what was there.

    Raises:
        ConfigError: It cannot be written.
    """
    if overwrite:
        raise ConfigError('mode overwrite: what was published is not replaced; write with mode("append")')
    found = read_options(SparkSinkOptions, options, besides=SPARKS_OWN)
    return BatchWriter(found, plan_rows(schema, found))


def publish_part(options: SparkSinkOptions, plan: RowPlan, rows: "Iterator[pa.RecordBatch]") -> None:
    """Publish the rows of a task, some MiB at a time; after an error some of them are there."""
    with closing(BrokerLink(options)) as link:
        stager = _unnamed(link, plan)
        try:
            for each in rows:
                stager.add(each)
                if stager.size >= _AT_ONCE:
                    _publish(link, stager, options.retries)
                    stager = _unnamed(link, plan)
            _publish(link, stager, options.retries)
        except BaseException:
            stager.drop()
            raise


def _publish(link: BrokerLink, stager: PartStager, retries: int) -> None:
    """Publish what is staged; what is not there any more may have been published, or not, and is published again."""
    for _ in range(retries):
        try:
            return commit_parts(link, [stager.staged()])
        except UnknownStage:
            stager.stage_again()
    commit_parts(link, [stager.staged()])


def _unnamed(link: BrokerLink, plan: RowPlan) -> PartStager:
    """Return what stages for a writer that the broker does not remember: a name for each task would fill its list."""
    return PartStager(link, plan, "", randbits(62), 0)
