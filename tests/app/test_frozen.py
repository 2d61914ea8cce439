"""A real frozen program, made by PyInstaller, with a store and a process for sync jobs: both are the program itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triomq import __version__
from triomq.process import PYTHON_VARIABLE

pytest.importorskip("PyInstaller", reason="needs the extra `freeze`")

SOURCE = Path(__file__).with_name("frozen_program")

LEFT_OUT = (
    "pyspark",
    "pyarrow",
    "pandas",
    "numpy",
    "matplotlib",
    "setuptools",
    "pkg_resources",
    "pytest",
    "IPython",
)
"""What the environment of tests has, and the program needs not."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, frozen."""
    place = tmp_path_factory.mktemp("frozen")
    command = [
        sys.executable,
        "-m",
        "PyInstaller",
        "--log-level",
        "WARN",
        "--distpath",
        place / "dist",
        "--workpath",
        place / "work",
    ]
    command += ["--specpath", place, "--paths", SOURCE.parents[2] / "src", "--collect-submodules", "triomq"]
    command += [word for name in LEFT_OUT for word in ("--exclude-module", name)]
    done = subprocess.run([*command, SOURCE / "shop.py"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return place / "dist" / "shop" / "shop"


def run(program: Path, place: Path, *options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the program, which may be started once, in whatever way."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TRIOMQ_", "PYTHON"))}
    starts = place / "starts"
    done = subprocess.run(
        [program, place / "data", *options],
        capture_output=True,
        text=True,
        timeout=120,
        env=clean | {"STARTS": str(starts)} | environment,
    )
    assert len(starts.read_text().split()) == 1
    return done


WORKS = [f"connected with {__version__}", "messages 1", "job hello True"]


def test_frozen_program_is_the_interpreter_of_its_own_processes(program: Path, tmp_path: Path) -> None:
    done = run(program, tmp_path)
    assert (done.stdout.splitlines(), done.returncode) == (WORKS, 0), done.stderr


def test_frozen_program_that_has_not_said_so_is_told_what_to_do_and_starts_nothing(
    program: Path, tmp_path: Path
) -> None:
    done = run(program, tmp_path, "--plain")
    assert done.returncode == 1
    assert "this program is frozen" in done.stderr
    assert "call triomq.freeze_support() first in the main module" in done.stderr
    assert not (tmp_path / "data").exists()


def test_frozen_program_starts_the_interpreter_that_was_named(program: Path, tmp_path: Path) -> None:
    named = {
        PYTHON_VARIABLE: sys.executable,
        "PYTHONPATH": os.pathsep.join((str(SOURCE.parents[2] / "src"), str(SOURCE))),
    }
    done = run(program, tmp_path, "--plain", **named)
    assert (done.stdout.splitlines(), done.returncode) == (WORKS, 0), done.stderr
