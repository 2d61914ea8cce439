"""How many files and packages one message goes through, from socket to socket: a measure of how readable its way is.

A broker runs in this process and a client in a thread of it: pika for AMQP, ours for the other protocols. Messages of a
warm connection are traced with ``sys.setprofile``, which is on in the broker's thread alone. Printed are the Python
calls inside triomq, how many different functions and files they are in, and how often the next call is in another file
or package.

Counted is everything that one message makes the broker do: from its first octets on the socket until the broker is idle
again, so what follows the delivery belongs to it as well, such as settling and, where there is a store, its answer to
the commit. A coroutine that goes on counts as a call, as ``sys.setprofile`` reports it. Left out are timer tasks and
two loops that run whether there is a message or not: the supervisor's around each task, the poller's around all
sockets. The broker is held while the client writes, so that it reads all frames of the message at once. Tasks may still
take turns in another order: the most frequent trace is printed, and how frequent it is.

    python benchmarks/trip.py
    python benchmarks/trip.py --show      # every call, in order
"""

import argparse
import functools
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Final, NamedTuple

import pika
import trio
import trio.testing
from trio.lowlevel import TrioToken

import triomq
from triomq import AMQP, EMQP, MTL, RestMS, Tap, open_broker
from triomq.chunks import RecordRun, encode_chunk
from triomq.clients import open_emqp, open_emqp_worker, open_mtl, open_restms, open_tap

SOURCE = str(Path(triomq.__file__).parent) + "/"
WARM_UP = 3
"""Messages before the first that is traced: caches are filled, routes found."""
TRACED = 15
"""Messages that are traced; the most frequent trace is printed."""
BODY = b"x" * 100
STREAM = "records"
IDLE = 0.15
"""Seconds without any task that runs, after which the broker is idle: a commit takes less."""

LOOPS = frozenset({"Tasks._run", "Poller.run", "Poller._poll", "Poller._stay_awake"})
"""Frames around every task and every socket: left out."""
HOLD = 0.03
"""Seconds for which the broker is held: pika writes the frames of one message one by one, within a millisecond."""
TIMERS = frozenset(
    {
        "AMQPEndpoint._expire_leases",
        "Endpoint._watch_timers",
        "MemoryAlarm.run",
        "Unfinished.keep_looking",
    }
)
"""Tasks that sleep and look: left out with all that they call."""


class Call(NamedTuple):
    """One Python call inside triomq."""

    file: str
    function: str

    @property
    def package(self) -> str:
        """The package it is in, ``core`` or ``endpoints.amqp`` alike by its first part."""
        return self.file.split("/")[0]


class Trace:
    """Collects calls while it is on; installed in the broker's thread."""

    def __init__(self) -> None:
        self.on = False
        self._stacks: list[list[Call]] = []  # calls by the stack that they are in

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Record a call; what ``sys.setprofile`` calls."""
        if not self.on or event != "call" or not frame.f_code.co_filename.startswith(SOURCE):
            return
        caller = frame.f_back
        if caller is None or not caller.f_code.co_filename.startswith(SOURCE):
            self._stacks.append([])
        call = Call(frame.f_code.co_filename.removeprefix(SOURCE), frame.f_code.co_qualname)
        if self._stacks and call.function not in LOOPS:
            self._stacks[-1].append(call)

    def take(self) -> tuple[Call, ...]:
        """Return the calls since the last time, but for timers'."""
        stacks, self._stacks = self._stacks, []
        return tuple(call for stack in stacks if not any(each.function in TIMERS for each in stack) for call in stack)


def changes(values: list[str]) -> int:
    """Count how often the next value is another one."""
    return sum(before != after for before, after in pairwise(values))


Trip = Callable[[], Awaitable[object]]
"""What a client does once: sends something, and waits until all has come that belongs to it."""


class Way(NamedTuple):
    """One kind of message, and the client that sends it, in a thread with a loop of its own."""

    title: str
    door: AMQP | RestMS | EMQP | MTL | Tap
    client: Callable[[int], AbstractAsyncContextManager[Trip]]
    durable: bool = False


