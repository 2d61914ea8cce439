"""Trace logs that were never written by a broker: a few stories, in the files that a broker would have written.

A story is a list of rows: dicts by column, with ``at``, seconds after ``NOON``, in place of ``ts``. ``seq`` is the
place in the list, ``node`` is the file's.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from triomq.tracelog.parquet import COLUMNS

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
BEGAN = 1_769_860_800_000_000
"""When the process of most files has started, in microseconds since 1970: at noon."""

Event = dict[str, object]

_TYPES = {
    "ts": pa.timestamp("us", "UTC"),
    "seq": pa.int64(),
    "msg_id": pa.int64(),
    "session": pa.int64(),
    "attempt": pa.int16(),
    "size": pa.int32(),
    "from_id": pa.int64(),
}
_NAMES = (*COLUMNS, *({"protocol"} - {*COLUMNS}))

SCHEMA = pa.schema([pa.field(name, _TYPES.get(name, pa.string())) for name in _NAMES])


def event(at: float, kind: str, queue: str | None = "orders", msg_id: int | None = 1, **more: object) -> Event:
    """Make a row of the domain ``/``."""
    of_queue = {} if queue is None else {"domain": "/", "queue": queue}
    return {"at": at, "kind": kind, "msg_id": msg_id, **of_queue, **more}


def write_log(directory: Path, events: Sequence[Event], *, node: str = "one", began: int = BEGAN, seq: int = 0) -> Path:
    """Write rows as one process of a broker does: a file for each hour; return the folder of the log."""
    rows = [(NOON + timedelta(seconds=float(str(row["at"]))), row) for row in events]
    for number, (hour, of_hour) in enumerate(groupby(rows, lambda row: row[0].strftime("date=%Y-%m-%d/hour=%H")), 1):
        folder = directory / hour
        folder.mkdir(parents=True, exist_ok=True)
        found = []
        for ts, row in of_hour:
            values = {name: value for name, value in row.items() if name != "at"}
            assert not values.keys() - set(_NAMES), values
            found.append({"ts": ts, "seq": seq, "node": node, **values})
            seq += 1
        table = pa.Table.from_pylist(found, SCHEMA)
        pq.write_table(table, folder / f"trace-{node}-{began}-{number:06}.parquet", compression="zstd")
    return directory


# Stories


def normal_message(at: float = 0.0, msg_id: int = 1, queue: str = "orders") -> list[Event]:
    """A message that waits 2 s, and is accepted after another 0.5 s."""
    ids = {"message_id": f"order-{msg_id}", "correlation_id": "c-1", "traceparent": "00-ab-cd-01"}
    published = {"size": 100, "session": 7, "exchange": "", "routing_key": queue, "protocol": "amqp", "attempt": 0}
    taken = {"consumer": "/endpoints/amqp/3", "session": 8, "protocol": "dmp"}
    return [
        event(at, "queued", queue, msg_id, **published, **ids),
        event(at + 2.0, "delivered", queue, msg_id, attempt=0, **taken),
        event(at + 2.5, "accepted", queue, msg_id, consumer="/endpoints/amqp/3", protocol="dmp"),
    ]


def dead_letter(at: float = 0.0, msg_id: int = 1) -> list[Event]:
    """A message that is rejected in ``orders``, expires in ``retry``, and is accepted out of ``failed``."""
    return [
        event(at, "queued", "orders", msg_id, size=50, message_id="bad", protocol="amqp"),
        event(at + 1, "delivered", "orders", msg_id, attempt=0, consumer="c", session=8, protocol="amqp"),
        event(at + 2, "rejected", "orders", msg_id, consumer="c", protocol="amqp"),
        event(at + 2, "queued", "retry", 40 + msg_id, size=50, message_id="bad", from_queue="orders", from_id=msg_id)
        | {"error": "rejected"},
        event(at + 12, "expired", "retry", 40 + msg_id),
        event(at + 12, "queued", "failed", 90 + msg_id, size=50, message_id="bad", from_queue="retry")
        | {"from_id": 40 + msg_id, "error": "expired"},
        event(at + 20, "delivered", "failed", 90 + msg_id, attempt=0, consumer="d", session=9, protocol="amqp"),
        event(at + 21, "accepted", "failed", 90 + msg_id, consumer="d", protocol="amqp"),
    ]


def job_of_three_tries(at: float = 0.0, job_id: str = "j1") -> list[Event]:
    """A job that fails twice and succeeds: its runs take 1, 1 and 3 s."""
    job = {"msg_id": None, "job_id": job_id, "job": "mail.send"}
    error = {"error": "TimeoutError: no answer from smtp"}
    return [
        event(at, "job-submitted", "mail", **job),
        event(at + 1, "job-started", "mail", **job, attempt=0, consumer="w1"),
        event(at + 2, "job-retried", "mail", **job, attempt=0, consumer="w1", **error),
        event(at + 5, "job-started", "mail", **job, attempt=1, consumer="w2"),
        event(at + 6, "job-retried", "mail", **job, attempt=1, consumer="w2", **error),
        event(at + 9, "job-started", "mail", **job, attempt=2, consumer="w1"),
        event(at + 12, "job-finished", "mail", **job, attempt=2, consumer="w1"),
    ]


def lost_peer(at: float = 0.0) -> list[Event]:
    """A peer that has three deliveries, settles one, and is lost; of the others one comes back and one does not."""
    peer = {"session": 8, "protocol": "amqp"}
    return [
        *(event(at, "queued", "orders", number, size=10, protocol="amqp", session=7) for number in (1, 2, 3)),
        *(event(at + 1, "delivered", "orders", number, attempt=0, consumer="c8", **peer) for number in (1, 2, 3)),
        event(at + 2, "accepted", "orders", 1, consumer="c8", protocol="amqp"),
        event(at + 5, "peer-lost", None, None, consumer="127.0.0.1:4711", error="no heartbeat", size=2, **peer),
        event(at + 5, "requeued", "orders", 2, consumer="c8", protocol="amqp"),
        event(at + 6, "delivered", "orders", 2, attempt=1, consumer="c9", session=9, protocol="amqp"),
        event(at + 7, "accepted", "orders", 2, consumer="c9", protocol="amqp"),
    ]


def clock_set_back(at: float = 0.0) -> list[Event]:
    """Two messages while the clock is set back by an hour: one has waited -3599 s by it, the other one 1 s."""
    return [
        event(at, "queued", "orders", 1, size=10, protocol="amqp"),
        event(at - 3599, "delivered", "orders", 1, attempt=0, consumer="c", protocol="amqp"),
        event(at - 3598, "accepted", "orders", 1, consumer="c", protocol="amqp"),
        event(at - 3597, "queued", "orders", 2, size=10, protocol="amqp"),
        event(at - 3596, "delivered", "orders", 2, attempt=0, consumer="c", protocol="amqp"),
        event(at - 3595, "accepted", "orders", 2, consumer="c", protocol="amqp"),
    ]
