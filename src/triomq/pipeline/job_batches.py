"""Jobs in bulk, without a broker: ``run_batch`` has Spark run a list of calls, and returns what has become of each.

    [add.order(1), add.order(2), …] ──▶ rows of payloads ──▶ executors: job_host ──▶ rows of outcomes ──▶ DataFrame

- It runs the jobs when it is called, once. Were its DataFrame lazy, each ``count`` and ``show`` would run them again.
- Spark promises at least once: when an executor is lost, the partitions that it had not finished are run again from
  their beginnings, with what they had done. Where that must not be, have the jobs come from a broker.
- Only names and arguments in JSON go to executors, which run what is in the registry there.
- By a table function over Arrow: that needs no pandas, is never left out by Spark's optimizer as an unused column would
  be, and is the same over Spark Connect.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from triomq.errors import ConfigError, PipelineError, UnknownJob
from triomq.jobs import JobOrder, Jobs
from triomq.jobs.worker import LocalCall, LocalOutcome, find_target
from triomq.pipeline.job_host import job_host
from triomq.pipeline.spark_failures import reason_of

if TYPE_CHECKING:
    from pyspark.sql.udtf import UserDefinedTableFunction

_PARTITIONS_PER_SLOT: Final = 4
"""So that one long job does not hold up half of the batch."""

_PARTITIONS_OF_CONNECT: Final = 16
"""Where the number of slots is the server's knowledge."""

_STATUS: Final = {"timed-out": "timeout", "lost": "crashed"}
"""Of endings; all others are ``failed``."""

_CALLS: Final = pa.schema(
    [("place", pa.int64()), ("job_id", pa.string()), ("payload", pa.binary()), ("timeout", pa.float64())]
)

OUTCOMES: Final = pa.schema(
    [
        ("job_id", pa.string()),
        ("status", pa.string()),
        ("result", pa.string()),
        ("error_type", pa.string()),
        ("error", pa.string()),
        ("traceback", pa.string()),
        ("started", pa.timestamp("us", "UTC")),
        ("wall_ms", pa.float64()),
        ("host", pa.string()),
        ("pid", pa.int32()),
        ("partition", pa.int32()),
        ("attempt", pa.int32()),
    ]
)
"""The columns of what ``run_batch`` returns."""

_DDL: Final = (
    "place LONG, job_id STRING, status STRING, result STRING, error_type STRING, error STRING, traceback STRING, "
    "started TIMESTAMP, wall_ms DOUBLE, host STRING, pid INT, partition INT, attempt INT"
)


def run_batch(
    spark: SparkSession,
    jobs: Jobs | str,
    orders: Iterable[JobOrder] | Mapping[str, JobOrder],
    *,
    timeout: float = 0.0,
    partitions: int = 0,
    tag: str = "",
) -> DataFrame:
    """Run jobs on the executors of a Spark, each once, and return a row for each when all have ended.

        run_batch(spark, jobs, [resize.order(path, 200) for path in paths]).where("status != 'ok'").show()

    A job that raises, takes too long or takes its process along is a row that says so; the others are not concerned.
    Plain functions run in processes that can be killed, one at a time in each slot of Spark; async ones 100 at a time.
    Jobs have no broker to send others to, and are not tried again.

    This waits. In Trio write ``await trio.to_thread.run_sync(partial(run_batch, …))``.

    Args:
        spark: A session, also one of Spark Connect.
        jobs: The registry, or ``MODULE:JOBS`` as executors find it.
        orders: What to run, made by ``job.order(…)`` or ``job.using(timeout=5).order(…)``; with ids of your own, or the
            numbers from 0.
        timeout: Seconds for each job that has none of its own, in its decorator or by ``using``; 0 is without limit.
        partitions: Into how many parts the list is cut; four for each slot if 0.
        tag: By which another thread cancels it: ``spark.sparkContext.cancelJobsWithTag(tag)``, over Connect
            ``spark.interruptTag(tag)``.

    Returns:
        The columns ``job_id``, ``status`` (ok, failed, timeout or crashed), ``result`` (JSON), ``error_type``,
        ``error``, ``traceback``, ``started``, ``wall_ms``, ``host``, ``pid``, ``partition`` and ``attempt`` (of Spark,
        from 1), in the order of the orders. It is in the driver's memory, and using it runs nothing again.

    Raises:
        UnknownJob: One is not in the registry.
        ConfigError: One is a generator, or executors could not find the registry.
        PipelineError: The registry cannot be loaded on an executor; Spark has failed, or was cancelled.
    """
    target = jobs if isinstance(jobs, str) else find_target(jobs)
    calls = _calls(orders, None if isinstance(jobs, str) else jobs, timeout)
    if not calls.num_rows:
        return spark.createDataFrame(OUTCOMES.empty_table())
    count = min(calls.num_rows, partitions or _default_partitions(spark))
    run = table_function(spark, _batch_runner(target, os.getcwd()), _DDL)
    try:
        with _tagged(spark, tag):
            found = run(spark.createDataFrame(calls).repartition(count).asTable()).toArrow()
    except Exception as error:  # PySpark's and Py4J's, and grpc's over Connect
        raise PipelineError(reason_of(error, "the batch has failed")) from error
    return spark.createDataFrame(found.sort_by("place").drop_columns("place").cast(OUTCOMES))


