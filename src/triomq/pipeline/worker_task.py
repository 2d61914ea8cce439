"""A task of Spark that has a worker: it starts one as a process, and looks after it until the driver says to stop.

    driver ◀── TCP ──▶ task ── standard input ──▶ triomq worker --supervised ── eMQP ──▶ broker
           drain, empty     ◀── standard output ──           └── child processes
           ready, broken

- The worker is the ordinary one, in a process of its own. What it dies of, a crash in C code or a want of memory, ends
  no task: it is started again, after a pause. So Spark counts no failure, of which a ``local[4]`` allows none, and a
  Python process of Spark's, which is used again for other tasks, has nothing left over from jobs.
- Spark can kill a task, and nothing else; and it kills the Python process two seconds after it was asked to stop. So
  to let jobs end is said by a connection of our own. If that breaks the worker goes on, and it is made again: a driver
  that has gone ends the executors anyway. It has broken too when nothing has come for three intervals, in each of which
  the driver says something: nobody would hear there that jobs are to end, and the driver would wait for that for ever.
- The worker's standard input has nothing in it. Its end, whatever the task has died of, ends the worker, and that ends
  its children.
- Who runs which job is the broker's knowledge. A task that is run again has nothing to repair.

This runs in Spark's Python process, and imports the standard library and nothing else.
"""

import json
import logging
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from triomq.errors import PipelineError
from triomq.process import close_in_forks, interpreter_path

_log = logging.getLogger("triomq.worker")

TaskState: TypeAlias = Mapping[str, object]
"""What a task says to the driver: the fields of a line of JSON."""

_LOOK: Final = 0.2
"""Seconds between looks whether the worker is still there: nothing for the processor, and soon enough."""

_PATIENCE: Final = 30.0
"""Seconds in which a task must have reached its driver for the first time; Spark itself has by then."""

_CONNECT: Final = 5.0
"""Seconds that one attempt to connect may take; meanwhile the worker is not looked after."""

_AGAIN: Final = 2.0
"""Seconds between two attempts, when the connection is lost."""

_PAUSES: Final = (1.0, 60.0)
"""Seconds before a worker that has died is started again: the first time, and at most, each twice the last."""

_STABLE: Final = 60.0
"""Seconds after which a worker's death is no consequence of the last one's."""

_END: Final = 5.0
"""Seconds that a worker has to end when its standard input has."""


