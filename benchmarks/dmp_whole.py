"""Whether all that goes into a direct sink at full rate comes out of its feed, run after run.

``python benchmarks/dmp_whole.py [--messages 1000000] [--size 100] [--runs 20] [--feeds 1] [--plain] [--data]``. Broker,
publisher and each consumer are processes of their own over TCP on loopback; both ends are the project's own client, and
nothing but the broker holds the publisher back. With ``--plain`` the publisher is a socket that sends what was encoded
before, some ten times faster than any consumer reads. Each line says how many messages each feed got and how long all
of them took; the exit code is 1 if a message was lost.
"""

import argparse
import contextlib
import multiprocessing
import os
import socket
import sys
import time
from multiprocessing.synchronize import Barrier

import trio

from loadgen import direct, frames
from loadgen.brokers import Broker, open_kept_triomq, open_triomq
from loadgen.connection import CHANNEL, Address, Connection
from loadgen.work import BATCH_OCTETS
from triomq.clients import open_amqp, open_dmp_feed, open_dmp_sink

SILENCE = 20.0
"""Seconds without a message after which a consumer takes the rest for lost; a held publisher goes on within 5."""

FORK = multiprocessing.get_context("fork")


async def _publish(url: str, exchange: str, messages: int, body: bytes) -> None:
    async with (
        open_amqp(url) as connection,
        connection.open_channel() as channel,
        open_dmp_sink(channel, exchange) as sink,
    ):
        for _ in range(messages):
            await sink.publish("", body)


def _publish_plainly(address: Address, exchange: str, messages: int, body: bytes) -> None:
    """Send messages as fast as the broker reads them."""
    principal = Connection(address)
    sink = direct.fork(address, principal.call(frames.direct_put(CHANNEL, exchange), direct.PUT_OK))
    message = frames.direct_message(exchange, "", b"\0\0", body)
    together = max(1, BATCH_OCTETS // len(message))
    for _ in range(messages // together):
        sink.sendall(message * together)
    sink.sendall(message * (messages % together))
    sink.shutdown(socket.SHUT_WR)
    sink.recv(1)  # the broker has read everything
    principal.close()


async def _consume(url: str, exchange: str, messages: int, ready: Barrier) -> int:
    count = 0
    async with open_amqp(url) as connection, connection.open_channel() as channel:
        queue = await channel.declare_queue("", exclusive=True)
        await channel.bind(queue, exchange)
        async with open_dmp_feed(channel, queue) as feed:
            ready.wait()
            with trio.CancelScope(deadline=trio.current_time() + SILENCE) as scope:
                async for _ in feed:
                    count += 1
                    if count == messages:
                        break
                    if not count % 1000:
                        scope.deadline = trio.current_time() + SILENCE
    return count


def _run_consumer(url: str, exchange: str, messages: int, ready: Barrier, found: "multiprocessing.Queue[int]") -> None:
    found.put(trio.run(_consume, url, exchange, messages, ready))


async def _declare(url: str, exchange: str) -> None:
    async with open_amqp(url) as connection, connection.open_channel() as channel:
        await channel.declare_exchange(exchange, "fanout", durable=False, auto_delete=True)


def run(broker: Broker, messages: int, size: int, feeds: int, *, plain: bool) -> tuple[list[int], float]:
    """Send so many messages to so many feeds; give how many each got, and the seconds until the last one had them."""
    url = f"amqp://guest:guest@{broker.address.host}:{broker.address.port}"
    exchange, ready, found = f"whole.{os.urandom(4).hex()}", FORK.Barrier(feeds + 1), FORK.Queue()
    trio.run(_declare, url, exchange)
    consumers = [FORK.Process(target=_run_consumer, args=(url, exchange, messages, ready, found)) for _ in range(feeds)]
    for consumer in consumers:
        consumer.start()
    ready.wait()
    begin = time.monotonic()
    body = b"x" * size
    if plain:
        publisher = FORK.Process(target=_publish_plainly, args=(broker.address, exchange, messages, body))
    else:
        publisher = FORK.Process(target=trio.run, args=(_publish, url, exchange, messages, body))
    publisher.start()
    counts = [found.get() for _ in consumers]
    seconds = time.monotonic() - begin
    for process in (publisher, *consumers):
        process.join()
    return counts, seconds


def main() -> int:
    """Print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100, help="octets of a body")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--feeds", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="publish what was encoded before")
    parser.add_argument("--data", action="store_true", help="give the broker a data directory")
    options = parser.parse_args()
    whole = 0
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(open_kept_triomq() if options.data else open_triomq())
        for number in range(options.runs):
            counts, seconds = run(broker, options.messages, options.size, options.feeds, plain=options.plain)
            whole += all(count == options.messages for count in counts)
            lost = max(options.messages - count for count in counts)
            print(
                f"run {number + 1:3}: {', '.join(f'{count:,}' for count in counts)} of {options.messages:,} "
                f"in {seconds:.1f} s, {lost:,} lost",
                flush=True,
            )
    print(f"{whole} of {options.runs} runs whole")
    return 0 if whole == options.runs else 1


if __name__ == "__main__":
    sys.exit(main())
