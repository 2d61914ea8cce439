"""A source and a sink for Spark, in pure Python: batches of Arrow out of streams and into them, over tap.

Spark finds the format ``triomq`` by itself; see ``pyspark_triomq``. Names are resolved with their first use: this
package is imported in every process that reads or writes, none of which starts a Spark or looks for a Java.
"""

from typing import TYPE_CHECKING

from triomq.lazy import lazy_names

if TYPE_CHECKING:
    from triomq.pipeline.java import find_java as find_java
    from triomq.pipeline.job_batches import run_batch as run_batch
    from triomq.pipeline.job_columns import map_on as map_on
    from triomq.pipeline.spark_failures import SPARK_ERRORS as SPARK_ERRORS
    from triomq.pipeline.spark_failures import reason_of as reason_of
    from triomq.pipeline.spark_session import check_pyspark as check_pyspark
    from triomq.pipeline.spark_session import open_session as open_session
    from triomq.pipeline.spark_session import register as register
    from triomq.pipeline.spark_session import session as session
    from triomq.pipeline.spark_workers import SparkWorkers as SparkWorkers
    from triomq.pipeline.spark_workers import SparkWorkersStatistics as SparkWorkersStatistics
    from triomq.pipeline.spark_workers import open_spark_workers as open_spark_workers
    from triomq.pipeline.worker_task import WorkerPlan as WorkerPlan

# The module of each public name; __all__ below lists the same names for tools that read and do not run.
_MODULES = {
    "SPARK_ERRORS": "triomq.pipeline.spark_failures",
    "SparkWorkers": "triomq.pipeline.spark_workers",
    "SparkWorkersStatistics": "triomq.pipeline.spark_workers",
    "WorkerPlan": "triomq.pipeline.worker_task",
    "check_pyspark": "triomq.pipeline.spark_session",
    "find_java": "triomq.pipeline.java",
    "map_on": "triomq.pipeline.job_columns",
    "open_session": "triomq.pipeline.spark_session",
    "open_spark_workers": "triomq.pipeline.spark_workers",
    "reason_of": "triomq.pipeline.spark_failures",
    "register": "triomq.pipeline.spark_session",
    "run_batch": "triomq.pipeline.job_batches",
    "session": "triomq.pipeline.spark_session",
}

__all__ = [
    "SPARK_ERRORS",
    "SparkWorkers",
    "SparkWorkersStatistics",
    "WorkerPlan",
    "check_pyspark",
    "find_java",
    "map_on",
    "open_session",
    "open_spark_workers",
    "reason_of",
    "register",
    "run_batch",
    "session",
]

__getattr__ = lazy_names(__name__, _MODULES, __all__)
