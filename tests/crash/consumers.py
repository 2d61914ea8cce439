"""Those who consume until a broker is gone, and go on with the next one."""

import random
from collections.abc import Sequence

import trio
from pamqp import commands

from .harness import Harness
from .message import Message, body_of, read_body
from .oracle import Fence, QueueOracle, Session
from .publishers import tags_up_to
from .wire import Answer, Delivery, Event, Gone, Wire, ack, encode, publish, reject

__all__ = ["AutomaticConsumer", "Consumer", "Mover"]

PREFETCH = 200
FENCES = "fences"
"""The queue of fences, which nobody reads: what is confirmed there is on disk."""
FENCE = 150
"""Deliveries from one fence to the next."""


class Consumer:
    """Takes and settles, in no order; lays a fence now and then (see ``oracle``).

    Args:
        house: Where.
        number: Its own, as a publisher of fences.
        queue: The oracle of its queue.
        chance: Its own too.
        most: Deliveries of one life from which on it settles nothing, until all is to be taken out; so the queue grows.
        rejects: It settles by rejecting for good.
        returns: It gives some back first, now and then.
    """

    def __init__(
        self,
        harness: Harness,
        number: int,
        queue: QueueOracle,
        chance: random.Random,
        *,
        most: int = 1 << 40,
        rejects: bool = False,
        returns: bool = False,
    ) -> None:
        self._harness = harness
        self._number = number
        self.queue = queue
        self._chance = chance
        self._most = most
        self._rejects = rejects
        self._returns = returns
        self._next = 0
        self._taken = 0
        self._out: dict[int, Message | None] = {}
        self._fences: dict[int, tuple[Message, Fence]] = {}

    async def run(self) -> None:
        """Consume until it is ended."""
        while True:
            self._taken = 0
            self._out, self._fences = {}, {}
            try:
                async with self._harness.wire() as wire:
                    await wire.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
                    await wire.call(commands.Basic.Qos(prefetch_count=PREFETCH), commands.Basic.QosOk)
                    await wire.call(commands.Basic.Consume(queue=self.queue.name), commands.Basic.ConsumeOk)
                    await self._consume(wire)
            except* Gone:
                pass

    async def _consume(self, wire: Wire) -> None:
        session = Session(self._harness.oracle, self.queue)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._settle_all_in_the_end, wire, session)
            tag, since = 0, 0
            while True:
                events = await wire.events()
                self._note(events, session)
                since += len(events)
                said = self._settle(session)
                if since >= FENCE and not self._harness.stopping:
                    tag, since = tag + 1, 0
                    said += self._fence(session, tag)
                if said:
                    await wire.send(said)
                self._harness.count_events(len(events))
                self._harness.changed()

    def _note(self, events: Sequence[Event], session: Session) -> None:
        for event in events:
            if isinstance(event, Delivery):
                self._out[event.tag] = session.deliver(event)
                self._taken += 1
            elif isinstance(event, Answer):
                for tag in tags_up_to(self._fences, event.tag) if event.multiple else [event.tag]:
                    message, fence = self._fences.pop(tag)
                    if event.accepted:
                        fence.confirmed()
                        self._harness.oracle.confirm(message, [FENCES])

    def _settle(self, session: Session) -> bytes:
        """Choose what to settle: everything, some of it, or nothing for now."""
        lazy = self._taken > self._most or (self._chance.random() < 0.2 and len(self._out) < PREFETCH // 2)
        if lazy and not self._harness.draining:
            return b""
        if self._returns and self._chance.random() < 0.1:
            tags = [tag for tag in self._out if self._chance.random() < 0.1]
            # In the end nothing may come any more after which it would settle the rest.
            if tags or not self._harness.draining:
                return self._give_back(session, tags)
        if self._rejects:
            return self._say(
                session, [tag for tag in self._out if self._chance.random() < 0.7 or self._harness.draining]
            )
        if self._chance.random() < 0.3 and not self._harness.draining:
            return self._say(session, [tag for tag in self._out if self._chance.random() < 0.5])
        return self._say_all(session)

    def _say(self, session: Session, tags: Sequence[int]) -> bytes:
        """Settle one by one."""
        messages = [self._out.pop(tag) for tag in tags]
        session.ack(message for message in messages if message is not None)
        return b"".join(reject(tag) if self._rejects else ack(tag) for tag in tags)

    def _give_back(self, session: Session, tags: Sequence[int]) -> bytes:
        for tag in tags:
            if (message := self._out.pop(tag)) is not None:
                session.give_back(message)
        return b"".join(reject(tag, requeue=True) for tag in tags)

    def _say_all(self, session: Session) -> bytes:
        if not self._out:
            return b""
        if self._rejects:
            return self._say(session, list(self._out))
        session.ack(message for message in self._out.values() if message is not None)
        last = max(self._out)
        self._out.clear()
        return ack(last, multiple=True)

    def _fence(self, session: Session, tag: int) -> bytes:
        message = Message(self._number, self._next)
        self._next += 1
        self._fences[tag] = (message, session.fence())
        self._harness.oracle.sent += 1
        return publish("", FENCES, body_of(*message[:2]))

    async def _settle_all_in_the_end(self, wire: Wire, session: Session) -> None:
        await self._harness.wait_for(lambda: self._harness.draining)
        await wire.send(self._say_all(session))

    @property
    def is_idle(self) -> bool:
        """Whether nothing is out and no fence under way."""
        return not self._out and not self._fences


class AutomaticConsumer:
    """Consumes without acks: what was sent to it when the broker is killed may be lost, so nothing is checked here."""

    def __init__(self, harness: Harness, name: str) -> None:
        self._harness = harness
        self._name = name

    async def run(self) -> None:
        """Consume until it is ended."""
        while True:
            try:
                async with self._harness.wire() as wire:
                    request = commands.Basic.Consume(queue=self._name, no_ack=True)
                    await wire.call(request, commands.Basic.ConsumeOk)
                    while True:
                        self._harness.count_events(len(await wire.events()))
                        self._harness.changed()
            except Gone:
                pass


class Mover:
    """Moves messages from one queue to another: publishes and acks in one transaction each time."""

    def __init__(self, harness: Harness, source: QueueOracle, target: str) -> None:
        self._harness = harness
        self.queue = source
        self._target = target
        self.is_idle = True
        """Whether no commit is under way."""

    async def run(self) -> None:
        """Move until it is ended."""
        while True:
            try:
                async with self._harness.wire() as wire:
                    await wire.call(commands.Tx.Select(), commands.Tx.SelectOk)
                    await wire.call(commands.Basic.Qos(prefetch_count=20), commands.Basic.QosOk)
                    await wire.call(commands.Basic.Consume(queue=self.queue.name), commands.Basic.ConsumeOk)
                    session = Session(self._harness.oracle, self.queue)
                    while True:
                        await self._move(wire, session)
            except Gone:
                self.is_idle = True

    async def _move(self, wire: Wire, session: Session) -> None:
        deliveries = [event for event in await wire.events() if isinstance(event, Delivery)]
        if not deliveries:
            return
        for delivery in deliveries:
            session.deliver(delivery)
        said = [publish("", self._target, delivery.body) for delivery in deliveries]
        said += [ack(deliveries[-1].tag, multiple=True), encode(commands.Tx.Commit())]
        messages = [read_body(delivery.body)[0] for delivery in deliveries]
        session.ack(messages)
        self.is_idle = False
        await wire.call(b"".join(said), commands.Tx.CommitOk)
        self.is_idle = True
        session.fence().confirmed()
        self._harness.count_events(len(deliveries))
        self._harness.changed()
