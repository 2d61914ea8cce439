import os
import threading
from pathlib import Path

import pytest

from triomq.errors import StoreLocked, StoreUnwritable
from triomq.store import DirectoryLock


def test_a_directory_that_is_not_there_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_only_one_has_it_and_the_error_names_who(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path), pytest.raises(StoreLocked, match=f"process {os.getpid()}, .*stop the other"):
        DirectoryLock(tmp_path, patience=0)
    DirectoryLock(tmp_path, patience=0).release()


def test_a_lock_file_that_was_removed_lets_no_second_one_in(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        for _ in range(2):
            (tmp_path / "lock").unlink()
            with pytest.raises(StoreLocked, match="stop the other"):
                DirectoryLock(tmp_path, patience=0)
    DirectoryLock(tmp_path, patience=0).release()


def test_it_is_waited_for(tmp_path: Path) -> None:
    first = DirectoryLock(tmp_path)
    leaving = threading.Timer(0.1, first.release)
    leaving.start()
    DirectoryLock(tmp_path, patience=20).release()
    leaving.join()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnwritable, match=r"file/store/lock cannot be opened.*Give the broker a data directory"):
        DirectoryLock(tmp_path / "file" / "store")


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnwritable, match="file is no directory, as a data directory must be"):
        DirectoryLock(tmp_path / "file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_is_read_only_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreUnwritable, match="Permission denied"):
        DirectoryLock(tmp_path)
