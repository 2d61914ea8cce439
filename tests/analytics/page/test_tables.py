"""Tables of a report, as the page reads them."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from triomq.analytics.page.tables import SCHEMAS, ReportTables, read_tables
from triomq.errors import ReportError

from .made_tables import NOON, write_tables


def test_each_table_has_a_schema() -> None:
    assert {field.name for field in msgspec.structs.fields(ReportTables)} == SCHEMAS.keys()


def test_table_that_is_not_there_is_empty(tmp_path: Path) -> None:
    tables = read_tables(tmp_path)
    assert tables.jobs.num_rows == 0
    assert tables.jobs.schema == SCHEMAS["jobs"]


def test_column_that_is_not_there_is_empty_and_others_get_their_types(tmp_path: Path) -> None:
    folder = tmp_path / "lost_peers"
    folder.mkdir()
    pq.write_table(pa.table({"ts": [NOON], "unsettled": pa.array([3], pa.int32()), "more": [1]}), folder / "a.parquet")
    (row,) = read_tables(tmp_path).lost_peers.to_pylist()
    assert row == {"ts": NOON, "node": None, "peer": None, "protocol": None, "error": None, "unsettled": 3}


def test_files_of_a_table_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    write_tables(tmp_path, {"unsettled_by_queue": [{"queue": "first"}]})
    folder = tmp_path / "tables" / "unsettled_by_queue"
    pq.write_table(pa.table({"queue": ["second"]}), folder / "part-1.parquet")
    (folder / ".part-1.parquet.crc").write_bytes(b"a checksum of Spark's")
    (folder / "_SUCCESS").touch()
    assert read_tables(tmp_path / "tables").unsettled_by_queue["queue"].to_pylist() == ["first", "second"]


def test_folder_without_tables_says_what_makes_them(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="triomq pipeline report"):
        read_tables(tmp_path / "tables")


@pytest.mark.parametrize("content", [b"", b"PAR1 half of a file"])
def test_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "part.parquet").write_bytes(content)
    with pytest.raises(ReportError, match="jobs: cannot be read as a table of a report"):
        read_tables(tmp_path)


def test_column_of_another_type_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    pq.write_table(pa.table({"failed": ["many"]}), tmp_path / "jobs" / "part.parquet")
    with pytest.raises(ReportError, match="many"):
        read_tables(tmp_path)