class WorkerPlan(NamedTuple):
    """What the driver tells its tasks.

    Args:
        arguments: Of the command ``triomq``.
        environment: What the worker has in its environment besides the executor's own.
        folder: Where the driver was started, from which the worker is started where a machine has it.
        host: Where the driver listens.
        port: The same.
        token: What proves that a task is the driver's.
        heartbeat: Seconds in which the driver says something; a task whose driver has said nothing for three times as
            long connects again.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    host: str
    port: int
    token: str
    heartbeat: float = 5.0

    def run(self, index: int, rows: Iterable[object]) -> Iterator[tuple[int, str, int]]:
        """Have a worker until the driver says to stop; this is what Spark calls, with nothing in ``rows``.

        Raises:
            PipelineError: The driver cannot be reached from this machine.
        """
        with DriverLink(self, index) as driver:
            workers = WorkerTask(self, driver).run()
        yield index, socket.gethostname(), workers


class WorkerTask:
    """One task; made by the plan.

    Args:
        plan: What to do.
        driver: Whom to tell.
    """

    def __init__(self, plan: WorkerPlan, driver: "DriverLink") -> None:
        self._plan = plan
        self._driver = driver

    def run(self) -> int:
        """Have one worker after the other, and return how many there were."""
        count, pause = 0, _PAUSES[0]
        while not self._driver.is_draining:
            count += 1
            began = time.monotonic()
            ended = self._work()
            if self._driver.is_draining:
                break
            if time.monotonic() - began > _STABLE:
                pause = _PAUSES[0]
            self._driver.tell({"state": "ended", "text": ended})
            self._pause(pause)
            pause = min(2 * pause, _PAUSES[1])
        return count

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._driver.is_draining and (left := end - time.monotonic()) > 0:
            self._driver.wait(left)

    def _work(self) -> str:
        """Have a worker until it has ended, and return how."""
        process = self._start()
        assert process.stdout is not None
        answer: int | None = process.stdout.fileno()
        is_told = False
        try:
            while process.poll() is None:
                if answer in self._driver.wait(_LOOK, answer):
                    self._heard(os.read(process.stdout.fileno(), 1 << 16))
                    answer = None  # it says one thing, and a job may hold its end open
                if self._driver.is_draining and not is_told:
                    is_told = True
                    process.terminate()
        finally:
            self._end(process)
        return f"its process ended with {process.returncode}"

    def _start(self) -> "subprocess.Popen[bytes]":
        plan = self._plan
        # What Spark has sent along (--py-files) is on the path of this process alone.
        environment = {**os.environ, **plan.environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = subprocess.Popen(
            [interpreter_path(), "-m", "triomq", *plan.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=plan.folder if os.path.isdir(plan.folder) else None,
        )
        for pipe in (process.stdin, process.stdout):
            close_in_forks(pipe)
        return process

    def _heard(self, line: bytes) -> None:
        with suppress(ValueError):  # it has died in the midst of it
            self._driver.tell(json.loads(line))

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """See to it that it has ended; this one may be on its way out by an error."""
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


class DriverLink:
    """The connection of a task with its driver; lines of JSON one way, the line ``drain`` the other.

    Args:
        plan: Where the driver is.
        index: The number of the task.
    """

    def __init__(self, plan: WorkerPlan, index: int) -> None:
        self._plan = plan
        self._hello = {"token": plan.token, "task": index, "host": socket.gethostname(), "pid": os.getpid()}
        self._state: TaskState = {"state": "starting"}
        self._socket: socket.socket | None = None
        self._heard_at = 0.0
        self._next_try = 0.0
        self._received = b""
        self.is_draining = False
        """Whether the driver wants the worker to end when its jobs have."""

    def __enter__(self) -> "DriverLink":
        """Connect for the first time."""
        end = time.monotonic() + _PATIENCE
        while (error := self._connect()) is not None:
            if time.monotonic() > end:
                place = f"{self._plan.host}:{self._plan.port}"
                raise PipelineError(
                    f"{socket.gethostname()} cannot reach the driver at {place}: {error}; its host is what "
                    "spark.driver.host says, and executors must be let in at all its ports, as Spark itself wants it"
                )
            time.sleep(_LOOK)
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self._lost()

    def tell(self, state: TaskState) -> None:
        """Tell the driver how the worker is, now and whenever the connection has been made again."""
        self._state = state
        if self._socket is not None:
            self._send(self._socket, state)

    def wait(self, seconds: float, other: int | None = None) -> "list[socket.socket | int]":
        """Wait until the driver says something, or ``other`` can be read; return what can be."""
        if self._socket is None and time.monotonic() >= self._next_try:
            self._connect()
        sources: list[socket.socket | int] = [source for source in (self._socket, other) if source is not None]
        if not sources:
            time.sleep(min(seconds, _LOOK))
            return []
        readable = select.select(sources, [], [], min(seconds, self._plan.heartbeat))[0]
        if self._socket is not None and self._socket in readable:
            self._hear(self._socket)
        elif self._socket is not None and time.monotonic() > self._heard_at + 3 * self._plan.heartbeat:
            _log.warning("the driver is silent; connecting again")
            self._lost()
        return readable

    def _connect(self) -> OSError | None:
        self._next_try = time.monotonic() + _AGAIN
        try:
            self._socket = close_in_forks(socket.create_connection((self._plan.host, self._plan.port), _CONNECT))
        except OSError as error:
            return error
        self._received = b""
        self._heard_at = time.monotonic()
        for line in (self._hello, self._state):
            if self._socket is not None:
                self._send(self._socket, line)
        return None

    def _send(self, to: socket.socket, line: TaskState) -> None:
        try:
            to.sendall(json.dumps(line).encode() + b"\n")
        except OSError:
            self._lost()

    def _hear(self, source: socket.socket) -> None:
        try:
            data = source.recv(1 << 12)
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        self._heard_at = time.monotonic()
        *lines, self._received = (self._received + data).split(b"\n")
        self.is_draining = self.is_draining or b"drain" in lines

    def _lost(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
