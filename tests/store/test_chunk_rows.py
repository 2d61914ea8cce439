import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from triomq.chunks import merge_chunks
from triomq.errors import DiskFull, StoreError
from triomq.store import (
    ChunkFound,
    ChunksDropped,
    ChunksMerged,
    Operation,
    OperationBatch,
    QueueDeleted,
    Salvage,
    SqliteStore,
    assemble,
    back_up,
    check,
    compact,
    salvage,
)
from triomq.store.body import checksum
from triomq.store.schema import MIGRATIONS, migrate

from .stores import opened
from .streams import DECLARE, STREAM, append, chunk, read, spans


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with opened(tmp_path) as store:
        do(store, DECLARE)
        yield store


def do(store: SqliteStore, *operations: Operation) -> None:
    store.commit([OperationBatch(store.committed + 1, operations)])


def merge_all(store: SqliteStore) -> None:
    while store.merge_next():
        pass
    assert not store.has_merges


def damage(store: SqliteStore, first: int) -> None:
    """Change a byte of a chunk on disk."""
    store.connection.execute(
        "UPDATE body SET octets = CAST(substr(octets, 1, length(octets) - 1) || x'01' AS BLOB)"
        " WHERE body = (SELECT body FROM chunk WHERE first = ?)",
        (first,),
    )


def test_chunks_are_read_as_they_were_appended(store: SqliteStore) -> None:
    do(store, append(0, 3), append(3), append(4, 2))
    assert read(store).chunks == [chunk(0, 3), chunk(3), chunk(4, 2)]


def test_reading_begins_with_the_chunk_that_has_the_offset(store: SqliteStore) -> None:
    do(store, append(0, 3), append(3, 3), append(6, 3))
    assert spans(read(store, first=4)) == [(3, 3), (6, 3)]
    assert spans(read(store, first=4, stop=6)) == [(3, 3)]
    assert spans(read(store, first=9)) == []


def test_reading_ends_when_there_are_enough_bytes(store: SqliteStore) -> None:
    do(store, append(0, 3), append(3, 3), append(6, 3))
    found = read(store, first=1, max_bytes=1)
    assert (spans(found), found.up_to) == ([(0, 3)], 3)
    found = read(store, first=3, stop=8, max_bytes=len(chunk(3, 3)) + 1)
    assert (spans(found), found.up_to) == ([(3, 3), (6, 3)], 8)


def test_reading_may_begin_at_a_time(store: SqliteStore) -> None:
    do(store, append(10, 3), append(20, 3), append(30, 3))
    assert spans(read(store, since=11)) == [(20, 3), (30, 3)]
    assert spans(read(store, since=31)) == []


def test_offset_is_never_used_again(store: SqliteStore) -> None:
    do(store, append(0, 3))
    with pytest.raises(ValueError, match="has had the offset 2 already"):
        do(store, append(2))
    do(store, ChunksDropped(STREAM, 3))
    with pytest.raises(ValueError, match="has had the offset 2 already"):
        do(store, append(2))
    with pytest.raises(ValueError, match="not declared"):
        do(store, append(0, stream=8))


def test_chunks_below_an_offset_are_dropped_whole(store: SqliteStore, tmp_path: Path) -> None:
    do(store, append(0, 3), append(3, 3), append(6, 3))
    do(store, ChunksDropped(STREAM, 5))
    assert spans(read(store)) == [(3, 3), (6, 3)]
    assert store.connection.execute("SELECT count(*) FROM body").fetchone() == (2,)


def test_stream_that_is_deleted_takes_everything_with_it(store: SqliteStore) -> None:
    do(store, append(0, 3))
    do(store, QueueDeleted(STREAM))
    assert store.statistics().messages == 0
    assert store.connection.execute("SELECT count(*) FROM body").fetchone() == (0,)


@pytest.mark.parametrize("segments", [True, False])
def test_recovery_has_rows_and_the_next_offset(tmp_path: Path, *, segments: bool) -> None:
    with opened(tmp_path) as store:
        do(store, DECLARE, append(0, 3), append(3, 2))
        do(store, ChunksDropped(STREAM, 3))
    with opened(tmp_path) as store:
        found = assemble(store.recover(segments=segments)).queues[STREAM]
        assert found.chunks == [ChunkFound(STREAM, 3, 2, len(chunk(3, 2)), 3)]
        assert (found.count, found.size, found.missing) == (2, len(chunk(3, 2)), 0)
        assert found.found.next_id - 1 == 5
        assert store.statistics().messages == 2


