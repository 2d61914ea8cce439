"""The tables of a report, as they are on disk: what the page is drawn from.

A table is a folder of Parquet files. A folder that is not there is an empty table, and so is a column: a report of
another version, or one that was made without jobs, is drawn as far as it goes. Columns that are there are converted to
the types below, so that all that follows sees the same types.
"""

from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from triomq.errors import ReportError

_TIME: Final = pa.timestamp("us", "UTC")
_NUMBER, _SECONDS, _TEXT = pa.int64(), pa.float64(), pa.string()
_OF_QUEUE: Final = dict.fromkeys(("node", "domain", "queue"), _TEXT)
_WAITS: Final = dict.fromkeys(("wait_p50", "wait_p95", "wait_p99"), _SECONDS)
_RUNS: Final = dict.fromkeys(("run_p50", "run_p95", "run_p99"), _SECONDS)

_HOP: Final = pa.struct(
    [
        ("queue", _TEXT),
        ("msg_id", _NUMBER),
        ("queued", _TIME),
        ("delivered", _TIME),
        ("ended", _TIME),
        ("outcome", _TEXT),
        ("deliveries", _NUMBER),
    ]
)
"""What happened to a message in one of the queues of its path."""


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


class ReportTables(msgspec.Struct, frozen=True):
    """All tables of a report; each field is the folder of its name."""

    throughput: pa.Table
    waits: pa.Table
    waits_by_minute: pa.Table
    jobs: pa.Table
    job_failures: pa.Table
    dead_letters: pa.Table
    lost_peers: pa.Table
    unsettled: pa.Table
    unsettled_by_queue: pa.Table
    slowest: pa.Table
    log: pa.Table


SCHEMAS: Final = {
    "throughput": _schema(
        minute=_TIME,
        **_OF_QUEUE,
        queued=_NUMBER,
        delivered=_NUMBER,
        accepted=_NUMBER,
        requeued=_NUMBER,
        gone=_NUMBER,
        purges=_NUMBER,
        bytes=_NUMBER,
    ),
    "waits": _schema(
        **_OF_QUEUE,
        messages=_NUMBER,
        **_WAITS,
        wait_max=_SECONDS,
        **_RUNS,
        run_max=_SECONDS,
    ),
    "waits_by_minute": _schema(minute=_TIME, **_OF_QUEUE, **_WAITS),
    "jobs": _schema(
        job=_TEXT,
        queue=_TEXT,
        submitted=_NUMBER,
        started=_NUMBER,
        finished=_NUMBER,
        failed=_NUMBER,
        retried=_NUMBER,
        timed_out=_NUMBER,
        cancelled=_NUMBER,
        **_RUNS,
    ),
    "job_failures": _schema(
        job=_TEXT, error=_TEXT, message=_TEXT, failed=_NUMBER, retried=_NUMBER, last=_TIME, example=_TEXT
    ),
    "dead_letters": _schema(
        node=_TEXT,
        domain=_TEXT,
        from_queue=_TEXT,
        queue=_TEXT,
        reason=_TEXT,
        messages=_NUMBER,
        first=_TIME,
        last=_TIME,
    ),
    "lost_peers": _schema(ts=_TIME, node=_TEXT, peer=_TEXT, protocol=_TEXT, error=_TEXT, unsettled=_NUMBER),
    "unsettled": _schema(
        **_OF_QUEUE,
        msg_id=_NUMBER,
        message_id=_TEXT,
        delivered=_TIME,
        consumer=_TEXT,
        attempt=_NUMBER,
    ),
    "unsettled_by_queue": _schema(**_OF_QUEUE, messages=_NUMBER),
    "slowest": _schema(
        **_OF_QUEUE,
        msg_id=_NUMBER,
        message_id=_TEXT,
        total=_SECONDS,
        wait=_SECONDS,
        run=_SECONDS,
        outcome=_TEXT,
        path=pa.list_(_HOP),
    ),
    "log": _schema(
        first=_TIME,
        last=_TIME,
        events=_NUMBER,
        nodes=pa.list_(_TEXT),
        lost=_NUMBER,
        missing=_NUMBER,
        clock_set_back=_NUMBER,
        skipped=pa.list_(_TEXT),
        seconds=_SECONDS,
        exact=pa.bool_(),
    ),
}
"""The columns that the page uses, of each table."""


def read_tables(folder: Path) -> ReportTables:
    """Read all tables of a report.

    Args:
        folder: What has a folder for each table.

    Raises:
        ReportError: There are none, or one cannot be read.
    """
    if not folder.is_dir():
        raise ReportError(f"{folder} is no folder; `triomq pipeline report` makes the tables that a page is drawn from")
    return ReportTables(**{name: _read(folder / name, schema) for name, schema in SCHEMAS.items()})


def _read(folder: Path, schema: pa.Schema) -> pa.Table:
    try:
        # Hidden files are unfinished ones, or Spark's checksums.
        files = [path for path in sorted(folder.glob("*.parquet")) if not path.name.startswith((".", "_"))]
        return _concatenate([pq.ParquetFile(path).read() for path in files], schema)
    except (OSError, pa.ArrowException) as error:
        raise ReportError(f"{folder}: cannot be read as a table of a report: {error}; make the report again") from error


def _concatenate(tables: list[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([_fit(table, schema) for table in tables]) if tables else schema.empty_table()


def _fit(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of a schema, in its types; null where a column is missing."""
    there = set(table.column_names)
    columns = [
        table[field.name].cast(field.type, safe=False) if field.name in there else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
