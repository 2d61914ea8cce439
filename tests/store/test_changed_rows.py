"""Rows and files with values that no store writes, as a disk may make them: opening, reading, checking, salvaging."""

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from triomq.errors import StoreCorrupt, StoreError, StoreUnwritable
from triomq.store import DirectoryLock, OperationBatch, SqliteStore, assemble, check, decode_body, salvage
from triomq.store.mark import read_mark
from triomq.store.reserve import DiskReserve

from .stores import DECLARE, append, opened


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A store with three segments of two messages each."""
    with opened(tmp_path / "store") as store:
        store.commit([OperationBatch(1, [DECLARE])])
        for number, first in enumerate((1, 3, 5), 2):
            store.commit([OperationBatch(number, [append(first, b"%d" % first, b"%d" % (first + 1))])])
    return tmp_path / "store"


def change(directory: Path, statement: str) -> None:
    with closing(sqlite3.connect(directory / "store.db")) as connection, connection:
        connection.execute(statement)


def contents_of(store: SqliteStore) -> set[bytes]:
    segments = store.read(1, 1, 1 << 40, 1 << 40).segments
    return {content for segment in segments for run in decode_body(segment.body) for content in run.contents}


def read_contents(directory: Path) -> set[bytes]:
    with opened(directory) as store:
        return contents_of(store)


def salvage_contents(directory: Path) -> set[bytes]:
    target = directory.with_name("new")
    salvage(directory, target, declare=lambda number: (b"lost", b""), patience=0)
    assert check(target, patience=0).is_well
    with opened(target) as store:
        found = contents_of(store)
        assert sum(queue.count for queue in assemble(store.recover()).queues.values()) == len(found)
        return found


ALL = {b"1", b"2", b"3", b"4", b"5", b"6"}
CHANGES = [
    "UPDATE segment SET count = -28 WHERE first = 3",
    "UPDATE segment SET count = 1 << 62 WHERE first = 3",
    "UPDATE segment SET count = 3 WHERE first = 3",
    "UPDATE segment SET body = body + 1000 WHERE first = 3",
    "UPDATE segment SET body = -1 WHERE first = 3",
    "UPDATE segment SET first = 1027 WHERE first = 3",
    "UPDATE segment SET settled = 'text' WHERE first = 3",
    "UPDATE segment SET count = x'00' WHERE first = 3",
    "DELETE FROM segment WHERE first = 3",
]


@pytest.mark.parametrize("statement", CHANGES)
def test_changed_row_hides_no_other_segment(directory: Path, statement: str) -> None:
    change(directory, statement)
    assert ALL - read_contents(directory) <= {b"3", b"4"}


def test_changed_row_is_reported_to_a_reader_that_begins_behind_it(directory: Path) -> None:
    change(directory, CHANGES[0])
    with opened(directory) as store:
        reading = store.read(1, 4, 7, 1 << 20)
    assert [damaged.first for damaged in reading.damaged] == [4]
    assert [segment.first for segment in reading.segments] == [5]


@pytest.mark.parametrize("statement", CHANGES)
def test_salvage_saves_messages_whose_row_was_changed(directory: Path, statement: str) -> None:
    change(directory, statement)
    assert salvage_contents(directory) == ALL


@pytest.mark.parametrize("statement", CHANGES)
def test_check_reports_a_changed_row(directory: Path, statement: str) -> None:
    change(directory, statement)
    assert not check(directory, patience=0).is_well


@pytest.mark.parametrize("column", ["of_queue", "of_first", "of_count"])
@pytest.mark.parametrize("value", ["-1", "'text'"])
def test_salvage_passes_over_a_body_of_no_possible_place(directory: Path, column: str, value: str) -> None:
    change(directory, "DELETE FROM segment WHERE first = 3")
    change(directory, f"UPDATE body SET {column} = {value} WHERE of_first = 3")
    assert salvage_contents(directory) == ALL - {b"3", b"4"}


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM progress",
        "UPDATE progress SET identity = 'text'",
        "UPDATE progress SET committed = x'00'",
        "UPDATE progress SET committed = 'text'",
    ],
)
def test_changed_progress_is_refused_checked_and_salvaged(directory: Path, statement: str) -> None:
    change(directory, statement)
    with pytest.raises(StoreCorrupt, match="salvage"), opened(directory):
        pass
    assert not check(directory, patience=0).is_well
    assert salvage_contents(directory) == ALL


def test_mark_with_bytes_behind_it_is_written_anew(directory: Path) -> None:
    mark = directory / "store.mark"
    mark.write_bytes(mark.read_bytes() + b"more")
    with opened(directory) as store:
        assert "cannot be read" in store.notices[0]
    found = read_mark(mark)
    assert found is not None
    assert found.number == 4


@pytest.mark.parametrize("name", ["store.mark", "store.db-wal"])
def test_file_that_cannot_be_opened_is_named(directory: Path, name: str) -> None:
    (directory / name).unlink(missing_ok=True)
    (directory / name).mkdir()
    with pytest.raises(StoreError, match=name), opened(directory):
        pass
    with pytest.raises(StoreError, match=name):
        check(directory, patience=0)


def test_lock_is_taken_on_a_disk_without_room_for_the_pid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.pwrite", full)
    DirectoryLock(tmp_path, patience=0).release()


def test_reserve_names_a_database_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "store.db-wal").touch()
    connection = sqlite3.connect(tmp_path / "store.db")
    connection.close()
    with pytest.raises(StoreError, match=r"store\.db"):
        DiskReserve(tmp_path / "store.db", 1, lambda _: 0).require(connection)


def test_store_is_unwritable_where_its_mark_is_a_directory(tmp_path: Path) -> None:
    (tmp_path / "store.mark").mkdir()
    with pytest.raises(StoreUnwritable, match=r"store\.mark"), opened(tmp_path):
        pass
