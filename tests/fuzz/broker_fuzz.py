"""One round of a whole broker, for any protocol: clients that misbehave, beside a healthy one that may not notice.

No actor may crash over them, and no connection may be left behind. Every input is generated from the seed and its
number; brokers are opened anew after each round, for the inputs fill them with queues.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Awaitable, Iterable
from random import Random
from typing import Protocol

import trio

from triomq.actors import Event as ActorEvent
from triomq.actors import EventSubscription, Exited
from triomq.app import Broker, open_broker
from triomq.endpoints import AMQP, AMQPEndpoint, StreamListener

from .loop import Violation, fuzz_broker
from .mutations import cut
from .wires import Wire

ROUND = 500
"""Inputs for one broker."""

HEALTHY_EVERY = 20
PATIENCE = 100.0
"""Seconds until something that must come is missed; only real trouble takes so long."""


class HealthyClient(Protocol):
    """A client that behaves."""

    async def exchange(self) -> None:
        """Publish and consume, and check that nothing else comes."""

    async def leave(self) -> None:
        """Close the connections."""


class Round:
    """One broker and its clients; made for each round.

    ``left`` is how many of the endpoint's children are left when all but the healthy clients are gone.
    """

    name = ""  # begins the seeds
    healthy: HealthyClient
    left = 1

    def __init__(self, broker: Broker, events: EventSubscription[ActorEvent]) -> None:
        (ref,) = broker.endpoint_refs.values()
        assert isinstance(ref.actor, AMQPEndpoint)
        self.endpoint = ref.actor
        self.events = events

    async def open(self) -> None:
        """Open the connections that are there for the whole round."""

    @abstractmethod
    async def trial(self, number: int, random: Random) -> str:
        """Send one input; return how it ended."""

    async def leave(self) -> None:
        """Close the connections of the whole round."""
        await self.healthy.leave()

    def connect(self, *, reads: bool) -> Wire:
        return connect(self.endpoint.listener, reads=reads)

    def check(self) -> None:
        """Check that no actor has crashed."""
        check(self.events)

    async def wait_left(self) -> None:
        """Wait until no more connections are left than there may be."""
        while len(self.endpoint.children) > self.left:  # noqa: ASYNC110  # no event says when one is left
            await trio.sleep(0.01)


async def within(awaited: Awaitable[None], complaint: str) -> None:
    with trio.move_on_after(PATIENCE):
        await awaited
        return
    raise Violation(f"{complaint} within {PATIENCE:.0f} s")


def connect(listener: StreamListener, *, reads: bool) -> Wire:
    wire = Wire(reads=reads)
    listener.connect(wire)
    return wire


def check(events: EventSubscription[ActorEvent]) -> None:
    """Check that no actor has crashed."""
    for event in events.get_nowait():
        if isinstance(event, Exited) and event.error is not None:
            raise Violation(f"{event.ref.path} crashed: {event.error!r}") from event.error


async def converse(listener: StreamListener, random: Random, data: bytes) -> bytes:
    """Send what one client sends, at once or in pieces; return what it was sent."""
    wire = connect(listener, reads=random.random() < 0.9)
    for piece in cut(random, data) if random.random() < 0.5 else [data]:
        await within(wire.feed(piece), "an input was not read")
    await within(wire.feed(b""), "an end was not read")
    return wire.sent()


async def run_inputs(kind: type[Round], seed: int, numbers: Iterable[int]) -> Counter[str]:
    """Send a round of inputs to one broker."""
    outcomes = Counter[str]()
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        with broker.system.events() as events:
            round = kind(broker, events)
            await within(round.open(), "the healthy clients were not let in")
            for number in numbers:
                try:
                    outcomes[await round.trial(number, Random(f"{kind.name}broker {seed}:{number}"))] += 1
                    round.check()
                    if number % HEALTHY_EVERY == 0:
                        await within(round.healthy.exchange(), "the healthy client was not served")
                except Violation as violation:
                    raise Violation(f"{violation}\n  seed {seed}, input {number}") from violation
            await within(round.healthy.exchange(), "the healthy client was not served")
            await within(round.wait_left(), "connections are left though their streams have ended")
            round.check()
            await round.leave()
    return outcomes


def main(kind: type[Round], description: str | None, arguments: list[str] | None) -> int:
    """Run until time or count is up, or something does not hold."""
    return fuzz_broker(description, arguments, ROUND, lambda seed, numbers: trio.run(run_inputs, kind, seed, numbers))
