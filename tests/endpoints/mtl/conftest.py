"""A broker with an MTL endpoint, and peers of it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import zmq

from endpoints.mtl.plain import PlainQueues
from endpoints.mtl.raw import Prepare, RawControl, RawData, nothing
from triomq.app import Broker, User, open_broker
from triomq.endpoints import AMQP, MTL
from triomq.endpoints.mtl.endpoint import MTLEndpoint
from triomq.endpoints.mtl.profiles import BUILT_IN
from triomq.security import ALL, Permission

USERS = {
    "guest": User(password="guest", permissions={"*": ALL}),
    "other": User(password="other", permissions={"*": ALL}),
    "reader": User(password="reader", permissions={"*": Permission("", "", ".*")}),
    "foreign": User(password="foreign", permissions={"elsewhere": ALL}),
}

PROFILES = (*BUILT_IN, PlainQueues)


class Served:
    """A broker with an MTL endpoint; makes peers, which end with the test."""

    def __init__(self, broker: Broker, nursery: trio.Nursery) -> None:
        self.broker = broker
        self.nursery = nursery
        self._peers: list[RawControl | RawData] = []

    @property
    def endpoint(self) -> MTLEndpoint:
        (found,) = (ref.actor for ref in self.broker.endpoints.children.values() if isinstance(ref.actor, MTLEndpoint))
        return found

    def control(self, kind: int = zmq.REQ, prepare: Prepare = nothing) -> RawControl:
        peer = RawControl(self.endpoint.control.port, kind, prepare)
        self._peers.append(peer)
        return peer

    def data(self, prepare: Prepare = nothing) -> RawData:
        peer = RawData(self.endpoint.data.port, prepare)
        self._peers.append(peer)
        self.nursery.start_soon(peer.run)
        return peer

    async def claimed(self, leased: dict[str, Any]) -> RawData:
        """Connect a data flow, and claim a lease."""
        peer = self.data()
        assert await peer.ask("lease", 1, leased["lease"]) == 200
        return peer

    async def flow(self, direction: str, *resources: str, confirm: str = "none", **fields: object) -> RawData:
        """Connect a data flow with a lease of a session of its own."""
        control = await self.control().work_with("plain")
        return await self.claimed(await control.lease(direction, *resources, confirm=confirm, **fields))

    async def reading(self, *resources: str, confirm: str = "full", **fields: object) -> RawData:
        """Connect a reader that has summoned its resources."""
        peer = await self.flow("Reader", *resources, confirm=confirm, **fields)
        for number, resource in enumerate(resources):
            assert await peer.ask("summon", 2 + number, resource) == 200
        return peer

    async def close(self) -> None:
        for peer in self._peers:
            await peer.close()

    async def count(self, trouble: str, least: int = 1) -> None:
        """Wait until so many messages have met a trouble."""
        await self.until(lambda: self.endpoint.troubles[trouble] >= least)

    async def until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(60):
            while not condition():  # noqa: ASYNC110  # a thread of libzmq works
                await trio.sleep(0.001)

    async def ready(self, queue: str, count: int) -> None:
        """Wait until so many messages are ready in a queue."""
        with trio.fail_after(60):
            while (await self.broker.queue(queue).statistics()).ready != count:  # noqa: ASYNC110  # as above
                await trio.sleep(0.001)


@asynccontextmanager
async def serving(nursery: trio.Nursery, **options: Any) -> AsyncIterator[Served]:
    """Open a broker with an endpoint that is configured so, in memory unless ``broker`` says otherwise."""
    about_broker: dict[str, Any] = {"users": USERS, "drain": 0.2, **options.pop("broker", {})}
    config = MTL(**{"port": 0, "profiles": PROFILES, **options})
    async with open_broker(AMQP(host="127.0.0.1", port=0), config, **about_broker) as broker:
        served = Served(broker, nursery)
        try:
            yield served
        finally:
            with trio.CancelScope(shield=True):
                await served.close()


@pytest.fixture
async def served(nursery: trio.Nursery) -> AsyncIterator[Served]:
    async with serving(nursery) as served:
        yield served
