"""What jobs over eMQP cost the broker: processor time for each REQUEST, with the threads of libzmq.

    python benchmarks/emqp.py [--requests 20000] [--rounds 2] [--quick]

The broker is `triomq serve` in a process of its own, its CPU is what the operating system has counted for it. The
client and two workers are blocking DEALERs of pyzmq in other processes, with frames as released programs write them.

accept      no worker: what it takes to put a job into its queue; with ACKs, which only peers with extensions read
jobs        through the broker to two workers, each with 500 slots: with and without the answer back to the client, and
            with READY for each job or for many
round trip  one job at a time, its answer, and so on
pub-sub     PUBLISH to ten plain SUBs in one process
durable     with ``guarantee``, and a broker that has a store; READY with a count
"""

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import zmq

VERSION = b"eMQP/1.0"
CALL = json.dumps(
    ["run", {"callable": "add", "path": "jobs", "args": [1], "kwargs": {}, "class_args": [], "class_kwargs": {}}]
).encode()
EXTENDED = b'{"v": 1, "capabilities": ["jobs"]}'
SLOTS = 500
WINDOW = 2000
"""Requests of the client that are not answered yet."""


def dealer(context: "zmq.Context[Any]", port: int) -> "zmq.Socket[Any]":
    made: zmq.Socket[Any] = context.socket(zmq.DEALER)
    made.linger = 5000
    made.setsockopt_string(zmq.IDENTITY, str(uuid.uuid4()))
    made.connect(f"tcp://127.0.0.1:{port}")
    return made


def inform(peer: "zmq.Socket[Any]", role: bytes, queues: bytes, *, extended: bool) -> None:
    peer.send_multipart([b"", VERSION, b"INFORM", b"i", queues, role, *([EXTENDED] if extended else [])])
    while peer.recv_multipart()[2] != b"ACK":
        pass


def work(port: int, queue: str, counts: bool) -> None:  # a process gets it
    """Be a worker until killed."""
    with zmq.Context() as context:
        peer = dealer(context, port)
        inform(peer, b"worker", f'[[10, "{queue}"]]'.encode(), extended=counts)
        if counts:
            peer.send_multipart([b"", VERSION, b"READY", b"r", b"%d" % SLOTS])
        else:
            for _ in range(SLOTS):
                peer.send_multipart([b"", VERSION, b"READY", b"r"])
        done = 0
        while True:
            frames = peer.recv_multipart()
            if frames[2] == b"HEARTBEAT":
                peer.send_multipart([b"", VERSION, b"HEARTBEAT", b"h", b"1.0"])
            if frames[2] != b"REQUEST":
                continue
            peer.send_multipart([b"", VERSION, b"REPLY", b"a", b'{"value": 5}', frames[3]])
            done += 1
            if not counts:
                peer.send_multipart([b"", VERSION, b"READY", b"r"])
            elif done % 50 == 0 or not peer.poll(0):
                peer.send_multipart([b"", VERSION, b"READY", b"r", b"%d" % done])
                done = 0


def request(peer: "zmq.Socket[Any]", queue: str, number: int, headers: bytes, prefix: bytes) -> None:
    """Send a REQUEST under an id that was never used: one that was is taken for the same job."""
    peer.send_multipart([b"", VERSION, b"REQUEST", b"%b%010d" % (prefix, number), queue.encode(), headers, CALL])


def new_prefix() -> bytes:
    return uuid.uuid4().hex[:26].encode()


def send_all(port: int, queue: str, count: int, headers: bytes, waits_for: bytes) -> float:
    """Send requests, and wait for so many answers of a kind; return the seconds."""
    with zmq.Context() as context:
        peer = dealer(context, port)
        if waits_for == b"ACK":
            inform(peer, b"client", b"", extended=True)
        began, answered, prefix = time.perf_counter(), 0, new_prefix()
        for number in range(count):
            request(peer, queue, number, headers, prefix)
            while waits_for and (number - answered > WINDOW or peer.poll(0)):
                answered += peer.recv_multipart()[2] == waits_for
        while waits_for and answered < count:
            answered += peer.recv_multipart()[2] == waits_for
        if not waits_for:
            peer.send_multipart([b"", VERSION, b"STATUS", b"s"])  # comes behind everything else
            while peer.recv_multipart()[2] != b"REPLY":
                pass
        return time.perf_counter() - began


def round_trips(port: int, queue: str, count: int) -> list[float]:
    """Return how long each took, in milliseconds."""
    taken = []
    with zmq.Context() as context:
        peer, prefix = dealer(context, port), new_prefix()
        for number in range(count):
            began = time.perf_counter()
            request(peer, queue, number, b"reply-requested", prefix)
            while peer.recv_multipart()[2] != b"REPLY":
                pass
            taken.append((time.perf_counter() - began) * 1000)
    return taken


def subscribe(port: int, count: int, messages: int, ready: Connection) -> None:  # a process gets it
    """Be so many plain SUBs; tell when all of them hear something, and when each has had all that was published."""
    with zmq.Context() as context:
        subscribers = [context.socket(zmq.SUB) for _ in range(count)]
        for subscriber in subscribers:
            subscriber.set_hwm(0)
            subscriber.subscribe(b"t")
            subscriber.connect(f"tcp://127.0.0.1:{port}")
        for subscriber in subscribers:
            while subscriber.recv_multipart()[0] != b"trial":
                pass
        ready.send(0.0)
        got = 0
        for subscriber in subscribers:
            while (frames := subscriber.recv_multipart())[1] != b"end":
                got += frames[0] == b"topic"
        ready.send(got / count / messages)
        for subscriber in subscribers:
            subscriber.close(0)


