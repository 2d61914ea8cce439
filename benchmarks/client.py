"""Measure clients of AMQP 0-9-1: triomq's for Trio beside aio-pika and pika, against triomq and against RabbitMQ.

    python benchmarks/client.py --rounds 3 --seconds 2 --only publish-confirmed consume-ack

Each client does the same work in a process of its own, one after the other and round by round, so that other work on
the machine meets all of them. RabbitMQ is left out where it is not installed. A figure is the median of messages per
second of all rounds; the broker shares the processors with the client, so what a client spends shows in its own
processor time per message, beside the rate.
"""

import argparse
import asyncio
import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence

import aio_pika
import msgspec
import pika
import trio

from loadgen.brokers import Broker, open_rabbitmq, open_triomq, rabbitmq_script
from triomq.clients import open_amqp

BODY = b"x" * 100
WINDOW = 500
"""Publishes on their way at once, where a client lets one say so."""
PREFETCH = 300
CLIENTS = ("triomq", "aio-pika", "pika")
WORKS = ("publish", "publish-confirmed", "confirm-each", "consume-no-ack", "consume-ack", "round-trip")
ENOUGH = 60_000
"""Messages to consume in one round, at most."""


class Figure(msgspec.Struct, frozen=True):
    """What one client did in one round."""

    per_second: float
    cpu: float
    """Microseconds of its own processor time for each message."""


class Watch:
    """Counts messages until the time is up."""

    def __init__(self, seconds: float) -> None:
        """Start the clocks."""
        self.count = 0
        self._began, self._cpu = time.perf_counter(), time.process_time()
        self._until = self._began + seconds

    def tick(self, count: int = 1) -> bool:
        """Count, and tell whether to go on; the clock is looked at once in 64 times."""
        self.count += count
        return bool(self.count % 64) or time.perf_counter() < self._until

    def tick_slow(self) -> bool:
        """Count something slow."""
        self.count += 1
        return time.perf_counter() < self._until

    def figure(self) -> Figure:
        """Give the figure up to now."""
        elapsed, cpu = time.perf_counter() - self._began, time.process_time() - self._cpu
        return Figure(self.count / elapsed, cpu / self.count * 1e6)


# Ours


async def fill(url: str, queue: str, count: int) -> None:
    """Put messages into a queue, to be consumed."""
    async with open_amqp(url) as connection, connection.open_channel() as channel:
        await channel.declare_queue(queue, durable=False, auto_delete=True)
        async with channel.open_pipeline() as pipeline:
            for _ in range(count):
                await pipeline.publish("", queue, BODY, persistent=False)


async def triomq_publish(url: str, queue: str, seconds: float) -> Figure:
    """Publish and never hear of it again, but for one answer at the end."""
    async with open_amqp(url) as connection, connection.open_channel(confirms=False) as channel:
        watch = Watch(seconds)
        while watch.tick():
            await channel.publish("", "nobody", BODY, persistent=False)
        await channel.declare_queue(exclusive=True)
        return watch.figure()


async def triomq_publish_confirmed(url: str, queue: str, seconds: float) -> Figure:
    """Publish with many unconfirmed."""
    async with open_amqp(url) as connection, connection.open_channel() as channel:
        watch = Watch(seconds)
        async with channel.open_pipeline(limit=WINDOW) as pipeline:
            while watch.tick():
                await pipeline.publish("", "nobody", BODY, persistent=False)
        return watch.figure()


async def triomq_confirm_each(url: str, queue: str, seconds: float) -> Figure:
    """Publish one after the other."""
    async with open_amqp(url) as connection, connection.open_channel() as channel:
        watch = Watch(seconds)
        while watch.tick_slow():
            await channel.publish("", "nobody", BODY, persistent=False)
        return watch.figure()


async def _triomq_consume(url: str, queue: str, seconds: float, *, no_ack: bool) -> Figure:
    await fill(url, queue, ENOUGH)
    async with (
        open_amqp(url) as connection,
        connection.open_channel() as channel,
        channel.consume(queue, prefetch=PREFETCH, no_ack=no_ack) as deliveries,
    ):
        watch = Watch(seconds)
        async for delivery in deliveries:
            with delivery:
                pass
            if not watch.tick() or watch.count == ENOUGH:
                return watch.figure()
    raise AssertionError


