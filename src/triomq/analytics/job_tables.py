"""What became of jobs, and why some failed."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from triomq.analytics.wait_tables import percentiles, with_percentiles

KINDS: Final = ("submitted", "started", "finished", "failed", "retried", "timed-out", "cancelled")
"""Kinds of events of jobs, without what they begin with, ``job-``."""

_RUN_ENDS: Final = ("job-finished", "job-failed", "job-retried", "job-timed-out")


def jobs(events: DataFrame, *, exact: bool = False) -> DataFrame:
    """Count what became of the jobs of each function.

    Args:
        events: Rows of a trace log.
        exact: Percentiles are not approximated.

    Returns:
        ``job``, ``queue``; how often it was ``submitted``, ``started``, ``finished``, ``failed`` for good, ``retried``,
        ``timed_out``, ``cancelled``; ``run_p50``, ``run_p95``, ``run_p99``, how long a run took that was not cancelled,
        in seconds.
    """
    kind, ts = sf.col("kind"), sf.unix_micros("ts")
    run = sf.max(sf.when(kind.isin(*_RUN_ENDS), ts)) - sf.max(sf.when(kind == "job-started", ts))
    names = {f"job-{name}": name.replace("-", "_") for name in KINDS}
    counts = [sf.count_if(kind == found).alias(name) for found, name in names.items()]
    runs = (
        events.where(kind.isin(*names) & sf.col("job_id").isNotNull())
        .groupBy("node", "job_id", "job", "queue", sf.coalesce("attempt", sf.lit(0)).alias("attempt"))
        .agg(*counts, (run / 1e6).alias("run"))
    )
    totals = [sf.sum(name).alias(name) for name in names.values()]
    known = runs.withColumn("run", sf.when(sf.col("run") >= 0, sf.col("run")))
    return with_percentiles(known.groupBy("job", "queue").agg(*totals, percentiles("run", exact=exact)))


def job_failures(events: DataFrame) -> DataFrame:
    """Count failures of jobs by their exceptions.

    Args:
        events: Rows of a trace log, or a stream of them.

    Returns:
        ``job``; ``error``, the exception's type; ``message``, the text of the last one; how often a job ``failed`` for
        good, was ``retried``, or ``timed_out`` so; ``last``, when; ``example``, the id of the last job.
    """
    kind, error = sf.col("kind"), sf.col("error")
    failures = events.where(kind.isin("job-failed", "job-retried", "job-timed-out")).withColumns(
        {
            "error": sf.coalesce(sf.substring_index("error", ": ", 1), sf.lit("unknown")),
            "message": sf.when(error.contains(": "), sf.regexp_replace("error", r"^.*?: ", "")),
        }
    )
    return failures.groupBy("job", "error").agg(
        sf.max_by("message", "ts").alias("message"),
        sf.count_if(kind == "job-failed").alias("failed"),
        sf.count_if(kind == "job-retried").alias("retried"),
        sf.count_if(kind == "job-timed-out").alias("timed_out"),
        sf.max("ts").alias("last"),
        sf.max_by("job_id", "ts").alias("example"),
    )
