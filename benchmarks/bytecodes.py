"""How many bytecodes and Python calls the broker spends on a chunk of publishes: figures that no neighbour disturbs.

A broker runs in this process, a raw AMQP client in a thread of it. It writes each chunk at once, into a queue of length
1 that drops its oldest, or that a consumer empties without acknowledgements. Counted is what runs inside triomq, in the
broker's thread, with ``sys.settrace``; of several chunks the one with the fewest bytecodes is printed, so that timers
and idle tasks do not count.

With RestMS a chunk is a POST of messages into a rotator that nobody reads, or into a pipe with a poll that it answers,
or a GET of messages of a pipe and the DELETE of the last one.

    python benchmarks/bytecodes.py
    PYTHONPATH=../before/src python benchmarks/bytecodes.py     # the same of another tree, to compare
"""

import re
import struct
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import trio

import triomq
from loadgen import frames
from loadgen.connection import CHANNEL, Address, Connection
from loadgen.requests import LOGIN, Requester, encode_request
from triomq import AMQP, RestMS, open_broker

SOURCE = str(Path(triomq.__file__).parent) + "/"

CHUNKS = 8
"""Chunks that are counted, after two that warm the caches."""

STILL = 0.15
"""Seconds in which nothing more runs, after which a chunk and what follows it are done."""


class Counts(msgspec.Struct):
    """What has run."""

    bytecodes: int = 0
    calls: int = 0


class Counter:
    """Counts while it is on; traces the broker's thread."""

    def __init__(self) -> None:
        self.on = False
        self.counts = Counts()

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        """Count a call of a function of triomq, and trace its bytecodes; what ``sys.settrace`` calls."""
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if self.on and event == "call":
            self.counts.calls += 1
        return self._inside

    def _inside(self, frame: FrameType, event: str, argument: object) -> Any:
        if self.on and event == "opcode":
            self.counts.bytecodes += 1
        return self._inside

    def count(self, send: Callable[[], object]) -> Counts:
        """Count what something makes the broker do, until nothing more runs."""
        self.counts = Counts()
        self.on = True
        send()
        self.wait_still()
        self.on = False
        return self.counts

    def wait_still(self) -> None:
        """Wait until nothing more runs."""
        before = -1
        while before < self.counts.bytecodes:
            before = self.counts.bytecodes
            time.sleep(STILL)


class Case(NamedTuple):
    """One kind of chunk."""

    title: str
    messages: int
    keys: int = 1
    confirm: bool = False
    durable: bool = False
    consume: bool = False
    fanout: int = 0


CASES = (
    Case("1 message", 1),
    Case("100 alike", 100),
    Case("100 over 50 keys", 100, keys=50),
    Case("1 message, confirm", 1, confirm=True),
    Case("100 alike, confirm", 100, confirm=True),
    Case("1 message, consumed", 1, consume=True),
    Case("100 alike, consumed", 100, consume=True),
    Case("100 over 16 keys, fanout to 4 consumers", 100, keys=16, consume=True, fanout=4),
    Case("1 durable message, confirm", 1, confirm=True, durable=True),
    Case("100 durable alike, confirm", 100, confirm=True, durable=True),
    Case("100 durable over 50 keys, confirm", 100, keys=50, confirm=True, durable=True),
)


class HTTPCase(NamedTuple):
    """One kind of requests over RestMS."""

    title: str
    messages: int = 1
    gets: bool = False
    polls: bool = False


HTTP_CASES = (
    HTTPCase("RestMS: POST of 1 message"),
    HTTPCase("RestMS: POST of 100 messages", 100),
    HTTPCase("RestMS: POST of 1 that answers a poll", polls=True),
    HTTPCase("RestMS: GET and DELETE of 1", gets=True),
    HTTPCase("RestMS: GET of 100, and DELETE", 100, gets=True),
)

Drive = Callable[[int, Counter, list[Counts]], None]
"""What sends the chunks, in a thread beside the broker."""


def length_limit(messages: int) -> bytes:
    """Encode the arguments of a queue of so many messages."""
    entry = frames.short_string("x-max-length") + b"I" + struct.pack(">i", messages)
    return struct.pack(">I", len(entry)) + entry