async def triomq_consume_no_ack(url: str, queue: str, seconds: float) -> Figure:
    """Consume what is settled by being sent."""
    return await _triomq_consume(url, queue, seconds, no_ack=True)


async def triomq_consume_ack(url: str, queue: str, seconds: float) -> Figure:
    """Consume and settle each."""
    return await _triomq_consume(url, queue, seconds, no_ack=False)


async def triomq_round_trip(url: str, queue: str, seconds: float) -> Figure:
    """Publish to oneself and wait for it: half of a remote call."""
    async with open_amqp(url) as connection, connection.open_channel(confirms=False) as channel:
        own = (await channel.declare_queue(exclusive=True)).name
        async with channel.consume(own, no_ack=True) as deliveries:
            watch = Watch(seconds)
            while watch.tick_slow():
                await channel.publish("", own, BODY, persistent=False)
                await anext(deliveries)
            return watch.figure()


# aio-pika


async def aio_pika_publish(url: str, queue: str, seconds: float) -> Figure:
    """Publish without confirms."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel(publisher_confirms=False)
        watch = Watch(seconds)
        while watch.tick():
            await channel.default_exchange.publish(aio_pika.Message(BODY), "nobody", mandatory=False)
        await channel.declare_queue(exclusive=True)
        return watch.figure()


async def aio_pika_publish_confirmed(url: str, queue: str, seconds: float) -> Figure:
    """Publish with many unconfirmed: a task for each, as its users do."""
    async with await aio_pika.connect(url) as connection:
        exchange = (await connection.channel(publisher_confirms=True)).default_exchange
        watch = Watch(seconds)
        going = True
        while going:
            async with asyncio.TaskGroup() as group:
                for _ in range(WINDOW):
                    group.create_task(exchange.publish(aio_pika.Message(BODY), "nobody", mandatory=False))
                    going = watch.tick() and going
        return watch.figure()


async def aio_pika_confirm_each(url: str, queue: str, seconds: float) -> Figure:
    """Publish one after the other."""
    async with await aio_pika.connect(url) as connection:
        exchange = (await connection.channel(publisher_confirms=True)).default_exchange
        watch = Watch(seconds)
        while watch.tick_slow():
            await exchange.publish(aio_pika.Message(BODY), "nobody", mandatory=False)
        return watch.figure()


async def _aio_pika_consume(url: str, queue: str, seconds: float, *, no_ack: bool) -> Figure:
    await asyncio.to_thread(trio.run, fill, url, queue, ENOUGH)
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.set_qos(PREFETCH)
        consumed = await channel.declare_queue(queue, passive=True)
        async with consumed.iterator(no_ack=no_ack) as messages:
            watch = Watch(seconds)
            async for message in messages:
                if not no_ack:
                    await message.ack()
                if not watch.tick() or watch.count == ENOUGH:
                    return watch.figure()
    raise AssertionError


async def aio_pika_consume_no_ack(url: str, queue: str, seconds: float) -> Figure:
    """Consume what is settled by being sent."""
    return await _aio_pika_consume(url, queue, seconds, no_ack=True)


async def aio_pika_consume_ack(url: str, queue: str, seconds: float) -> Figure:
    """Consume and settle each."""
    return await _aio_pika_consume(url, queue, seconds, no_ack=False)


async def aio_pika_round_trip(url: str, queue: str, seconds: float) -> Figure:
    """Publish to oneself and wait for it."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel(publisher_confirms=False)
        own = await channel.declare_queue(exclusive=True)
        async with own.iterator(no_ack=True) as messages:
            watch = Watch(seconds)
            while watch.tick_slow():
                await channel.default_exchange.publish(aio_pika.Message(BODY), own.name, mandatory=False)
                await anext(messages)
            return watch.figure()


# pika, with its blocking adapter


def pika_publish(url: str, queue: str, seconds: float) -> Figure:
    """Publish without confirms."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        watch = Watch(seconds)
        while watch.tick():
            channel.basic_publish("", "nobody", BODY)
        channel.queue_declare("", exclusive=True)
        return watch.figure()


def pika_confirm_each(url: str, queue: str, seconds: float) -> Figure:
    """Publish one after the other; the blocking adapter has no other way to have confirms."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        watch = Watch(seconds)
        while watch.tick_slow():
            channel.basic_publish("", "nobody", BODY)
        return watch.figure()


