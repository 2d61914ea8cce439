"""`triomq serve` as a process of its own, which must end well and may not have crashed anywhere in between."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

START_DEADLINE = 100.0
STOP_DEADLINE = 100.0

RESTMS: Mapping[str, str] = {
    "endpoints_0_type": "amqp",
    "endpoints_0_port": "0",
    "endpoints_1_type": "restms",
    "endpoints_1_port": "0",
}
"""Settings of a broker that listens for RestMS beside AMQP; further ones of that begin with ``endpoints_1_``."""

WEBSOCKET: Mapping[str, str] = {
    "endpoints_0_type": "amqp",
    "endpoints_0_port": "0",
    "endpoints_1_type": "amqp",
    "endpoints_1_port": "0",
    "endpoints_1_websocket_path": "/",
}
"""Settings of a broker that listens for AMQP over WebSocket too; further ones begin with ``endpoints_1_websocket_``."""


class Served(NamedTuple):
    url: str
    process: subprocess.Popen[bytes]
    restms: str = ""
    """Scheme, host and port where it listens for RestMS; empty if it does not."""
    websocket: str = ""
    """Where it listens for AMQP over WebSocket; empty if it does not."""

    def terminate(self) -> int:
        """Send SIGTERM and give the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_DEADLINE)


def _wait_for_urls(process: subprocess.Popen[bytes]) -> Served:
    """Read standard output until the line that says where it listens."""
    assert process.stdout is not None
    seen, deadline = b"", time.monotonic() + START_DEADLINE
    while time.monotonic() < deadline:
        readable, _, _ = select.select([process.stdout], [], [], 0.5)
        if not readable:
            continue
        chunk = os.read(process.stdout.fileno(), 65536)
        seen += chunk
        for line in seen.splitlines(keepends=True):
            amqp, restms = re.search(rb"amqp://\S+?:\d+", line), re.search(rb"https?://\S*?([^@/\s]+)/restms", line)
            if amqp and line.endswith(b"\n"):
                found = re.search(rb"ws://(?:\S*@)?(\S+)", line)
                return Served(
                    amqp[0].decode(),
                    process,
                    restms=f"http://{restms[1].decode()}" if restms else "",
                    websocket=f"ws://{found[1].decode().rstrip(';')}" if found else "",
                )
        if not chunk:
            break
    process.kill()
    raise RuntimeError(f"triomq serve did not say where it listens; it said {seen.decode()!r}")


@contextlib.contextmanager
def open_served(*files: str, **settings: str) -> Iterator[Served]:
    """Run a broker for the length of the block; one that still runs then is asked to end, and must end well.

    Args:
        files: its configuration, if it has one.
        settings: further settings of its configuration, as environment variables have them.
    """
    command = [sys.executable, "-m", "triomq", "serve", "--port", "0", *files]
    configured = {f"TRIOMQ_{name.upper()}": value for name, value in settings.items()}
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **configured}
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment) as process,
    ):
        try:
            served = _wait_for_urls(process)
            yield served
            if process.poll() is None:
                assert served.terminate() == 0
        finally:
            if process.poll() is None:
                process.kill()
            log.seek(0)
            text = log.read().decode()
            sys.stderr.write(text)  # pytest shows it beside a failure
    # A supervisor absorbs the crash of a connection, so clients may see nothing wrong: the log tells.
    crashes = text.count("Traceback")
    assert not crashes, f"something crashed inside the broker, {crashes} times:\n{text[:4000]}"
