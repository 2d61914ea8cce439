"""Files of a trace log: which there are for a time, and which of them can be read.

    DIR/date=2026-01-31/hour=13/trace-NODE-1769864400123456-000001.parquet

Spark can pass over files that it cannot read, but then does not say which, nor how many rows are missing. So the end of
each file is read here first: a Parquet file ends with its schema and the places of its columns, and one that was cut or
half copied has no such end. It costs a fifth of a millisecond a file.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from triomq.errors import TraceLogError

PHYSICAL_TYPES: Final[Mapping[str, str]] = {
    "ts": "INT64",
    "seq": "INT64",
    "node": "BYTE_ARRAY",
    "kind": "BYTE_ARRAY",
    "domain": "BYTE_ARRAY",
    "queue": "BYTE_ARRAY",
    "msg_id": "INT64",
    "session": "INT64",
    "attempt": "INT32",
    "size": "INT32",
    "exchange": "BYTE_ARRAY",
    "routing_key": "BYTE_ARRAY",
    "consumer": "BYTE_ARRAY",
    "message_id": "BYTE_ARRAY",
    "correlation_id": "BYTE_ARRAY",
    "traceparent": "BYTE_ARRAY",
    "from_queue": "BYTE_ARRAY",
    "from_id": "INT64",
    "job_id": "BYTE_ARRAY",
    "job": "BYTE_ARRAY",
    "error": "BYTE_ARRAY",
    "protocol": "BYTE_ARRAY",
}
"""Columns of the trace log, and how Parquet stores each."""

REQUIRED: Final = ("ts", "seq", "node", "kind")
"""Columns that every row has; a file without one of the others is an older one."""


class _UnreadableError(Exception):
    """A file is not one of a trace log, or not whole; the text says so."""


class TraceFiles(NamedTuple):
    """What of a trace log is there for a time.

    Args:
        files: Files that can be read, in the order of their hours.
        skipped: Why the others cannot be.
        rows: How many rows the files have, of that time and others.
    """

    files: list[Path]
    skipped: dict[Path, str]
    rows: int = 0


def find_files(
    directory: Path, since: datetime | None = None, until: datetime | None = None, *, strict: bool = False
) -> TraceFiles:
    """Find the files that may have rows of a time.

    A file stands in the folder of the hour in which its first row was written, and has no rows of the next one.

    Args:
        directory: The trace log.
        since: The first moment; None for the log's beginning.
        until: The moment after the last one; None for the log's end.
        strict: A file that cannot be read is an error.

    Raises:
        TraceLogError: There is no such folder; or a file cannot be read, and that is an error.
    """
    files, skipped, rows = [], {}, 0
    for path in _list_files(directory, since, until):
        try:
            rows += _count_rows(path)
            files.append(path)
        except _UnreadableError as error:
            if strict:
                text = f"{path}: {error}; move it away, or leave out --strict to go on without it"
                raise TraceLogError(text) from None
            skipped[path] = str(error)
    return TraceFiles(files, skipped, rows)


def check_directory(directory: Path) -> None:
    """Raise what is wrong with the folder of a trace log, if anything is.

    Raises:
        TraceLogError: It is not there, or it is a file.
    """
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "does not exist"
        raise TraceLogError(f"{directory} {what}; a trace log is the folder that `triomq serve --trace` was given")


def _list_files(directory: Path, since: datetime | None, until: datetime | None) -> Iterator[Path]:
    check_directory(directory)
    for folder in sorted(directory.glob("date=*/hour=*")):
        begin = _hour_of(folder)
        if begin is None or (until is not None and begin >= until):
            continue
        if since is None or begin + timedelta(hours=1) > since:
            yield from sorted(path for path in folder.glob("*.parquet") if not path.name.startswith((".", "_")))


def _hour_of(folder: Path) -> datetime | None:
    """Return when the hour of a folder begins; None if it is a folder of something else."""
    try:
        return datetime.strptime(f"{folder.parent.name}/{folder.name}", "date=%Y-%m-%d/hour=%H").replace(tzinfo=UTC)
    except ValueError:
        return None


def _count_rows(path: Path) -> int:
    """Return how many rows a file has by what stands at its end.

    Raises:
        _UnreadableError: It cannot be read as one of a trace log.
    """
    try:
        found = pq.read_metadata(path)
    except FileNotFoundError:
        raise _UnreadableError("it was removed") from None
    except (pa.ArrowException, OSError) as error:
        raise _UnreadableError(f"it is damaged or not whole ({' '.join(str(error).split())[:120]})") from None
    columns = [found.schema.column(place) for place in range(found.num_columns)]
    types = {column.path: column.physical_type for column in columns}
    if missing := [name for name in REQUIRED if name not in types]:
        raise _UnreadableError(f"it is of something else: it has no column {', '.join(missing)}")
    if wrong := [name for name, expected in PHYSICAL_TYPES.items() if types.get(name, expected) != expected]:
        raise _UnreadableError(f"it is of something else: the types of {', '.join(wrong)} differ")
    return int(found.num_rows)
