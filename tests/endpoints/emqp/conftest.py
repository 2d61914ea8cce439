"""A broker with an eMQP endpoint, and peers of it."""

from collections.abc import AsyncIterator, Callable

import pytest
import trio
import zmq

from endpoints.emqp.raw import RawPeer
from triomq.app import Broker, User, open_broker
from triomq.endpoints import AMQP, EMQP
from triomq.endpoints.emqp.endpoint import EMQPEndpoint
from triomq.security import ALL, Permission

CALL = b'["run", {"callable": "add", "path": "jobs", "args": [1], "kwargs": {}, "class_args": [], "class_kwargs": {}}]'
"""A payload that released workers can run."""

USERS = {
    "guest": User(password="guest", permissions={"*": ALL}, tags=("monitoring",)),
    "other": User(password="other", permissions={"*": ALL}),
    "reader": User(password="reader", permissions={"*": Permission("", "", ".*")}),
}


class Served:
    """A broker with an eMQP endpoint; makes peers, whose tasks end with the test."""

    def __init__(self, broker: Broker, nursery: trio.Nursery, config: EMQP) -> None:
        self.broker = broker
        self.nursery = nursery
        self.config = config

    @property
    def endpoint(self) -> EMQPEndpoint:
        (found,) = (ref.actor for ref in self.broker.endpoints.children.values() if isinstance(ref.actor, EMQPEndpoint))
        return found

    @property
    def port(self) -> int:
        return self.endpoint.listener.port

    def connect(
        self, identity: bytes = b"", prepare: Callable[[zmq.Socket[bytes]], None] = lambda socket: None
    ) -> RawPeer:
        peer = RawPeer(self.port, identity, prepare=prepare)
        self.nursery.start_soon(peer.run)
        return peer

    async def worker(self, *queues: str, weight: int = 10, ready: int = 0, extended: bool = False) -> RawPeer:
        peer = self.connect()
        await peer.work(*(queues or ("q",)), weight=weight, ready=ready, extended=extended)
        await peer.answer_to(await peer.send(b"STATUS"))  # comes behind everything else
        return peer

    async def client(self) -> RawPeer:
        peer = self.connect()
        await peer.join()
        return peer

    async def count(self, trouble: str, most: int = 1) -> None:
        """Wait until so many messages have met a trouble."""
        with trio.fail_after(60):
            while self.endpoint.troubles[trouble] < most:  # noqa: ASYNC110  # a thread of libzmq works
                await trio.sleep(0.001)

    async def wait_ready(self, queue: str, count: int) -> None:
        """Wait until so many messages are ready in a queue."""
        with trio.fail_after(60):
            while queue not in self.broker.directory.queues or (  # noqa: ASYNC110  # as above
                (await self.broker.queue(queue).statistics()).ready != count
            ):
                await trio.sleep(0.001)


@pytest.fixture
async def served(nursery: trio.Nursery) -> AsyncIterator[Served]:
    config = EMQP(port=0, heartbeat=0.1, silence=20.0)
    async with open_broker(AMQP(host="127.0.0.1", port=0), config, users=USERS, drain=0.2) as broker:
        yield Served(broker, nursery, config)