def drive_amqp(case: Case, port: int, counter: Counter, found: list[Counts]) -> None:
    """Send chunks over AMQP."""
    connection = Connection(Address("127.0.0.1", port))
    names = [f"q{number}" for number in range(case.fanout or case.keys)]
    for name in names:
        if case.consume:
            declare = frames.queue_declare(CHANNEL, name, durable=case.durable)
        else:
            flags = b"\x02" if case.durable else b"\x00"
            arguments = b"\0\0" + frames.short_string(name) + flags + length_limit(1)
            declare = frames.method(CHANNEL, 50, 10, arguments)
        connection.call(declare, frames.QUEUE_DECLARE_OK)
    if case.confirm:
        connection.call(frames.confirm_select(CHANNEL), frames.CONFIRM_SELECT_OK)
    if case.consume:
        for name in names if case.fanout else names[:1]:
            connection.call(frames.basic_consume(CHANNEL, name, name, no_ack=True), frames.BASIC_CONSUME_OK)
    for name in names if case.fanout else ():
        connection.call(frames.queue_bind(CHANNEL, name, "amq.fanout", ""), frames.QUEUE_BIND_OK)
    chunk = b"".join(
        frames.publish(
            CHANNEL,
            "amq.fanout" if case.fanout else "",
            f"q{number % case.keys}",
            b"x" * 100,
            frame_max=connection.frame_max,
            persistent=case.durable,
        )
        for number in range(case.messages)
    )
    for _ in range(CHUNKS + 2):
        found.append(counter.count(partial(connection.socket.sendall, chunk)))
    connection.close()


def drive_http(case: HTTPCase, port: int, counter: Counter, found: list[Counts]) -> None:
    """Send requests over HTTP."""
    xml = {**LOGIN, "Content-Type": "application/restms+xml"}
    with Requester(port) as caller, Requester(port) as poller:
        for made in ("<feed name='work' type='rotator'/>", "<pipe/>"):
            answer = caller.ask(encode_request("POST", "/restms/domain/default", f"<restms>{made}</restms>", xml))
        pipe = urlsplit(answer.header("Location")).path
        message = (
            f"<message address='{pipe.rpartition('/')[2]}'><content type='text/plain'>{'x' * 100}</content></message>"
        )
        feed = "/restms/feed/default" if case.gets or case.polls else "/restms/feed/work"
        post = encode_request("POST", feed, f"<restms>{message * case.messages}</restms>", xml)
        get = encode_request("GET", f"{pipe}?messages={case.messages}")

        def get_and_delete() -> None:
            hrefs = re.findall(rb'<message href="http://[^/]*([^"]*)"', caller.ask(get).body)
            caller.ask(encode_request("DELETE", hrefs[-1].decode()))

        for _ in range(CHUNKS + 2):
            if case.polls:
                shown = caller.ask(encode_request("GET", pipe)).body
                poller.send(encode_request("GET", re.findall(rb'([^"]*)" async="1"', shown)[0].decode()))
            elif case.gets:
                caller.ask(post)
            counter.wait_still()
            found.append(counter.count(get_and_delete if case.gets else partial(caller.ask, post)))
            if case.polls:
                poller.receive()
                get_and_delete()


async def measure(config: AMQP | RestMS, drive: Drive, counter: Counter, data_dir: str | None = None) -> Counts:
    """Count what one kind of chunk takes."""
    found: list[Counts] = []
    async with open_broker(data_dir=data_dir) as broker:
        listening = await broker.listen(config)
        await trio.to_thread.run_sync(drive, listening.port, counter, found)
    return min(found[2:], key=lambda counts: counts.bytecodes)


def show(title: str, counts: Counts) -> None:
    """Print a line."""
    print(f"{title:40}{counts.bytecodes:12,}{counts.calls:8,}", flush=True)


def main() -> None:
    """Measure and print."""
    counter = Counter()
    threading.settrace(None)
    sys.settrace(counter.trace)
    print(f"{'per chunk':40}{'bytecodes':>12}{'calls':>8}")
    for case in CASES:
        with TemporaryDirectory() as directory:
            drive = partial(drive_amqp, case)
            show(case.title, trio.run(measure, AMQP(port=0), drive, counter, directory if case.durable else None))
    for request in HTTP_CASES:
        config = RestMS(host="127.0.0.1", port=0)
        show(request.title, trio.run(measure, config, partial(drive_http, request), counter))


if __name__ == "__main__":
    main()
