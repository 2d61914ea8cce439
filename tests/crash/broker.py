"""A broker for a test that kills it: ``python -m crash.broker DIRECTORY``; prints ``listening PORT`` when it does.

With ``--tap`` it listens for tap too, which it says first (``tap PORT``), and has a stream ``orders`` of three
partitions, one that drops what is old, ``bounded``, and a queue ``leased``. With ``--restms`` it listens for RestMS
(``restms PORT``). With ``--delayed QUEUE`` it publishes delayed messages to that queue itself, and prints
``confirmed NUMBER`` when it was told that one is kept.
``--confirm-early`` is a broker that lies: what is placed counts as on disk.
"""

import argparse
import logging
import os
import random
import signal
import sys
import time
from typing import TextIO

import trio

from triomq import AMQP, Broker, RestMS, Tap, open_broker
from triomq.core import Receipt
from triomq.endpoints import EndpointConfig

from .message import DELAYED, body_of

SEGMENT = 16 * 1024  # bytes; what is in a segment that is over is merged
BOUND = 96 * 1024

_AT_ONCE = 16  # delayed messages that are on their way


def confirm_early() -> None:
    """Let no receipt know of a batch that has to be on disk."""
    Receipt.number = property(lambda receipt: 0, lambda receipt, number: None)  # type: ignore[assignment, method-assign]


async def publish_delayed(broker: Broker, queue: str, numbers: range, waits: random.Random, output: TextIO) -> None:
    """Publish delayed messages of these numbers, for as long as nobody kills us."""
    for number in numbers:
        wait = waits.uniform(0.05, 0.5)
        body = body_of(DELAYED, number, due=time.time() + wait)
        await broker.publish("", queue, body, delay=wait)
        print(f"confirmed {number}", file=output)


def take_output() -> TextIO:
    """Have standard output to ourselves: the store's process would hold it open when we are gone."""
    ours = os.dup(1)
    os.dup2(2, 1)
    return open(ours, "w", buffering=1)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--queue-memory", type=int, default=8 << 20)
    parser.add_argument("--delayed", default="")
    parser.add_argument("--first", type=int, default=0, help="number of the first delayed message")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--confirm-early", action="store_true")
    parser.add_argument("--disk-reserve", type=int, default=0)
    parser.add_argument("--tap", action="store_true")
    parser.add_argument("--restms", action="store_true")
    given = parser.parse_args()
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    output = take_output()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s %(fields)s", defaults={"fields": ""}))
    logging.getLogger("triomq").addHandler(handler)
    if given.confirm_early:
        confirm_early()
    endpoints: list[EndpointConfig] = [AMQP(port=0)]
    if given.tap:
        endpoints.append(Tap(host="127.0.0.1", port=0))
    if given.restms:
        endpoints.append(RestMS(host="127.0.0.1", port=0))
    async with open_broker(
        *endpoints, data_dir=given.directory, queue_memory=given.queue_memory, disk_reserve=given.disk_reserve
    ) as broker:
        if given.tap:
            await broker.declare_stream("orders", partitions=3, segment_bytes=SEGMENT)
            await broker.declare_stream("bounded", max_bytes=BOUND)
            await broker.declare_queue("leased")
            print(f"tap {broker.listening[1].port}", file=output)
        if given.restms:
            print(f"restms {broker.listening[-1].port}", file=output)
        print(f"listening {broker.listening[0].port}", file=output)
        if given.delayed:
            await broker.declare_queue(given.delayed)
            await publish_until_told(broker, given, output)
        await trio.sleep_forever()


async def publish_until_told(broker: Broker, given: argparse.Namespace, output: TextIO) -> None:
    """Publish delayed messages, several at once, until SIGUSR1."""
    with trio.open_signal_receiver(signal.SIGUSR1) as signals:
        async with trio.open_nursery() as nursery:
            for part in range(_AT_ONCE):
                numbers = range(given.first + part, given.first + 1_000_000, _AT_ONCE)
                waits = random.Random(given.seed + part)
                nursery.start_soon(publish_delayed, broker, given.delayed, numbers, waits, output)
            await signals.__anext__()
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
