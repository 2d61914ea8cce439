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


def test_empty_file_is_brought_to_the_newest_version(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    assert version_of(tmp_path / "store.db") == VERSION


def test_older_file_goes_through_every_version_to_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    steps = {0: MIGRATIONS[0], 1: "CREATE TABLE one (a)", 2: "ALTER TABLE one RENAME TO two"}
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, {0: MIGRATIONS[0]})
        assert migrate(connection, steps) == 1
        assert connection.execute("SELECT count(*) FROM two").fetchone() == (0,)
        assert migrate(connection, steps) == 3
    assert version_of(path) == 3


def test_step_that_fails_leaves_the_version_before(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    steps = {0: MIGRATIONS[0], 1: "CREATE TABLE one (a)", 2: "CREATE TABLE two (a); SELECT nonsense FROM nowhere"}
    connection = sqlite3.connect(path, isolation_level=None)
    with closing(connection), pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrate(connection, steps)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'two'").fetchone() == (0,)
    assert version_of(path) == 2


def test_store_of_the_first_version_gets_an_identity_of_its_own(tmp_path: Path) -> None:
    identities = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with closing(sqlite3.connect(tmp_path / name / "store.db", isolation_level=None)) as connection:
            migrate(connection, {0: MIGRATIONS[0]})
        with opened(tmp_path / name) as store:
            identities.add(store.connection.execute("SELECT identity FROM progress").fetchone()[0])
    assert {len(identity) for identity in identities} == {16}
    assert len(identities) == 2


def test_newer_file_is_left_alone_and_the_error_names_the_remedy(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.connection.execute("PRAGMA user_version = 99")
    before = (tmp_path / "store.db").read_bytes()
    with pytest.raises(StoreTooNew, match=rf"store\.db has format 99, and .* up to {VERSION}\. Install the version"):
        SqliteStore(tmp_path, patience=0)
    assert (tmp_path / "store.db").read_bytes() == before


def test_the_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    before = (tmp_path / "store.db").read_bytes()
    with pytest.raises(StoreCorrupt, match="not a store of triomq"):
        SqliteStore(tmp_path, patience=0)
    assert (tmp_path / "store.db").read_bytes() == before
