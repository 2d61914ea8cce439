"""Measure how fast a broker tells a peer of its resources: one by one as they come, and all at once after a reconnect.

    python benchmarks/synchronise.py --resources 30000 --rounds 3

Two brokers in two processes: this one declares feeds, pipes and joins (one feed for ten pipes, each of them joined),
the other is a peer that begins without anything. The clock runs until the peer has worked off all of it. *live* begins
with the first declare, so the declares themselves are in it; *replay* begins when everything is here and the peer not
connected yet; *again* is a replay to a peer that has it all already. A figure is the median of resources per second
of all rounds; both brokers share the processors with each other.
"""

import argparse
import statistics
import time
from collections.abc import Iterator

import trio

from loadgen.brokers import open_triomq
from loadgen.connection import Address
from triomq import Broker, Peer, Synchronise, open_broker
from triomq.core import Bind, DeclareQueue, DeclareSink, QueueOptions, SinkKind, SinkOptions, Target, make_binding

PIPES_OF_A_FEED = 10
TURN = 100
"""Declares between two checkpoints, about as many as a client's chunk brings."""
CASES = ("live", "replay", "again")


def requests(broker: Broker, count: int) -> Iterator[DeclareSink | DeclareQueue | Bind]:
    """Make the requests that declare so many resources."""
    session, made, number = broker.session, 0, 0
    while made < count:
        feed = f"feed{number}"
        yield DeclareSink(feed, SinkOptions(kind=SinkKind.TOPIC), session)
        for pipe in (f"pipe{number}.{place}" for place in range(PIPES_OF_A_FEED)):
            yield DeclareQueue(pipe, QueueOptions(), session)
            yield Bind(make_binding(feed, Target.QUEUE, pipe, "some.*.key"), session)
        made += 1 + 2 * PIPES_OF_A_FEED
        number += 1


async def declare(broker: Broker, count: int) -> int:
    """Declare resources as they would come from clients, and tell how many."""
    made = 0
    for request in requests(broker, count):
        broker.domain_ref.ask_nowait(request)
        made += 1
        if not made % TURN:
            await trio.lowlevel.checkpoint()
    return made


def told_where(address: Address) -> Synchronise:
    """Say where the peer is."""
    url = f"amqp://{address.user}:{address.password}@{address.host}:{address.port}"
    return Synchronise(url, origin="benchmark")


async def told(peer: Peer) -> float:
    """Wait until a peer has heard of everything, and give the time."""
    await peer.wait_announced()
    return time.perf_counter()


async def measure(count: int) -> dict[str, float]:
    """Measure each case once."""
    figures: dict[str, float] = {}
    async with open_broker() as broker:
        with open_triomq() as there:
            config = told_where(there.address)
            peer = await broker.synchronise(config)
            await peer.wait_announced()
            began = time.perf_counter()
            made = await declare(broker, count)
            figures["live"] = made / (await told(peer) - began)
            await peer.aclose()
            began = time.perf_counter()
            peer = await broker.synchronise(config)
            figures["again"] = made / (await told(peer) - began)
            await peer.aclose()
        with open_triomq() as there:
            config = told_where(there.address)
            began = time.perf_counter()
            peer = await broker.synchronise(config)
            figures["replay"] = made / (await told(peer) - began)
            assert peer.statistics().sent == made
            await peer.aclose()
    return figures


def main() -> None:
    """Measure, and print a line for each case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--resources", type=int, default=30_000, help="about so many feeds, pipes and joins")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rounds = [trio.run(measure, options.resources) for _ in range(options.rounds)]
    for case in CASES:
        rates = [figures[case] for figures in rounds]
        print(f"{case:8} {statistics.median(rates):>10,.0f} resources/s  ({min(rates):,.0f} to {max(rates):,.0f})")


if __name__ == "__main__":
    main()
