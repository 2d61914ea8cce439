"""What a request over HTTP costs: the engine alone, beside other parsers, and an endpoint that does nothing on sockets.

The first part feeds one request again and again and counts the process's CPU. The second starts a broker in a process
of its own and has ``wrk`` send POSTs of 100 bytes with a user and a password; the third opens polls and wakes one of
them again and again. There the CPU is the broker's, by its own clock.

    python benchmarks/requests_http.py
    python benchmarks/requests_http.py --smoke      # short: it shows that all of it runs
    python benchmarks/requests_http.py --polls 1000
"""

import argparse
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
import trio

from triomq.app import User, open_broker
from triomq.checked import Checked
from triomq.endpoints import BrokerContext, Endpoint, StreamListener
from triomq.endpoints.base.endpoint_config import SocketConfig
from triomq.endpoints.http import HTTPConnection
from triomq.protocols.http1 import HTTPServerEngine, RequestHead
from triomq.security import ALL

BODY = b"x" * 100
BASIC = b64encode(b"guest:guest").decode()
REQUEST = (
    b"POST /restms/feed/news HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAuthorization: Basic " + BASIC.encode() + b"\r\n"
    b"User-Agent: python-httpx/0.27\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n"
    b"Content-Type: application/restms+xml\r\nContent-Length: 100\r\n\r\n" + BODY
)
HEADERS = {"Content-Type": "text/plain", "ETag": '"17-x"'}


# The engine, and other parsers


def by_engine(*requests: bytes) -> Callable[[], object]:
    """Read and answer by the engine, several requests in turn."""
    engine = HTTPServerEngine(now=0.0, date=lambda: "Sun, 06 Nov 1994 08:49:37 GMT")
    following = cycle(requests)

    def once() -> object:
        engine.receive_data(next(following))
        engine.events()
        engine.read_body(1000)
        engine.events()
        engine.answer(200, b"", HEADERS)
        return engine.data_to_send()

    return once


def by_h11() -> Callable[[], object]:
    """Read and answer by h11."""
    import h11

    connection = h11.Connection(h11.SERVER)
    fields = [*HEADERS.items(), ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("Content-Length", "0")]

    def once() -> object:
        connection.receive_data(REQUEST)
        while not isinstance(connection.next_event(), h11.EndOfMessage):
            pass
        sent = connection.send(h11.Response(status_code=200, headers=fields))
        connection.send(h11.EndOfMessage())
        connection.start_next_cycle()
        return sent

    return once


def by_httptools() -> Callable[[], object]:
    """Read by httptools; there is nothing in it that answers."""
    import httptools

    class Found:
        def on_message_begin(self) -> None:
            self.headers: dict[str, str] = {}
            self.body: list[bytes] = []

        def on_url(self, url: bytes) -> None:
            self.url = url

        def on_header(self, name: bytes, value: bytes) -> None:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

        def on_body(self, body: bytes) -> None:
            self.body.append(body)

    parser = httptools.HttpRequestParser(Found())
    return partial(parser.feed_data, REQUEST)


def measure_engines(seconds: float) -> None:
    """Print what one request costs each."""
    for name, needs, make in (
        ("engine, with answer, other fields", "", partial(by_engine, REQUEST, REQUEST.replace(b"httpx", b"httpy"))),
        ("engine, with answer, other path", "", partial(by_engine, REQUEST, REQUEST.replace(b"news", b"olds"))),
        ("engine, with answer, same head", "", partial(by_engine, REQUEST)),
        ("h11, with answer", "h11", by_h11),
        ("httptools, read alone", "httptools", by_httptools),
    ):
        if needs and find_spec(needs) is None:
            print(f"{name:<40} not installed")
            continue
        once, best = make(), float("inf")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.process_time()
            for _ in range(500):
                once()
            best = min(best, (time.process_time() - began) / 500)
        print(f"{name:<40} {best * 1e6:8.1f} µs")


# An endpoint that does nothing


class IdleConnection(HTTPConnection):
    """Answers POST at once, lets GET wait until there is a POST to /wake."""

    waiting: ClassVar[dict[RequestHead, "IdleConnection"]] = {}

    def requested(self, request: RequestHead, user: str) -> None:
        """Answer, or wait."""
        if request.method == "GET":
            self.waiting[request] = self
            self.wait(request)
        else:
            self.read_body(request, 1000, partial(self.take, request))

    def take(self, request: RequestHead, data: bytes, ended: bool) -> None:
        """Answer, and wake a poll where that is wanted."""
        if request.path == "/wake" and self.waiting:
            poll, connection = next(iter(self.waiting.items()))
            connection.answer(poll, 200, data, HEADERS)
        self.answer(request, 200, b"", HEADERS)

    def request_over(self, request: RequestHead) -> None:
        """Forget a poll."""
        self.waiting.pop(request, None)


class IdleHTTP(Checked, SocketConfig, frozen=True, forbid_unknown_fields=True, tag="idle-http"):
    """Where it listens."""

    protocol: ClassVar[str] = "HTTP"
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0)] = 0
    path: str = ""

    def make(self, broker: BrokerContext) -> Endpoint:
        """Make the endpoint."""
        make_client: Any = partial(IdleConnection, context=broker)
        return Endpoint(broker, StreamListener(make_client, self.host, self.port, path=self.path))