def _pika_consume(url: str, queue: str, seconds: float, *, no_ack: bool) -> Figure:
    trio.run(fill, url, queue, ENOUGH)
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=PREFETCH)
        watch = Watch(seconds)
        for method, _, _ in channel.consume(queue, auto_ack=no_ack):
            if not no_ack:
                channel.basic_ack(method.delivery_tag)
            if not watch.tick() or watch.count == ENOUGH:
                return watch.figure()
    raise AssertionError


def pika_consume_no_ack(url: str, queue: str, seconds: float) -> Figure:
    """Consume what is settled by being sent."""
    return _pika_consume(url, queue, seconds, no_ack=True)


def pika_consume_ack(url: str, queue: str, seconds: float) -> Figure:
    """Consume and settle each."""
    return _pika_consume(url, queue, seconds, no_ack=False)


def pika_round_trip(url: str, queue: str, seconds: float) -> Figure:
    """Publish to oneself and wait for it."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        own = channel.queue_declare("", exclusive=True).method.queue
        messages = channel.consume(own, auto_ack=True)
        watch = Watch(seconds)
        while watch.tick_slow():
            channel.basic_publish("", own, BODY)
            next(messages)
        return watch.figure()


Work = Callable[[str, str, float], Awaitable[Figure] | Figure]


def find_work(client: str, name: str) -> Work | None:
    """Give the function that does a work with a client; None where the client cannot."""
    return globals().get(f"{client}_{name}".replace("-", "_"))


def run_here(client: str, name: str, url: str, seconds: float) -> Figure:
    """Do a work in this process."""
    work = find_work(client, name)
    assert work is not None
    queue = f"bench.{client}.{name}.{time.time_ns()}"
    if client == "triomq":
        return trio.run(work, url, queue, seconds)  # type: ignore[arg-type]  # the functions of that client are async
    if client == "aio-pika":
        return asyncio.run(work(url, queue, seconds))  # type: ignore[arg-type]  # the coroutines of that client
    figure = work(url, queue, seconds)
    assert isinstance(figure, Figure)
    return figure


def run_apart(client: str, name: str, url: str, seconds: float) -> Figure:
    """Do a work in a process of its own."""
    command = [sys.executable, __file__, "--work", client, name, url, str(seconds)]
    done = subprocess.run(command, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=Figure)


def measure(broker: Broker, works: Sequence[str], rounds: int, seconds: float) -> None:
    """Measure all clients against one broker, and print what they did."""
    url = f"amqp://guest:guest@{broker.address.host}:{broker.address.port}/"
    print(f"\nagainst {broker.name}: messages/s (µs of the client's own time per message)")
    print(f"  {'':18}" + "".join(f"{client:>22}" for client in CLIENTS) + "   ours to theirs")
    for name in works:
        clients = [client for client in CLIENTS if find_work(client, name) is not None]
        figures: dict[str, list[Figure]] = {client: [] for client in clients}
        for _ in range(rounds):
            for client in clients:
                figures[client].append(run_apart(client, name, url, seconds))
        rates = {client: statistics.median(one.per_second for one in figures[client]) for client in clients}
        cpu = {client: statistics.median(one.cpu for one in figures[client]) for client in clients}
        cells = [f"{rates[one]:,.0f} ({cpu[one]:.1f})" if one in rates else "–" for one in CLIENTS]
        ratios = "  ".join(f"{rates['triomq'] / rates[one]:.1f}×" if one in rates else "–" for one in CLIENTS[1:])
        print(f"  {name:18}" + "".join(f"{cell:>22}" for cell in cells) + f"   {ratios}", flush=True)


@contextlib.contextmanager
def brokers(*, rabbitmq: bool) -> Iterator[list[Broker]]:
    """Run the brokers that there are."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(open_triomq())]
        if rabbitmq and rabbitmq_script() is not None:
            found.append(stack.enter_context(open_rabbitmq()))
        yield found


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=WORKS, default=list(WORKS), help="these works and no others")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="the length of one round of one client")
    parser.add_argument("--no-rabbitmq", action="store_true", help="leave RabbitMQ out though it is installed")
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)  # in the process of its own
    options = parser.parse_args()
    if options.work:
        client, name, url, seconds = options.work
        sys.stdout.buffer.write(msgspec.json.encode(run_here(client, name, url, float(seconds))))
        return
    with brokers(rabbitmq=not options.no_rabbitmq) as found:
        for broker in found:
            measure(broker, options.only, options.rounds, options.seconds)


if __name__ == "__main__":
    main()
