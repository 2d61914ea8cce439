import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from triomq.errors import StoreCorrupt, StoreError, StoreLocked, StoreUnwritable
from triomq.store import (
    AttemptsCounted,
    MessagesDelayed,
    MessagesDelivered,
    MessagesSettled,
    OperationBatch,
    RecordKind,
    RecordPut,
    Salvage,
    SqliteStore,
    assemble,
    check,
    decode_body,
    salvage,
)
from triomq.store.connecting import PAGE_SIZE

from .stores import DECLARE, append, opened
from .test_examining import copy_of
from .test_segments import COUNT, change, content, is_full_leaf, place_of

FRAME = 24 + PAGE_SIZE


@pytest.fixture(params=["closed", "killed"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store that has one of everything, closed in order, or killed with all of it in its log."""
    with opened(tmp_path / "store") as store:
        later = MessagesDelayed(
            queue=1, number=7, due=9.5, count=1, size=1, body=append(1, b"later, unmistakably").body
        )
        store.commit([OperationBatch(1, [RecordPut(RecordKind.SINK, b"sink", b"options"), DECLARE, later])])
        for start in range(1, COUNT + 1, 100):
            numbers = range(start, start + 100)
            store.commit([OperationBatch(store.committed + 1, [append(number, content(number)) for number in numbers])])
        marks = [MessagesDelivered(1, 0, 5), AttemptsCounted(1, 4, 2), MessagesSettled(1, [(1, 3), (10, 1)])]
        store.commit([OperationBatch(store.committed + 1, marks)])
        if request.param == "killed":
            return copy_of(tmp_path / "store", tmp_path / "killed")
    return tmp_path / "store"


def file_of(directory: Path) -> Path:
    log = directory / "store.db-wal"
    return log if log.exists() and log.stat().st_size else directory / "store.db"


def salvaged(directory: Path, tmp_path: Path) -> tuple[Salvage, set[int]]:
    """Salvage a store; give what was done, and the ids of the messages that the new one has."""
    before = {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "lock"}
    done = salvage(directory, tmp_path / "new", declare=lambda number: (b"lost %d" % number, b""), patience=0)
    assert {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "lock"} == before
    assert check(tmp_path / "new", patience=0).is_well
    found: set[int] = set()
    with opened(tmp_path / "new") as store:
        (queue,) = assemble(store.recover()).queues.values()
        left = {segment.first for segment in queue.segments for _ in segment.unsettled()}
        for segment in store.read(1, 1, COUNT + 1, 1 << 40).segments:
            assert decode_body(segment.body)[0].contents == [content(segment.first)]
            found.add(segment.first)
    assert left == found
    return done, found


ALL = set(range(1, COUNT + 1)) - {1, 2, 3, 10}


def test_whole_store_is_salvaged_whole(directory: Path, tmp_path: Path) -> None:
    done, found = salvaged(directory, tmp_path)
    assert found == ALL
    assert (done.records, done.complaints) == (1, [])
    (queue,) = done.queues.values()
    assert (queue.key, queue.messages, queue.delayed, queue.lost, queue.found) == (b"q", len(ALL) + 1, 1, 0, 0)
    with opened(tmp_path / "new") as store:
        recovered = assemble(store.recover())
        assert [record.key for record in recovered.records] == [b"sink"]
        assert (recovered.queues[1].delivered, recovered.queues[1].attempts) == ({0: 5}, {4: 2})
        assert [(delayed.number, delayed.due) for delayed in recovered.queues[1].delayed] == [(7, 9.5)]
    assert not (tmp_path / "new" / "image").exists()
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "new", tmp_path / "new" / "store.db")] == [0o700, 0o600]


def test_damaged_message_is_lost_alone(directory: Path, tmp_path: Path) -> None:
    path = file_of(directory)
    data = bytearray(path.read_bytes())
    data[data.index(content(700)) + 100] ^= 1
    path.write_bytes(data)
    done, found = salvaged(directory, tmp_path)
    assert (ALL - found, done.queues[1].lost) == ({700}, 1) or len(ALL - found) < 20  # a page of the log has several


def test_messages_without_records_are_found_by_their_contents(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        store.commit(
            [OperationBatch(1, [DECLARE, *(append(number, content(number)) for number in range(1, COUNT + 1))])]
        )
        store.commit([OperationBatch(2, [MessagesSettled(1, [(1, 3), (10, 1)])])])
    data = (tmp_path / "store" / "store.db").read_bytes()
    pages = range(0, len(data), PAGE_SIZE)
    for place in [place for place in pages if is_full_leaf(data[place : place + 5])]:
        change(tmp_path / "store", place)
    done, found = salvaged(tmp_path / "store", tmp_path)
    assert found >= ALL
    assert done.queues[1].found > COUNT // 2
    assert any("damaged" in complaint for complaint in done.complaints)


def garbled(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[:32] = bytes(32)
    log.write_bytes(data)


def damaged(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[len(data) // 10] ^= 1
    log.write_bytes(data)


@pytest.mark.parametrize(("spoil", "most"), [(garbled, 0), (damaged, 20)])
def test_messages_behind_damage_in_the_log_are_salvaged(
    tmp_path: Path, spoil: Callable[[Path], None], most: int
) -> None:
    with opened(tmp_path / "store") as store:
        store.commit([OperationBatch(1, [DECLARE])])
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for number in range(1, 200):
            store.commit([OperationBatch(number + 1, [append(number, content(number))])])
        killed = copy_of(tmp_path / "store", tmp_path / "killed")
    spoil(killed / "store.db-wal")
    with pytest.raises(StoreCorrupt):
        SqliteStore(killed, patience=0)
    done, found = salvaged(killed, tmp_path)
    assert len(set(range(1, 200)) - found) <= most
    assert done.queues[1].lost == 199 - len(found)
    if most:
        assert any("are not what was written" in complaint for complaint in done.complaints)


def test_batches_that_are_gone_without_a_trace_are_complained_of(directory: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(directory / "store.db")) as connection:
        connection.execute("UPDATE progress SET committed = 3")
        connection.commit()
    done, _ = salvaged(directory, tmp_path)
    (complaint,) = done.complaints
    assert re.search(r"batch \d+ was on disk, and what is there ends at batch 3: .* is lost", complaint)


def test_log_of_another_store_is_left_out(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with opened(tmp_path / name) as store:
            store.commit([OperationBatch(1, [DECLARE, append(1, content(1 if name == "one" else 2))])])
            if name == "two":
                copy_of(tmp_path / "two", tmp_path / "killed")
    (tmp_path / "killed" / "store.db").write_bytes((tmp_path / "one" / "store.db").read_bytes())
    done, found = salvaged(tmp_path / "killed", tmp_path)
    assert (found, len(done.complaints)) == ({1}, 1)
    assert "belongs to another store" in done.complaints[0]


def test_queue_whose_record_is_lost_gets_another_name(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        store.commit([OperationBatch(1, [DECLARE, append(1, content(1))])])
        store.connection.execute("DELETE FROM queue")
    done, found = salvaged(tmp_path / "store", tmp_path)
    assert (found, done.queues[1].key) == ({1}, b"lost 1")
    assert "the record of queue 1 is lost" in done.complaints[0]


def test_obstacle_to_a_salvage_is_named(tmp_path: Path) -> None:
    def declare(number: int) -> tuple[bytes, bytes]:
        raise AssertionError

    (tmp_path / "there").mkdir()
    with pytest.raises(StoreError, match="there is no store in"):
        salvage(tmp_path / "there", tmp_path / "new", declare=declare, patience=0)
    with opened(tmp_path / "store"), pytest.raises(StoreLocked):
        salvage(tmp_path / "store", tmp_path / "new", declare=declare, patience=0)
    with pytest.raises(StoreUnwritable, match="is there already"):
        salvage(tmp_path / "store", tmp_path / "there", declare=declare, patience=0)
    with pytest.raises(StoreUnwritable, match="cannot be written"):
        salvage(tmp_path / "store", tmp_path / "no" / "parent", declare=declare, patience=0)
    (tmp_path / "new.part").mkdir()
    (tmp_path / "new.part" / "notes.txt").write_text("precious")
    (tmp_path / "store" / "store.db").write_bytes(os.urandom(PAGE_SIZE))
    with pytest.raises(StoreCorrupt, match="is damaged"):
        salvage(tmp_path / "store", tmp_path / "new", declare=declare, patience=0)
    assert (tmp_path / "new.part" / "notes.txt").read_text() == "precious"
    assert not list(tmp_path.glob("*unfinished*"))


def test_delayed_messages_that_are_damaged_count_as_lost(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        later = MessagesDelayed(
            queue=1, number=7, due=9.5, count=1, size=1, body=append(1, b"later, unmistakably").body
        )
        store.commit([OperationBatch(1, [DECLARE, later])])
    change(tmp_path / "store", place_of(tmp_path / "store", b"unmistakably"))
    done, _ = salvaged(tmp_path / "store", tmp_path)
    assert (done.queues[1].messages, done.queues[1].lost) == (0, 1)
