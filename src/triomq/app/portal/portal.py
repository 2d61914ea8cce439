"""The way into a broker's Trio run, from threads and event loops outside of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from triomq.app.broker import Broker
from triomq.errors import ActorStopped
from triomq.portal import Callback, TrioPortal, run_portal


class Portal(TrioPortal):
    """The way into the Trio run of a broker; made by ``open_portal`` and by the brokers with a thread.

    Args:
        broker: The broker.
        nursery: Where calls run that have to wait.
    """

    _what = "the broker"
    _other_way = "Let the broker listen, AMQP(port=0), and connect to it from here"

    def __init__(self, broker: Broker, nursery: trio.Nursery) -> None:
        super().__init__(nursery)
        self.broker = broker

    def _turn(self, run_all: Callback) -> None:
        """Run callbacks in a turn of the broker's own consumers."""
        self.broker.consumers.turn(run_all)


@asynccontextmanager
async def open_portal(broker: Broker) -> AsyncIterator[Portal]:
    """Let threads and asyncio reach a broker that was opened in this Trio program.

    Give the portal to them: ``BlockingBroker(portal)`` for plain threads, ``AsyncioBroker(portal)`` in a coroutine of
    asyncio. When the block is left, their calls end with ``ActorStopped``, and unsettled deliveries of their feeds go
    back to the queues.
    """
    portal: Portal | None = None
    try:
        async with run_portal(partial(Portal, broker)) as portal:
            yield portal
    finally:
        if portal is not None:
            portal.close(ActorStopped("the block of open_portal was left; the broker cannot be reached this way now"))
