"""What messages cost over HTTP: posts, gets, polls, and many pipes, by RestMS; beside the API of RabbitMQ's management.

Each broker is a process of its own, and its processor time is read by its own clock, with that of its children. ``wrk``
posts one message with a content of 100 bytes again and again, all else is done from here over plain sockets. Both
brokers are asked in turn, in the same run. A get is a GET and a DELETE with RestMS, and one POST with RabbitMQ.

    python benchmarks/restms.py --csv docs/topics/speed/restms.csv
    python benchmarks/restms.py --only posts gets --no-rabbitmq
    python benchmarks/restms.py --smoke                                    # short: it shows that all of it runs
"""

import argparse
import contextlib
import csv
import json
import os
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from loadgen import brokers, processes
from loadgen.requests import LOGIN, Requester, encode_request

BODY = "x" * 100
XML = {**LOGIN, "Content-Type": "application/restms+xml"}
JSON = {**LOGIN, "Content-Type": "application/json"}
QUEUE, KEPT = "benchmark", "kept"
PUBLISH = "/api/exchanges/%2f/amq.default/publish"
DOMAIN = "/restms/domain/default"
PARTS = ("posts", "gets", "polls", "pipes")

CONFIG = """
[users.guest]
password = "guest"
permissions."*" = {{configure = ".*", write = ".*", read = ".*"}}
limits.connections = "unlimited"

[[endpoints]]
type = "amqp"
port = 0

[[endpoints]]
type = "restms"
host = "127.0.0.1"
port = {port}
"""


class Found(NamedTuple):
    """What one broker did in one window."""

    rate: float
    microseconds: float
    said: str = ""


class Window:
    """Processor time of a broker, now and then."""

    def __init__(self, pid: int) -> None:
        self._pids = processes.tree_of(pid)
        self._spent = 0.0
        self._began = 0.0

    def __enter__(self) -> "Window":
        self._began = processes.exact_seconds(self._pids)
        return self

    def __exit__(self, *_: object) -> None:
        self._spent += processes.exact_seconds(self._pids) - self._began

    def microseconds(self, count: int) -> float:
        """Return what each of so many things took."""
        return self._spent / count * 1e6


# The brokers


class RestMSBroker:
    """triomq, and what is asked of it."""

    name = "triomq"

    def __init__(self, port: int, pid: int) -> None:
        self.port = port
        self.pid = pid
        self.caller = Requester(port)

    def ask(self, method: str, path: str, body: str = "") -> tuple[str, str]:
        """Send a request; return where what it made is, and the answer's body."""
        answer = self.caller.ask(encode_request(method, path, body, XML))
        return urlsplit(answer.header("Location")).path, answer.body.decode()

    def make_pipe(self) -> str:
        """Make a pipe, and return where it is."""
        return self.ask("POST", DOMAIN, "<restms><pipe/></restms>")[0]

    def posts(self, connections: int, seconds: float, *, kept: bool) -> Found:
        """Post to a queue that is made anew."""
        self.ask("DELETE", f"/restms/feed/{QUEUE}")
        self.ask("POST", DOMAIN, f"<restms><feed name='{QUEUE}' type='rotator'/></restms>")
        document = f"<restms>{message(QUEUE, kept=kept)}</restms>"
        return run_wrk(self, f"/restms/feed/{QUEUE}", document, XML, connections, seconds)

    def gets(self, batch: int, rounds: int) -> Found:
        """Read and delete messages, so many with each GET."""
        pipe = self.make_pipe()
        document = f"<restms>{message(pipe.rpartition('/')[2]) * batch}</restms>"
        post = encode_request("POST", "/restms/feed/default", document, XML)
        get = encode_request("GET", f"{pipe}?messages={batch}", headers=LOGIN)
        window, spent = Window(self.pid), 0.0
        for _ in range(rounds):
            self.caller.ask(post)
            with window:
                began = time.perf_counter()
                found = re.findall(rb'<message href="http://[^/]*([^"]*)"', self.caller.ask(get).body)
                assert len(found) == batch, len(found)
                self.caller.ask(encode_request("DELETE", found[-1].decode(), headers=LOGIN))
                spent += time.perf_counter() - began
        self.ask("DELETE", pipe)
        count = rounds * batch
        return Found(count / spent, window.microseconds(count))


