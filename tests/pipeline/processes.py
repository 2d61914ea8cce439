"""Programs whose processes are found and ended together: Spark's have children in process groups of their own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import triomq

DEADLINE = 400.0
"""Seconds that a program may take, beside other work."""


class Process(NamedTuple):
    """One process, as ``/proc`` shows it."""

    number: int
    parent: int
    command: str


class Family:
    """A program in a session of its own, to which all belong that it starts, whatever their process groups are.

    What still runs at the end of the ``with`` block is killed.

    Args:
        command: What to run; ``-m`` and the like are for our interpreter.
        log: The file to which goes what they say on standard error.
        environment: Further variables.
    """

    def __init__(self, command: Sequence[str], log: Path, **environment: str) -> None:
        self.log = log
        home = str(Path(triomq.__file__).parents[1])
        own = [sys.executable, *command] if command[0].startswith("-") else command
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                own,
                cwd=Path(__file__).parents[1],
                env={**os.environ, "PYTHONPATH": home, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                bufsize=1,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def members(self) -> list[Process]:
        """Return all of them that run."""
        found = []
        for place in Path("/proc").iterdir():
            if place.name.isdecimal():
                try:
                    _, _, fields = (place / "stat").read_text().rpartition(")")
                    state, parent, _, session = fields.split()[:4]
                    command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                except OSError:  # it has ended meanwhile
                    continue
                if int(session) == self.process.pid and state not in "ZX":
                    found.append(Process(int(place.name), int(parent), command))
        return found

    def python_workers(self) -> list[Process]:
        """Return those in which executors run Python: children of a daemon, which has forked them."""
        members = self.members()
        daemons = {each.number for each in members if each.command.rstrip().endswith("pyspark.daemon pyspark.worker")}
        return [each for each in members if each.parent in daemons]

    def kill(self) -> None:
        """End all of them at once, and wait until none is left."""
        until = time.monotonic() + DEADLINE
        while members := self.members():
            for each in members:
                kill(each.number)
            assert time.monotonic() < until, f"these cannot be killed: {members}"
            self.process.poll()
            time.sleep(0.01)
        self.process.wait(DEADLINE)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass  # what was not read in time

    def wait_ended(self) -> None:
        """Wait until all of them have ended by themselves."""
        until = time.monotonic() + DEADLINE
        self.process.wait(DEADLINE)
        while members := self.members():
            assert time.monotonic() < until, f"these were left behind: {members}"
            time.sleep(0.05)

    def say(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")

    def read_line(self) -> str:
        """Read a line of its standard output; empty at its end."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")


def kill(number: int) -> None:
    """End a process at once; it is no error if it has ended already."""
    try:
        os.kill(number, signal.SIGKILL)
    except ProcessLookupError:
        pass
