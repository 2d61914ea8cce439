import os
import threading
from pathlib import Path

import pytest

from triomq.errors import StoreCorrupt, StoreError, StoreLocked, StoreUnwritable
from triomq.store import DirectoryLock, OperationBatch, SqliteStore
from triomq.store.directory import make_private, require_private

from .stores import DECLARE, append, opened


def test_directory_that_is_not_there_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_only_one_has_it_and_the_error_names_who(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path), pytest.raises(StoreLocked, match=f"process {os.getpid()}, .*stop the other"):
        DirectoryLock(tmp_path, patience=0)
    DirectoryLock(tmp_path, patience=0).release()


def test_lock_file_that_was_removed_lets_no_second_one_in(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        for _ in range(2):
            (tmp_path / "lock").unlink()
            with pytest.raises(StoreLocked, match="stop the other"):
                DirectoryLock(tmp_path, patience=0)
    DirectoryLock(tmp_path, patience=0).release()


def test_lock_is_waited_for(tmp_path: Path) -> None:
    first = DirectoryLock(tmp_path)
    leaving = threading.Timer(0.1, first.release)
    leaving.start()
    DirectoryLock(tmp_path, patience=20).release()
    leaving.join()


def test_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnwritable, match=r"file/store/lock cannot be opened.*Give the broker a data directory"):
        DirectoryLock(tmp_path / "file" / "store")


def test_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnwritable, match="file is no directory, as a data directory must be"):
        DirectoryLock(tmp_path / "file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_directory_that_is_read_only_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreUnwritable, match="Permission denied"):
        DirectoryLock(tmp_path)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def everybody() -> None:
    """Let files be for everybody unless somebody says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("everybody")
def test_every_file_of_a_store_is_for_its_owner_alone(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        store.commit([OperationBatch(1, [DECLARE, append(1)])])
        store.read(1, 1, 2, 1)
        modes = {path.name: mode_of(path) for path in store.directory.iterdir()}
    assert set(modes) >= {"store.db", "store.db-wal", "store.db-shm", "spill.db", "spill.db-wal", "store.mark", "lock"}
    assert set(modes.values()) == {0o600}
    assert mode_of(tmp_path / "store") == 0o700


def test_files_that_an_earlier_version_has_made_are_narrowed(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    (tmp_path / "store.db").chmod(0o644)
    with opened(tmp_path):
        assert mode_of(tmp_path / "store.db") == 0o600


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_directory_with_nothing_but_a_store_is_narrowed(tmp_path: Path, mode: int) -> None:
    for _ in range(2):
        tmp_path.chmod(mode)
        with opened(tmp_path) as store:
            assert store.notices == []
        assert mode_of(tmp_path) == 0o700


def test_directory_with_files_of_others_that_they_can_read_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    tmp_path.chmod(0o755)
    with opened(tmp_path) as store:
        (notice,) = store.notices
    assert f"{tmp_path} has mode 0755, so other users can see what is in it" in notice
    assert mode_of(tmp_path) == 0o755


@pytest.mark.parametrize("mode", [0o1777, 0o775])
def test_directory_with_files_of_others_that_they_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "notes").touch()
    tmp_path.chmod(mode)
    with pytest.raises(StoreUnwritable, match=rf"{tmp_path} has mode {mode:04o}.*chmod go-w"):
        SqliteStore(tmp_path, patience=0)
    assert not (tmp_path / "store.db").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_directory_of_another_user_is_left_as_it_is(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    tmp_path.chmod(0o755)
    assert len(require_private(tmp_path)) == 1
    assert mode_of(tmp_path) == 0o755


def test_private_directory_is_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert require_private(tmp_path) == []
    assert mode_of(tmp_path) == 0o500
    tmp_path.chmod(0o700)
    make_private(tmp_path / "file")
    assert mode_of(tmp_path / "file") == 0o600


@pytest.mark.parametrize(("name", "error"), [("lock", StoreUnwritable), ("spill.db", StoreCorrupt)])
def test_file_of_another_program_is_left_as_it_is(tmp_path: Path, name: str, error: type[StoreError]) -> None:
    (tmp_path / name).write_text("precious")
    with pytest.raises(error, match=f"{name} .* another program's, and left as it is"):
        SqliteStore(tmp_path, patience=0)
    assert (tmp_path / name).read_text() == "precious"
    assert not (tmp_path / "store.db").exists()
