"""The command ``triomq`` as a process of its own."""

import subprocess
import sys

import pytest

from app.cli.process import run
from triomq import __version__


def test_it_shows_its_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"triomq {__version__}\n", "")


def test_without_a_command_it_helps() -> None:
    done = run()
    assert "serve" in done.stdout + done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize(
    "options", [("serve", "--prot", "1"), ("serve", "--port", "many"), ("serve", "--port", "65536"), ("dance",)]
)
def test_a_wrong_command_line_ends_with_2(options: tuple[str, ...]) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert "Error" in done.stderr


def test_a_broker_does_not_load_what_other_commands_need() -> None:
    program = "import sys; from triomq.app.cli.main import make_app; make_app(['serve']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"rich.table", "rich.console", "triomq.clients"} & set(done.stdout.split())


def test_all_commands_are_in_the_help() -> None:
    done = run("--help")
    for command in ("serve", "check", "publish", "get", "queues", "purge", "top", "store"):
        assert f" {command} " in done.stdout
