"""What is done to the files of a store while no broker has it, and what a broker says to it."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from triomq.errors import StoreCorrupt, StoreLocked
from triomq.store import OperationBatch, SqliteStore, back_up, check
from triomq.store.connecting import PAGE_SIZE, connect_reader

from .stores import DECLARE, append, bodies, opened

LAST = 9
"""The number of the last batch of the store that is killed."""
FRAME = 24 + PAGE_SIZE


def copy_of(directory: Path, target: Path) -> Path:
    """Copy a store as a kill at this moment would leave it."""
    target.mkdir(mode=0o700)
    for name in ("store.db", "store.db-wal", "store.mark"):
        with suppress(FileNotFoundError):
            shutil.copy(directory / name, target / name)
    return target


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The directory of a store that was killed: a batch is in the database, the others in the log."""
    with opened(tmp_path / "store") as store:
        store.commit([OperationBatch(1, [DECLARE])])
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for number in range(2, LAST + 1):
            store.commit([OperationBatch(number, [append(number)])])
        return copy_of(store.directory, tmp_path / "killed")


@pytest.fixture
def young(tmp_path: Path) -> Path:
    """The directory of a store that was killed and has all in its log, the tables as well."""
    with opened(tmp_path / "store") as store:
        store.commit([OperationBatch(1, [DECLARE]), OperationBatch(2, [append(2)])])
        return copy_of(store.directory, tmp_path / "young")


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def contents(directory: Path) -> dict[str, bytes]:
    """Give what is in a directory; SQLite needs its index, and an empty log, to look at a database."""
    files = {path.name: path.read_bytes() for path in directory.iterdir() if path.name not in ("lock", "store.db-shm")}
    return {name: data for name, data in files.items() if data or name != "store.db-wal"}


def refused(directory: Path, match: str) -> str:
    """Open a store in vain, twice, and see that the refusal has changed nothing; give its text."""
    before = contents(directory)
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match=match) as error:
            SqliteStore(directory, patience=0)
        assert contents(directory) == before
    return str(error.value)


def test_store_that_was_killed_opens_at_its_last_batch_without_a_warning(killed: Path) -> None:
    with opened(killed) as store:
        assert (store.committed, store.notices) == (LAST, [])
        assert len(bodies(store)) == LAST - 1


def test_store_that_was_closed_opens_without_a_warning(tmp_path: Path) -> None:
    for _ in range(2):
        with opened(tmp_path) as store:
            assert store.notices == []


@pytest.mark.parametrize("place", [100, 0, 8, 16], ids=["page", "number", "salts", "checksum"])
@pytest.mark.parametrize("mark", [True, False], ids=["mark", "no mark"])
def test_damage_in_the_log_is_refused_and_the_way_out_is_named(killed: Path, place: int, mark: bool) -> None:
    flip(killed / "store.db-wal", 32 + 3 * FRAME + place)
    if not mark:
        (killed / "store.mark").unlink()
    text = refused(killed, "store.db-wal is damaged: [2-8] batches stand behind a part that is not what was written")
    assert f"`triomq store salvage --data {killed} TARGET`" in text
    assert "delete" in text
    assert "nothing of the rest was confirmed" not in text


@pytest.mark.parametrize("place", [0, 9, 17, 25])
def test_log_whose_header_is_damaged_is_refused(killed: Path, place: int) -> None:
    flip(killed / "store.db-wal", place)
    refused(killed, "store.db-wal is damaged: 8 batches")


def test_damage_in_the_last_batch_is_refused_when_the_mark_knows_of_it(killed: Path) -> None:
    flip(killed / "store.db-wal", (killed / "store.db-wal").stat().st_size - 100)
    refused(killed, f"ends at batch {LAST - 1}, but .*store.mark shows that batch {LAST} was on disk")


def removed(log: Path) -> None:
    log.unlink()


def emptied(log: Path) -> None:
    os.truncate(log, 0)