def test_small_neighbours_are_merged_to_chunks_of_a_quarter_of_a_megabyte(store: SqliteStore) -> None:
    do(store, *[append(first, size=30_000) for first in range(20)])
    before = merge_chunks(read(store).chunks)
    do(store, ChunksMerged(STREAM, 0, 20))
    assert store.has_merges
    merge_all(store)
    assert spans(read(store)) == [(0, 8), (8, 8), (16, 4)]
    assert merge_chunks(read(store).chunks) == before
    assert store.connection.execute("SELECT count(*) FROM body").fetchone() == (3,)
    assert [found.time for found in assemble(store.recover()).queues[STREAM].chunks] == [7, 15, 19]


def test_merging_stays_within_its_range(store: SqliteStore) -> None:
    do(store, *[append(first) for first in range(9)], ChunksMerged(STREAM, 2, 5))
    merge_all(store)
    assert spans(read(store)) == [(0, 1), (1, 1), (2, 3), *[(first, 1) for first in range(5, 9)]]


def test_large_chunks_and_gaps_end_a_merged_one(store: SqliteStore) -> None:
    do(store, append(0), append(1), append(2, size=300_000), append(3), append(4), append(6), append(7))
    do(store, ChunksMerged(STREAM, 0, 8))
    merge_all(store)
    assert spans(read(store)) == [(0, 2), (2, 1), (3, 2), (6, 2)]


def test_what_was_dropped_or_deleted_before_it_was_merged_is_no_trouble(store: SqliteStore) -> None:
    do(store, append(0), append(1), append(2), ChunksMerged(STREAM, 0, 3))
    do(store, ChunksDropped(STREAM, 1))
    merge_all(store)
    assert spans(read(store)) == [(1, 2)]
    do(store, append(3), append(4), ChunksMerged(STREAM, 3, 5), ChunksMerged(8, 0, 100))
    do(store, QueueDeleted(STREAM))
    merge_all(store)


