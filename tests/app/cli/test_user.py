"""``triomq user``: passwords in by standard input, and nowhere out."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.process import PATIENCE, run
from triomq.app.users_file import read_users
from triomq.security import ALL, Permission, UserLimits, read_verifier
from triomq.transports import read_curve_keys

FAST = ("--iterations", "4096")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users.json"


def user(file: Path, *arguments: str, password: str = "hunter2\n", code: int = 0) -> str:
    """Run a command; give what it says."""
    done = run("user", *arguments, "--file", str(file), stdin=password)
    assert done.returncode == code, done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    return done.stdout if not code else done.stderr


def test_first_user_makes_the_file_and_may_everything(file: Path) -> None:
    assert "the first user may do everything" in user(file, "add", "ada", *FAST)
    ada = read_users(file).users["ada"]
    assert (ada.permissions, ada.tags) == ({"*": ALL}, ("administrator",))
    assert all(read_verifier(text).matches(b"hunter2") for text in ada.verifiers)
    assert [text.partition("$")[0] for text in ada.verifiers] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert "hunter2" not in file.read_text(encoding="utf-8")


def test_further_users_have_the_given_permissions(file: Path) -> None:
    user(file, "add", "ada", *FAST)
    assert "it may do nothing yet" in user(file, "add", "bob", *FAST)
    user(
        file,
        "add",
        "cleo",
        *FAST,
        "--domain",
        "shop",
        "--write",
        "^out",
        "--tag",
        "monitoring",
        "--expires",
        "2030-01-02",
    )
    user(file, "add", "dora", "--certificate", "--max-connections", "3", "--max-bindings", "unlimited")
    user(file, "add", "emil", *FAST, "--administrator")
    users = read_users(file).users
    assert users["bob"].permissions == {}
    assert users["cleo"].permissions == {"shop": Permission(write="^out")}
    assert users["emil"].permissions == {"*": ALL}
    assert (users["dora"].verifiers, users["dora"].limits) == ((), UserLimits(3, bindings="unlimited"))
    assert user(file, "list").splitlines() == [
        "ada  *  configure '.*'  write '.*'  read '.*'  (administrator)",
        "bob  may enter no domain",
        "cleo  shop  configure ''  write '^out'  read ''  (monitoring, until 2030-01-02 00:00 UTC)",
        "dora  may enter no domain  (connections <= 3, bindings unlimited)",
        "emil  *  configure '.*'  write '.*'  read '.*'  (administrator)",
    ]


def test_permissions_are_changed_one_by_one_and_taken_away(file: Path) -> None:
    user(file, "add", "ada", *FAST)
    user(file, "add", "bob", *FAST)
    user(file, "permit", "bob", "--write", "^out")
    user(file, "permit", "bob", "--read", "^in")
    user(file, "permit", "bob", "--domain", "shop", "--configure", ".*")
    assert read_users(file).users["bob"].permissions == {
        "*": Permission(write="^out", read="^in"),
        "shop": Permission(configure=".*"),
    }
    user(file, "permit", "bob", "--keep-out")
    assert set(read_users(file).users["bob"].permissions or {}) == {"shop"}
    assert "exclude each other" in user(file, "permit", "bob", "--keep-out", "--read", "x", code=2)
    assert "is no regular expression" in user(file, "permit", "bob", "--read", "(", code=1)


def test_password_is_changed_and_a_user_removed(file: Path) -> None:
    user(file, "add", "ada", *FAST)
    user(file, "password", "ada", *FAST, password="another\n")
    (first, *_) = read_users(file).users["ada"].verifiers
    assert read_verifier(first).matches(b"another")
    user(file, "remove", "ada")
    assert read_users(file).users == {}


def test_curve_makes_a_pair_of_keys_of_which_the_file_of_users_has_the_public_one(file: Path) -> None:
    user(file, "add", "ada", *FAST)
    said = user(file, "curve", str(file.with_name("ada.key_secret")), "ada")
    keys = read_curve_keys(file.with_name("ada.key_secret"))
    assert read_users(file).users["ada"].curve_key == keys.public
    assert keys.public in said
    assert keys.secret not in said + file.read_text(encoding="utf-8")
    assert "name a file that is not there" in user(file, "curve", str(file), "ada", code=1)
    user(file, "curve", str(file.with_name("broker.key_secret")))
    assert read_curve_keys(file.with_name("broker.key_secret")) != keys


@pytest.mark.parametrize(
    ("arguments", "password", "text"),
    [
        (("add", "ada", *FAST), "x\n", "has a user 'ada' already"),
        (("add", "bob", *FAST), "", "found no password on standard input"),
        (("add", "bob", *FAST), "\n", "found no password on standard input"),
        (("remove", "bob"), "", "has no user 'bob', but 'ada'"),
        (("password", "bob"), "x\n", "has no user 'bob', but 'ada'"),
        (("permit", "bob", "--read", "x"), "", "has no user 'bob', but 'ada'"),
    ],
)
def test_refused_change_is_an_error_and_changes_nothing(
    file: Path, arguments: tuple[str, ...], password: str, text: str
) -> None:
    user(file, "add", "ada", *FAST)
    before = file.read_bytes()
    assert text in user(file, *arguments, password=password, code=1)
    assert file.read_bytes() == before


def test_list_without_a_file_is_an_error(file: Path) -> None:
    assert "triomq user add NAME" in user(file, "list", code=1)


def test_terminal_is_asked_twice_and_shows_nothing(file: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "triomq", "user", "add", "ada", *FAST, "--file", str(file)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        os.close(theirs)
        try:
            shown = b""
            # With the space that comes once nothing is echoed any more, and what was typed before is thrown away.
            for prompt in (b"password: ", b"confirmation: "):
                while prompt not in shown:
                    shown += os.read(ours, 1024)
                os.write(ours, b"hunter2\n")
            assert process.wait(PATIENCE) == 0
            shown += os.read(ours, 4096)
        finally:
            process.kill()
    os.close(ours)
    assert b"hunter2" not in shown
    (first, *_) = read_users(file).users["ada"].verifiers
    assert read_verifier(first).matches(b"hunter2")


def test_limit_is_a_number_or_unlimited(file: Path) -> None:
    error = user(file, "add", "ada", *FAST, "--max-queues", "many", code=2)
    assert "found 'many'; a limit is a number" in " ".join(error.split())