class ManagementBroker:
    """RabbitMQ, and what is asked of its management."""

    name = "RabbitMQ"

    def __init__(self, port: int, pid: int) -> None:
        self.port = port
        self.pid = pid
        self.caller = connect(port)

    def ask(self, method: str, path: str, body: object) -> bytes:
        """Send a request; return the answer's body."""
        return self.caller.ask(encode_request(method, path, json.dumps(body), JSON)).body

    def posts(self, connections: int, seconds: float, *, kept: bool) -> Found:
        """Publish into an empty queue."""
        queue = KEPT if kept else QUEUE
        self.ask("PUT", f"/api/queues/%2f/{queue}", {"durable": kept})
        self.ask("DELETE", f"/api/queues/%2f/{queue}/contents", {})
        return run_wrk(self, PUBLISH, json.dumps(publish(queue, kept=kept)), JSON, connections, seconds)

    def gets(self, batch: int, rounds: int) -> Found:
        """Take messages, so many with each request."""
        self.ask("PUT", f"/api/queues/%2f/{QUEUE}", {"durable": False})
        self.ask("DELETE", f"/api/queues/%2f/{QUEUE}/contents", {})
        post = encode_request("POST", PUBLISH, json.dumps(publish(QUEUE)), JSON)
        get = {"count": batch, "ackmode": "ack_requeue_false", "encoding": "auto"}
        take = encode_request("POST", f"/api/queues/%2f/{QUEUE}/get", json.dumps(get), JSON)
        window, spent, count = Window(self.pid), 0.0, 0
        for _ in range(rounds):
            for _ in range(batch):
                self.caller.ask(post)
            with window:
                began = time.perf_counter()
                count += len(json.loads(self.caller.ask(take).body))
                spent += time.perf_counter() - began
        return Found(count / spent, window.microseconds(count))


HTTPBroker = RestMSBroker | ManagementBroker


def message(address: str, *, kept: bool = False) -> str:
    """Return a message as RestMS writes it."""
    mode = " delivery_mode='2'" if kept else ""
    return f"<message address='{address}'{mode}><content type='text/plain'>{BODY}</content></message>"


def publish(queue: str, *, kept: bool = False) -> dict[str, object]:
    """Return the same as RabbitMQ's management takes it."""
    properties = {"content_type": "text/plain"} | ({"delivery_mode": 2} if kept else {})
    return {"properties": properties, "routing_key": queue, "payload": BODY, "payload_encoding": "string"}


def connect(port: int) -> Requester:
    """Connect to the API of a node that has just been started, once it answers."""
    deadline = time.monotonic() + brokers.START_DEADLINE
    while True:
        try:
            caller = Requester(port)
            caller.ask(encode_request("GET", "/api/whoami"))
        except (OSError, RuntimeError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.25)
        else:
            return caller


@contextlib.contextmanager
def open_triomq(*options: str) -> Iterator[RestMSBroker]:
    """Run triomq for the length of the block."""
    port = brokers.free_port()
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write(CONFIG.format(port=port))
        config.flush()
        with brokers.open_triomq(options=[*options, config.name]) as broker:
            assert broker.pid is not None
            yield RestMSBroker(port, broker.pid)


