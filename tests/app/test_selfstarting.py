"""A program that is taken for an interpreter of Python is not started without end, in whatever place that happens."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("selfstarting.py")


def run(place: Path, name: str, use: str, **more: str) -> tuple["subprocess.CompletedProcess[str]", int]:
    """Run the program, whose executable has a name; return how it ended, and how often it was started."""
    app, starts = place / name, place / "starts"
    app.write_text(f'#!/bin/sh\nexec {sys.executable} {PROGRAM} "$@"\n')
    app.chmod(0o755)
    environment = os.environ | {"APP": str(app), "STARTS": str(starts)} | more
    command = [app, use, place / "data"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, cwd=place)
    return done, len(starts.read_text().split())


@pytest.mark.parametrize("use", ["store", "trace", "children"])
def test_program_with_a_name_of_its_own_is_not_started_again(use: str, tmp_path: Path) -> None:
    if use == "trace":
        pytest.importorskip("pyarrow")
    done, starts = run(tmp_path, "app", use)
    assert starts == 1
    assert done.returncode == 1
    assert done.stderr.startswith(f"ConfigError: sys.executable is {tmp_path}/app, which by its name is no interpreter")
    assert not (tmp_path / "data").exists()


def test_program_with_the_name_of_an_interpreter_starts_no_broker_within_its_broker(tmp_path: Path) -> None:
    done, starts = run(tmp_path, "python-shop", "store")
    assert starts == 7  # a store's process that dies is started again, five times
    assert "ConfigError: this program was started by process" in done.stderr
    assert "StoreError: the process of the store in" in done.stderr
    assert f"It was started by {tmp_path}/python-shop: an interpreter of Python that has triomq?" in done.stderr
    assert not (tmp_path / "elsewhere").exists()


def test_program_that_supports_it_becomes_the_process_of_its_store(tmp_path: Path) -> None:
    done, starts = run(tmp_path, "app", "store", freeze_support="1")
    assert (done.returncode, starts) == (0, 1), done.stderr


def test_program_without_processes_needs_no_interpreter(tmp_path: Path) -> None:
    done, starts = run(tmp_path, "app", "thread")
    assert (done.returncode, starts) == (0, 1), done.stderr


def test_program_works_with_an_interpreter_that_was_named(tmp_path: Path) -> None:
    done, starts = run(tmp_path, "app", "store", TRIOMQ_PYTHON=sys.executable)
    assert (done.returncode, starts) == (0, 1), done.stderr
