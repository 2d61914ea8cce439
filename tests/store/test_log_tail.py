import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from triomq.store.log_tail import written_frames


def written(path: Path, transactions: int) -> tuple[Path, int]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (a)")
        for _ in range(transactions):
            connection.execute("INSERT INTO t VALUES (zeroblob(3000))")
        log = Path(f"{path}-wal")
        copy = path.with_name("copy")
        copy.write_bytes(log.read_bytes())
        _, frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return copy, frames


@pytest.mark.parametrize("transactions", [0, 1, 9])
def test_frames_are_counted(tmp_path: Path, transactions: int) -> None:
    log, frames = written(tmp_path / "db", transactions)
    assert written_frames(log) == frames > transactions


@pytest.mark.parametrize("octets", [1, 24, 4_000])
def test_a_frame_that_is_cut_counts_half(tmp_path: Path, octets: int) -> None:
    log, frames = written(tmp_path / "db", 3)
    log.write_bytes(log.read_bytes()[:-octets])
    assert written_frames(log) == frames - 0.5


def test_what_is_left_of_an_earlier_round_does_not_count(tmp_path: Path) -> None:
    log, frames = written(tmp_path / "db", 3)
    octets = log.read_bytes()
    log.write_bytes(octets + octets[32:40] + b"otherone" + octets[48:])
    assert written_frames(log) == frames


def test_no_log_has_no_frames(tmp_path: Path) -> None:
    assert written_frames(tmp_path / "missing") == 0
    (tmp_path / "empty").touch()
    assert written_frames(tmp_path / "empty") == 0
