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
    SqliteStore,
    assemble,
)
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
    do(store, *[append(first, size=40_000) for first in range(20)])
    before = merge_chunks(read(store).chunks)
    do(store, ChunksMerged(STREAM, 0, 20))
    assert store.has_merges
    merge_all(store)
    assert spans(read(store)) == [(0, 6), (6, 6), (12, 6), (18, 2)]
    assert merge_chunks(read(store).chunks) == before
    assert store.connection.execute("SELECT count(*) FROM body").fetchone() == (4,)
    assert [found.time for found in assemble(store.recover()).queues[STREAM].chunks] == [5, 11, 17, 19]


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
    do(store, *[append(first, size=100_000) for first in range(4)], ChunksMerged(STREAM, 0, 4))
    before = read(store).chunks
    store.connection.execute("CREATE TEMP TRIGGER no BEFORE INSERT ON chunk BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(StoreError):
        store.merge_next()
    assert read(store).chunks == before
    store.connection.execute("DROP TRIGGER no")
    merge_all(store)
    assert spans(read(store)) == [(0, 2), (2, 2)]


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