@contextlib.contextmanager
def open_all(*, rabbitmq: bool, data: bool = False) -> Iterator[list[HTTPBroker]]:
    """Run the brokers that are compared, for the length of the block."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        found: list[HTTPBroker] = [stack.enter_context(open_triomq(*(["--data", directory] if data else [])))]
        if rabbitmq:
            port = brokers.free_port()
            node = stack.enter_context(brokers.open_rabbitmq(http=port))
            assert node.pid is not None
            found.append(ManagementBroker(port, node.pid))
        yield found


# Posts and gets, beside RabbitMQ


def run_wrk(
    broker: HTTPBroker, path: str, body: str, headers: dict[str, str], connections: int, seconds: float
) -> Found:
    """Post the same body again and again."""
    fields = [f'wrk.headers["{name}"] = "{value}"' for name, value in headers.items()]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write("\n".join([f'wrk.method = "POST"\nwrk.body = [[{body}]]', *fields]))
        script.flush()
        url = f"http://127.0.0.1:{broker.port}{path}"
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:.0f}", "--latency", "-s", script.name, url]
        with Window(broker.pid) as window:
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise RuntimeError(f"wrk found errors: {said}")
    count = int(re.search(r"(\d+) requests in", said)[1])  # type: ignore[index]  # wrk says so
    rate = float(re.search(r"Requests/sec: +([0-9.]+)", said)[1])  # type: ignore[index]
    median = re.search(r" 50% +(\S+)", said)
    return Found(rate, window.microseconds(count), f"p50 {median[1] if median else '?'}")


class Line(NamedTuple):
    """A line of the table: medians of one work item."""

    work: str
    found: dict[str, Found]

    @property
    def cells(self) -> list[str]:
        """What stands in the documentation."""
        ours, theirs = self.found.get("triomq"), self.found.get("RabbitMQ")
        cells = ["–" if one is None else f"{one.rate:,.0f}; {one.microseconds:,.0f} µs" for one in (ours, theirs)]
        if ours is None or theirs is None:
            return [self.work, *cells, "–", "–"]
        times = f"{ours.rate / theirs.rate:.1f}", f"{theirs.microseconds / ours.microseconds:.1f}"
        return [self.work, *cells, *times]


def measure_in_turn(
    work: str, rounds: int, found: Sequence[HTTPBroker], measure: Callable[[HTTPBroker], Found]
) -> Line:
    """Ask each broker once per round: A B A B …, so that a noisy minute meets all of them; print and return medians."""
    results: dict[str, list[Found]] = {broker.name: [] for broker in found}
    for _ in range(rounds):
        for broker in found:
            broker.caller.connect()  # servers close what is silent while the other one is asked
            results[broker.name].append(measure(broker))
    medians = {}
    for name, windows in results.items():
        rate = statistics.median([window.rate for window in windows])
        used = statistics.median([window.microseconds for window in windows])
        medians[name] = Found(rate, used)
        print(f"{work:<42} {name:<9} {rate:9,.0f}/s {used:9,.1f} µs   {windows[-1].said}", flush=True)
    return Line(work, medians)


def measure_posts(seconds: float, rounds: int, found: Sequence[HTTPBroker], *, kept: bool) -> list[Line]:
    """Measure posts at several connections."""
    if shutil.which("wrk") is None:
        print("wrk is not installed, so nothing is posted")
        return []
    lines = []
    for connections in (1, 20, 50):
        clients = "1 client" if connections == 1 else f"{connections} clients"
        work = f"POST, {'persistent' if kept else 'transient'}, {clients}"
        lines.append(
            measure_in_turn(work, rounds, found, lambda broker, n=connections: broker.posts(n, seconds, kept=kept))  # type: ignore[misc]
        )
    return lines


def measure_gets(rounds: int, found: Sequence[HTTPBroker], *, batches: Mapping[int, int]) -> list[Line]:
    """Measure gets of several sizes, each so often; the rate is of messages."""
    return [
        measure_in_turn(f"get of {batch}, messages", rounds, found, lambda broker, n=batch: broker.gets(n, batches[n]))  # type: ignore[misc]
        for batch in batches
    ]


# Polls and pipes


def measure_polls(count: int, wakes: int) -> None:
    """Print what polls of one pipe take that wait, what waking one costs, and how long it takes to end them."""
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(open_triomq())
        pipes = [broker.make_pipe() for _ in range(wakes)]
        before, window = processes.resident_octets([broker.pid]), Window(broker.pid)
        with window:
            poll = encode_request("GET", find_asynclet(broker, broker.make_pipe()))
            waiting = [open_poll(broker.port, poll) for _ in range(count)]
            time.sleep(1)
        grown = (processes.resident_octets([broker.pid]) - before) / 1024
        used = window.microseconds(count)
        print(f"{count:,} polls of one pipe: {used:.0f} µs and {grown / count:.1f} KiB each, {grown / 1024:.0f} MiB")
        measure_wakes(broker, pipes)
        with Window(broker.pid) as window:
            time.sleep(2)
        print(f"CPU in a second while they wait: {window.microseconds(2) / 1e3:.1f} ms")
        began = time.monotonic()
        os.kill(broker.pid, signal.SIGTERM)
        for one in waiting:
            answer = one.recv(65536)
            assert answer.startswith(b"HTTP/1.1 503"), answer
        print(f"all answered by 503: {time.monotonic() - began:.2f} s")
        for one in waiting:
            one.close()


def measure_wakes(broker: RestMSBroker, pipes: Sequence[str]) -> None:
    """Print what a message takes on its way to a poll, from the begin of its POST; one after the other."""
    polls = [encode_request("GET", find_asynclet(broker, pipe)) for pipe in pipes]
    waiting = [open_poll(broker.port, poll) for poll in polls]
    time.sleep(1)
    taken, window, waited = [], Window(broker.pid), processes.waited_seconds(broker.pid)
    for pipe, one in zip(pipes, waiting, strict=True):
        body = f"<restms>{message(pipe.rpartition('/')[2])}</restms>"
        post = encode_request("POST", "/restms/feed/default", body, XML)
        with window:
            began = time.perf_counter()
            broker.caller.send(post)
            answer = one.recv(65536)
            taken.append(time.perf_counter() - began)
            assert answer.startswith(b"HTTP/1.1 200"), answer
            assert broker.caller.receive().status == 200
        one.close()
    taken.sort()
    p50, p99 = statistics.median(taken) * 1e3, taken[int(len(taken) * 0.99) - 1] * 1e3
    waited = (processes.waited_seconds(broker.pid) - waited) / len(pipes) * 1e6
    used = window.microseconds(len(pipes))
    print(f"POST and answer to a poll: {used:.0f} µs   p50 {p50:.2f} ms   p99 {p99:.2f} ms")
    print(f"of each the broker has waited for a processor: {waited:.0f} µs")


def find_asynclet(broker: RestMSBroker, pipe: str) -> str:
    """Return where the next message of a pipe will be."""
    found: str = re.findall(r'<message href="http://[^/]*([^"]*)" async="1"', broker.ask("GET", pipe)[1])[0]
    return found


def open_poll(port: int, poll: bytes) -> socket.socket:
    """Wait for a message, over a connection of its own."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(poll)
    return connection