def table_function(spark: SparkSession, kind: type, schema: object) -> "UserDefinedTableFunction":
    """Return a class with ``eval`` as a function over the partitions of a table, of Connect for a session of that."""
    if hasattr(spark, "_jsc"):
        from pyspark.sql.functions import arrow_udtf
    else:
        from pyspark.sql.connect.functions import arrow_udtf
    return arrow_udtf(kind, returnType=schema)


@contextmanager
def _tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    """Have what this thread asks Spark for under a tag.

    Without Connect a session's own tags are known to the thread that has set them, which is the one that waits.
    """
    own = spark.sparkContext if hasattr(spark, "_jsc") else None
    if tag:
        own.addJobTag(tag) if own else spark.addTag(tag)
    try:
        yield
    finally:
        if tag:
            own.removeJobTag(tag) if own else spark.removeTag(tag)


def _default_partitions(spark: SparkSession) -> int:
    if not hasattr(spark, "_jsc"):
        return _PARTITIONS_OF_CONNECT
    slots: int = spark.sparkContext.defaultParallelism
    return _PARTITIONS_PER_SLOT * slots


def _calls(orders: Iterable[JobOrder] | Mapping[str, JobOrder], jobs: Jobs | None, timeout: float) -> pa.Table:
    named = orders.items() if isinstance(orders, Mapping) else ((str(place), one) for place, one in enumerate(orders))
    ids, payloads, timeouts = [], [], []
    for name, order in named:
        definition = order.definition
        if jobs is not None and jobs.find(definition.name) is not definition:
            raise UnknownJob(
                f"{definition.name} is not in this registry; there are {', '.join(sorted(jobs.definitions))}"
            )
        if definition.is_stream:
            raise ConfigError(f"{definition.name} is a generator, and its items would have no reader in a batch")
        ids.append(name)
        payloads.append(order.payload)
        timeouts.append(order.extension.timeout / 1000 or timeout)
    return pa.table([range(len(ids)), ids, payloads, timeouts], schema=_CALLS)


def _batch_runner(target: str, folder: str) -> type:
    """Make the class that Spark sends to executors; it is sent whole, since it is in no module by its name."""

    class BatchRunner:
        def eval(self, calls: pa.RecordBatch) -> Iterator[pa.Table]:
            yield run_calls(calls, target, folder)

    return BatchRunner


def run_calls(calls: pa.RecordBatch, target: str, folder: str) -> pa.Table:
    """Run the calls of a batch of rows on an executor."""
    context = TaskContext.get()
    partition, attempt = (context.partitionId(), context.attemptNumber() + 1) if context else (0, 1)
    rows = calls.to_pydict()
    given = [
        LocalCall(name, payload, timeout, attempt)
        for name, payload, timeout in zip(rows["job_id"], rows["payload"], rows["timeout"], strict=True)
    ]
    outcomes = job_host(target, folder).run(given)
    columns = {"place": rows["place"], "job_id": rows["job_id"], **_columns(outcomes)}
    host = os.uname().nodename
    for name, value in (("host", host), ("partition", partition), ("attempt", attempt)):
        columns[name] = [value] * len(outcomes)
    schema = pa.schema([_CALLS.field("place"), *OUTCOMES])
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def _columns(outcomes: list[LocalOutcome]) -> dict[str, list[object]]:
    endings = [outcome.ending for outcome in outcomes]
    return {
        "status": ["ok" if ending is None else _STATUS.get(ending.state, "failed") for ending in endings],
        "result": [result_of(outcome) for outcome in outcomes],
        "error_type": [ending and (ending.type or None) for ending in endings],
        "error": [ending and ending.text for ending in endings],
        "traceback": [ending and (ending.traceback or None) for ending in endings],
        "started": [int((outcome.ended - outcome.seconds) * 1e6) for outcome in outcomes],
        "wall_ms": [outcome.seconds * 1000 for outcome in outcomes],
        "pid": [outcome.pid or None for outcome in outcomes],
    }


def result_of(outcome: LocalOutcome) -> str | None:
    """Return the JSON of a result, out of the message ``{"value": …}``."""
    return outcome.message[len(b'{"value":') : -1].decode() if outcome.ending is None else None
