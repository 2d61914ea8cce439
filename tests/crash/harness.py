"""A broker that is started, killed and started again on the same directory, and the connections to it."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType

import trio

import triomq

from .message import DELAYED, Message
from .oracle import Oracle
from .wire import Wire, open_wire

__all__ = ["Harness", "Life"]

NOTHING: Mapping[str, str] = {}

START = 60.0
"""Seconds that a broker may take to listen, beside other work."""


class Life:
    """One life of the broker, from its start to its end; a port is 0 where it does not listen."""

    def __init__(self, process: trio.Process, port: int, number: int, tap_port: int = 0, restms_port: int = 0) -> None:
        self.process = process
        self.port = port
        self.tap_port = tap_port
        self.restms_port = restms_port
        self.number = number
        self.killed = False

    @property
    def store(self) -> int | None:
        """The number of the store's process; None while there is none."""
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():  # any of its threads may have started it
            with suppress(OSError):
                for child in (task / "children").read_text().split():
                    if b"triomq.store.server" in Path(f"/proc/{child}/cmdline").read_bytes():
                        return int(child)
        return None

    def kill_broker(self) -> None:
        """End the broker in the middle of whatever it does."""
        self.killed = True
        self.process.kill()


class Harness:
    """A broker in its lives, for clients that survive them.

    ``draining`` is set when nothing is published any more and everything is to be taken out.

    Args:
        directory: The store's.
        oracle: The oracle of the run.
        options: Further arguments of the broker's script.
        environment: Further variables of its environment.
        prefix: What runs it.
    """

    def __init__(
        self,
        directory: Path,
        oracle: Oracle,
        *options: str,
        environment: Mapping[str, str] = NOTHING,
        prefix: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.oracle = oracle
        self.options = options
        self.environment = environment
        self.prefix = prefix
        self.life: Life | None = None
        self.stopping = self.draining = False
        self.event_count = 0  # sends, confirms, deliveries and acks, so that a kill can come after any of them
        self._wanted: tuple[int, trio.Event] | None = None
        self._lives = 0
        self._wires = 0
        self._changed = trio.Event()
        self.log = b""

    # For clients

    def count_events(self, count: int = 1) -> None:
        """Count sends, confirms, deliveries or acks."""
        self.event_count += count
        if self._wanted is not None and self.event_count >= self._wanted[0]:
            self._wanted[1].set()

    @asynccontextmanager
    async def wire(self) -> AsyncIterator[Wire]:
        """Connect to the broker that runs, or to the next one.

        Raises:
            Gone: It is gone already.
        """
        while self.life is None:
            await self._changed.wait()
        self._wires += 1
        try:
            async with open_wire(self.life.port) as wire:
                yield wire
        finally:
            self._wires -= 1
            self.changed()

    def changed(self) -> None:
        """Wake the tasks that wait for a change."""
        self._changed.set()
        self._changed = trio.Event()

    async def wait_change(self) -> None:
        """Wait until something has changed."""
        await self._changed.wait()

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; what changes it calls ``changed``."""
        while not condition():
            await self._changed.wait()

    def stop_publishing(self) -> None:
        """Let publishers come to an end."""
        self.stopping = True
        if self.life is not None:
            self.life.process.send_signal(signal.SIGUSR1)
        self.changed()

    def drain(self) -> None:
        """Let consumers settle everything."""
        self.draining = True
        self.changed()

    # Lives of the broker

    async def wait_events(self, count: int) -> None:
        """Wait until so many more events were counted."""
        self._wanted = (self.event_count + count, trio.Event())
        await self._wanted[1].wait()

    async def start(self, nursery: trio.Nursery) -> None:
        """Start the next broker, and wait until it listens."""
        self._lives += 1
        command = [
            *self.prefix,
            sys.executable,
            "-W",
            "error",
            "-m",
            "crash.broker",
            str(self.directory),
            *self.options,
        ]
        home = str(Path(triomq.__file__).parents[1])  # tests may find triomq by a path of their own
        environment = {**os.environ, **self.environment, "PYTHONPATH": home}
        command += [f"--first={self._lives * 1_000_000}", f"--seed={self._lives}"]
        process = await trio.lowlevel.open_process(
            command,
            cwd=Path(__file__).parents[1],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        said = trio.Event()
        nursery.start_soon(self._read_output, process, self._lives, said)
        nursery.start_soon(self._read_log, process)
        with trio.fail_after(START):
            await said.wait()
        if self.life is None:
            await process.wait()
            raise RuntimeError(f"the broker did not start: {self.log.decode()}")

    async def _read_output(self, process: trio.Process, number: int, said: trio.Event) -> None:
        assert process.stdout is not None
        rest, ports = b"", {b"tap": 0, b"restms": 0}
        self._wires += 1  # what it prints is a wire too: it is read to its end
        async with process.stdout:
            async for chunk in process.stdout:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    word, _, value = line.partition(b" ")
                    if word in ports:
                        ports[word] = int(value)
                    elif word == b"listening":
                        self.life = Life(process, int(value), number, ports[b"tap"], ports[b"restms"])
                        said.set()
                        self.changed()
                    elif word == b"confirmed":
                        self.oracle.sent += 1
                        self.oracle.confirm(Message(DELAYED, int(value)), ["delayed"])
        self._wires -= 1
        said.set()
        self.changed()
        if self.life is not None and self.life.process is process and not self.life.killed:
            raise RuntimeError(f"the broker has ended by itself: {self.log.decode()}")

    async def _read_log(self, process: trio.Process) -> None:
        assert process.stderr is not None
        async with process.stderr:
            async for chunk in process.stderr:
                self.log += chunk
                self.changed()

    async def signal_store(self, number: signal.Signals) -> None:
        """Send the store's process a signal; wait for the next one, should it have ended just now."""
        assert self.life is not None
        while (store := self.life.store) is None:  # noqa: ASYNC110  # no event says so
            await trio.sleep(0.01)
        os.kill(store, number)

    async def wait_gone(self) -> None:
        """Wait until nothing is left of a broker that was killed, and all that it had sent was read."""
        life, self.life = self.life, None
        assert life is not None
        await life.process.wait()
        await self.wait_for(lambda: not self._wires)
        self.oracle.broker_died()
        self.changed()

    async def __aenter__(self) -> "Harness":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave no process behind."""
        if self.life is None or self.life.process.returncode is not None:
            return
        if (store := self.life.store) is not None:
            os.kill(store, signal.SIGCONT)
        self.life.kill_broker()
        with trio.CancelScope(shield=True):
            await self.life.process.wait()
