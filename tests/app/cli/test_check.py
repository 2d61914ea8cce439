"""``triomq check``: what a configuration means, or what is wrong with it."""

from pathlib import Path

import pytest

from app.cli.process import run
from foreign_endpoint import install

WHOLE = """
domains = ["default", "shop"]
[[endpoints]]
type = "amqp"
host = "0.0.0.0"
[[endpoints]]
type = "amqp"
path = "/run/triomq.sock"
[users.bob]
password_file = "secret"
[users.ada]
password = "unlikely secret"
"""


def test_check_prints_the_configuration_and_no_password(tmp_path: Path) -> None:
    (tmp_path / "triomq.toml").write_text(WHOLE, encoding="utf-8")
    (tmp_path / "secret").write_text("unlikely too", encoding="utf-8")
    done = run("check", str(tmp_path / "triomq.toml"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "listens  AMQP 0-9-1 on 0.0.0.0:5672",
        "listens  AMQP 0-9-1 on /run/triomq.sock",
        "users    ada, bob",
        "domains  default, shop",
        "data     none: everything is in memory only",
        "log      info, text",
        "drain    3 s",
    ]


def test_check_without_a_file_prints_the_defaults() -> None:
    done = run("check")
    assert done.returncode == 0
    assert "users    guest, with the default password\n" in done.stdout


def test_configuration_without_endpoints_listens_nowhere(tmp_path: Path) -> None:
    (tmp_path / "triomq.toml").write_text("endpoints = []", encoding="utf-8")
    assert run("check", str(tmp_path / "triomq.toml")).stdout.startswith("listens  nowhere\n")


def test_data_directory_stands_beside_the_configuration_and_is_no_file(tmp_path: Path) -> None:
    file = tmp_path / "triomq.toml"
    file.write_text('data_dir = "data"\n', encoding="utf-8")
    assert f"data     {tmp_path / 'data'}\n" in run("check", str(file)).stdout
    (tmp_path / "data").touch()
    done = run("check", str(file))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"triomq: {file}: data_dir: {tmp_path / 'data'} is a file, not a directory; name another, or move it away\n"
    )


def test_policies_are_shown_and_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "triomq.toml"
    text = "[[policies]]\nname = 'limits'\npattern = '^log'\ndefinition = { max-length = 5 }\napply_to = 'queues'\n"
    file.write_text(text, encoding="utf-8")
    assert "policy   limits, for queues like '^log'\n" in run("check", str(file)).stdout
    file.write_text(text.replace("^log", "(log"), encoding="utf-8")
    done = run("check", str(file))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"triomq: {file}: policies[0].pattern: the pattern '(log' of policy 'limits' is no regular expression: missing"
    )


def test_check_prints_all_mistakes_and_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("unlikely too", encoding="utf-8")
    file = tmp_path / "triomq.toml"
    file.write_text(WHOLE.replace("host =", "hots =").replace("unlikely secret", ""), encoding="utf-8")
    done = run("check", str(file))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"triomq: {file}: endpoints[0].hots is not known; did you mean 'host'?",
        f"triomq: {file}: users.ada: a user needs a password that is not empty, or a password_file, or verifiers, or a "
        "curve_key",
    ]


def test_foreign_endpoint_is_checked_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(install(tmp_path)))
    file = tmp_path / "triomq.toml"
    file.write_text('[[endpoints]]\ntype = "lines"\n[[endpoints]]\ntype = "amqp"\n', encoding="utf-8")
    done = run("check", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == [
        "listens  lines of text on 127.0.0.1:7000",
        "listens  AMQP 0-9-1 on localhost:5672",
    ]
    file.write_text('[[endpoints]]\ntype = "lines"\nhost = "0.0.0.0"\n', encoding="utf-8")
    assert "host '0.0.0.0' is open to other machines" in run("check", str(file)).stderr
