"""The file of users: for its owner alone, and whole at any time."""

import os
import stat
import threading
from pathlib import Path

import pytest

from triomq.app.users import User
from triomq.app.users_file import UsersFile, editing, read_users, write_users
from triomq.errors import ConfigError
from triomq.security import Permission, UserLimits, make_verifier
from triomq.security.verifiers import LEAST_ITERATIONS

VERIFIER = str(make_verifier(b"secret", iterations=LEAST_ITERATIONS))
ADA = User(verifiers=(VERIFIER,), permissions={"*": Permission("a", "b", "c")}, limits=UserLimits(1, 2, 3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "users.json"


def test_users_that_are_written_are_read_again(path: Path) -> None:
    content = UsersFile(users={"ada": ADA, "bob": User(certificate=True, permissions={})})
    write_users(path, content)
    assert read_users(path) == content


def test_file_is_its_owners_alone_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        write_users(path, UsersFile())
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == [path.name]


def test_secret_stays_when_users_change(path: Path) -> None:
    with editing(path, begin=True) as users:
        users["ada"] = ADA
    secret = read_users(path).secret
    with editing(path) as users:
        del users["ada"]
    assert read_users(path).secret == secret
    assert len(secret) == 32


def test_error_changes_nothing(path: Path) -> None:
    def fail() -> None:
        with editing(path, begin=True) as users:
            users["ada"] = ADA
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not path.exists()


def test_concurrent_edits_both_take_effect(path: Path) -> None:
    def add(name: str) -> None:
        for number in range(5):
            with editing(path, begin=True) as users:
                users[f"{name}{number}"] = ADA

    threads = [threading.Thread(target=add, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_users(path).users) == 20


def test_file_that_others_may_read_is_not_taken(path: Path) -> None:
    write_users(path, UsersFile())
    path.chmod(0o640)
    with pytest.raises(ConfigError, match=r"may be read by others \(mode 640\).*chmod 600"):
        read_users(path)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is no file of users"),
        (b"\xff", "is no file of users"),
        (b'{"users": {"ada": {"verifiers": ["hunter2"]}}}', "found no verifier"),
        (b'{"users": {"ada": {"verifiers": "hunter2"}}}', "is no file of users"),
        (b'{"users": {"ada": {"shape": "hunter2"}}}', "shape"),
        (b'{"users": {"": {"certificate": true}}}', "without a name"),
        (b'{"users": {"ada": {"certificate": true, "permissions": {"*": {"read": "("}}}}}', "is no regular expression"),
    ],
)
def test_errors_about_the_file_do_not_show_its_content(path: Path, content: bytes, text: str) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=text) as caught:
        read_users(path)
    assert "hunter2" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_file_that_is_not_there_says_how_to_make_one(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"triomq user add NAME --file .*users\.json` makes the first"):
        read_users(path)


def test_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "users.json"
    with pytest.raises(ConfigError, match="cannot open the folder"), editing(missing, begin=True):
        pass
    with pytest.raises(ConfigError, match="cannot write"):
        write_users(missing, UsersFile())


def test_secrets_are_not_shown(path: Path) -> None:
    content = UsersFile(secret=b"hunter2", users={"ada": ADA})
    assert "hunter2" not in repr(content)
    assert VERIFIER.rpartition("$")[2] not in repr(content)
