import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from triomq.errors import StoreCorrupt, StoreTooNew
from triomq.store import SqliteStore
from triomq.store.schema import MIGRATIONS, VERSION, migrate

from .stores import opened


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_an_empty_file_is_brought_to_the_newest_version(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    assert version_of(tmp_path / "store.db") == VERSION


def test_an_older_file_goes_through_every_version_to_the_newest(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    path = tmp_path / "store.db"
    steps = {**MIGRATIONS, 1: "CREATE TABLE one (a)", 2: "ALTER TABLE one RENAME TO two"}
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert migrate(connection, path, steps) == 1
        assert connection.execute("SELECT count(*) FROM two").fetchone() == (0,)
        assert migrate(connection, path, steps) == 3
    assert version_of(path) == 3


def test_a_step_that_fails_leaves_the_version_before(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    steps = {**MIGRATIONS, 1: "CREATE TABLE one (a)", 2: "CREATE TABLE two (a); SELECT nonsense FROM nowhere"}
    connection = sqlite3.connect(path, isolation_level=None)
    with closing(connection), pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrate(connection, path, steps)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'two'").fetchone() == (0,)
    assert version_of(path) == 2


def test_a_newer_file_is_left_alone_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreTooNew, match=r"store\.db has format 99, and .* up to 1\. Install the version"):
        SqliteStore(tmp_path, patience=0)


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    with pytest.raises(StoreCorrupt, match="not a store of triomq"):
        SqliteStore(tmp_path, patience=0)
