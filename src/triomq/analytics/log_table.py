"""The log itself: from when to when, of whom, and what is missing."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf


def log(events: DataFrame) -> DataFrame:
    """Return one row about all rows.

    Args:
        events: Rows of a trace log.

    Returns:
        ``first`` and ``last``, times; ``events``, how many; ``nodes``, their names; ``lost``, how many events the
        brokers had no room for; ``missing``, how many more are not there, since a process numbers its rows without
        gaps: files that were skipped, or removed between others.
    """
    by_process = events.groupBy("node", "process").agg(
        sf.min("ts").alias("first"),
        sf.max("ts").alias("last"),
        sf.count("*").alias("events"),
        sf.sum(sf.when(sf.col("kind") == "lost-events", sf.col("size"))).alias("lost"),
        (sf.max("seq") - sf.min("seq") + 1 - sf.count("*")).alias("missing"),
    )
    return by_process.agg(
        sf.min("first").alias("first"),
        sf.max("last").alias("last"),
        sf.coalesce(sf.sum("events"), sf.lit(0)).alias("events"),
        sf.array_sort(sf.collect_set("node")).alias("nodes"),
        sf.coalesce(sf.sum("lost"), sf.lit(0)).alias("lost"),
        sf.coalesce(sf.sum("missing"), sf.lit(0)).alias("missing"),
    )
