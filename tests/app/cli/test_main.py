"""The command ``triomq`` as a process of its own: what it says, how it ends."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from peers.raw import RawPeer
from triomq import __version__

PATIENCE = 30.0  # seconds; a laden machine may need more than the one that it takes


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    command = [sys.executable, "-W", "error", "-m", "triomq", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@contextmanager
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Serve on a free port; give the process and what it has announced."""
    command = [sys.executable, "-W", "error", "-m", "triomq", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, [process.stdout.readline() for _ in range(3)]
        finally:
            process.kill()


def url_in(announced: list[str]) -> str:
    (url,) = re.findall(r"amqp://\S+", announced[1])
    return url


def read_close(peer: RawPeer) -> None:
    """Wait for connection.close, and do not answer it."""
    while (frame := peer.read()) is not None and frame.payload[:4] != b"\x00\x0a\x00\x32":
        pass
    assert frame is not None


def test_it_shows_its_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"triomq {__version__}\n", "")


def test_without_a_command_it_helps() -> None:
    done = run()
    assert "serve" in done.stdout + done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize(
    "options", [("serve", "--prot", "1"), ("serve", "--port", "many"), ("serve", "--port", "65536"), ("dance",)]
)
def test_a_wrong_command_line_ends_with_2(options: tuple[str, ...]) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert "Error" in done.stderr


def test_a_port_in_use_ends_with_1_and_says_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--port", str(port))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        f"triomq: localhost port {port} is in use by another program; stop that one, or choose another port "
        "(--port 0 takes a free one)\n"
    )


def test_it_announces_where_it_listens_and_how_to_connect() -> None:
    with serving() as (process, announced):
        assert announced[0].startswith(f"triomq {__version__} listens for AMQP 0-9-1 on ")
        port = url_in(announced).rpartition(":")[2]
        assert announced[1] == f"connect with amqp://guest:guest@127.0.0.1:{port}\n"
        assert f"127.0.0.1:{port}" in announced[0]
        assert "kept in memory" in announced[2]
        with RawPeer(url_in(announced)):
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        log = process.stderr.read()
        assert "INFO listening endpoint=amqp-localhost-0 address=" in log
        assert "INFO draining signal=SIGTERM" in log
        assert "WARNING" not in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_drains_and_ends_with_0(number: signal.Signals) -> None:
    with serving() as (process, announced), RawPeer(url_in(announced)) as peer:
        process.send_signal(number)
        read_close(peer)
        peer.socket.close()
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_cuts_off_a_client_that_does_not_answer(number: signal.Signals, code: int) -> None:
    with serving() as (process, announced), RawPeer(url_in(announced)) as peer:
        process.send_signal(number)
        read_close(peer)  # the drain has begun, and waits for our answer
        process.send_signal(number)
        assert process.wait(PATIENCE) == code
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