def test_merging_waits_for_room_and_batches_do_not(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        do(store, DECLARE, *[append(first, size=100_000) for first in range(8)], ChunksMerged(STREAM, 0, 8))
    with opened(tmp_path, reserve=1 << 60) as store:
        do(store, ChunksMerged(STREAM, 0, 8))
        with pytest.raises(DiskFull):
            store.merge_next()
        with pytest.raises(DiskFull):
            do(store, append(8))
        do(store, ChunksDropped(STREAM, 1))
        assert store.has_merges
        assert spans(read(store)) == [(first, 1) for first in range(1, 8)]


def test_merging_that_fails_leaves_the_chunks_as_they_were_and_is_done_later(store: SqliteStore) -> None:
    do(store, *[append(first, size=30_000) for first in range(4)], ChunksMerged(STREAM, 0, 4))
    before = read(store).chunks
    store.connection.execute("CREATE TEMP TRIGGER no BEFORE INSERT ON chunk BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(StoreError):
        store.merge_next()
    assert read(store).chunks == before
    store.connection.execute("DROP TRIGGER no")
    merge_all(store)
    assert spans(read(store)) == [(0, 4)]


def test_damaged_chunk_is_named_and_the_others_are_read(store: SqliteStore) -> None:
    do(store, append(0, 3), append(3, 3), append(6, 3))
    damage(store, 3)
    found = read(store)
    assert spans(found) == [(0, 3), (6, 3)]
    assert [(each.first, each.count) for each in found.damaged] == [(3, 3)]


def test_damage_is_not_merged_into_others(store: SqliteStore) -> None:
    do(store, append(0, 3), append(3, 3), append(6, 3), ChunksMerged(STREAM, 0, 9))
    damage(store, 3)
    merge_all(store)
    assert spans(read(store)) == [(0, 3), (6, 3)]
    do(store, ChunksMerged(STREAM, 0, 9))
    merge_all(store)
    assert store.connection.execute("SELECT count(*) FROM chunk").fetchone() == (3,)


def test_store_of_the_third_version_gets_the_table(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
        migrate(connection, {version: MIGRATIONS[version] for version in (0, 1, 2)})
    with opened(tmp_path) as store:
        do(store, DECLARE, append(0))
        assert spans(read(store)) == [(0, 1)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A store with a stream of three chunks, after one that was dropped."""
    with opened(tmp_path / "store") as store:
        do(store, DECLARE, append(0, 3), append(3, 3), append(6, 3), append(9))
        do(store, ChunksDropped(STREAM, 3))
    return tmp_path / "store"


def change(directory: Path, statement: str) -> None:
    with closing(sqlite3.connect(directory / "store.db", isolation_level=None)) as connection:
        connection.execute(statement)


def test_stream_without_damage_is_well(directory: Path) -> None:
    report = check(directory, patience=0)
    assert report.is_well
    assert (report.messages, report.missing, report.gaps) == ({STREAM: 7}, {}, [])
    assert [(queue.messages, queue.size > 0) for queue in report.queues] == [(7, True)]


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("DELETE FROM chunk WHERE first = 6", "3 messages are neither there nor settled"),
        ("DELETE FROM body WHERE of_first = 6", "the records 6 to 8 are not there"),
        ("UPDATE body SET octets = x'00' WHERE of_first = 6", "the records 6 to 8 are not what was"),
        ("UPDATE chunk SET count = 4 WHERE first = 3", "the segment from id 6 on overlaps"),
        ("UPDATE chunk SET time = 'late' WHERE first = 3", "the record of the chunk at offset 3 is not what was"),
        ("DELETE FROM queue", "there are records in chunk of queue 7, which is not there"),
        ("UPDATE queue SET next_id = 10", "the chunk at offset 9 has offsets that were never given out"),
    ],
)
def test_damage_to_a_stream_is_complained_of(directory: Path, statement: str, complaint: str) -> None:
    change(directory, statement)
    assert any(complaint in text for text in check(directory, patience=0).complaints)


def test_older_store_is_checked_without_the_table(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
        migrate(connection, {version: MIGRATIONS[version] for version in (0, 1, 2)})
    assert check(tmp_path, patience=0).is_well


def salvaged(directory: Path) -> tuple[Salvage, list[tuple[int, int]], int]:
    """Salvage a store; return what was done, the chunks that the new one has, and the next offset."""
    target = directory.with_name("new")
    done = salvage(directory, target, declare=lambda number: (b"lost", b""), patience=0)
    assert check(target, patience=0).is_well
    with opened(target) as store:
        return done, spans(read(store)), assemble(store.recover()).queues[STREAM].found.next_id - 1


def test_whole_stream_is_salvaged_whole(directory: Path) -> None:
    done, found, next_offset = salvaged(directory)
    assert (found, next_offset, done.complaints) == ([(3, 3), (6, 3), (9, 1)], 10, [])
    assert (done.queues[STREAM].messages, done.queues[STREAM].lost) == (7, 0)


@pytest.mark.parametrize("first", [3, 6, 9])
def test_damaged_chunk_is_lost_alone_and_its_offsets_are_not_used_again(directory: Path, first: int) -> None:
    with opened(directory) as store:
        damage(store, first)
    done, found, next_offset = salvaged(directory)
    whole = [(3, 3), (6, 3), (9, 1)]
    assert found == [span for span in whole if span[0] != first]
    assert (done.queues[STREAM].lost, next_offset) == (dict(whole)[first], 10)


@pytest.mark.parametrize("statement", ["DELETE FROM chunk", "UPDATE chunk SET count = -1", "DELETE FROM queue"])
def test_chunks_without_records_are_found_by_themselves(directory: Path, statement: str) -> None:
    change(directory, statement)
    _, found, next_offset = salvaged(directory)
    assert (found, next_offset) == ([(3, 3), (6, 3), (9, 1)], 10)


def test_larger_chunk_goes_before_those_that_it_was_merged_from(directory: Path) -> None:
    merged = merge_chunks([chunk(3, 3), chunk(6, 3)])
    row = (checksum(merged, STREAM, 3, 6), merged, STREAM, 3, 6)
    with opened(directory) as store:
        store.connection.execute(
            "INSERT INTO body (checksum, octets, of_queue, of_first, of_count) VALUES (?, ?, ?, ?, ?)", row
        )
    assert salvaged(directory)[1] == [(3, 6), (9, 1)]


def test_backup_and_compacted_store_have_the_stream(directory: Path, tmp_path: Path) -> None:
    with opened(directory) as store:
        back_up(directory, tmp_path / "copy")
        expected = read(store).chunks
    compact(directory, patience=0)
    for place in (directory, tmp_path / "copy"):
        with opened(place) as store:
            assert read(store).chunks == expected


@pytest.mark.parametrize("column", ["first", "count", "size", "time", "body"])
@pytest.mark.parametrize("value", ["-1", "'text'", "x'00'", "1 << 62"])
def test_changed_rows_of_chunks_break_nothing_but_themselves(directory: Path, column: str, value: str) -> None:
    change(directory, f"UPDATE chunk SET {column} = {value} WHERE first = 6")
    with opened(directory) as store:
        assemble(store.recover(segments=False))
        found = {bytes(each) for each in read(store).chunks}
        assert {chunk(3, 3), chunk(9)} <= found <= {chunk(3, 3), chunk(6, 3), chunk(9)}
    salvaged(directory)
