from contextlib import closing
from pathlib import Path

import pytest

from triomq.errors import DiskFull
from triomq.store import MessagesSettled, OperationBatch, SqliteStore, assemble
from triomq.store.connecting import connect_reader
from triomq.store.reserve import DiskReserve

from .stores import DECLARE, append, opened


def test_room_is_refused_below_the_reserve_and_given_again_above_twice_of_it(
    store: SqliteStore, tmp_path: Path
) -> None:
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.commit([OperationBatch(1, [DECLARE])])
    log = (tmp_path / "store.db-wal").stat().st_size
    with closing(connect_reader(tmp_path / "store.db")) as backup:  # which keeps the log as it is
        backup.execute("BEGIN")
        backup.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        _refuses_and_gives_again(store, tmp_path, log)


def _refuses_and_gives_again(store: SqliteStore, tmp_path: Path, log: int) -> None:
    free = 1_000 + log
    reserve = DiskReserve(tmp_path / "store.db", 1_000, lambda directory: free, lambda directory: 1 << 40)
    reserve.require(store.connection)
    free -= 1
    with pytest.raises(DiskFull, match=r"store\.db has [0-9,]+ bytes of room.*disk_reserve.*Free space"):
        reserve.require(store.connection)
    free = 2 * (1_000 + log) - 1
    with pytest.raises(DiskFull):
        reserve.require(store.connection)
    free += 1
    reserve.require(store.connection)
    free = 1_000 + log
    reserve.require(store.connection)


def test_free_pages_of_the_database_are_room(store: SqliteStore, tmp_path: Path) -> None:
    store.commit([OperationBatch(1, [DECLARE, append(1, bytes(5_000_000))])])
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    reserve = DiskReserve(tmp_path / "store.db", 1_000_000, lambda directory: 0)
    with pytest.raises(DiskFull):
        reserve.require(store.connection)
    store.commit([OperationBatch(2, [MessagesSettled(1, [(1, 1)])])])
    reserve.require(store.connection)


def test_no_reserve_asks_for_nothing(store: SqliteStore, tmp_path: Path) -> None:
    DiskReserve(tmp_path / "store.db", 0, lambda directory: 0).require(store.connection)


def test_settling_goes_on_below_the_reserve_and_appending_does_not(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([OperationBatch(1, [DECLARE, append(1)])])
    with opened(tmp_path, reserve=1 << 60) as store:
        with pytest.raises(DiskFull):
            store.commit([OperationBatch(2, [append(2)])])
        assert store.committed == 1
        assert store.commit([OperationBatch(2, [MessagesSettled(1, [(1, 1)])])]) == 2


def test_log_is_emptied_before_it_takes_the_room_of_a_small_volume(store: SqliteStore, tmp_path: Path) -> None:
    store.commit([OperationBatch(1, [DECLARE])])
    for number in range(2, 50):
        store.commit([OperationBatch(number, [append(number)])])
    path = tmp_path / "store.db-wal"
    log = path.stat().st_size
    # The volume has the log, the reserve and as much again, but never twice the reserve and the log.
    reserve = DiskReserve(
        tmp_path / "store.db", log, lambda directory: 3 * log - path.stat().st_size, lambda _: 3 * log
    )
    reserve.require(store.connection)
    assert path.stat().st_size == log  # there is room enough
    store.commit([OperationBatch(50, [append(50, bytes(100_000))])])
    reserve.require(store.connection)
    assert path.stat().st_size == 0
    assert sorted(assemble(store.recover()).queues) == [1]


def test_small_volume_is_left_again_with_a_part_of_it_free(store: SqliteStore, tmp_path: Path) -> None:
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    free = 999
    reserve = DiskReserve(tmp_path / "store.db", 1_000, lambda directory: free, lambda directory: 1_400)
    with pytest.raises(DiskFull):
        reserve.require(store.connection)
    free = 1_100  # of 1,400 there are never 2,000
    reserve.require(store.connection)


def test_volume_that_is_too_small_is_warned_of(tmp_path: Path) -> None:
    (notice,) = DiskReserve(tmp_path / "store.db", 1_000, total=lambda directory: 1_200).notices
    assert "has 1,200 bytes in all, and disk_reserve leaves 1,000 of them free" in notice
    assert DiskReserve(tmp_path / "store.db", 1_000, total=lambda directory: 1_300).notices == []
    assert DiskReserve(tmp_path / "store.db", 0, total=lambda directory: 0).notices == []
