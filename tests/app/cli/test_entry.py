"""Where the command begins, and what is not loaded before."""

import subprocess
import sys


def run_program(program: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_program_that_embeds_a_broker_loads_no_command_line() -> None:
    loaded = run_program("import sys, triomq; triomq.open_broker; print(*sys.modules)").split()
    assert "triomq.app.cli.entry" in loaded
    assert not {"typer", "click", "rich", "triomq.clients"} & set(loaded)


def test_the_command_begins_with_the_options_of_the_process() -> None:
    assert run_program("from triomq.app import main; main()", "--version").startswith("triomq ")
