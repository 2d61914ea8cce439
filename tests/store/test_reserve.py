from pathlib import Path

import pytest

from triomq.errors import DiskFull
from triomq.store import MessagesSettled, OperationBatch, SqliteStore
from triomq.store.reserve import DiskReserve

from .stores import DECLARE, append, opened


def test_room_is_refused_below_the_reserve_and_given_again_above_twice_of_it(
    store: SqliteStore, tmp_path: Path
) -> None:
    log = (tmp_path / "store.db-wal").stat().st_size
    free = 1_000 + log
    reserve = DiskReserve(tmp_path / "store.db", 1_000, lambda directory: free)
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
