"""Attacks by MicroMsg2: filters, properties, and many subscriptions."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import trio

from stallsides.attacked import Attacked, rest
from stallsides.http import DOMAIN, Browser
from triomq.clients import open_micromsg
from triomq.clients.micromsg.connection import MicroMsgConnection
from triomq.errors import TriomqError
from triomq.protocols.micromsg import PropertyValue


@asynccontextmanager
async def client(broker: Attacked) -> AsyncIterator[MicroMsgConnection]:
    """Open a connection as eve."""
    async with open_micromsg(f"micromsg://eve:eve@127.0.0.1:{broker.ports['MicroMsg']}/") as connection:
        yield connection


class Subscribers:
    """Connections with subscriptions of one topic, held in a thread of Trio's own while the attack goes on."""

    def __init__(self, broker: Attacked, topic: str, filters: list[str]) -> None:
        """Keep what is needed."""
        self._broker = broker
        self._topic = topic
        self._filters = filters
        self.taken = 0

    async def publish(self, properties: Mapping[str, PropertyValue], count: int) -> None:
        """Subscribe with each filter on a connection of its own, and publish."""
        async with AsyncExitStack() as stack:
            for text in self._filters:
                try:
                    connection = await stack.enter_async_context(client(self._broker))
                    await stack.enter_async_context(connection.subscribe(f"topic/{self._topic}", filter=text))
                except TriomqError:
                    break
                self.taken += 1
            self._broker.ask("reset")
            async with client(self._broker) as publisher:
                with trio.move_on_after(60):
                    for _ in range(count):
                        await publisher.publish(f"topic/{self._topic}", b"x", properties)


def texts(number: int) -> str:
    """Give a filter that looks for fifteen texts."""
    conditions = [f"c~T{'a' * (95 - n)}ba" for n in range(15)]
    return ";".join([*conditions, f"d!=N{number}"])


def filters(broker: Attacked, size: float) -> Iterator[str]:
    """Subscribe with 300 filters of each kind, and publish a property that is dear to them."""
    kinds: dict[str, tuple[Callable[[int], str], dict[str, PropertyValue]]] = {
        "texts": (texts, {"c": "a" * 29_900}),
        "short texts": (lambda n: f"c~T{'a' * 14}b;d!=N{n}", {"c": "a" * 60_000}),
        "numbers": (lambda n: ";".join(f"c!=N{n}{m}" for m in range(16)), {"c": 5}),
        "times": (lambda n: f"c>Z2026-01-01T00:00:{n % 60:02}Z", {"c": "x"}),
    }
    for what, (make, properties) in kinds.items():
        Browser(broker).make(DOMAIN, feed=[{"name": what.replace(" ", ""), "type": "fanout"}])
        subscribers = Subscribers(broker, what.replace(" ", ""), [make(n) for n in range(int(300 * size) + 1)])
        yield f"subscribe, publish: {what}"
        trio.run(subscribers.publish, properties, 5)
        yield f"{subscribers.taken} subscribed; the end"
        rest()


def properties(broker: Attacked, size: float) -> Iterator[str]:
    """Publish 2,000 messages with 60 KB of properties, past one filter."""
    many: dict[str, PropertyValue] = {f"p{n}": n for n in range(4_000)}
    one: dict[str, PropertyValue] = {"c": "a" * 60_000}
    for what, found in (("many", many), ("one", one)):
        Browser(broker).make(DOMAIN, feed=[{"name": what, "type": "fanout"}])
        subscribers = Subscribers(broker, what, ["c~Tab"])
        yield f"{what}"
        trio.run(subscribers.publish, found, int(300 * size) + 1)


async def subscribe_many(broker: Attacked, count: int) -> None:
    """Subscribe to many topics on one connection, and go."""
    async with client(broker) as connection, AsyncExitStack() as stack:
        for number in range(count):
            await stack.enter_async_context(connection.subscribe(f"topic/t{number}"))
        broker.ask("reset")
        stack.pop_all()


def subscriptions(broker: Attacked, size: float) -> Iterator[str]:
    """Subscribe to 5,000 topics on one connection, and go."""
    yield "subscribe, and the end"
    trio.run(subscribe_many, broker, int(90 * size))
    rest(2)


ATTACKS = (filters, properties, subscriptions)