def deliveries(folder: Path, messages: int, count: int = 10) -> tuple[float, float, float]:
    """Return microseconds of CPU for each delivery to a SUB, deliveries in a second, and the part that has come."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        topics = free.getsockname()[1]
    broker = Broker(folder, options=f"topic_port = {topics}\n")
    spawn = get_context("spawn")
    ours, theirs = spawn.Pipe()
    subscribers = spawn.Process(target=subscribe, args=(topics, count, messages, theirs), daemon=True)
    subscribers.start()
    with zmq.Context() as context:
        peer = dealer(context, broker.port)

        def publish(topic: bytes, text: bytes) -> None:
            peer.send_multipart([b"", VERSION, b"PUBLISH", b"p", topic, text])

        while not ours.poll(0.01):
            publish(b"trial", b"1")
        ours.recv()
        before, began = broker.cpu(), time.perf_counter()
        for _ in range(messages):
            publish(b"topic", CALL)
        while not ours.poll(0.01):  # a SUB that is behind misses some
            publish(b"topic", b"end")
        part = ours.recv()
        seconds, cpu = time.perf_counter() - began, broker.cpu() - before
    subscribers.join()
    broker.close()
    return cpu / (messages * count) * 1e6, messages * count * part / seconds, part


class Broker:
    """`triomq serve` in a process of its own.

    Args:
        folder: Where its configuration is.
        durable: Whether it has a store.
        endpoint: The type of its endpoint.
        options: Of the endpoint, in TOML.
    """

    def __init__(self, folder: Path, *, durable: bool = False, endpoint: str = "emqp", options: str = "") -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        config = folder / "triomq.toml"
        store = f'data_dir = "{tempfile.mkdtemp(dir=folder)}"\n' if durable else ""
        table = f'[[endpoints]]\ntype = "{endpoint}"\nport = {self.port}\n{options}'
        config.write_text(f'{store}{table}[log]\nlevel = "error"\n')
        command = [sys.executable, "-m", "triomq", "serve", str(config)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self._workers: list[BaseProcess] = []
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("the broker does not listen")

    @property
    def process(self) -> int:
        """The number of its process."""
        return self._process.pid

    def cpu(self) -> float:
        """Return the seconds that all its threads have had."""
        threads = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9

    @contextmanager
    def workers(self, queue: str, *, counts: bool = False, number: int = 2) -> Iterator[None]:
        context = get_context("spawn")
        made = [context.Process(target=work, args=(self.port, queue, counts), daemon=True) for _ in range(number)]
        for process in made:
            process.start()
        time.sleep(0.7)
        yield
        for process in made:
            process.kill()
            process.join()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def measured(broker: Broker, queue: str, count: int, headers: bytes, waits_for: bytes) -> tuple[float, float]:
    """Return microseconds of CPU for each request, and requests in a second."""
    send_all(broker.port, queue, count // 10, headers, waits_for)
    before = broker.cpu()
    seconds = send_all(broker.port, queue, count, headers, waits_for)
    return (broker.cpu() - before) / count * 1e6, count / seconds


def rows(broker: Broker, count: int) -> Iterator[tuple[str, float, float]]:
    for name, headers, waits_for in (("no ACK", b"", b""), ("ACK", b"", b"ACK")):
        yield f"accept, {name}", *measured(broker, "default", count, headers, waits_for)
    for counts, ready in ((False, "READY each"), (True, "READY with a count")):
        with broker.workers(f"q{counts}", counts=counts):
            for name, headers, waits_for in (
                ("with REPLY", b"reply-requested", b"REPLY"),
                ("no REPLY, ACK", b"", b"ACK"),
            ):
                yield f"jobs, {ready}, {name}", *measured(broker, f"q{counts}", count, headers, waits_for)


def durable_rows(broker: Broker, count: int) -> Iterator[tuple[str, float, float]]:
    yield "durable, accept, ACK", *measured(broker, "default", count, b"guarantee", b"ACK")
    with broker.workers("durable", counts=True):
        for name, headers, waits_for in (
            ("with REPLY", b"guarantee,reply-requested", b"REPLY"),
            ("no REPLY, ACK", b"guarantee", b"ACK"),
        ):
            yield f"durable, jobs, {name}", *measured(broker, "durable", count, headers, waits_for)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a few requests, to see that it works")
    arguments = parser.parse_args()
    count, rounds = (500, 1) if arguments.quick else (arguments.requests, arguments.rounds)
    best: dict[str, tuple[float, float]] = {}
    trips: list[float] = []
    heard: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            broker = Broker(Path(folder))
            try:
                for name, cpu, rate in rows(broker, count):
                    best[name] = min(best.get(name, (cpu, rate)), (cpu, rate))
                with broker.workers("trips", number=1):
                    trips += round_trips(broker.port, "trips", max(100, count // 20))
            finally:
                broker.close()
            broker = Broker(Path(folder), durable=True)
            try:
                for name, cpu, rate in durable_rows(broker, count):
                    best[name] = min(best.get(name, (cpu, rate)), (cpu, rate))
            finally:
                broker.close()
            heard.append(deliveries(Path(folder), count // 2))
    print(f"{'':45}{'µs CPU':>10}{'requests/s':>12}")
    for name, (cpu, rate) in best.items():
        print(f"{name:45}{cpu:10.1f}{rate:12,.0f}")
    quantiles = statistics.quantiles(trips, n=100)
    print(f"{'round trip, p50 and p99':45}{quantiles[49]:9.2f}, {quantiles[98]:.2f} ms")
    cpu, rate, part = min(heard)
    print(f"{'pub-sub, a delivery':45}{cpu:10.1f}{rate:12,.0f}, {part:.0%} of them came")


if __name__ == "__main__":
    main()
