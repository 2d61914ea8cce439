"""``triomq serve`` as a process of its own: what it says, how it ends."""

import json
import re
import signal
import socket
from pathlib import Path

import pytest

from app.cli.process import PATIENCE, run, serving
from foreign_endpoint import install
from peers.raw import RawPeer
from triomq import __version__


def url_in(announced: list[str]) -> str:
    (url,) = re.findall(r"amqp://\S+", announced[1])
    return url


def read_close(peer: RawPeer) -> None:
    """Wait for connection.close, and do not answer it."""
    while (frame := peer.read()) is not None and frame.payload[:4] != b"\x00\x0a\x00\x32":
        pass
    assert frame is not None


def test_port_in_use_ends_with_1_and_says_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--port", str(port))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        f"triomq: localhost port {port} is in use by another program; stop that one, or choose another port "
        "(--port 0 takes a free one)\n"
    )


def test_serve_prints_where_it_listens_and_how_to_connect() -> None:
    with serving() as (process, announced):
        assert announced[0].startswith(f"triomq {__version__} listens for AMQP 0-9-1 on ")
        port = url_in(announced).rpartition(":")[2]
        assert announced[1] == f"connect with amqp://guest:guest@127.0.0.1:{port}\n"
        assert f"127.0.0.1:{port}" in announced[0]
        assert announced[2] == "messages are in memory and end with this process; stop it with Ctrl-C\n"
        with RawPeer(url_in(announced)):
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        log = process.stderr.read()
        assert log.count("INFO no data directory: everything is in memory only, and ends with this process\n") == 1
        assert "INFO listening endpoint=amqp-localhost-0 address=" in log
        assert "INFO draining signal=SIGTERM" in log
        assert "WARNING" not in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_first_signal_drains_and_ends_with_0(number: signal.Signals) -> None:
    with serving() as (process, announced), RawPeer(url_in(announced)) as peer:
        process.send_signal(number)
        read_close(peer)
        peer.socket.close()
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_second_signal_cuts_off_a_client_that_does_not_answer(number: signal.Signals, code: int) -> None:
    with serving() as (process, announced), RawPeer(url_in(announced)) as peer:
        process.send_signal(number)
        read_close(peer)  # the drain has begun, and waits for our answer
        process.send_signal(number)
        assert process.wait(PATIENCE) == code
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_serve_listens_as_configured(tmp_path: Path) -> None:
    file, path = tmp_path / "triomq.toml", str(tmp_path / "broker.sock")
    file.write_text(f'[[endpoints]]\ntype = "amqp"\npath = "{path}"\n[users.ada]\npassword = "s"\n', encoding="utf-8")
    with serving(str(file), "--log-format", "json", options=()) as (process, announced):
        assert announced[0] == f"triomq {__version__} listens for AMQP 0-9-1 on {path}\n"
        assert announced[1] == "connect with a client that can use a Unix socket, as NAME:PASSWORD\n"
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(path)
            peer.sendall(b"HTTP/1.1")
            assert peer.recv(8) == b"AMQP\x00\x00\x09\x01"
        file.write_text("endpoints = 5", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        events = [json.loads(process.stderr.readline()) for _ in range(5)]
        assert events[0]["event"] == "listening"
        troubles = [event["trouble"] for event in events if "trouble" in event]
        assert troubles == [f"{file}: endpoints: found 5, expected array"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert not Path(path).exists()


def test_configuration_that_cannot_work_ends_with_1(tmp_path: Path) -> None:
    file = tmp_path / "triomq.toml"
    file.write_text("drian = 1\n[log]\nlevel = 5", encoding="utf-8")
    done = run("serve", str(file))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"triomq: {file}: drian is not known; did you mean 'drain'?",
        f"triomq: {file}: log.level: found 5, allowed are 'debug', 'info', 'warning', 'error'",
    ]


@pytest.mark.parametrize(("host", "shown"), [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "127.0.0.1")])
def test_serve_prints_how_to_connect_from_this_machine(tmp_path: Path, host: str, shown: str) -> None:
    file = tmp_path / "triomq.toml"
    file.write_text('[users.ada]\npassword = "s"\n', encoding="utf-8")
    with serving(str(file), "--host", host) as (_, announced):
        assert announced[1].startswith(f"connect with amqp://NAME:PASSWORD@{shown}:")


def test_serve_listens_on_each_host_that_is_given() -> None:
    with serving("--host", "127.0.0.2", "--host", "127.0.0.1") as (_, announced):
        url = url_in(announced)
        port = url.rpartition(":")[2]
        assert announced[0].endswith(f" listens for AMQP 0-9-1 on 127.0.0.2:{port}, 127.0.0.1:{port}\n")
        for host in ("127.0.0.1", "127.0.0.2"):
            with RawPeer(f"amqp://guest:guest@{host}:{port}"):
                pass


def test_foreign_endpoint_is_served_beside_amqp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(install(tmp_path)))
    file = tmp_path / "triomq.toml"
    text = '[[endpoints]]\ntype = "lines"\nport = 0\n[[endpoints]]\ntype = "amqp"\nport = 0\nhost = "127.0.0.1"\n'
    file.write_text(text, encoding="utf-8")
    with serving(str(file), options=()) as (process, announced):
        found = re.fullmatch(
            r"triomq \S+ listens for lines of text on 127\.0\.0\.1:(\d+); AMQP 0-9-1 on 127\.0\.0\.1:(\d+)\n",
            announced[0],
        )
        assert found is not None
        assert announced[1] == (
            f"connect with a client for lines of text to 127.0.0.1:{found[1]}, as guest:guest; "
            f"amqp://guest:guest@127.0.0.1:{found[2]}\n"
        )
        with socket.create_connection(("127.0.0.1", int(found[1]))) as peer:
            peer.sendall(b"hello")
            assert peer.recv(5) == b"HELLO"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_port_of_topics_is_named(tmp_path: Path) -> None:
    file = tmp_path / "triomq.toml"
    file.write_text('[[endpoints]]\ntype = "emqp"\nhost = "127.0.0.1"\nport = 0\ntopic_port = 0\n', encoding="utf-8")
    with serving(str(file), options=()) as (_, announced):
        assert re.search(r"eMQP on 127\.0\.0\.1:\d+ \(topics on 127\.0\.0\.1:\d+\)$", announced[0].strip())


def test_broker_without_endpoints_says_so(tmp_path: Path) -> None:
    file = tmp_path / "triomq.toml"
    file.write_text("endpoints = []", encoding="utf-8")
    with serving(str(file), options=("--data", str(tmp_path / "data")), lines=2) as (_, announced):
        assert announced[0] == f"triomq {__version__} listens for nothing: no endpoint is configured\n"
        assert announced[1].startswith("durable queues and messages are in ")
