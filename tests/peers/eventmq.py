"""The released EventMQ 0.3.13 in an environment of its own, and the least that can stand on the other side of it.

``Router`` is a ROUTER with an engine for each peer, which gives each REQUEST to a worker with a free slot and each
REPLY to whoever asked. ``Dealer`` is a DEALER with the engine of a peer. Both are pumped by the test itself.
"""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import zmq

from triomq.protocols.emqp import (
    BrokerEngine,
    Event,
    Informed,
    PeerEngine,
    Replied,
    Requested,
    ScheduleRemoved,
    ScheduleSet,
    SlotsOffered,
    complete_call,
    message_ids,
)

DEADLINE = 100.0
"""Seconds for what released programs take twenty for, such as finding that their broker has gone, on a busy machine."""

JOBS = """
import os
import time

def add(a, b=0):
    with open(os.environ["RAN"], "a") as file:
        file.write(f"{a + b}\\n")
    return a + b

def slow(number):
    time.sleep(0.3)
    return add(number)

def boom():
    raise ValueError("boom")
"""


def install(folder: Path) -> Path:
    """Return the folder of its programs, made once: its pins are older than the Python that runs this."""
    programs = folder / "environment" / "bin"
    if not (folder / "done").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(programs.parent)], check=True)
        pip = [str(programs / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "eventmq==0.3.13"], check=True)
        subprocess.run([*pip, "pyzmq", "six", "future", "croniter", "psutil", "setuptools"], check=True)
        (folder / "done").touch()
    return programs


class Programs:
    """Starts released programs; ``ran`` is where jobs write what they have done."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        self.ran = folder / "ran"
        (folder / "released_jobs.py").write_text(JOBS)

    def start(self, program: str, *arguments: str, typed: str = "", **settings: str) -> "subprocess.Popen[bytes]":
        """Start a program; ``settings`` are those of its configuration, ``typed`` is what somebody types."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("COV")},
            **{f"EVENTMQ_{name}": value for name, value in settings.items()},
            "EVENTMQ_CONFIG_FILE": "/nonexistent",
            "EVENTMQ_WAL": str(self._folder / "wal"),
            "PYTHONPATH": str(self._folder),
            "RAN": str(self.ran),
        }
        command = [str(self._programs / program), *arguments]
        (self._folder / "typed").write_text(typed)
        with (self._folder / f"{program}.log").open("ab") as log, (self._folder / "typed").open() as lines:
            process = subprocess.Popen(
                command, env=environment, stdin=lines, stdout=log, stderr=log, cwd=self._folder, start_new_session=True
            )
        self._running.append(process)
        return process

    def run_client(self, address: str, text: str) -> "subprocess.Popen[bytes]":
        """Run a program of the released client; at its end it waits for what is sent, which pyzmq itself does not."""
        end = "import zmq\nzmq.Context.instance().destroy(linger=-1)"
        lines = f"import eventmq, released_jobs as jobs\nbroker = {address!r}\n{text}\n{end}\n"
        return self.start("python", "-c", lines)

    def printed(self, program: str) -> str:
        """Return what a program has printed so far."""
        return (self._folder / f"{program}.log").read_text()

    def results(self) -> list[int]:
        return [int(line) for line in self.ran.read_text().split()] if self.ran.exists() else []

    def stop(self) -> None:
        for process in self._running:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in self._running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
            kill(process)


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a program with the processes that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Pumped:
    """A socket whose engines get what comes, and the time."""

    def __init__(self, kind: int) -> None:
        self._context: zmq.Context[Any] = zmq.Context()
        self.socket = self._context.socket(kind)
        self.socket.linger = 0
        self.events: list[Event] = []

    def pump(self) -> None:
        """Take what has come within a moment, and send what is to be sent."""
        if self.socket.poll(20):
            with suppress(zmq.Again):
                while True:
                    self.take(self.socket.recv_multipart(zmq.NOBLOCK))
        self.work()

    def take(self, frames: list[bytes]) -> None:
        raise NotImplementedError

    def work(self) -> None:
        raise NotImplementedError

    def until(self, condition: Callable[[], object], *others: "Pumped") -> None:
        """Pump until something holds."""
        end = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < end, f"it did not come; there were {self.events[-20:]}"
            for each in (self, *others):
                each.pump()

    def close(self) -> None:
        self._context.destroy(linger=0)


