"""The three terminals of the tutorial: a broker with a data directory, a worker, a caller; a process for each."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
TRIOMQ = [sys.executable, "-W", "error", "-m", "triomq"]
PATIENCE = 100.0  # seconds; for a machine under load


@pytest.fixture
def broker_url(tmp_path: Path) -> Iterator[str]:
    """The URL of a broker, as the tutorial starts it, but on ports that are free."""
    command = [*TRIOMQ, "serve", "--port", "0", "--emqp", "0", "--data", str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        line = broker.stdout.readline()
        found = re.search(r"eMQP on 127\.0\.0\.1:(\d+)", line)
        assert found, line
        yield f"emqp://127.0.0.1:{found[1]}"
        broker.terminate()
        broker.communicate(timeout=PATIENCE)


@pytest.fixture
def worker(broker_url: str) -> Iterator[None]:
    """A worker of the example's jobs."""
    command = [*TRIOMQ, "worker", "mail_jobs:jobs", "--processes", "1", "--broker", broker_url]
    with subprocess.Popen(
        command, cwd=EXAMPLES, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        yield
        running.terminate()
        running.communicate(timeout=PATIENCE)
        assert running.returncode == 0


def test_caller_gets_what_the_worker_returns(broker_url: str, worker: None) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "send_mails.py", broker_url],
        cwd=EXAMPLES, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].endswith("sent 'hello' to ada@example.org")
    assert lines[1:] == ["3 words", *(f"sent 'news' to {name}@example.org" for name in ("eve", "joe", "zoe"))]
