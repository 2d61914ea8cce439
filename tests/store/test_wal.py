import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from triomq.store.wal import WriteAheadLog, accepted_frames, intact_frames, read_log

PAGE = 4096
FRAME = 24 + PAGE


@contextmanager
def written(path: Path, transactions: int) -> Iterator[Path]:
    """Write a log and give its path; it is there as long as the block lasts."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (a)")
        for _ in range(transactions):
            connection.execute("INSERT INTO t VALUES (zeroblob(3000))")
        yield Path(f"{path}-wal")


def copied(log: Path, *, flip: int | None = None, stop: int | None = None, more: bytes = b"") -> Path:
    data = bytearray(log.read_bytes()[:stop])
    if flip is not None:
        data[flip] ^= 1
    copy = log.with_name("copy")
    copy.write_bytes(bytes(data) + more)
    return copy


def read(log: Path) -> WriteAheadLog:
    found = read_log(log, PAGE)
    assert found is not None
    return found


@pytest.mark.parametrize("transactions", [0, 1, 9])
def test_frames_are_counted_as_sqlite_counts_them(tmp_path: Path, transactions: int) -> None:
    with written(tmp_path / "db", transactions) as log:
        found = read(log)
        assert (found.frames, found.is_cut) == (accepted_frames(tmp_path / "db-shm"), False)
        assert (len(found.commits), found.commits[-1]) == (transactions + 1, found.frames)
        assert len(list(intact_frames(found))) == found.frames


@pytest.mark.parametrize("cut", [100, 4_000])
def test_frame_that_is_cut_does_not_count_and_is_noticed(tmp_path: Path, cut: int) -> None:
    with written(tmp_path / "db", 3) as log:
        found = read(copied(log, stop=-cut))
        assert (found.frames, found.is_cut) == (read(log).frames - 1, True)


def test_frames_of_an_earlier_round_do_not_count(tmp_path: Path) -> None:
    with written(tmp_path / "db", 3) as log:
        salts = log.read_bytes()[16:24]
        earlier = log.read_bytes()[32:].replace(salts, b"otherone")
        assert read(copied(log, more=earlier)).frames == read(log).frames


@pytest.mark.parametrize("place", [8, 4, 16], ids=["salts", "commit", "checksum"])
def test_damaged_frame_hides_none_behind_it(tmp_path: Path, place: int) -> None:
    with written(tmp_path / "db", 5) as log:
        whole, damaged = read(log), read(copied(log, flip=32 + 2 * FRAME + place))
        assert damaged.frames == whole.frames
        assert damaged.commits[-1] == whole.commits[-1]
        lost = len(list(intact_frames(whole))) - len(list(intact_frames(damaged)))
        assert lost == (2 if place == 16 else 1)


@pytest.mark.parametrize("place", [0, 9, 17], ids=["magic", "page size", "salts"])
def test_damaged_header_hides_no_frame(tmp_path: Path, place: int) -> None:
    with written(tmp_path / "db", 5) as log:
        found = read(copied(log, flip=place))
        assert (found.frames, found.commits) == (read(log).frames, read(log).commits)
        assert len(list(intact_frames(found))) == found.frames


def test_no_log_and_an_empty_one_have_no_frames(tmp_path: Path) -> None:
    assert read_log(tmp_path / "missing", PAGE) is None
    (tmp_path / "empty").touch()
    assert read_log(tmp_path / "empty", PAGE) is None
    assert accepted_frames(tmp_path / "missing") == 0
