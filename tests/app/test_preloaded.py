"""A web application with a broker, loaded by gunicorn before it forks its workers."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ports import free_port
from triomq import AMQP, open_blocking_broker

pytest.importorskip("gunicorn", reason="needs gunicorn, of the extra `test`")

COMMAND = (sys.executable, "-m", "gunicorn", "--preload", "--workers", "2")


class Served:
    """gunicorn with two workers, and the broker in its first process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.amqp, http = free_port(), free_port()
        self.url = f"http://127.0.0.1:{http}"
        environment = {"AMQP_PORT": str(self.amqp), "DATA": str(directory / "data"), "HOME": str(directory)}
        self.process = subprocess.Popen(
            [*COMMAND, "-b", self.url.removeprefix("http://"), "--chdir", Path(__file__).parent, "preloaded:app"],
            env=os.environ | environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        said = ""
        while said.count("Booting worker") < 2:
            line = self.process.stderr.readline()
            assert line, said
            said += line
        self.workers = [int(line.rsplit(None, 1)[1]) for line in said.splitlines() if "Booting worker" in line]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path)
    yield served
    for process in (served.process.pid, *served.workers):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass
    served.process.communicate()


def test_workers_use_the_broker_of_their_server_and_it_ends_when_it_is_told_to(served: Served) -> None:
    said = {httpx.get(served.url).text for _ in range(4)}
    assert all("a fork of process" in text and "connect to it from here" in text for text in said)
    served.process.terminate()
    assert served.process.wait(30) == 0
    with open_blocking_broker(AMQP(port=served.amqp), data_dir=served.directory / "data") as broker:
        assert broker.queue("q").statistics().ready == 4


def test_workers_of_a_server_that_was_killed_have_nothing_of_its_broker(served: Served) -> None:
    httpx.get(served.url)
    for worker in served.workers:
        os.kill(worker, signal.SIGSTOP)  # so that they do not notice it, and end
    served.process.kill()
    served.process.wait()
    with open_blocking_broker(AMQP(port=served.amqp), data_dir=served.directory / "data") as broker:
        assert broker.queue("q").statistics().ready == 1
