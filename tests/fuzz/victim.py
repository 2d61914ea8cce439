"""A broker that is fuzzed: what is done to it, and what must hold for any."""

from collections.abc import Awaitable

import trio

from triomq.actors import Event as ActorEvent
from triomq.actors import EventSubscription, Exited
from triomq.app import Broker
from triomq.endpoints import AMQPEndpoint

from .loop import Violation
from .wires import Wire

ROUND = 500
"""Inputs for one broker."""

HEALTHY_EVERY = 20
PATIENCE = 10.0
"""Seconds until something that must come is missed; only real trouble takes so long."""


class Victim:
    """One broker, the connections to it, and who has crashed."""

    def __init__(self, broker: Broker, happened: EventSubscription[ActorEvent]) -> None:
        (ref,) = broker.endpoint_refs.values()
        assert isinstance(ref.actor, AMQPEndpoint)
        self.endpoint = ref.actor
        self.happened = happened

    def connect(self, *, reads: bool) -> Wire:
        wire = Wire(reads=reads)
        self.endpoint.connect(wire)
        return wire

    def check(self) -> None:
        """See that no actor has crashed."""
        for event in self.happened.get_nowait():
            if isinstance(event, Exited) and event.error is not None:
                raise Violation(f"{event.ref.path} crashed: {event.error!r}") from event.error

    async def finish(self, left: int) -> None:
        """See that only so many connections are left."""
        await within(self._wait_gone(left), "connections are left though their streams have ended")
        self.check()

    async def _wait_gone(self, left: int) -> None:
        while len(self.endpoint.children) > left:  # noqa: ASYNC110  # nobody is told when one is left
            await trio.sleep(0.01)


async def within(what: Awaitable[None], complaint: str) -> None:
    with trio.move_on_after(PATIENCE):
        await what
        return
    raise Violation(f"{complaint} within {PATIENCE:.0f} s")
