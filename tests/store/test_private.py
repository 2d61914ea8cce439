import os
from pathlib import Path

import pytest

from triomq.errors import StoreUnwritable
from triomq.store import Batch, SqliteStore
from triomq.store.private import make_private, require_private

from .stores import DECLARE, append, opened


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
        store.commit([Batch(1, [DECLARE, append(1)])])
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
def test_a_directory_with_nothing_but_a_store_is_narrowed(tmp_path: Path, mode: int) -> None:
    for _ in range(2):
        tmp_path.chmod(mode)
        with opened(tmp_path) as store:
            assert store.notices == []
        assert mode_of(tmp_path) == 0o700


def test_a_directory_with_files_of_others_that_they_can_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    tmp_path.chmod(0o755)
    with opened(tmp_path) as store:
        (notice,) = store.notices
    assert f"{tmp_path} has mode 0755, so other users can see what is in it" in notice
    assert mode_of(tmp_path) == 0o755


@pytest.mark.parametrize("mode", [0o1777, 0o775])
def test_a_directory_with_files_of_others_that_they_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "notes").touch()
    tmp_path.chmod(mode)
    with pytest.raises(StoreUnwritable, match=rf"{tmp_path} has mode {mode:04o}.*chmod go-w"):
        SqliteStore(tmp_path, patience=0)
    assert not (tmp_path / "store.db").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_left_as_it_is(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    tmp_path.chmod(0o755)
    assert len(require_private(tmp_path)) == 1
    assert mode_of(tmp_path) == 0o755


def test_a_private_directory_is_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert require_private(tmp_path) == []
    assert mode_of(tmp_path) == 0o500
    tmp_path.chmod(0o700)
    make_private(tmp_path / "file")
    assert mode_of(tmp_path / "file") == 0o600
