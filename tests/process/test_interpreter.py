"""Which interpreter is started for a process of Python, and what is said where there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triomq import __version__
from triomq.errors import ConfigError
from triomq.process import (
    PROCESS_VARIABLE,
    PYTHON_VARIABLE,
    interpreter,
    interpreter_path,
    python_command,
    python_environment,
    require_python,
    set_executable,
)

MODULE = "triomq.process.interpreter"


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{MODULE}._Choice.executable", "")
    monkeypatch.setattr(f"{MODULE}._Choice.is_supported", False)


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_interpreter_is_the_one_that_runs_this() -> None:
    assert interpreter_path() == sys.executable
    command = python_command("triomq.store.server", "--wire", "3")
    assert command[:2] == [sys.executable, "-P"]
    assert command[-2:] == ["--wire", "3"]


def test_process_finds_this_very_triomq_and_knows_that_it_is_one() -> None:
    environment = python_environment()
    assert environment["PYTHONPATH"].split(os.pathsep)[0] == str(Path(__file__).parents[2] / "src")
    assert environment[PROCESS_VARIABLE] == str(os.getpid())


@pytest.mark.parametrize(
    ("executable", "text"),
    [
        ("", "sys.executable is empty"),
        (None, "sys.executable is empty"),
        ("/usr/sbin/uwsgi", "sys.executable is /usr/sbin/uwsgi, which by its name is no interpreter"),
        ("/nonexistent/python3", "/nonexistent/python3, where no program is that may be run"),
        ("/", "sys.executable is /, which by its name"),
    ],
)
def test_executable_that_is_no_interpreter_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, executable: str | None, text: str
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    with pytest.raises(ConfigError) as raised:
        require_python()
    assert text in str(raised.value)
    for way in ("triomq.freeze_support()", "triomq.set_executable(", PYTHON_VARIABLE, "store_host='thread'"):
        assert way in str(raised.value)
    with pytest.raises(ConfigError, match=r"triomq\.set_executable\("):
        interpreter_path()


def test_file_that_may_not_be_run_is_no_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python3").write_text("")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    with pytest.raises(ConfigError, match="may be run"):
        require_python()


def test_frozen_program_is_no_interpreter_unless_it_has_said_that_it_becomes_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(ConfigError, match="this program is frozen"):
        require_python()
    interpreter.freeze_support()  # which does nothing here
    assert python_command("triomq.store.server", "7") == [
        sys.executable, "--triomq-process", "triomq.store.server", "7",
    ]  # fmt: skip
    assert python_environment().get("PYTHONPATH") == os.environ.get("PYTHONPATH")
    with pytest.raises(ConfigError, match="this program is frozen"):
        interpreter_path()


def test_program_that_was_started_for_an_interpreter_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROCESS_VARIABLE, "7")
    with pytest.raises(ConfigError, match="this program was started by process 7 as an interpreter"):
        require_python()
    with pytest.raises(ConfigError, match="this program was started by process 7"):
        interpreter_path()


def test_interpreter_that_is_named_goes_before_all_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ours = sys.executable
    monkeypatch.setattr(sys, "executable", "/usr/sbin/uwsgi")
    other = script(tmp_path / "app", f'exec {ours} "$@"')
    set_executable(other)
    assert interpreter_path() == other
    assert python_command("triomq.store.server")[0] == other
    done = subprocess.run(
        python_command("triomq.store.server", "--help"), env=python_environment(), capture_output=True
    )
    assert b"The store of a broker" in done.stdout


def test_interpreter_is_named_by_the_environment_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ours = sys.executable
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setenv(PYTHON_VARIABLE, script(tmp_path / "interpreter", f'exec {ours} "$@"'))
    assert interpreter_path() == str(tmp_path / "interpreter")
    monkeypatch.setenv(PYTHON_VARIABLE, "/bin/true")
    with pytest.raises(ConfigError, match=f"the environment variable {PYTHON_VARIABLE} is /bin/true, which is no int"):
        require_python()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("exit 0", "is no interpreter that has triomq: asked for its version, it said 'nothing'"),
        ("echo no such option >&2; exit 2", "it said 'no such option'"),
        (f"echo triomq {__version__} 3 10", f"has Python 3.10 and triomq {__version__}"),
        ("echo triomq 0.0.0 3 12", f"has Python 3.12 and triomq 0.0.0; it must have triomq {__version__}"),
    ],
)
def test_named_program_that_answers_something_else_is_refused_at_once(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        set_executable(script(tmp_path / "python3", text))
    assert said in str(raised.value)


@pytest.mark.parametrize("name", ["/nonexistent", "no-such-program-here", ""])
def test_named_program_that_is_not_there_is_refused_at_once(name: str) -> None:
    with pytest.raises(ConfigError, match="where no program is that may be run"):
        set_executable(name)


def test_named_program_that_does_not_answer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{MODULE}._ANSWER", 0.1)
    with pytest.raises(ConfigError, match="cannot be asked for its version"):
        set_executable(script(tmp_path / "python3", "exec sleep 60"))
