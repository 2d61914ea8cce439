"""Measure a report of a trace log, and the same questions asked of the same files by DuckDB.

    python benchmarks/report.py [--events 5000000] [--rounds 3] [--no-duckdb]

report        `triomq pipeline report` as a process: the start of Spark on `local[2]`, all tables, and the page
duckdb        the six questions of QUESTIONS by DuckDB with two threads, its start and its import
spark         the same six by the functions of `triomq.analytics`, in the session of this process, which is warm

The answers of both are compared, row by row; percentiles of both are exact. DuckDB needs no start and is made for one
machine, so it is the measure of what Spark costs where the log fits on one.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from reportside.made_log import write_log
from triomq.analytics import dead_letters, job_failures, read_trace, stays, throughput, unsettled_by_queue, waits
from triomq.pipeline import session

STAYS: Final = """
    SELECT node, domain, queue, msg_id, min(ts) FILTER (kind = 'queued') AS queued,
        min(ts) FILTER (kind = 'delivered') AS delivered, max(ts) FILTER (kind = 'delivered') AS taken,
        max(ts) FILTER (kind IN ('accepted', 'rejected')) AS ended,
        count(*) FILTER (kind = 'delivered') - count(*) FILTER (kind = 'requeued') AS out
    FROM log WHERE msg_id IS NOT NULL GROUP BY ALL
"""
"""As ``stays``, but for ids that were used again, of which the made log has none."""

QUESTIONS: Final = {
    "throughput": """SELECT node, queue, strftime(date_trunc('minute', ts), '%H:%M') AS minute, protocol,
        count(*) FILTER (kind = 'queued'), count(*) FILTER (kind = 'accepted') FROM log
        WHERE kind IN ('queued', 'delivered', 'accepted', 'requeued') AND queue IS NOT NULL GROUP BY ALL""",
    "waits": f"""SELECT node, queue, quantile_cont(epoch_us(delivered) - epoch_us(queued), [0.5, 0.95, 0.99]),
        quantile_cont(epoch_us(ended) - epoch_us(taken), [0.5, 0.95, 0.99]) FROM ({STAYS})
        WHERE delivered IS NOT NULL GROUP BY ALL""",
    "unsettled": f"""SELECT node, queue, count(*) FROM ({STAYS}) WHERE out > 0 AND ended IS NULL GROUP BY ALL""",
    "jobs": """SELECT job, split_part(error, ': ', 1), count(*) FROM log
        WHERE kind IN ('job-failed', 'job-retried') GROUP BY ALL""",
    "letters": """SELECT node, from_queue, queue, error, count(*) FROM log
        WHERE kind = 'queued' AND from_queue IS NOT NULL AND error IS NOT NULL GROUP BY ALL""",
    "events": "SELECT kind, count(*) FROM log GROUP BY ALL",
}


def ask_duckdb(trace: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Answer all questions with DuckDB."""
    import duckdb

    database = duckdb.connect(config={"threads": 2})
    database.execute("SET TimeZone = 'UTC'")
    database.execute(f"CREATE VIEW log AS FROM read_parquet('{trace}/*/*/*.parquet', hive_partitioning = false)")
    return {name: database.execute(question).fetchall() for name, question in QUESTIONS.items()}


def ask_spark(spark: SparkSession, trace: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Answer all questions with the functions of reports."""
    events = read_trace(spark, trace)
    kept = stays(events, DataFrame.persist)
    shares = [f"{kind}_{share}" for kind in ("wait", "run") for share in ("p50", "p95", "p99")]
    frames = {
        "throughput": throughput(events).select("node", "queue", "minute", "protocol", "queued", "accepted"),
        "waits": waits(kept, exact=True).select("node", "queue", *shares),
        "unsettled": unsettled_by_queue(kept).select("node", "queue", "messages"),
        "jobs": job_failures(events).selectExpr("job", "error", "failed + retried"),
        "letters": dead_letters(events).select("node", "from_queue", "queue", "reason", "messages"),
        "events": events.groupBy("kind").count(),
    }
    found = {name: [tuple(row) for row in frame.collect()] for name, frame in frames.items()}
    spark.catalog.clearCache()
    return found


def comparable(name: str, rows: list[tuple[Any, ...]]) -> list[str]:
    """Return the rows of an answer sorted, times of both kinds as texts, percentiles in whole milliseconds."""
    found = []
    for row in rows:
        values: list[object] = []
        for value in row:
            if isinstance(value, list):
                values += [round(part / 1000) for part in value]
            elif isinstance(value, float):
                values.append(round(value * 1000))
            else:
                values.append(value.strftime("%H:%M") if name == "throughput" and hasattr(value, "strftime") else value)
        found.append(str(values))
    return sorted(found)


def timed(what: Callable[[], Any]) -> tuple[float, Any]:
    """Call it; return the seconds that it took, and what it returned."""
    began = time.perf_counter()
    result = what()
    return time.perf_counter() - began, result


def report(trace: Path, out: Path) -> None:
    """Run the command."""
    command = [sys.executable, "-m", "triomq", "pipeline", "report", str(trace), "--out", str(out)]
    subprocess.run([*command, "--master", "local[2]"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def show(name: str, rounds: list[float], events: int) -> None:
    """Print a line of the table."""
    median = sorted(rounds)[len(rounds) // 2]
    print(f"{name:20} {median:8.2f} s median {min(rounds):8.2f} s best {events / median:>12,.0f} events/s", flush=True)


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-duckdb", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "log"
        events = write_log(trace, chosen.events)
        print(f"{events:,} events", flush=True)
        show("report", [timed(lambda: report(trace, Path(folder) / "report"))[0] for _ in range(chosen.rounds)], events)
        if chosen.no_duckdb:
            return
        duckdb = [timed(lambda: ask_duckdb(trace)) for _ in range(chosen.rounds)]
        show("duckdb", [seconds for seconds, _ in duckdb], events)
        spark = session("benchmark", master="local[2]", conf={"spark.ui.enabled": "false", "spark.log.level": "OFF"})
        ours = [timed(lambda: ask_spark(spark, trace)) for _ in range(chosen.rounds + 1)][1:]
        show("spark", [seconds for seconds, _ in ours], events)
        for name in QUESTIONS:
            same = comparable(name, duckdb[-1][1][name]) == comparable(name, ours[-1][1][name])
            print(f"{name:20} {'the same answer' if same else 'ANOTHER ANSWER'}")
        spark.stop()


if __name__ == "__main__":
    main()
