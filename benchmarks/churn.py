"""Show that a broker does not grow with what comes and goes: connections, channels, queues, and full queues.

    python benchmarks/churn.py     # 100,000 connections, 1,000,000 queues and more: some minutes
    python benchmarks/churn.py --only connections --connections 5000

For each kind a fresh `triomq serve` is warmed up with a tenth of all; then its resident set is read after each further
tenth. It ends with 1 if one of them is more than a tenth larger than after the warming.
"""

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence

import msgspec

from loadgen import frames, processes
from loadgen.brokers import Broker, open_triomq
from loadgen.connection import CHANNEL, Address, Connection

ALLOWED = 1.1
"""How large the resident set may become, as a part of what it was after the warming: the C library's heap moves by a
few percent whatever one does."""

STEPS = 10

AT_ONCE = 1_000
"""Queues that are there at the same time: each is declared before the first of them is deleted."""

FILLED = 10_000
"""Messages of a full queue."""


class Kind(msgspec.Struct, frozen=True):
    """One kind of thing: its name, and what lets so many of it come and go."""

    name: str
    churn: Callable[[Address, int], None]


def churn_connections(address: Address, count: int) -> None:
    """Open connections with a channel each and close them, one after the other."""
    for _ in range(count):
        Connection(address).close()


def churn_lost(address: Address, count: int) -> None:
    """Open connections with a channel, a queue and a message each, and go without a word."""
    for number in range(count):
        connection = Connection(address)
        queue = f"lost.{number}"
        connection.call(frames.queue_declare(CHANNEL, queue, exclusive=True), frames.QUEUE_DECLARE_OK)
        connection.socket.sendall(frames.publish(CHANNEL, "", queue, b"x" * 1000, frame_max=connection.frame_max))
        connection.socket.close()


def churn_channels(address: Address, count: int) -> None:
    """Open and close channels of one connection."""
    control = Connection(address)
    for _ in range(count):
        control.call(frames.channel_open(2), frames.CHANNEL_OPEN_OK)
        control.call(frames.channel_close(2), frames.CHANNEL_CLOSE_OK)
    control.close()


def churn_queues(address: Address, count: int) -> None:
    """Declare queues and delete them, a thousand at a time."""
    control, stem = Connection(address), os.urandom(4).hex()
    for start in range(0, count, AT_ONCE):
        names = [f"churn.{stem}.{number}" for number in range(start, min(start + AT_ONCE, count))]
        control.socket.sendall(b"".join(frames.queue_declare(CHANNEL, name) for name in names))
        for _ in names:
            control.wait_for(frames.QUEUE_DECLARE_OK)
        control.socket.sendall(b"".join(frames.queue_delete(CHANNEL, name) for name in names))
        for _ in names:
            control.wait_for(frames.QUEUE_DELETE_OK)
    control.close()


def churn_filled(address: Address, count: int) -> None:
    """Fill queues with 10,000 messages of 100 octets each, and delete them."""
    control = Connection(address)
    for number in range(count):
        queue = f"filled.{number}"
        control.call(frames.queue_declare(CHANNEL, queue), frames.QUEUE_DECLARE_OK)
        publish = frames.publish(CHANNEL, "", queue, b"x" * 100, frame_max=control.frame_max)
        control.socket.sendall(publish * FILLED)
        while control.count_messages(queue) < FILLED:
            time.sleep(0.01)
        control.call(frames.queue_delete(CHANNEL, queue), frames.QUEUE_DELETE_OK)
    control.close()


KINDS = {
    "connections": Kind("connections that close", churn_connections),
    "lost": Kind("connections that are lost with a queue and a message", churn_lost),
    "channels": Kind("channels", churn_channels),
    "queues": Kind("queues", churn_queues),
    "filled": Kind("queues with 10,000 messages", churn_filled),
}


class Options(msgspec.Struct, frozen=True):
    """The command line, typed."""

    only: list[str]
    connections: int
    lost: int
    channels: int
    queues: int
    filled: int


def parse_options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="KIND", choices=KINDS, default=list(KINDS), help=", ".join(KINDS))
    for name, count in (
        ("connections", 100_000),
        ("lost", 20_000),
        ("channels", 200_000),
        ("queues", 1_000_000),
        ("filled", 500),
    ):
        parser.add_argument(f"--{name}", type=int, default=count, metavar="COUNT", help=f"how many ({count:,})")
    return msgspec.convert(vars(parser.parse_args(arguments)), Options)


def resident(broker: Broker) -> float:
    """Read a broker's resident set, in MB."""
    return processes.resident_octets(broker.processes()) / 1e6


def measure(kind: Kind, count: int) -> bool:
    """Let so many come and go; print how the resident set moves, and tell whether it stays."""
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(open_triomq())
        part = max(1, count // STEPS)
        began = time.monotonic()
        kind.churn(broker.address, part)
        sizes = [resident(broker)]
        for _ in range(STEPS - 1):
            kind.churn(broker.address, part)
            sizes.append(resident(broker))
        seconds = time.monotonic() - began
    stays = max(sizes) <= sizes[0] * ALLOWED
    print(f"{part * STEPS:,} {kind.name} in {seconds:.0f} s: {', '.join(f'{size:.1f}' for size in sizes)} MB", end="; ")
    print(f"{(max(sizes) / sizes[0] - 1) * 100:+.1f} % at most after the first tenth{'' if stays else ': TOO MUCH'}")
    sys.stdout.flush()
    return stays


def main() -> int:
    """Measure, print, and tell whether all stayed as they were."""
    options = parse_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # unwinds, so that no broker stays behind
    stayed = [measure(kind, getattr(options, name)) for name, kind in KINDS.items() if name in options.only]
    return 0 if all(stayed) else 1


if __name__ == "__main__":
    sys.exit(main())
