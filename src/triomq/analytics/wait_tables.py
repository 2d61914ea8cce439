"""How long messages wait in queues, and are with consumers: percentiles."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

QUEUE = ("node", "domain", "queue")
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def percentiles(column: str, *, exact: bool) -> Column:
    """Return the percentiles of a column of seconds, as an array; ``with_percentiles`` makes columns of it.

    Spark's approximation, whose rank is wrong by at most one in 10,000, is right to 1 % of the value for the 99th of
    times with a long tail. Exact ones have a list of all different values of a group in memory.
    """
    shares = sf.array(*map(sf.lit, SHARES.values()))
    found = sf.percentile(column, shares) if exact else sf.approx_percentile(column, shares)
    return found.alias(f"{column}_shares")


def with_percentiles(found: DataFrame) -> DataFrame:
    """Return a table with a column for each percentile of some columns, in the places of their arrays."""
    names = []
    for name in found.columns:
        column = name.removesuffix("_shares")
        if name == column:
            names.append(sf.col(name))
        else:
            names += [sf.get(name, sf.lit(place)).alias(f"{column}_{share}") for place, share in enumerate(SHARES)]
    return found.select(*names)


def waits(stays: DataFrame, *, exact: bool = False) -> DataFrame:
    """Return how long messages of each queue waited until they were first delivered, and ran until they were settled.

    Args:
        stays: What ``stays`` returns.
        exact: Percentiles are not approximated.

    Returns:
        ``node``, ``domain``, ``queue``; ``messages``, of how many the wait is known; ``wait_p50``, ``wait_p95``,
        ``wait_p99``, ``wait_max``, and the same of ``run``, in seconds. A run ends with ``accepted`` or ``rejected``.
    """
    known = stays.where("wait IS NOT NULL OR run IS NOT NULL").groupBy(*QUEUE)
    return with_percentiles(
        known.agg(
            sf.count("wait").alias("messages"),
            percentiles("wait", exact=exact),
            sf.max("wait").alias("wait_max"),
            percentiles("run", exact=exact),
            sf.max("run").alias("run_max"),
        )
    )


def waits_by_minute(stays: DataFrame, *, exact: bool = False) -> DataFrame:
    """Return how long the messages had waited that were delivered in each minute.

    Args:
        stays: What ``stays`` returns.
        exact: Percentiles are not approximated.

    Returns:
        ``minute``; ``node``, ``domain``, ``queue``; ``wait_p50``, ``wait_p95``, ``wait_p99``, in seconds.
    """
    minute = sf.date_trunc("minute", "delivered").alias("minute")
    known = stays.where("wait IS NOT NULL").groupBy(minute, *QUEUE)
    return with_percentiles(known.agg(percentiles("wait", exact=exact)))
