"""How long messages wait in queues, and are with consumers: percentiles."""

from triomq.analytics.relations import T, array_text, query

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def percentiles(table: T, column: str, *, exact: bool) -> str:
    """Return in SQL the percentiles of a column of seconds, as an array; ``percentile_columns`` makes columns of it.

    Spark's approximation, whose rank is wrong by at most one in 10,000, is right to 1 % of the value for the 99th of
    times with a long tail. Exact ones have a list of all different values of a group in memory.
    """
    function = "percentile" if exact else "approx_percentile"
    return f"{function}({column}, {array_text(table, [*SHARES.values()])}) AS {column}_shares"


def percentile_columns(*columns: str) -> str:
    """Return in SQL a column for each percentile of some columns, out of their arrays."""
    return ", ".join(
        f"try_element_at({column}_shares, {place}) AS {column}_{share}"
        for column in columns
        for place, share in enumerate(SHARES, 1)
    )


def waits(stays: T, *, exact: bool = False) -> T:
    """Return how long messages of each queue waited until they were first delivered, and ran until they were settled.

    Args:
        stays: What ``stays`` returns.
        exact: Percentiles are not approximated.

    Returns:
        ``node``, ``domain``, ``queue``; ``messages``, of how many the wait is known; ``wait_p50``, ``wait_p95``,
        ``wait_p99``, ``wait_max``, and the same of ``run``, in seconds. A run ends with ``accepted`` or ``rejected``.
    """
    shares = [percentiles(stays, column, exact=exact) for column in ("wait", "run")]
    return query(
        f"""
        SELECT node, domain, queue, messages,
            {percentile_columns("wait")}, wait_max, {percentile_columns("run")}, run_max
        FROM (
            SELECT node, domain, queue, count(wait) AS messages, max(wait) AS wait_max, max(run) AS run_max,
                {", ".join(shares)}
            FROM {{stays}} WHERE wait IS NOT NULL OR run IS NOT NULL GROUP BY node, domain, queue
        ) of_queues
        """,
        stays=stays,
    )


def waits_by_minute(stays: T, *, exact: bool = False) -> T:
    """Return how long the messages had waited that were delivered in each minute.

    Args:
        stays: What ``stays`` returns.
        exact: Percentiles are not approximated.

    Returns:
        ``minute``; ``node``, ``domain``, ``queue``; ``wait_p50``, ``wait_p95``, ``wait_p99``, in seconds.
    """
    return query(
        f"""
        SELECT minute, node, domain, queue, {percentile_columns("wait")}
        FROM (
            SELECT minute, node, domain, queue, {percentiles(stays, "wait", exact=exact)}
            FROM (
                SELECT date_trunc('minute', delivered) AS minute, node, domain, queue, wait
                FROM {{stays}} WHERE wait IS NOT NULL
            ) delivered_messages
            GROUP BY minute, node, domain, queue
        ) of_minutes
        """,
        stays=stays,
    )
