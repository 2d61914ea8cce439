"""A broker with a store, opened, left, and opened again in the same directory, with one client each time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from endpoints.client import Client, Delivered
from endpoints.conftest import dial, endpoint_of
from triomq.app import Broker, open_broker
from triomq.endpoints import AMQP
from triomq.protocols import BasicProperties, decode_properties, encode_properties
from triomq.protocols.amqp import (
    BasicAck,
    BasicGet,
    ConfirmSelect,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)

PERSISTENT = encode_properties(BasicProperties(delivery_mode=2))
TRANSIENT = encode_properties(BasicProperties(delivery_mode=1))

_CONFIRMED = 9
"""The channel on which everything is confirmed."""


class Home:
    """A broker that runs, and a client with channel 1 open."""

    def __init__(self, broker: Broker, client: Client) -> None:
        self.broker = broker
        self.client = client
        self._published = 0

    async def begin(self) -> None:
        await self.client.connect()
        await self.client.open_channel(1)
        await self.client.open_channel(_CONFIRMED)
        await self.client.call(_CONFIRMED, ConfirmSelect())

    async def done(self, method: Method) -> Method:
        """Say something that is answered by its own ok, and give that."""
        await self.client.say(1, method)
        answer = await self.client.read(Method)
        assert type(answer).__name__ == f"{type(method).__name__}Ok"
        return answer

    async def publish(self, key: str, *bodies: bytes, exchange: str = "", properties: bytes = PERSISTENT) -> None:
        """Publish, and wait until all is confirmed."""
        await self.client.send(_CONFIRMED, exchange, key, *bodies, properties=properties)
        self._published += len(bodies)
        while (await self.client.read(BasicAck, _CONFIRMED)).delivery_tag < self._published:
            pass

    async def count(self, queue: str) -> int:
        """Declare a queue passively, and tell how many messages are ready."""
        return (await self.client.call(1, QueueDeclare(queue, passive=True), QueueDeclareOk)).message_count

    async def get(self, queue: str, *, no_ack: bool = True) -> Delivered:
        """Get the next message, which is there."""
        await self.client.say(1, BasicGet(queue, no_ack=no_ack))
        return await self.client.got()

    async def drain(self, queue: str) -> list[bytes]:
        """Get all that is ready."""
        return [(await self.get(queue)).body for _ in range(await self.count(queue))]


@asynccontextmanager
async def at_home(directory: Path, **options: object) -> AsyncIterator[Home]:
    """Open a broker in a directory, in real time; it and its client leave in order."""
    options = {"store_host": "thread", **options}
    async with open_broker(AMQP(host="127.0.0.1", port=0), data_dir=directory, **options) as broker:  # type: ignore[arg-type]
        home = Home(broker, dial(endpoint_of(broker)))
        await home.begin()
        yield home
        await home.client.leave()


def headers(message: Delivered) -> dict[str, object]:
    return dict(decode_properties(message.properties).headers or {})
