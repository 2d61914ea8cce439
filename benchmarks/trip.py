"""How many files and packages one message goes through, from socket to socket: a measure of how readable its way is.

A broker runs in this process and pika in a thread of it; messages of a warm connection are traced with
``sys.setprofile``. Printed are the Python calls inside triomq, how many different functions and files they are in, and
how often the next call is in another file or package.

Counted is everything that one message makes the broker do: from its first octets on the socket until the broker is
idle again, so what follows the delivery belongs to it as well, such as settling and, where there is a store, its answer
to the commit. A coroutine that goes on counts as a call, as ``sys.setprofile`` reports it. Left out are timer tasks and
two loops that run whether there is a message or not: the supervisor's around each task, the poller's around all
sockets. The broker is held while pika writes, so that it reads all frames of the message at once. Tasks may still take
turns in another order: the most frequent trace is printed, and how frequent it is.

    python benchmarks/trip.py
    python benchmarks/trip.py --show      # every call, in order
"""

import argparse
import functools
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NamedTuple

import pika
import trio
import trio.testing

import triomq
from triomq import AMQP, open_broker

SOURCE = str(Path(triomq.__file__).parent) + "/"
WARM_UP = 3
"""Messages before the first that is traced: caches are filled, routes found."""
TRACED = 15
"""Messages that are traced; the most frequent trace is printed."""
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


class Client:
    """A pika connection with a consumer, used from a thread: publishes one message and waits until it has come."""

    def __init__(self, port: int, *, durable: bool) -> None:
        self._connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
        self._channel = self._connection.channel()
        self._channel.queue_declare("trip", durable=durable)
        self._properties = pika.BasicProperties(delivery_mode=2) if durable else None
        if durable:
            self._channel.confirm_delivery()
        self._arrived = 0
        self._channel.basic_consume("trip", self._receive, auto_ack=True)

    def _receive(self, *details: object) -> None:
        self._arrived += 1

    def send(self) -> None:
        """Publish, and wait for the delivery and, if it is durable, for the confirm."""
        wanted = self._arrived + 1
        self._channel.basic_publish("", "trip", b"x" * 100, self._properties)
        while self._arrived < wanted:
            self._connection.process_data_events(0.5)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


Hold = Callable[[Callable[[float], None], float], None]


def drive(port: int, trace: Trace, found: Counter[tuple[Call, ...]], hold: Hold, *, durable: bool) -> None:
    """Send the messages, in a thread beside the broker."""
    client = Client(port, durable=durable)
    for number in range(WARM_UP + TRACED):
        trace.on = True
        hold(time.sleep, HOLD)
        client.send()
        trio.from_thread.run(trio.testing.wait_all_tasks_blocked, IDLE)
        trace.on = False
        calls = trace.take()
        if number >= WARM_UP:
            found[calls] += 1
    client.close()


async def measure(trace: Trace, data_dir: str | None) -> tuple[tuple[Call, ...], int]:
    """Trace messages, durable if there is a directory; return the most frequent trace, and how frequent it is."""
    found = Counter[tuple[Call, ...]]()
    async with open_broker(data_dir=data_dir) as broker:
        listening = await broker.listen(AMQP(port=0))
        hold = trio.lowlevel.current_trio_token().run_sync_soon
        run = functools.partial(drive, listening.port, trace, found, hold, durable=data_dir is not None)
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
        for title, data_dir in (("transient, no acks", None), ("persistent, confirmed, no acks", directory)):
            calls, times = trio.run(measure, trace, data_dir)
            files = [call.file for call in calls]
            moves = changes(files), changes([call.package for call in calls])
            print(
                f"{title:34}{len(calls):8}{len(set(calls)):11}{len(set(files)):7}{moves[0]:14}{moves[1]:17}"
                f"{f'{times} of {TRACED}':>15}"
            )
            if options.show:
                print("\n".join(f"    {call.file:44} {call.function}" for call in calls))


if __name__ == "__main__":
    main()