def cut(log: Path) -> None:
    os.truncate(log, log.stat().st_size // 2)


def zeroed(log: Path) -> None:
    log.write_bytes(bytes(log.stat().st_size))


@pytest.mark.parametrize("spoil", [removed, emptied, cut, zeroed])
@pytest.mark.parametrize("age", ["killed", "young"])
def test_log_that_is_gone_is_missed(spoil: Callable[[Path], None], age: str, request: pytest.FixtureRequest) -> None:
    directory: Path = request.getfixturevalue(age)
    spoil(directory / "store.db-wal")
    refused(directory, r"ends at batch \d, but .*store.mark shows that batch \d was on disk")


@pytest.mark.parametrize("beside", ["store.db-wal", "store.mark"])
def test_database_that_is_gone_is_missed_by_what_is_beside_it(killed: Path, beside: str) -> None:
    (killed / "store.db").unlink()
    for name in {"store.db-wal", "store.mark"} - {beside}:
        (killed / name).unlink()
    refused(killed, f"store.db is missing or empty, but .*{beside} is there")


def test_database_that_was_emptied_is_missed(killed: Path) -> None:
    os.truncate(killed / "store.db", 0)
    refused(killed, "store.db is missing or empty")


def test_mark_that_is_gone_or_behind_proves_nothing(killed: Path) -> None:
    (killed / "store.mark").unlink()
    with opened(killed) as store:
        assert (store.committed, store.notices) == (LAST, [])
        early = (killed / "store.mark").read_bytes()
        store.commit([OperationBatch(LAST + 1, [append(100)])])
    (killed / "store.mark").write_bytes(early)
    with opened(killed) as store:
        assert (store.committed, store.notices) == (LAST + 1, [])


def test_mark_that_cannot_be_read_is_warned_of_and_written_anew(killed: Path) -> None:
    os.truncate(killed / "store.mark", 0)
    checked = check(killed, patience=0)
    with opened(killed) as store:
        (notice,) = store.notices
        assert (checked.is_well, checked.notices) == (True, [notice])
        assert "store.mark cannot be read" in notice
    with opened(killed) as store:
        assert store.notices == []


@pytest.mark.parametrize("cut", [100, FRAME, FRAME + 100])
def test_log_that_ends_within_an_unconfirmed_batch_opens_at_the_one_before(
    killed: Path, tmp_path: Path, cut: int
) -> None:
    with opened(killed) as store:
        mark = (killed / "store.mark").read_bytes()
        store.commit([OperationBatch(LAST + 1, [append(100)])])
        torn = copy_of(killed, tmp_path / "torn")
    (torn / "store.mark").write_bytes(mark)
    log = torn / "store.db-wal"
    os.truncate(log, log.stat().st_size - cut)
    checked = check(torn, patience=0)
    with opened(torn) as store:
        (notice,) = store.notices
        assert (checked.is_well, checked.notices, checked.missing) == (True, [notice], {})
        assert "ends within a batch, as after the end of a process or of a machine" in notice
        assert f"opened at batch {LAST}, the last whole one" in notice
        assert "store.mark knows of no later one" in notice
        store.commit([OperationBatch(LAST + 1, [append(100)])])
        again = copy_of(torn, tmp_path / "again")
    with opened(again) as store:
        assert (store.committed, store.notices) == (LAST + 1, [])


def test_batch_whose_parts_were_written_out_of_order_when_the_power_went_is_not_damage(
    killed: Path, tmp_path: Path
) -> None:
    with opened(killed) as store:
        mark = (killed / "store.mark").read_bytes()
        begin = (killed / "store.db-wal").stat().st_size
        store.commit([OperationBatch(LAST + 1, [append(100, bytes(3 * PAGE_SIZE))])])
        torn = copy_of(killed, tmp_path / "torn")
    (torn / "store.mark").write_bytes(mark)
    flip(torn / "store.db-wal", begin + 100)
    with opened(torn) as store:
        assert store.committed == LAST
        assert "ends within a batch" in store.notices[0]


def test_log_that_has_to_be_emptied_is_not_emptied_beside_a_reader(killed: Path) -> None:
    (killed / "store.mark").unlink()
    flip(killed / "store.db-wal", (killed / "store.db-wal").stat().st_size - 100)
    with closing(connect_reader(killed / "store.db")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM segment").fetchone()
        with pytest.raises(StoreLocked, match="another program reads it"):
            SqliteStore(killed, patience=0)


# Backups


def test_backup_in_place_of_the_database_alone_is_refused_until_what_was_beside_it_is_gone(
    killed: Path, tmp_path: Path
) -> None:
    back_up(tmp_path / "store", tmp_path / "backup")
    shutil.copy(tmp_path / "backup" / "store.db", killed / "store.db")
    text = refused(killed, "store.db-wal belongs to another store than")
    assert f"delete {killed}/store.db-wal, {killed}/store.db-shm and {killed}/store.mark" in text
    (killed / "store.db-wal").unlink()
    (killed / "store.db-shm").unlink(missing_ok=True)
    refused(killed, "store.mark belongs to another store than")
    (killed / "store.mark").unlink()
    with opened(killed) as store:
        assert (store.committed, store.notices) == (LAST, [])


def test_backup_from_before_marks_in_place_of_a_database_is_refused(killed: Path) -> None:
    with closing(sqlite3.connect(killed / "store.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("ALTER TABLE progress DROP COLUMN identity")
        connection.execute("PRAGMA user_version = 1")
    refused(killed, "store.mark belongs to another store than")
