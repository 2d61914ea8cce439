"""A trace log of as many events as one likes: an hour of two brokers, from a fixed seed."""

import random
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

BEGIN: Final = 1_769_860_800_000_000
"""When the log begins, in microseconds since 1970: 2026-01-31 12:00 UTC."""

SPAN: Final = 3_600_000_000
"""How long it lasts, in microseconds."""

ROWS: Final = 250_000
"""Rows of a file, as brokers write them."""

QUEUES: Final = 20
WEIGHTS: Final = [100 if number == 0 else 30 / number for number in range(QUEUES)]
"""One queue has more than half of all messages."""

PROTOCOLS: Final = ("amqp", "dmp", "emqp")
ERRORS: Final = ("TimeoutError: no answer", "ValueError: not an address", "KeyError: 'customer'")

NUMBERS: Final = {"msg_id": pa.int64(), "session": pa.int64(), "attempt": pa.int16(), "size": pa.int32()}
TEXTS: Final = ("kind", "domain", "queue", "consumer", "protocol", "from_queue", "job", "error")
TYPES: Final = {"ts": pa.timestamp("us", "UTC"), "seq": pa.int64(), **NUMBERS, "from_id": pa.int64()}
COLUMNS: Final = (
    *("ts", "seq", "node", "kind", "domain", "queue", "msg_id", "session", "attempt", "size", "exchange"),
    *("routing_key", "consumer", "message_id", "correlation_id", "traceparent", "from_queue", "from_id"),
    *("job_id", "job", "error", "protocol"),
)


class Record(NamedTuple):
    """Events of one kind at one time, of messages whose ids follow one another."""

    time: int
    kind: str
    queue: str
    first: int = -1
    rows: int = 1
    session: int = -1
    attempt: int = -1
    size: int = -1
    consumer: str = ""
    protocol: str = ""
    from_queue: str = ""
    from_id: int = -1
    job: str = ""
    job_id: str = ""
    error: str = ""


def records(events: int, chance: random.Random) -> Iterator[Record]:
    """Make records of about so many events, in no order."""
    made, ids, sessions = 0, dict.fromkeys(range(QUEUES + 1), 1), 0
    while made < events:
        number = chance.choices(range(QUEUES), WEIGHTS)[0]
        count, queue = chance.randint(1, 24), f"queue-{number}"
        first, ids[number] = ids[number], ids[number] + count
        protocol, consumer = chance.choice(PROTOCOLS), f"/endpoints/amqp/{number}"
        time = BEGIN + chance.randrange(SPAN)
        yield Record(time, "queued", queue, first, count, 1 + number, 0, chance.randint(50, 2000), protocol=protocol)
        taken = {"consumer": consumer, "protocol": chance.choice(PROTOCOLS), "session": 100 + number}
        made += count
        for attempt in range(4):
            time += int(1000 * chance.lognormvariate(3, 2))
            made += 2 * count
            if chance.random() < 0.0005:  # lost with its consumer, which never settled
                sessions += 1
                lost = {**taken, "session": 1000 + sessions}
                yield Record(time, "delivered", queue, first, count, attempt=attempt, **lost)  # type: ignore[arg-type]
                yield Record(time + 9_000_000, "peer-lost", "", error="no heartbeat for 20 s", **lost)  # type: ignore[arg-type]
                break
            yield Record(time, "delivered", queue, first, count, attempt=attempt, **taken)  # type: ignore[arg-type]
            time += int(1000 * chance.lognormvariate(2, 1.5))
            chances = chance.random()
            kind = "accepted" if chances < 0.97 else "requeued" if chances < 0.99 else "rejected"
            yield Record(time, kind, queue, first, count, **taken)  # type: ignore[arg-type]
            if kind == "rejected":
                letter, ids[QUEUES] = ids[QUEUES], ids[QUEUES] + count
                made += count
                for place in range(count):
                    origin = {"from_queue": queue, "from_id": first + place, "error": "rejected"}
                    yield Record(time, "queued", "failed", letter + place, size=100, **origin)  # type: ignore[arg-type]
            if kind != "requeued":
                break
        if chance.random() < 0.1:
            made += 2
            yield from _job(made, time, chance)