def measure_pipes(count: int) -> None:
    """Print what idle pipes cost."""
    with open_triomq() as broker:
        before, window = processes.resident_octets([broker.pid]), Window(broker.pid)
        with window:
            for _ in range(count):
                broker.make_pipe()
        grown = (processes.resident_octets([broker.pid]) - before) / 1024
        print(f"{count:,} pipes: {window.microseconds(count):.0f} µs and {grown / count:.1f} KiB each")


def main() -> None:
    """Measure what was chosen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="PART", choices=PARTS, default=PARTS, help=", ".join(PARTS))
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a window of posts (3)")
    parser.add_argument("--rounds", type=int, default=3, help="windows per broker and item (3)")
    parser.add_argument("--smoke", action="store_true", help="one second of each")
    parser.add_argument("--polls", type=int, default=10_000, help="how many wait at once (10,000)")
    parser.add_argument("--pipes", type=int, default=10_000, help="how many there are at once (10,000)")
    parser.add_argument("--no-rabbitmq", action="store_true", help="measure without RabbitMQ beside")
    parser.add_argument("--csv", metavar="FILE", help="write the documentation's table to FILE")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # unwinds, so that no broker stays behind
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    rabbitmq = not options.no_rabbitmq and brokers.rabbitmq_script() is not None
    seconds, rounds = (1.0, 1) if options.smoke else (options.seconds, options.rounds)
    gets = {1: 20, 100: 5} if options.smoke else {1: 300, 100: 50}
    polls, pipes = (200, 200) if options.smoke else (options.polls, options.pipes)
    lines: list[Line] = []
    if "posts" in options.only or "gets" in options.only:
        with open_all(rabbitmq=rabbitmq) as found:
            lines += measure_posts(seconds, rounds, found, kept=False) if "posts" in options.only else []
            lines += measure_gets(rounds, found, batches=gets) if "gets" in options.only else []
    if "posts" in options.only:
        with open_all(rabbitmq=rabbitmq, data=True) as found:
            lines += measure_posts(seconds, rounds, found, kept=True)
    if "polls" in options.only:
        measure_polls(polls, min(500, polls // 2))
    if "pipes" in options.only:
        measure_pipes(pipes)
    if options.csv:
        with Path(options.csv).open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["work", "triomq", "RabbitMQ", "rate, times", "CPU, times less"])
            writer.writerows(line.cells for line in lines)


if __name__ == "__main__":
    main()
