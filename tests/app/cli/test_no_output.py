"""What is printed ends no broker and no worker: full disks, pipes that nobody reads, closed descriptors, odd names."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from app.cli.process import PATIENCE
from peers.raw import RawPeer
from ports import free_port
from triomq import AMQP, EMQP, open_blocking_broker


def full_disk() -> int:
    return os.open("/dev/full", os.O_WRONLY)


def unread_pipe() -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


PLACES: Mapping[str, Callable[[], int]] = {"a full disk": full_disk, "a pipe that nobody reads": unread_pipe}


def start(*arguments: str, stdout: int = 1, stderr: int = 2, **environment: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "triomq", *arguments]
    return subprocess.Popen(command, stdout=stdout, stderr=stderr, env=os.environ | environment)


def wait_listening(process: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        try:
            with RawPeer(f"amqp://guest:guest@127.0.0.1:{port}/"):
                return
        except OSError:
            time.sleep(0.05)  # a process that cannot say anything cannot say that it listens
    raise AssertionError(f"nobody listens; the process has ended with {process.returncode}")


def ends_in_order(process: "subprocess.Popen[bytes]") -> bool:
    process.send_signal(signal.SIGTERM)
    return process.wait(PATIENCE) == 0


@pytest.mark.parametrize("which", ["stdout", "stderr", "both"])
@pytest.mark.parametrize("place", PLACES)
def test_broker_that_cannot_print_serves_and_ends_in_order(place: str, which: str, tmp_path: Path) -> None:
    port, output = free_port(), PLACES[place]()
    outputs = {name: output for name in ("stdout", "stderr") if which in (name, "both")}
    process = start("serve", "--port", str(port), "--data", str(tmp_path), "--log-level", "debug", **outputs)  # type: ignore[arg-type]
    os.close(output)
    wait_listening(process, port)
    process.send_signal(signal.SIGHUP)  # which makes it log
    assert ends_in_order(process)


@pytest.mark.parametrize("closing", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_broker_whose_descriptors_are_closed_serves_and_ends_in_order(closing: str, tmp_path: Path) -> None:
    port = free_port()
    line = f'exec "{sys.executable}" -m triomq serve --port {port} --data "{tmp_path}/data" {closing}'
    process = subprocess.Popen(["sh", "-c", line])
    wait_listening(process, port)
    assert ends_in_order(process)


def test_broker_serves_a_directory_whose_name_cannot_be_printed(tmp_path: Path) -> None:
    port = free_port()
    place = os.fsencode(tmp_path) + b"/\xff\xc3\xa4"
    command = [sys.executable, "-m", "triomq", "serve", "--port", str(port), "--data", place]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONIOENCODING": "ascii"}, stdout=subprocess.DEVNULL)
    wait_listening(process, port)
    assert ends_in_order(process)


JOBS = """
from triomq import Jobs
jobs = Jobs()

@jobs.job
def double(number: int) -> int:
    return 2 * number
"""


@pytest.mark.parametrize("place", PLACES)
def test_worker_that_cannot_print_works_and_ends_in_order(place: str, tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(JOBS)
    namespace: dict[str, object] = {"__name__": "work"}
    exec(JOBS, namespace)
    jobs = namespace["jobs"]
    with open_blocking_broker(EMQP(port=0)) as broker:
        url = f"emqp://127.0.0.1:{broker.listening[0].port}"
        output = PLACES[place]()
        process = start("worker", "work:jobs", "--broker", url, stdout=output, stderr=output, PYTHONPATH=str(tmp_path))
        os.close(output)
        with jobs.connect_blocking(url):  # type: ignore[attr-defined]
            assert namespace["double"].blocking.call(4) == 8  # type: ignore[attr-defined]
        assert ends_in_order(process)


@pytest.mark.parametrize(
    ("command", "place", "code"),
    [
        ("top --once", "a full disk", 1),
        ("queues", "a full disk", 1),
        ("queues --json", "a full disk", 1),
        ("top --once --json", "a pipe that nobody reads", 0),
        ("queues --json", "a pipe that nobody reads", 0),
    ],
)
def test_command_that_cannot_print_says_so_and_not_where_in_the_program(command: str, place: str, code: int) -> None:
    with open_blocking_broker(AMQP(port=0)) as broker:
        broker.declare_queue("q")
        output = PLACES[place]()
        url = f"amqp://guest:guest@127.0.0.1:{broker.listening[0].port}/"
        process = start(*command.split(), "--url", url, stdout=output, stderr=subprocess.PIPE)
        os.close(output)
        _, said = process.communicate(timeout=PATIENCE)
        expected = b"triomq: the output cannot be written: No space left on device\n" if code else b""
        assert (process.returncode, said) == (code, expected)
