"""Those who publish until a broker is gone, and go on with the next one."""

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import trio
from pamqp import commands

from .harness import Harness
from .message import Message, body_of
from .oracle import Group, QueueOracle
from .wire import Answer, Gone, Wire, encode, publish

__all__ = ["Publisher", "Route", "TransactionPublisher", "tags_up_to"]


class Route(NamedTuple):
    """Where a message is published to, and where it must be in the end."""

    exchange: str
    key: str
    queues: Sequence[str]
    levels: int = 1
    expiration: int | None = None


class Publisher:
    """Publishes with confirms, so many ahead.

    Args:
        house: Where.
        number: Its own.
        routes: Where to, in no order.
        chance: Its own too.
        window: Messages that may be unconfirmed.
        transient: The part of messages that nobody asks to be kept.
        sizes: The least and the most octets of a message.
        most: How many messages it publishes at most.
    """

    def __init__(
        self,
        harness: Harness,
        number: int,
        routes: Sequence[Route],
        chance: random.Random,
        *,
        window: int = 400,
        transient: float = 0.0,
        sizes: tuple[int, int] = (0, 300),
        most: int = 1 << 40,
    ) -> None:
        self._harness = harness
        self._number = number
        self._routes = routes
        self._chance = chance
        self._window = window
        self._transient = transient
        self._sizes = sizes
        self._left = most
        self._next = 0
        self._unconfirmed: dict[int, tuple[Message, Route, bool]] = {}  # by tag, in order
        self._room = trio.Event()

    async def run(self) -> None:
        """Publish until it is time to stop, and everything is answered."""
        while not self._is_done:
            self._unconfirmed.clear()
            try:
                async with self._harness.wire() as wire:
                    await wire.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._send, wire)
                        await self._hear(wire)
                        nursery.cancel_scope.cancel()
            except* Gone:
                pass

    @property
    def _is_done(self) -> bool:
        return (self._harness.stopping or not self._left) and not self._unconfirmed

    async def _send(self, wire: Wire) -> None:
        tag = 0
        while not self._harness.stopping and self._left:
            while len(self._unconfirmed) >= self._window:
                self._room = trio.Event()
                await self._room.wait()
            octets = []
            for _ in range(min(self._left, self._chance.randint(1, 20))):
                tag += 1
                octets.append(self._make(tag))
                self._left -= 1
            self._harness.oracle.sent += len(octets)
            await wire.send(b"".join(octets))
            self._harness.count_events(len(octets))
        await wire.send(encode(commands.Basic.Qos()))  # its answer lets us see that all is over

    def _make(self, tag: int) -> bytes:
        route, chance = self._chance.choice(self._routes), self._chance
        level, persistent = chance.randrange(route.levels), chance.random() >= self._transient
        message = Message(self._number, self._next, level)
        self._next += 1
        self._unconfirmed[tag] = (message, route, persistent)
        body = body_of(*message[:2], level=level, size=chance.randint(*self._sizes))
        properties: dict[str, int | str] = {"priority": level} if route.levels > 1 else {}
        if route.expiration is not None:
            properties["expiration"] = str(route.expiration)
        return publish(route.exchange, route.key, body, persistent=persistent, **properties)

    async def _hear(self, wire: Wire) -> None:
        ended = False
        while not (ended and self._is_done):
            for event in await wire.events():
                if isinstance(event, Answer):
                    self._answered(event)
                else:
                    ended = True
            self._room.set()

    def _answered(self, answer: Answer) -> None:
        tags = tags_up_to(self._unconfirmed, answer.tag) if answer.multiple else [answer.tag]
        oracle = self._harness.oracle
        for tag in tags:
            message, route, persistent = self._unconfirmed.pop(tag)
            if answer.accepted:
                oracle.confirm(message, route.queues, persistent=persistent)
            else:
                oracle.refused += 1
        self._harness.count_events(len(tags))


def tags_up_to(tags: Iterable[int], last: int) -> list[int]:
    """Give the tags up to one; they stand in order."""
    found = []
    for tag in tags:
        if tag > last:
            break
        found.append(tag)
    return found


class TransactionPublisher:
    """Publishes a few messages to several queues in each transaction (AMQP 0-9-1 section 1.9)."""

    def __init__(self, harness: Harness, number: int, routes: Sequence[Route], chance: random.Random) -> None:
        self._harness = harness
        self._number = number
        self._routes = routes
        self._chance = chance
        self._next = 0

    async def run(self) -> None:
        """Publish until it is time to stop."""
        while not self._harness.stopping:
            try:
                async with self._harness.wire() as wire:
                    await wire.call(commands.Tx.Select(), commands.Tx.SelectOk)
                    while not self._harness.stopping:
                        await self._do_one(wire)
            except Gone:
                pass

    async def _do_one(self, wire: Wire) -> None:
        oracle, said = self._harness.oracle, []
        pairs: list[tuple[Message, QueueOracle]] = []
        for route in self._chance.choices(self._routes, k=self._chance.randint(2, 6)):
            message = Message(self._number, self._next)
            self._next += 1
            pairs += [(message, oracle.queues[name]) for name in route.queues]
            said.append(publish(route.exchange, route.key, body_of(*message[:2], size=50)))
        oracle.sent += len(said)
        group = Group(pairs)
        oracle.open_groups.append(group)
        await wire.call(b"".join(said) + encode(commands.Tx.Commit()), commands.Tx.CommitOk)
        oracle.open_groups.remove(group)
        for message, queue in pairs:
            oracle.confirm(message, [queue.name])
        self._harness.count_events(len(said))