class Router(Pumped):
    """The least that can be called a broker: slots, one line of requests, and who has asked."""

    def __init__(self) -> None:
        super().__init__(zmq.ROUTER)
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.engines: dict[bytes, BrokerEngine] = {}
        self.slots: dict[bytes, int] = {}
        self.waiting: deque[Requested] = deque()
        self._asked: dict[bytes, bytes] = {}
        self._new_id = message_ids(uuid.uuid4().hex.encode())

    def take(self, frames: list[bytes]) -> None:
        identity, *message = frames
        engine = self.engines.get(identity)
        if engine is None:
            engine = BrokerEngine(self._new_id, now=time.monotonic(), unix_time=time.time())
            self.engines[identity] = engine
        event = engine.receive(message)
        if event is not None:
            self.events.append(event)
            self._act(identity, engine, event)

    def _act(self, identity: bytes, engine: BrokerEngine, event: Event) -> None:
        if isinstance(event, Informed):
            engine.acknowledge(event.msgid)
            self.slots.pop(identity, None)
        elif isinstance(event, SlotsOffered):
            self.slots[identity] = self.slots.get(identity, 0) + event.count
        elif isinstance(event, Requested):
            self._asked[event.msgid] = identity
            self.waiting.append(event)
            engine.acknowledge(event.msgid)
        elif isinstance(event, Replied):
            asker = self._asked.pop(event.request, None)
            if asker is not None:
                self.engines[asker].reply(event.request, event.message, event.extension)
        elif isinstance(event, ScheduleSet | ScheduleRemoved):
            for other in self.engines.values():
                if other.state == "scheduler":
                    call = complete_call(event.message)
                    if isinstance(event, ScheduleSet):
                        interval, cron = event.interval, event.cron
                        other.schedule(event.queue, event.headers, call, interval=interval, cron=cron)
                    else:
                        other.schedule(event.queue, event.headers, call, ends=True)

    def work(self) -> None:
        for identity in self.slots:
            engine = self.engines[identity]
            while self.waiting and self.slots[identity] and engine.state == "worker":
                job = self.waiting.popleft()
                engine.request(job.msgid, job.queue, job.headers.replying(), job.message, job.extension)
                self.slots[identity] -= 1
        for identity, engine in self.engines.items():
            event = engine.handle_timer(time.monotonic())
            if event is not None:
                self.events.append(event)
            for message in (*engine.messages_to_send(), *engine.notices_to_send()):
                self.socket.send_multipart([identity, *message])

    def has(self, state: str) -> bool:
        return any(engine.state == state for engine in self.engines.values())


class Dealer(Pumped):
    """A peer of ours under a released router, which needs an identity that is text."""

    def __init__(self, address: str, make_engine: Callable[..., PeerEngine]) -> None:
        super().__init__(zmq.DEALER)
        self.socket.identity = str(uuid.uuid4()).encode()
        self.socket.connect(address)
        new_id = message_ids(uuid.uuid4().hex.encode())
        self.engine = make_engine(new_id=new_id, now=time.monotonic(), unix_time=time.time())

    def take(self, frames: list[bytes]) -> None:
        event = self.engine.receive(frames)
        if event is not None:
            self.events.append(event)

    def work(self) -> None:
        event = self.engine.handle_timer(time.monotonic())
        if event is not None:
            self.events.append(event)
        for message in (*self.engine.messages_to_send(), *self.engine.notices_to_send()):
            self.socket.send_multipart(message)

    def found(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@contextmanager
def pumped(*each: Pumped) -> Iterator[None]:
    """Close sockets at the end."""
    try:
        yield
    finally:
        for one in each:
            one.close()