@asynccontextmanager
async def pika_client(port: int, *, durable: bool = False) -> AsyncIterator[Trip]:
    """Publish over a connection with a consumer, and wait for the delivery and, if it is durable, for the confirm."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
    channel = connection.channel()
    channel.queue_declare("trip", durable=durable)
    properties = pika.BasicProperties(delivery_mode=2) if durable else None
    if durable:
        channel.confirm_delivery()
    arrived = list[object]()
    channel.basic_consume("trip", lambda *delivery: arrived.append(delivery), auto_ack=True)

    async def trip() -> None:
        arrived.clear()
        channel.basic_publish("", "trip", BODY, properties)
        while not arrived:
            connection.process_data_events(0.5)

    yield trip
    connection.close()


@asynccontextmanager
async def restms_client(port: int) -> AsyncIterator[Trip]:
    """POST a message to a feed; a pipe that is joined to it has it in its stream of events, and deletes it."""
    url = f"http://guest:guest@127.0.0.1:{port}"
    async with open_restms(url) as restms, restms.open_pipe() as pipe:
        feed = await restms.create_feed("trip", "fanout")
        await pipe.join(feed)

        async def trip() -> None:
            await feed.publish(BODY)
            (await anext(messages)).accept()

        messages = aiter(pipe)
        yield trip


@asynccontextmanager
async def emqp_client(port: int) -> AsyncIterator[Trip]:
    """Send a job, which a worker takes and answers, and wait for the answer."""
    url = f"emqp://127.0.0.1:{port}"
    async with open_emqp(url) as connection, open_emqp_worker(url, ["trip"]) as worker:

        async def trip() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.request, "trip", BODY)
                (await anext(worker)).reply()

        yield trip


@asynccontextmanager
async def mtl_client(port: int) -> AsyncIterator[Trip]:
    """Write a content and wait for its confirm; a reader takes and accepts it."""
    async with open_mtl(f"mtl://guest:guest@127.0.0.1:{port}") as mtl:
        await mtl.call("Queue.Create", {"name": "trip"})
        async with mtl.open_reader("trip", prefetch=10) as reader, mtl.open_writer("trip") as writer:
            contents = aiter(reader)

            async def trip() -> None:
                await writer.publish(BODY)
                (await anext(contents)).accept()

            yield trip


@asynccontextmanager
async def tap_client(port: int) -> AsyncIterator[Trip]:
    """Stage a chunk of one record for a stream, and commit it."""
    chunk = encode_chunk(0, 0, [RecordRun(0, b"", b"", b"", [BODY])])
    with open_tap(f"tap://guest:guest@127.0.0.1:{port}") as tap:
        batches = count()

        async def trip() -> None:
            batch = next(batches)
            tap.stage(STREAM, "trip", batch=batch, part=0, attempt=0, chunk=chunk)
            tap.commit(STREAM, "trip", batch=batch, attempts={0: 0})

        yield trip


WAYS: Final = (
    Way("transient, no acks", AMQP(port=0), pika_client),
    Way("persistent, confirmed, no acks", AMQP(port=0), functools.partial(pika_client, durable=True), durable=True),
    Way("RestMS: POST, event, DELETE", RestMS(port=0), restms_client),
    Way("eMQP: job, REPLY", EMQP(port=0), emqp_client),
    Way("MTL: content, confirm, accepted", MTL(port=0), mtl_client),
    Way("tap: record staged, committed", Tap(port=0), tap_client),
)


async def drive(way: Way, port: int, trace: Trace, token: TrioToken, found: Counter[tuple[Call, ...]]) -> None:
    """Send the messages, in a thread beside the broker."""

    def wait_idle() -> None:
        trio.from_thread.run(trio.testing.wait_all_tasks_blocked, IDLE, trio_token=token)

    async with way.client(port) as trip:
        for number in range(WARM_UP + TRACED):
            await trio.to_thread.run_sync(wait_idle)
            trace.on = True
            token.run_sync_soon(time.sleep, HOLD)
            await trip()
            await trio.to_thread.run_sync(wait_idle)
            trace.on = False
            calls = trace.take()
            if number >= WARM_UP:
                found[calls] += 1


async def measure(way: Way, trace: Trace, directory: str) -> tuple[tuple[Call, ...], int]:
    """Trace messages; return the most frequent trace, and how frequent it is."""
    found = Counter[tuple[Call, ...]]()
    async with open_broker(data_dir=directory if way.durable else None) as broker:
        listening = await broker.listen(way.door)
        await broker.declare_stream(STREAM)
        token = trio.lowlevel.current_trio_token()
        run = functools.partial(trio.run, drive, way, listening.port, trace, token, found)
        await trio.to_thread.run_sync(run)
    return found.most_common(1)[0]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--show", action="store_true", help="print every call, in order")
    options = parser.parse_args()
    trace = Trace()
    threading.setprofile(None)
    sys.setprofile(trace)
    heading = f"{'message':34}{'calls':>8}{'functions':>11}{'files':>7}{'file changes':>14}{'package changes':>17}"
    print(f"{heading}{'of all traces':>15}")
    with TemporaryDirectory() as directory:
        for way in WAYS:
            calls, times = trio.run(measure, way, trace, directory)
            files = [call.file for call in calls]
            moves = changes(files), changes([call.package for call in calls])
            print(
                f"{way.title:34}{len(calls):8}{len(set(calls)):11}{len(set(files)):7}{moves[0]:14}{moves[1]:17}"
                f"{f'{times} of {TRACED}':>15}"
            )
            if options.show:
                print("\n".join(f"    {call.file:44} {call.function}" for call in calls))


if __name__ == "__main__":
    main()
