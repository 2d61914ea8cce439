"""What became of jobs, and why some failed."""

from typing import Final

from triomq.analytics.relations import T, query
from triomq.analytics.wait_tables import percentile_columns, percentiles

KINDS: Final = ("submitted", "started", "finished", "failed", "retried", "timed-out", "cancelled")
"""Kinds of events of jobs, without what they begin with, ``job-``."""

_RUN_ENDS: Final = ("job-finished", "job-failed", "job-retried", "job-timed-out")
_FAILURES: Final = ("job-failed", "job-retried", "job-timed-out")


def jobs(events: T, *, exact: bool = False) -> T:
    """Count what became of the jobs of each function.

    Args:
        events: Rows of a trace log.
        exact: Percentiles are not approximated.

    Returns:
        ``job``, ``queue``; how often it was ``submitted``, ``started``, ``finished``, ``failed`` for good, ``retried``,
        ``timed_out``, ``cancelled``; ``run_p50``, ``run_p95``, ``run_p99``, how long a run took that was not cancelled,
        in seconds.
    """
    names = {kind: kind.replace("-", "_") for kind in KINDS}
    counts = ", ".join(f"count_if(kind = 'job-{kind}') AS {name}" for kind, name in names.items())
    sums = ", ".join(f"cast(sum({name}) AS bigint) AS {name}" for name in names.values())
    return query(
        f"""
        SELECT job, queue, {", ".join(names.values())}, {percentile_columns("run")}
        FROM (
            SELECT job, queue, {sums}, {percentiles(events, "run", exact=exact)}
            FROM (
                SELECT job, queue, {", ".join(names.values())},
                    CASE WHEN ended >= began THEN (ended - began) / 1e6 END AS run
                FROM (
                    SELECT node, job_id, job, queue, run_number, {counts},
                        max(CASE WHEN kind IN {_RUN_ENDS} THEN unix_micros(ts) END) AS ended,
                        max(CASE WHEN kind = 'job-started' THEN unix_micros(ts) END) AS began
                    FROM (
                        SELECT node, job_id, job, queue, coalesce(attempt, 0) AS run_number, kind, ts FROM {{events}}
                        WHERE kind IN {tuple(f"job-{kind}" for kind in KINDS)} AND job_id IS NOT NULL
                    ) of_jobs
                    GROUP BY node, job_id, job, queue, run_number
                ) single_runs
            ) runs
            GROUP BY job, queue
        ) totals
        """,
        events=events,
    )


def job_failures(events: T) -> T:
    """Count failures of jobs by their exceptions.

    Args:
        events: Rows of a trace log, or a stream of them.

    Returns:
        ``job``; ``error``, the exception's type; ``message``, the text of the last one; how often a job ``failed`` for
        good, was ``retried``, or ``timed_out`` so; ``last``, when; ``example``, the id of the last job.
    """
    return query(
        f"""
        SELECT job, type AS error, nullif(max_by(message, ts), '') AS message,
            count_if(kind = 'job-failed') AS failed, count_if(kind = 'job-retried') AS retried,
            count_if(kind = 'job-timed-out') AS timed_out, max(ts) AS last, max_by(job_id, ts) AS example
        FROM (
            SELECT job, ts, kind, coalesce(job_id, '') AS job_id,
                CASE WHEN instr(error, ': ') > 0 THEN substr(error, 1, instr(error, ': ') - 1)
                    ELSE coalesce(error, 'unknown') END AS type,
                CASE WHEN instr(error, ': ') > 0 THEN substr(error, instr(error, ': ') + 2) ELSE '' END AS message
            FROM {{events}} WHERE kind IN {_FAILURES}
        ) failures
        GROUP BY job, type
        """,
        events=events,
    )
