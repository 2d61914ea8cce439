"""The command ``triomq`` as a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 100.0  # seconds; a laden machine may need more than the one that it takes


def run(*options: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command to its end, with a text on standard input."""
    command = [sys.executable, "-W", "error", "-m", "triomq", *options]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=PATIENCE, check=False)


@contextmanager
def serving(
    *arguments: str, options: tuple[str, ...] = ("--port", "0"), lines: int = 3
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Serve on a free port; give the process and the lines that it has announced."""
    command = [sys.executable, "-W", "error", "-m", "triomq", "serve", *arguments, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, [process.stdout.readline() for _ in range(lines)]
        finally:
            process.kill()
