"""Brokers to be measured: started as processes of their own on loopback, and stopped without a trace."""

import contextlib
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from loadgen import processes
from loadgen.connection import Address

START_DEADLINE = 120.0  # seconds; an Erlang machine beside other load may take half a minute
STOP_DEADLINE = 60.0  # seconds
RABBITMQ_SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # Debian's /usr/sbin wrapper switches the user


class Broker(msgspec.Struct, frozen=True):
    """A broker that listens: its name in the table, its address, the process whose time is counted, tap's port."""

    name: str
    address: Address
    pid: int | None
    tap: int | None = None

    def processes(self) -> list[int]:
        """The broker's processes; empty when it was not started here."""
        return [] if self.pid is None else processes.tree_of(self.pid)


def free_port() -> int:
    """A TCP port of loopback that nobody holds now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stop(process: subprocess.Popen[str]) -> None:
    """Ask a process to end, and end its whole group when it does not."""
    process.terminate()
    try:
        process.wait(STOP_DEADLINE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def existing(url: str, pid: int | None) -> Broker:
    """A broker that somebody else has started; its processor time is counted when its process is given."""
    return Broker("broker", Address.parse(url), pid)


def _pump(process: subprocess.Popen[str], lines: "queue.Queue[str | None]") -> None:
    """Read a process's output to its end, so that its pipe never fills."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def _wait_for_url(lines: "queue.Queue[str | None]") -> str:
    """Wait for the line that says where `triomq serve` listens."""
    seen: list[str] = []
    deadline = time.monotonic() + START_DEADLINE
    while (line := lines.get(timeout=max(0.0, deadline - time.monotonic()))) is not None:
        seen.append(line)
        if found := re.search(r"amqp://\S+?:\d+", line):
            return found[0]
    raise RuntimeError("triomq serve ended before it listened:\n" + "".join(seen))


@contextlib.contextmanager
def open_triomq(name: str = "triomq", *, options: Sequence[str] = ()) -> Iterator[Broker]:
    """Run `python -m triomq serve --port 0` for the length of the block.

    Args:
        name: what the table calls it.
        options: further ones of its command.
    """
    command = [sys.executable, "-m", "triomq", "serve", "--port", "0", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_pump, args=(process, lines), daemon=True).start()
    try:
        yield Broker(name, Address.parse(_wait_for_url(lines)), process.pid)
    finally:
        stop(process)


@contextlib.contextmanager
def open_kept_triomq(name: str = "triomq", *, options: Sequence[str] = ()) -> Iterator[Broker]:
    """Run `triomq serve` with a data directory of its own, which is gone with it."""
    with (
        tempfile.TemporaryDirectory(prefix="loadgen-", ignore_cleanup_errors=True) as directory,
        open_triomq(name, options=["--data", directory, *options]) as broker,
    ):
        yield broker


@contextlib.contextmanager
def open_tapped_triomq() -> Iterator[Broker]:
    """Run it with tap as well."""
    port = free_port()
    with open_kept_triomq(options=["--tap", str(port)]) as broker:
        yield msgspec.structs.replace(broker, tap=port)


def rabbitmq_script() -> Path | None:
    """The server's start script, when RabbitMQ is installed."""
    if RABBITMQ_SCRIPT.exists():
        return RABBITMQ_SCRIPT
    found = shutil.which("rabbitmq-server")
    return Path(found) if found else None


def _rabbitmq_environment(scratch: Path, port: int, epmd_port: int, http: int | None) -> dict[str, str]:
    """Settings that keep the node on loopback, in its own directory, and apart from any other node."""
    (scratch / "plugins").write_text("[]." if http is None else "[rabbitmq_management].")
    lines = [f"listeners.tcp.local = 127.0.0.1:{port}"]
    if http is not None:
        lines += ["management.tcp.ip = 127.0.0.1", f"management.tcp.port = {http}"]
    (scratch / "rabbitmq.conf").write_text("".join(f"{line}\n" for line in lines))
    own = {
        "HOME": str(scratch),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(epmd_port),
        "RABBITMQ_NODENAME": f"load-{port}@localhost",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_CONFIG_FILE": str(scratch / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(scratch / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(scratch / "mnesia"),
        "RABBITMQ_LOG_BASE": str(scratch / "log"),
        "RABBITMQ_PID_FILE": str(scratch / "pid"),
    }
    return {**os.environ, **own}


def _wait_until_it_answers(process: subprocess.Popen[str], port: int) -> None:
    """Wait for the first eight octets of the handshake, not merely for an open port."""
    deadline = time.monotonic() + START_DEADLINE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"rabbitmq-server ended with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as probe:
            probe.sendall(b"AMQP\x00\x00\x09\x01")
            if probe.recv(8):
                return
        time.sleep(0.25)
    raise RuntimeError(f"rabbitmq-server does not listen after {START_DEADLINE:.0f} s")


def _start_quietly(command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    """Start a process in a group of its own; what it writes is of no interest, it keeps a log."""
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(command, env=environment, text=True, stdout=nowhere, stderr=nowhere, start_new_session=True)


@contextlib.contextmanager
def open_rabbitmq(*, http: int | None = None) -> Iterator[Broker]:
    """Run a RabbitMQ node of its own, with its own port mapper, for the length of the block.

    Args:
        http: port of its management API; None is without one.

    Raises:
        RuntimeError: it is not installed, or does not start.
    """
    script = rabbitmq_script()
    if script is None:
        raise RuntimeError("rabbitmq-server is not installed")
    port, epmd_port = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="loadgen-", ignore_cleanup_errors=True) as scratch:
        environment = _rabbitmq_environment(Path(scratch), port, epmd_port, http)
        mapper = _start_quietly(["epmd", "-port", str(epmd_port)], environment)
        server = _start_quietly([str(script)], environment)
        try:
            _wait_until_it_answers(server, port)
            yield Broker("RabbitMQ", Address("127.0.0.1", port), server.pid)
        finally:
            stop(server)
            stop(mapper)
