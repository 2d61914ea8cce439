import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from triomq.errors import StoreCorrupt, StoreError, StoreLocked
from triomq.store import Gap, MessagesDelayed, MessagesSettled, OperationBatch, QueueDeclared, check
from triomq.store.schema import VERSION

from .stores import DECLARE, append, opened


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with opened(tmp_path) as store:
        store.commit(
            [OperationBatch(1, [DECLARE, append(1, b"a", b"b")]), OperationBatch(2, [append(3, b"unmistakable")])]
        )
        store.commit(
            [
                OperationBatch(3, [append(6, b"d"), append(8, b"e")]),
                OperationBatch(4, [MessagesSettled(1, [(2, 1), (6, 1)])]),
            ]
        )
    return tmp_path


def change(directory: Path, statement: str) -> None:
    with closing(sqlite3.connect(directory / "store.db", isolation_level=None)) as connection:
        connection.execute(statement)


def test_store_without_damage_is_well(directory: Path) -> None:
    report = check(directory)
    assert report.is_well
    assert (report.version, report.committed, report.messages, report.missing) == (VERSION, 4, {1: 3}, {})
    assert report.gaps == [Gap(1, 4, 4)]


def test_report_has_the_contents_of_each_queue(directory: Path) -> None:
    with opened(directory) as store:
        later = MessagesDelayed(queue=2, number=1, due=9.0, count=3, size=6, body=append(0, b"a").body)
        store.commit([OperationBatch(5, [QueueDeclared(2, b"other", b""), later])])
    first, second = check(directory).queues
    assert (first.queue, first.key, first.messages, first.delayed) == (1, b"q", 3, 0)
    assert (second.queue, second.key, second.messages, second.delayed) == (2, b"other", 0, 3)
    assert first.size > second.size > 0


def test_messages_that_are_neither_there_nor_settled_are_missed(directory: Path) -> None:
    change(directory, "DELETE FROM segment WHERE first = 3")
    report = check(directory)
    assert report.missing == {1: 1}
    assert report.gaps == [Gap(1, 3, 5)]
    assert "1 messages are neither there nor settled" in report.complaints[0]


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("DELETE FROM body WHERE body = 2", "the messages of segment 3 are not there"),
        ("UPDATE body SET octets = x'00' WHERE body = 2", "the messages of segment 3 are not what was written"),
        ("DELETE FROM queue", "there are records in segment of queue 1, which is not there"),
        ("UPDATE queue SET next_id = 5", "the segment from id 8 on has ids that were never given out"),
        ("UPDATE segment SET count = 3 WHERE first = 1", "the segment from id 3 on overlaps the one before"),
    ],
)
def test_damage_is_complained_of(directory: Path, statement: str, complaint: str) -> None:
    change(directory, statement)
    assert any(complaint in text for text in check(directory).complaints)


def test_torn_page_is_complained_of(directory: Path) -> None:
    file = directory / "store.db"
    data = bytearray(file.read_bytes())
    page = data.index(b"unmistakable") // 16384 * 16384
    data[page : page + 64] = bytes(64)
    file.write_bytes(data)
    report = check(directory)
    assert not report.is_well


def test_cut_file_is_complained_of(directory: Path) -> None:
    file = directory / "store.db"
    file.write_bytes(file.read_bytes()[: 3 * 16384])
    try:
        complaints = check(directory).complaints
    except StoreCorrupt as error:
        complaints = [str(error)]
    assert any("malformed" in text for text in complaints)


def test_store_in_use_is_left_alone(directory: Path) -> None:
    with opened(directory), pytest.raises(StoreLocked, match="lock is held by process"):
        check(directory, patience=0)


def test_check_needs_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store in"):
        check(tmp_path)


def test_another_database_is_no_store(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute("CREATE TABLE mine (a)")
    with pytest.raises(StoreCorrupt, match="is not a store of this version"):
        check(tmp_path)
