"""RabbitMQ as a process of its own: on loopback, in a directory of its own, with a port mapper of its own."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ports import free_port

START_DEADLINE = 120.0
STOP_DEADLINE = 100.0
SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # Debian's /usr/sbin wrapper switches the user
PLUGINS = ("rabbitmq_consistent_hash_exchange",)


def find_rabbitmq() -> Path | None:
    """The server's start script, when it is installed."""
    if SCRIPT.exists():
        return SCRIPT
    found = shutil.which("rabbitmq-server")
    return Path(found) if found else None


def _environment(scratch: Path, port: int, epmd_port: int, settings: Mapping[str, str]) -> dict[str, str]:
    """Write the node's files; give the variables that point at them."""
    lines = {"listeners.tcp.local": f"127.0.0.1:{port}", **settings}
    (scratch / "rabbitmq.conf").write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
    (scratch / "plugins").write_text(f"[{','.join(PLUGINS)}].")
    return {
        **os.environ,
        "HOME": str(scratch),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(epmd_port),
        "RABBITMQ_NODENAME": f"peer-{port}@localhost",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_CONFIG_FILE": str(scratch / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(scratch / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(scratch / "mnesia"),
        "RABBITMQ_LOG_BASE": str(scratch / "log"),
        "RABBITMQ_PID_FILE": str(scratch / "pid"),
    }


def _start(command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(command, env=environment, stdout=nowhere, stderr=nowhere, start_new_session=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_DEADLINE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _answers(port: int) -> bool:
    """Whether it says the first octets of its handshake; an open port alone says nothing."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as probe:
        probe.sendall(b"AMQP\x00\x00\x09\x01")
        return bool(probe.recv(8))
    return False


def _wait(process: subprocess.Popen[bytes], port: int, scratch: Path) -> None:
    deadline = time.monotonic() + START_DEADLINE
    while not _answers(port):
        if process.poll() is not None or time.monotonic() > deadline:
            logs = "".join(path.read_text(errors="replace") for path in (scratch / "log").glob("*.log"))
            raise RuntimeError(f"rabbitmq-server does not answer (exit code {process.poll()}):\n{logs[-4000:]}")
        time.sleep(0.1)


class Node(NamedTuple):
    """A node that runs.

    Args:
        url: where it listens.
        environment: the variables by which its programs find it.
    """

    url: str
    environment: dict[str, str]

    def control(self, *arguments: str) -> str:
        """Run rabbitmqctl and give what it says."""
        command = [str(SCRIPT.with_name("rabbitmqctl")), "--quiet", *arguments]
        node = ("--node", self.environment["RABBITMQ_NODENAME"])
        done = subprocess.run([*command, *node], env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@contextlib.contextmanager
def open_node(
    definitions: Mapping[str, object] | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[Node]:
    """Run a node for the length of the block.

    Args:
        definitions: users, permissions and so on in RabbitMQ's own form; with them there is no user guest but
            where they name it.
        settings: further lines of rabbitmq.conf.

    Raises:
        RuntimeError: It is not installed, or does not start.
    """
    script = find_rabbitmq()
    if script is None:
        raise RuntimeError("rabbitmq-server is not installed")
    port, epmd_port = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="rabbitmq-", ignore_cleanup_errors=True) as directory:
        scratch, lines = Path(directory), dict(settings or {})
        if definitions is not None:
            (scratch / "definitions.json").write_text(json.dumps(definitions))
            lines["load_definitions"] = str(scratch / "definitions.json")
        environment = _environment(scratch, port, epmd_port, lines)
        mapper = _start(["epmd", "-port", str(epmd_port)], environment)
        server = _start([str(script)], environment)
        try:
            _wait(server, port, scratch)
            yield Node(f"amqp://guest:guest@127.0.0.1:{port}/", environment)
        finally:
            _stop(server)
            _stop(mapper)


@contextlib.contextmanager
def open_rabbitmq(
    definitions: Mapping[str, object] | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run a node as `open_node` does, and give its URL."""
    with open_node(definitions, settings) as node:
        yield node.url
