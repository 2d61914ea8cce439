"""Clients of every habit; each goes on until it is told to stop, and then tidies up after itself."""

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import AsyncIterator

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from pamqp import commands

from peers.raw import RawPeer

from .oracle import Delays, FlowOracle, Observations

PREFETCH = 50


@contextlib.asynccontextmanager
async def open_channel(url: str, *, confirms: bool = True) -> AsyncIterator[AbstractChannel]:
    async with await aio_pika.connect(url) as connection:
        yield await connection.channel(publisher_confirms=confirms)


def message(number: int, **properties: object) -> aio_pika.Message:
    """A message that says when it was sent; it is as long as its number makes it."""
    body = b"%d %d " % (number, time.monotonic_ns()) + b"x" * (number * 37 % 2000)
    return aio_pika.Message(body, **properties)  # type: ignore[arg-type]


def number_of(delivery: AbstractIncomingMessage) -> int:
    return int(delivery.body.split(b" ", 2)[0])


async def keep(delivery: AbstractIncomingMessage) -> None:
    """Take a delivery and do nothing about it."""


class Crowd:
    """All clients of one soak.

    Args:
        url: the broker.
        stop: set when they shall end; whatever publishes ends first.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.stop = asyncio.Event()
        self.work, self.letters = FlowOracle("work"), FlowOracle("dead letters")
        self.delays, self.observations = Delays(), Observations()
        self._numbers = 0

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    async def rest(self, seconds: float) -> None:
        """Wait, or until it is over."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), seconds)

    async def declare(self) -> None:
        """Make what lasts through the soak."""
        async with open_channel(self.url) as channel:
            for name, arguments in LASTING.items():
                await channel.declare_queue(name, durable=True, arguments=arguments)

    # Those that must lose nothing

    async def publish(self, queue: str, oracle: FlowOracle, pause: float) -> None:
        """Publish batches, each message with a confirm."""
        oracle.publishers += 1
        async with open_channel(self.url) as channel:
            while not self.stop.is_set():
                await asyncio.gather(*(self._publish_one(channel, queue, oracle) for _ in range(10)))
                await self.rest(pause)
        oracle.publishers -= 1

    async def _publish_one(self, channel: AbstractChannel, queue: str, oracle: FlowOracle) -> None:
        number = self.next_number()
        await channel.default_exchange.publish(message(number), queue)
        oracle.confirmed.add(number)

    async def consume(self, queue: str, oracle: FlowOracle, *, every_tenth_back: bool = False) -> None:
        """Take and ack, until everything that was confirmed is there."""
        async with open_channel(self.url) as channel:
            await channel.set_qos(PREFETCH)
            source = await channel.get_queue(queue, ensure=False)

            async def take(delivery: AbstractIncomingMessage) -> None:
                number = number_of(delivery)
                if every_tenth_back and number % 10 == 0 and not delivery.redelivered:
                    await delivery.reject(requeue=True)
                    return
                oracle.take(number, redelivered=bool(delivery.redelivered))
                if not delivery.redelivered:
                    self.delays.add((time.monotonic_ns() - int(delivery.body.split(b" ", 2)[1])) / 1e9)
                await delivery.ack()

            await source.consume(take)
            await self.stop.wait()
            while not oracle.is_complete:  # noqa: ASYNC110  # another consumer's delivery may be the last
                await asyncio.sleep(0.05)

    def abandon(self, queue: str, ended: threading.Event) -> None:
        """In a thread: take some, settle none of it, and break the connection off: another consumer gets them."""
        while not ended.is_set():
            with RawPeer(self.url) as peer:
                peer.open_channel(1)
                peer.call(1, commands.Basic.Qos(prefetch_count=5), commands.Basic.QosOk)
                peer.call(1, commands.Basic.Consume(queue=queue), commands.Basic.ConsumeOk)
                ended.wait(2)
            self.observations.counts["connections broken off with deliveries out"] += 1

    # Those that come and go

    async def come_and_go(self) -> None:
        """Open, use a queue of one's own, and leave."""
        while not self.stop.is_set():
            connection = await aio_pika.connect(self.url)
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            topic = await channel.get_exchange("amq.topic", ensure=False)
            await queue.bind(topic, f"soak.{queue.name}.#")
            for number in range(20):
                await topic.publish(message(number), f"soak.{queue.name}.x")
            for _ in range(random.randrange(20)):
                await queue.get(no_ack=True, fail=False)
            if random.random() < 0.5:
                await queue.delete(if_unused=False, if_empty=False)
            self.observations.counts["connections that came and went"] += 1
            await connection.close()
            await self.rest(0.2)

    async def churn_queues(self) -> None:
        """Declare, fill and delete queues of all kinds on one connection; refuse something now and then."""
        kinds: list[dict[str, object]] = [
            {},
            {"x-max-priority": 5},
            {"x-message-ttl": 50},
            {"x-max-length": 3, "x-overflow": "reject-publish"},
            {"x-expires": 1000},
            {"x-single-active-consumer": True},
        ]
        async with open_channel(self.url, confirms=False) as channel:
            number = 0
            while not self.stop.is_set():
                number += 1
                name = f"soak.churn.{number}"
                await channel.declare_queue(name, arguments=kinds[number % len(kinds)])
                for count in range(10):
                    await channel.default_exchange.publish(message(count, priority=count), name)
                if "x-expires" not in kinds[number % len(kinds)]:
                    await channel.queue_delete(name)
                self.observations.counts["queues declared and deleted"] += 1
                await self.rest(0.05)

    # Those that lag behind

    async def publish_blindly(self, queue: str, pause: float, size: int = 1000) -> None:
        """Publish without confirms into a queue that has its own bound."""
        async with open_channel(self.url, confirms=False) as channel:
            while not self.stop.is_set():
                for _ in range(10):
                    await channel.default_exchange.publish(aio_pika.Message(b"x" * size), queue)
                await self.rest(pause)

    async def consume_slowly(self, queue: str) -> None:
        """Ack twenty a second, of many more."""
        async with open_channel(self.url) as channel:
            await channel.set_qos(10)
            source = await channel.get_queue(queue, ensure=False)

            async def take(delivery: AbstractIncomingMessage) -> None:
                await self.rest(0.05)
                await delivery.ack()
                self.observations.counts["slowly consumed"] += 1

            await source.consume(take)
            await self.stop.wait()

    async def never_ack(self, queue: str) -> None:
        """Take what is given and settle none of it, for as long as it lasts."""
        async with open_channel(self.url) as channel:
            await channel.set_qos(100)
            source = await channel.get_queue(queue, ensure=False)
            await source.consume(keep)
            await self.stop.wait()

    def stall(self, queue: str, ended: threading.Event) -> None:
        """In a thread: consume without acks and read nothing for half a minute; come back when given up."""
        while not ended.is_set():
            with RawPeer(self.url) as peer:
                peer.open_channel(1)
                peer.call(1, commands.Basic.Consume(queue=queue, no_ack=True), commands.Basic.ConsumeOk)
                ended.wait(30)
                peer.socket.settimeout(0.5)
                with contextlib.suppress(TimeoutError, OSError):
                    while peer.socket.recv(1 << 20):
                        pass
                self.observations.counts["stalls of half a minute"] += 1


LASTING: dict[str, dict[str, object]] = {
    "soak.work": {},
    "soak.expiring": {
        "x-message-ttl": 300,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "soak.dead",
    },
    "soak.dead": {},
    "soak.slow": {"x-max-length": 1000},
    "soak.stalled": {"x-max-length-bytes": 2_000_000},
    "soak.unacked": {"x-max-length": 1000, "x-overflow": "reject-publish"},
}
"""The queues that are there from the beginning to the end, and their arguments."""
