"""Files of a trace log: which are found for a time, and what is wrong with the others."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from triomq.analytics import find_files
from triomq.errors import TraceLogError

from .made_log import NOON, event, normal_message, write_log

HOUR = timedelta(hours=1)


def names(directory: Path, **times: object) -> list[str]:
    """Find files; return the hours of their folders."""
    return [path.parent.name for path in find_files(directory, **times).files]  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of three hours."""
    return write_log(tmp_path, [event(3600 * hour, "queued") for hour in range(3)])


def test_files_are_found_by_the_hours_of_their_folders(log: Path) -> None:
    assert names(log) == ["hour=12", "hour=13", "hour=14"]
    assert names(log, since=NOON + HOUR) == ["hour=13", "hour=14"]
    assert names(log, since=NOON + 1.5 * HOUR) == ["hour=13", "hour=14"]
    assert names(log, until=NOON + HOUR) == ["hour=12"]
    assert names(log, since=NOON + HOUR, until=NOON + 1.1 * HOUR) == ["hour=13"]


def test_files_that_are_not_of_the_log_are_left_alone(log: Path) -> None:
    folder = log / "date=2026-01-31" / "hour=12"
    for name in (".trace-one-1-000009.parquet", "_SUCCESS", "notes.txt", "_x.parquet"):
        (folder / name).write_bytes(b"half")
    (log / "date=today" / "hour=12").mkdir(parents=True)
    (log / "date=today" / "hour=12" / "trace.parquet").write_bytes(b"half")
    found = find_files(log)
    assert (len(found.files), found.skipped, found.rows) == (3, {}, 3)


def test_file_that_is_not_whole_is_named_and_skipped(log: Path) -> None:
    cut, empty, none = find_files(log).files
    cut.write_bytes(cut.read_bytes()[:-100])
    empty.write_bytes(b"")
    none.write_bytes(b"PAR1" + b"x" * 100 + b"PAR1")
    found = find_files(log)
    assert (found.files, [*found.skipped]) == ([], [cut, empty, none])
    assert all(reason.startswith("it is damaged or not whole (") for reason in found.skipped.values())


def test_file_that_is_not_whole_is_an_error_if_it_is_to_be(log: Path) -> None:
    cut = find_files(log).files[1]
    cut.write_bytes(cut.read_bytes()[:-100])
    with pytest.raises(TraceLogError, match=rf"{cut}: it is damaged or not whole .* leave out --strict"):
        find_files(log, strict=True)


def test_file_of_something_else_is_named_and_skipped(log: Path) -> None:
    first, second, third = find_files(log).files
    pq.write_table(pa.table({"ts": [1], "node": ["x"]}), first)
    pq.write_table(pa.table({"ts": [1], "seq": [1], "node": ["x"], "kind": [5]}), second)
    assert find_files(log).skipped == {
        first: "it is of something else: it has no column seq, kind",
        second: "it is of something else: the types of kind differ",
    }
    assert find_files(log).files == [third]


def test_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    write_log(tmp_path / "log", normal_message())
    with pytest.raises(TraceLogError, match="nothing does not exist; a trace log is the folder"):
        find_files(tmp_path / "nothing")
    file = next(tmp_path.rglob("*.parquet"))
    with pytest.raises(TraceLogError, match="parquet is a file; a trace log is the folder"):
        find_files(file)


def test_empty_directory_has_no_files(tmp_path: Path) -> None:
    assert find_files(tmp_path) == ([], {}, 0)
