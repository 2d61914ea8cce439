"""Tables of reports that no Spark has made: of a normal day, of a thousand queues, of names that try to break out."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from triomq.analytics.page.tables import SCHEMAS

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)

Row = Mapping[str, object]

HOSTILE = [
    "</script><script>window.broken = 1</script>",
    "<img src=x onerror='window.broken = 1'>",
    "\"><svg onload=window.broken=1>'`${window.broken = 1}",
    "<b>bold</b> &lt;i&gt; {{ 7 * 7 }} %{x} $x^2$",
    "<a href='https://elsewhere.example/x.png'>a link</a>",
    "\u202eright to left\u2066 and \u2028 a line \u2029 and more",
    "bell \x07 escape \x1b[31m nothing \x00 newline \n end",
    "long " + "x" * 100_000,
    "2026-01-01",
    "",
    "שלום עולם",
]


def write_tables(directory: Path, tables: Mapping[str, Sequence[Row]]) -> Path:
    """Write tables as a report has them; return its folder."""
    for name, rows in tables.items():
        folder = directory / "tables" / name
        folder.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(list(rows), SCHEMAS[name]), folder / "part-00000.zstd.parquet")
    return directory


def log(events: int = 1, **more: object) -> Row:
    """Make the one row of ``log``."""
    some = {"first": NOON, "last": NOON + timedelta(hours=2), "nodes": ["one"], "lost": 0, "skipped": []}
    return {"events": events, "seconds": 21.5, "exact": False, **some, **more}


def day(queues: Sequence[str], minutes: int = 120) -> dict[str, list[Row]]:
    """Make tables of queues in which all went well."""
    throughput, by_minute, waits = [], [], []
    for number, queue in enumerate(queues):
        of_queue = {"domain": "default", "queue": queue}
        for minute in range(minutes):
            busy = 600 / (1 + number) * (1.2 + math.sin((minute + 13 * number) / 9))
            count = int(busy) + 1
            time = {"minute": NOON + timedelta(minutes=minute)}
            counts = {"queued": count, "delivered": count, "accepted": count, "requeued": 0, "bytes": 700 * count}
            throughput.append({**time, **of_queue, **counts})
            wait = 0.002 * (1 + number) * (1.5 + math.sin(minute / 11 + number))
            by_minute.append({**time, **of_queue, "wait_p50": wait, "wait_p95": 4 * wait, "wait_p99": 9 * wait})
        base = 0.002 * (1 + number)
        of_wait = {"wait_p50": base, "wait_p95": 5 * base, "wait_p99": 11 * base, "wait_max": 40 * base}
        of_run = {"run_p50": 0.01, "run_p95": 0.02, "run_p99": 0.05, "run_max": 0.3}
        waits.append({**of_queue, "messages": 70_000 // (1 + number), **of_wait, **of_run})
    return {"throughput": throughput, "waits": waits, "waits_by_minute": by_minute, "log": [log(1_234_567)]}


def bad_day(queues: Sequence[str], minutes: int = 120) -> dict[str, list[Row]]:
    """Make tables with something of everything that can be wrong."""
    tables = day(queues, minutes)
    first, second = queues[0], queues[-1]
    tables["waits"][0] = {**tables["waits"][0], "wait_p95": 4.2, "wait_p99": 17.0, "wait_max": 65.0}
    tables["throughput"] = [
        {**row, "delivered": int(str(row["delivered"])) // 2} if row["queue"] == second else row
        for row in tables["throughput"]
    ]
    counts = {"submitted": 900, "started": 950, "finished": 820, "failed": 30, "retried": 120, "timed_out": 4}
    tables["jobs"] = [
        {
            "job": f"{queue}.send",
            "queue": queue,
            **counts,
            "cancelled": 3,
            "run_p50": 0.2,
            "run_p95": 1.0,
            "run_p99": 3.0,
        }
        for queue in queues[:12]
    ]
    error = {"error": "TimeoutError", "message": f"no answer from {second}", "failed": 30, "retried": 90, "last": NOON}
    tables["job_failures"] = [{"job": f"{queue}.send", "example": f"job-{queue}", **error} for queue in queues[:12]]
    times = {"first": NOON, "last": NOON + timedelta(minutes=40)}
    tables["dead_letters"] = [
        {"domain": "default", "from_queue": first, "queue": "failed", "reason": "rejected", "messages": 17, **times},
        {"domain": "default", "from_queue": second, "queue": "late", "reason": "expired", "messages": 2, **times},
    ]
    tables["lost_peers"] = [
        {
            "ts": NOON,
            "node": "one",
            "peer": first,
            "protocol": "amqp",
            "error": "no heartbeat for 20 s",
            "unsettled": 12,
        }
    ]
    delivered = {"delivered": NOON, "consumer": second, "attempt": 1}
    tables["unsettled"] = [
        {"domain": "default", "queue": first, "msg_id": number, "message_id": f"order-{number}", **delivered}
        for number in range(3)
    ]
    tables["unsettled_by_queue"] = [{"domain": "default", "queue": first, "messages": 3}]
    tables["slowest"] = [
        {"domain": "default", "queue": queue, "msg_id": 100 + number, "message_id": queue, "outcome": "accepted"}
        | {"path": [{"queue": queue, "msg_id": 1}, {"queue": "failed", "msg_id": 2}]}
        | {"total": 90.0 / (number + 1), "wait": 80.0 / (number + 1), "run": 10.0 / (number + 1)}
        for number, queue in enumerate(queues)
    ]
    tables["log"] = [log(1_234_567, lost=1000, missing=250, clock_set_back=2, skipped=[f"{first}: it is damaged"])]
    return tables
