"""How many files and packages one message goes through, from socket to socket: a measure of how readable its way is.

A broker runs in this process and pika in a thread of it; messages of a warm connection are traced with
``sys.setprofile``. Printed are the Python calls inside triomq, how many different functions and files they are in, and
how often the next call is in another file or package. What timers and idle tasks do meanwhile does not count: of
some messages the one with the fewest calls is taken.

    python benchmarks/trip.py
    python benchmarks/trip.py --show      # every call, in order
"""

import argparse
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NamedTuple

import pika
import trio

import triomq
from triomq import AMQP, open_broker

SOURCE = str(Path(triomq.__file__).parent) + "/"
WARM_UP = 3
"""Messages before the first that is traced: caches are filled, routes found."""
TRACED = 12
"""Messages that are traced; the one with the fewest calls is printed."""


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
        self.calls: list[Call] = []

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Take note of a call; what ``sys.setprofile`` calls."""
        if self.on and event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            self.calls.append(Call(frame.f_code.co_filename.removeprefix(SOURCE), frame.f_code.co_qualname))


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
        self._channel.basic_consume("trip", self._take, auto_ack=True)

    def _take(self, *details: object) -> None:
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


def drive(port: int, trace: Trace, found: list[list[Call]], *, durable: bool) -> None:
    """Send the messages, in a thread beside the broker."""
    client = Client(port, durable=durable)
    for _ in range(WARM_UP):
        client.send()
    for _ in range(TRACED):
        trace.calls = []
        trace.on = True
        client.send()
        trace.on = False
        found.append(trace.calls)
    client.close()


async def measure(trace: Trace, data_dir: str | None) -> list[Call]:
    """Trace a message, durable if there is a directory."""
    found: list[list[Call]] = []
    async with open_broker(data_dir=data_dir) as broker:
        listening = await broker.listen(AMQP(port=0))
        run: Callable[[], None] = lambda: drive(listening.port, trace, found, durable=data_dir is not None)  # noqa: E731
        await trio.to_thread.run_sync(run)
    return min(found, key=len)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--show", action="store_true", help="print every call, in order")
    options = parser.parse_args()
    trace = Trace()
    threading.setprofile(None)
    sys.setprofile(trace)
    print(f"{'message':34}{'calls':>8}{'functions':>11}{'files':>7}{'file changes':>14}{'package changes':>17}")
    with TemporaryDirectory() as directory:
        for title, data_dir in (("transient, no acks", None), ("persistent, confirmed, no acks", directory)):
            calls = trio.run(measure, trace, data_dir)
            files = [call.file for call in calls]
            moves = changes(files), changes([call.package for call in calls])
            print(f"{title:34}{len(calls):8}{len(set(calls)):11}{len(set(files)):7}{moves[0]:14}{moves[1]:17}")
            if options.show:
                print("\n".join(f"    {call.file:44} {call.function}" for call in calls))


if __name__ == "__main__":
    main()
