"""Files of the trace log: what Spark and others find in the folder, and when."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed; pip install 'triomq[trace]'")

import pyarrow.parquet as pq  # noqa: E402

from triomq.tracelog.parquet import COLUMNS, ParquetFiles  # noqa: E402
from triomq.tracelog.rows import Rows  # noqa: E402

NOON = int(datetime(2026, 1, 31, 12, 0, tzinfo=UTC).timestamp()) * 1_000_000


def some_rows(count: int = 3, now: int = NOON) -> Rows:
    rows = Rows(0.0)
    same = {"domain": rows.text("domain", "d"), "queue": rows.text("queue", "q")}
    rows.add(count, msg_id=range(1, count + 1), ts=now, kind=rows.text("kind", "queued"), **same)
    rows.put(0, message_id="m")
    rows.add(1, msg_id=-1, ts=now + 1, kind=rows.text("kind", "purged"), **same)
    return rows


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = ParquetFiles(tmp_path, "n", 17).write(some_rows())
    table = pq.read_table(path, partitioning=None)
    assert tuple(table.column_names) == COLUMNS
    assert table["msg_id"].to_pylist() == [1, 2, 3, None]
    assert table["seq"].to_pylist() == [0, 1, 2, 3]
    assert table["kind"].to_pylist() == ["queued"] * 3 + ["purged"]
    assert table["ts"].to_pylist()[0] == datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
    assert table["message_id"].to_pylist() == ["m", None, None, None]
    assert set(table["node"].to_pylist()) == {"n"}


def test_file_stands_in_the_folder_of_its_day_and_hour_under_a_name_of_its_own(tmp_path: Path) -> None:
    files = ParquetFiles(tmp_path, "n", 17)
    found = [files.write(some_rows(now=NOON + hour * 3_600_000_000)) for hour in (0, 0, 12)]
    assert [str(path.relative_to(tmp_path)) for path in found] == [
        "date=2026-01-31/hour=12/trace-n-17-000001.parquet",
        "date=2026-01-31/hour=12/trace-n-17-000002.parquet",
        "date=2026-02-01/hour=00/trace-n-17-000003.parquet",
    ]
    assert pq.read_table(found[2], partitioning=None)["seq"].to_pylist() == [8, 9, 10, 11]


def test_columns_have_the_same_types_whatever_is_in_them(tmp_path: Path) -> None:
    files, empty = ParquetFiles(tmp_path, "n", 17), Rows(0.0)
    empty.add(1, msg_id=-1, ts=NOON, kind=empty.text("kind", "lost-events"))
    schemas = [pq.read_schema(files.write(rows)) for rows in (some_rows(), empty)]
    assert schemas[0].equals(schemas[1])


def test_many_rows_take_few_bytes(tmp_path: Path) -> None:
    rows = Rows(0.0)
    kind, queue = rows.text("kind", "queued"), rows.text("queue", "q")
    for first in range(0, 100_000, 100):
        rows.add(100, msg_id=range(first, first + 100), ts=NOON + first, kind=kind, queue=queue)
    assert ParquetFiles(tmp_path, "n", 17).write(rows).stat().st_size < 10 * 100_000


def test_file_that_an_earlier_process_has_not_finished_is_removed_and_those_of_others_stay(tmp_path: Path) -> None:
    folder = ParquetFiles(tmp_path, "n", 17).write(some_rows()).parent
    ours, theirs = folder / ".trace-n-3-000001.parquet", folder / ".trace-m-3-000001.parquet"
    for path in (ours, theirs):
        path.write_bytes(b"half")
        os.utime(path, (0, 0))
    ParquetFiles(tmp_path, "n", NOON)
    assert (ours.exists(), theirs.exists()) == (False, True)


def test_file_that_the_process_of_a_killed_broker_still_writes_is_left_alone(tmp_path: Path) -> None:
    folder = ParquetFiles(tmp_path, "n", 17).write(some_rows()).parent
    ours = folder / ".trace-n-3-000001.parquet"
    ours.write_bytes(b"half")
    ParquetFiles(tmp_path, "n", time.time_ns() // 1000)
    assert ours.exists()


def test_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "date=2026-01-31").write_text("a file")
    with pytest.raises(OSError, match="date=2026"):
        ParquetFiles(tmp_path, "n", 17).write(some_rows())
    assert [path.name for path in tmp_path.rglob("*")] == ["date=2026-01-31"]