def _job(number: int, time: int, chance: random.Random) -> Iterator[Record]:
    job = {"job": f"jobs.{chance.randrange(8)}", "job_id": f"{number:032x}"}
    yield Record(time, "job-submitted", "work", **job)  # type: ignore[arg-type]
    for attempt in range(3):
        time += int(1000 * chance.lognormvariate(2, 1))
        yield Record(time, "job-started", "work", attempt=attempt, consumer="w", **job)  # type: ignore[arg-type]
        time += int(1000 * chance.lognormvariate(4, 1))
        if chance.random() < 0.95:
            yield Record(time, "job-finished", "work", attempt=attempt, consumer="w", **job)  # type: ignore[arg-type]
            return
        job = {**job, "error": chance.choice(ERRORS)}
        kind = "job-failed" if attempt == 2 else "job-retried"
        yield Record(time, kind, "work", attempt=attempt, consumer="w", **job)  # type: ignore[arg-type]


def write_log(directory: Path, events: int) -> int:
    """Write a log of about so many events; return how many there are."""
    chance = random.Random(25)
    written = 0
    for node in ("one", "two"):
        found = sorted(records(events // 2, chance))
        part: list[Record] = []
        rows = files = seq = 0
        hour = found[0].time // 3_600_000_000
        for record in found:
            if part and (rows + record.rows > ROWS or record.time // 3_600_000_000 != hour):
                files, seq = files + 1, _write(directory, node, files + 1, seq, part)
                part, rows, hour = [], 0, record.time // 3_600_000_000
            part.append(record)
            rows += record.rows
        written += _write(directory, node, files + 1, seq, part)
    return written


def _write(directory: Path, node: str, number: int, seq: int, part: list[Record]) -> int:
    """Write a file; return the number of the row after its last one."""
    counts = [record.rows for record in part]
    rows = sum(counts)
    columns: dict[str, pa.Array] = {
        "ts": pa.array(_repeated([record.time for record in part], counts)).cast(TYPES["ts"]),
        "seq": pa.array(range(seq, seq + rows), pa.int64()),
        "node": pa.array([node]).dictionary_encode().take(pa.array([0] * rows)),
        "msg_id": _or_null(_ids(part)),
        "message_id": pa.array([f"{record.queue}-{record.first + n}" if record.kind == "queued" else None
                                for record in part for n in range(record.rows)], pa.string()),
        "job_id": pa.array([record.job_id or None for record in part for _ in range(record.rows)], pa.string()),
    }  # fmt: skip
    for name in ("session", "attempt", "size", "from_id"):
        columns[name] = _or_null(_repeated([getattr(record, name) for record in part], counts)).cast(TYPES[name])
    for name in TEXTS:
        texts: dict[str, int] = {}
        values = [getattr(record, name) for record in part] if name != "domain" else ["/"] * len(part)
        places = [texts.setdefault(value, len(texts)) if value else -1 for value in values]
        columns[name] = pa.DictionaryArray.from_arrays(
            _or_null(_repeated(places, counts)).cast(pa.int32()), pa.array(list(texts), pa.string())
        )
    table = pa.table({name: columns.get(name, pa.nulls(rows, pa.string())) for name in COLUMNS})
    begins = datetime.fromtimestamp(part[0].time / 1e6, UTC)
    folder = directory / f"date={begins:%Y-%m-%d}" / f"hour={begins:%H}"
    folder.mkdir(parents=True, exist_ok=True)
    differences = dict.fromkeys(("ts", "seq", "msg_id"), "DELTA_BINARY_PACKED")
    pq.write_table(
        table,
        folder / f"trace-{node}-{BEGIN}-{number:06}.parquet",
        compression="zstd",
        use_dictionary=[name for name in COLUMNS if name not in differences],
        column_encoding=differences,
    )
    return seq + rows


def _repeated(values: list[int], counts: list[int]) -> "array[int]":
    found = array("q")
    for value, count in zip(values, counts, strict=True):
        found.frombytes(value.to_bytes(8, "little", signed=True) * count)
    return found


def _ids(part: list[Record]) -> "array[int]":
    found = array("q")
    for record in part:
        found.extend(range(record.first, record.first + record.rows) if record.first >= 0 else [-1])
    return found


def _or_null(values: "array[int]") -> pa.Array:
    numbers = pa.array(values)
    return pa.compute.if_else(pa.compute.equal(numbers, -1), None, numbers)