def resident() -> int:
    """Return the bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def serve() -> None:
    """Run the broker until SIGTERM; print the port, and the CPU that was used whenever a line comes."""
    users = {"guest": User(password="guest", permissions={"*": ALL})}
    async with open_broker(IdleHTTP(), users=users, drain=30.0) as broker:
        endpoint = next(iter(broker.endpoints.children.values())).actor
        assert isinstance(endpoint, Endpoint)
        print(endpoint.addresses[0][1], flush=True)
        with trio.open_signal_receiver(signal.SIGTERM) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tell_use)
                async for _ in signals:
                    nursery.cancel_scope.cancel()


async def tell_use() -> None:
    """Answer each line on stdin."""
    stdin = trio.lowlevel.FdStream(os.dup(sys.stdin.fileno()))
    while await stdin.receive_some(100):
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(used.ru_utime + used.ru_stime, resident(), flush=True)


class Server:
    """A broker in a process of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def used(self) -> tuple[float, float]:
        """Return the seconds of CPU so far, and MiB of memory."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("?\n")
        self.process.stdin.flush()
        seconds, size = self.process.stdout.readline().split()
        return float(seconds), float(size) / (1 << 20)

    def stop(self) -> float:
        """End it, and return how many seconds that took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        return time.monotonic() - began


SCRIPT = f"""wrk.method = "POST"
wrk.body = "{BODY.decode()}"
wrk.headers["Authorization"] = "Basic {BASIC}"
wrk.headers["Content-Type"] = "application/restms+xml"
"""


def measure_server(seconds: float) -> None:
    """Print rates and CPU of POSTs at 1 and 50 connections."""
    if shutil.which("wrk") is None:
        print("wrk is not installed")
        return
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT)
        script.flush()
        for connections in (1, 50):
            server = Server()
            url = f"http://127.0.0.1:{server.port}/restms/feed/news"
            command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:.0f}", "--latency", "-s", script.name, url]
            before = server.used()[0]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            used = server.used()[0] - before
            requests = int(re.search(r"(\d+) requests in", said)[1])  # type: ignore[index]  # wrk says so
            rate, median = re.search(r"Requests/sec: +([0-9.]+)", said), re.search(r"50% +(\S+)", said)
            errors = "" if "Non-2xx" not in said and "Socket errors" not in said else "  ERRORS: " + said
            print(
                f"POST, {connections:>2} connections {'':<20} {used / requests * 1e6:8.1f} µs"
                f"   {float(rate[1]) if rate else 0:9,.0f}/s   p50 {median[1] if median else '?'}{errors}"
            )
            server.stop()


# Polls


async def open_polls(port: int, count: int) -> list[trio.SocketStream]:
    """Open so many connections, each with a GET that waits."""
    request = b"GET /poll HTTP/1.1\r\nHost: h\r\nAuthorization: Basic " + BASIC.encode() + b"\r\n\r\n"
    streams = []
    for _ in range(count):
        streams.append(await trio.open_tcp_stream("127.0.0.1", port))
        await streams[-1].send_all(request)
    return streams


async def measure_polls(server: Server, count: int, wakes: int) -> None:
    """Print what polls take that wait, what it takes to wake one, and how long all of them take at the end."""
    seconds, size = server.used()
    streams = await open_polls(server.port, count)
    await trio.sleep(0.5)
    used, grown = server.used()
    print(f"{count} polls: {(used - seconds) / count * 1e6:,.0f} µs and {(grown - size) * 1024 / count:.1f} KiB each")
    await trio.sleep(2)
    idle = server.used()[0] - used
    waker = await trio.open_tcp_stream("127.0.0.1", server.port)
    wake = REQUEST.replace(b"/restms/feed/news", b"/wake")
    before, waited = server.used()[0], []
    for stream in streams[:wakes]:  # the oldest poll is woken first
        began = time.perf_counter()
        await waker.send_all(wake)
        await stream.receive_some(1000)
        waited.append(time.perf_counter() - began)
        await waker.receive_some(1000)
    waited.sort()
    used = server.used()[0] - before
    print(
        f"waking one: {used / wakes * 1e6:.0f} µs for POST and answer; "
        f"p50 {waited[wakes // 2] * 1e3:.2f} ms, p99 {waited[int(wakes * 0.99)] * 1e3:.2f} ms; "
        f"CPU of 2 s without any {idle:.2f} s"
    )
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    for stream in streams[wakes:]:
        answer = await stream.receive_some(1000)
        assert answer.startswith(b"HTTP/1.1 503"), answer
    answered = time.monotonic() - began
    for stream in streams:
        await trio.aclose_forcefully(stream)
    server.process.wait()
    print(f"answering {count - wakes} by 503: {answered:.2f} s; ended after {time.monotonic() - began:.2f} s")


def main() -> None:
    """Measure, or serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--smoke", action="store_true", help="one second of each")
    parser.add_argument("--polls", type=int, default=10_000, help="how many wait at once")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        trio.run(serve)
        return
    seconds = 1.0 if options.smoke else options.seconds
    measure_engines(seconds / 4)
    measure_server(seconds)
    polls = 200 if options.smoke else options.polls
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    trio.run(measure_polls, Server(), polls, min(500, polls // 2))


if __name__ == "__main__":
    main()
