"""A real broker as a process of its own, with its data on disk, for tests that read and write, restart and kill it."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import triomq
from ports import free_port
from triomq.chunks import RecordRun, encode_chunk
from triomq.clients import PartitionBounds, TapConnection, open_tap

DEADLINE = 100.0
"""Seconds that it may take to end, beside other work."""

_CHUNK = 10_000
"""Records of one chunk that is appended."""


class TapBroker:
    """A broker at ports that stay, whatever happens to it.

    Args:
        data: The directory of its store.
    """

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port, self.amqp_port = free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._log = data.parent / f"{data.name}.log"
        self._batch = 0

    @property
    def address(self) -> str:
        """What stands in the option ``address``."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """What stands in the option ``url``."""
        return f"tap://guest:guest@{self.address}"

    @property
    def amqp_url(self) -> str:
        """Where publishers and consumers connect."""
        return f"amqp://guest:guest@127.0.0.1:{self.amqp_port}"

    @property
    def log(self) -> str:
        """What it has logged so far, in all its lives."""
        return self._log.read_text()

    # Its life

    def start(self) -> None:
        """Start it, and wait until it listens."""
        home = str(Path(triomq.__file__).parents[1])
        command = [sys.executable, "-W", "error", "-m", "pipeline.served"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, str(self.port), str(self.amqp_port), str(self.data)],
                cwd=Path(__file__).parents[1],
                env={**os.environ, "PYTHONPATH": home},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        answer = self._read_line()
        if answer != "listening":
            raise RuntimeError(f"the broker did not start: {self.log}")

    def kill(self) -> None:
        """End it at once, in the middle of whatever it does."""
        assert self.process is not None
        self.process.kill()
        self._wait()

    def stop(self) -> None:
        """Let it end by itself; a second time nothing happens."""
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            code = self._wait()
            assert code == 0, f"the broker ended with {code}: {self.log}"

    def restart(self) -> None:
        """Stop it and start it again."""
        self.stop()
        self.start()

    def _wait(self) -> int:
        assert self.process is not None
        process, self.process = self.process, None
        with process:  # closes the pipes
            return process.wait(DEADLINE)

    # What is in it

    def call(self, method: str, **arguments: object) -> None:
        """Call a method of the broker: ``declare_queue``, or ``queue.delete`` of the queue of that name.

        Raises:
            RuntimeError: It has refused.
        """
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([method, arguments]).encode() + b"\n")
        self.process.stdin.flush()
        if refusal := self._read_line():
            raise RuntimeError(refusal)

    def _read_line(self) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().rstrip("\n")

    def declare_stream(self, name: str, **options: object) -> None:
        """Declare a stream, durable, with ``partitions`` and bounds as ``Broker.declare_stream`` takes them."""
        self.call("declare_stream", name=name, **options)

    def tap(self) -> TapConnection:
        """Connect to it."""
        return open_tap(f"{self.url}?timeout=60")

    def append(self, stream: str, values: Sequence[bytes], keys: Sequence[bytes] | bytes | None = None) -> None:
        """Append records, together; they are on disk when this returns.

        Args:
            stream: Its name.
            values: What they hold.
            keys: Their keys, or one for all, which choose partitions where there are some. None is the stream's name.
        """
        given = [keys or stream.encode()] * len(values) if keys is None or isinstance(keys, bytes) else keys
        self._batch += 1
        with self.tap() as tap:
            own = {"batch": self._batch, "part": 0, "attempt": 0}
            for first in range(0, len(values), _CHUNK):
                some = slice(first, first + _CHUNK)
                run = RecordRun(0, b"", given[some], b"", values[some])
                tap.stage(stream, f"test-{os.getpid()}", **own, chunk=encode_chunk(0, 0, [run]))
            tap.commit(stream, f"test-{os.getpid()}", batch=self._batch, attempts={0: 0})

    def bounds(self, stream: str, group: str = "") -> Sequence[PartitionBounds]:
        """Return what of a stream can be read, and where a group is."""
        with self.tap() as tap:
            return tap.offsets(stream, group)

    def values(self, stream: str) -> list[bytes]:
        """Return the values of all records of a stream, partition by partition."""
        with self.tap() as tap:
            return [
                value
                for partition, bounds in enumerate(tap.offsets(stream))
                for columns in tap.fetch(stream, partition, bounds.first, bounds.next)
                for value in columns.values.each()
            ]
