import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from triomq.errors import StoreCorrupt, StoreError, StoreUnwritable
from triomq.store import OperationBatch, SqliteStore, back_up
from triomq.store.schema import MIGRATIONS, migrate

from .stores import DECLARE, append, opened


def test_copy_is_what_was_there_at_one_moment(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        store.commit([OperationBatch(1, [DECLARE, append(1)])])
        expected = list(store.recover())
        back_up(store.directory, tmp_path / "copy")
        store.commit([OperationBatch(2, [append(2)])])
    with opened(tmp_path / "copy") as copy:
        assert (copy.committed, list(copy.recover())) == (1, expected)
        assert copy.commit([OperationBatch(2, [append(2)])]) == 2


def test_older_backup_is_not_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "backup"
    target.write_bytes(b"precious")
    with opened(tmp_path) as store, pytest.raises(StoreUnwritable, match="is there already"):
        back_up(store.directory, target)
    assert target.read_bytes() == b"precious"


def test_copy_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as store, pytest.raises(StoreError, match="missing"):
        back_up(store.directory, tmp_path / "missing" / "backup")
    assert not list(tmp_path.glob("*unfinished*"))


def test_place_that_is_none_is_named(store: SqliteStore, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for target in (tmp_path / "file" / "backup", tmp_path / "no\0path", tmp_path / ("long" * 100)):
        with pytest.raises(StoreUnwritable, match="cannot be written"):
            back_up(store.directory, target)


def test_copy_is_for_its_owner_alone_and_has_nothing_but_the_store(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        back_up(store.directory, tmp_path / "backup")
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o700
    assert [(path.name, path.stat().st_mode & 0o777) for path in (tmp_path / "backup").iterdir()] == [
        ("store.db", 0o600)
    ]


def test_copy_touches_nothing_beside_its_place(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        for name in ("backup.part", ".backup.part", "backup.tmp"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "notes.txt").write_text("precious")
        back_up(store.directory, tmp_path / "backup")
        (tmp_path / "empty").mkdir()
        with pytest.raises(StoreUnwritable, match="is there already"):
            back_up(store.directory, tmp_path / "empty")
    assert [path.read_text() for path in tmp_path.rglob("notes.txt")] == ["precious"] * 3
    assert not list(tmp_path.glob("*unfinished*"))


def test_copy_of_a_store_of_the_first_version_opens(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with closing(sqlite3.connect(tmp_path / "store" / "store.db", isolation_level=None)) as connection:
        migrate(connection, {0: MIGRATIONS[0]})
    back_up(tmp_path / "store", tmp_path / "backup")
    with opened(tmp_path / "backup") as store:
        assert store.committed == 0


def test_damaged_store_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"no database" * 1000)
    with pytest.raises(StoreCorrupt):
        back_up(tmp_path, tmp_path / "backup")


def test_store_whose_log_is_gone_is_not_copied_as_if_it_were_whole(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        store.commit([OperationBatch(1, [DECLARE])])
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = (tmp_path / "store" / "store.db").read_bytes()
        store.commit([OperationBatch(2, [append(1)])])
        mark = (tmp_path / "store" / "store.mark").read_bytes()
    (tmp_path / "store" / "store.db").write_bytes(before)
    (tmp_path / "store" / "store.mark").write_bytes(mark)
    with pytest.raises(StoreCorrupt, match="ends at batch 1, but its mark is of batch 2"):
        back_up(tmp_path / "store", tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_backup_needs_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store in"):
        back_up(tmp_path, tmp_path / "backup")
