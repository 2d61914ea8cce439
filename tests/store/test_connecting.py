import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from triomq.store.connecting import connect, connect_reader


def ask(connection: sqlite3.Connection, pragma: str) -> object:
    return connection.execute(f"PRAGMA {pragma}").fetchone()[0]


def test_durable_file_is_synced_at_every_commit(tmp_path: Path) -> None:
    with (
        closing(connect(tmp_path / "durable")) as durable,
        closing(connect(tmp_path / "spilled", synced=False)) as spilled,
    ):
        assert [ask(durable, "journal_mode"), ask(durable, "synchronous"), ask(durable, "page_size")] == [
            "wal",
            2,
            16384,
        ]
        assert ask(spilled, "synchronous") == 0


def test_reader_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "a name with ? and #"
    with closing(connect(path)) as writer:
        writer.execute("CREATE TABLE t (a)")
        with closing(connect_reader(path)) as reader:
            assert reader.execute("SELECT count(*) FROM t").fetchone() == (0,)
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                reader.execute("INSERT INTO t VALUES (1)")


def test_reader_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        connect_reader(tmp_path / "missing").execute("SELECT 1")
    assert list(tmp_path.iterdir()) == []
