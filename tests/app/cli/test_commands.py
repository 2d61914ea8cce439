"""The command ``triomq`` as a process of its own."""

import subprocess
import sys

import pytest

from app.cli.process import run
from triomq import __version__


def test_version_is_shown() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"triomq {__version__}\n", "")


def test_help_is_shown_without_a_command() -> None:
    done = run()
    assert "serve" in done.stdout + done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize(
    "options", [("serve", "--prot", "1"), ("serve", "--port", "many"), ("serve", "--port", "65536"), ("dance",)]
)
def test_wrong_command_line_ends_with_2(options: tuple[str, ...]) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert "Error" in done.stderr


def loaded_by(program: str) -> set[str]:
    command = [sys.executable, "-W", "error", "-c", f"import sys; {program}; print(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_serve_loads_nothing_that_other_commands_need() -> None:
    loaded = loaded_by("from triomq.app.cli.commands import make_app; make_app(['serve'])")
    assert not {"rich.table", "rich.console", "triomq.clients"} & loaded


def test_program_that_embeds_a_broker_loads_no_command_line() -> None:
    loaded = loaded_by("import triomq; triomq.open_broker")
    assert "triomq.app" in loaded
    assert not {"typer", "click", "rich", "triomq.app.cli", "triomq.clients"} & loaded


def test_help_lists_all_commands() -> None:
    done = run("--help")
    for command in ("serve", "check", "publish", "get", "queues", "purge", "top", "store"):
        assert f" {command} " in done.stdout
