"""A client for direct connections in tests: the client's half of our own engine at one end of a stream."""

from collections import deque
from typing import NamedTuple, TypeVar

import trio
import trio.testing

from endpoints.client import PATIENCE, Client
from triomq.endpoints import AMQPEndpoint
from triomq.protocols import NO_PROPERTIES
from triomq.protocols.amqp import DirectGet, DirectGetOk, DirectPut, DirectPutOk
from triomq.protocols.dmp import DMPEngine, EndOfStream, Event, MessageRun, Ready, RefusalReceived, Settings, Target

E = TypeVar("E")


class Taken(NamedTuple):
    """One message of a feed."""

    body: bytes
    exchange: str
    key: str
    properties: bytes


class Direct:
    """One direct connection; reads only when a test asks for something, and sends only when told."""

    def __init__(
        self, endpoint: AMQPEndpoint, lease: str, target: Target, *, lockstep: bool = False, **wishes: object
    ) -> None:
        settings = Settings(**{"heartbeat": 0.0, **wishes})  # type: ignore[arg-type]
        self.engine = DMPEngine("client", now=trio.current_time(), settings=settings, lease=lease, target=target)
        pair = trio.testing.lockstep_stream_pair if lockstep else trio.testing.memory_stream_pair
        self.stream, theirs = pair()
        endpoint.listener.connect_stream(theirs, "memory")
        self.events: deque[Event] = deque()
        self.octets = 0

    async def flush(self) -> None:
        """Send what the engine has to say."""
        data = b"".join(self.engine.data_to_send())
        if data:
            await self.stream.send_all(data)

    async def say(self, octets: bytes) -> None:
        """Send octets as they are."""
        await self.stream.send_all(octets)

    async def publish(
        self, key: str, *bodies: bytes, exchange: str = "", properties: bytes = NO_PROPERTIES, **options: bool
    ) -> None:
        """Send messages in one piece."""
        for body in bodies:
            self.engine.send_message(exchange, key, properties, body, **options)
        await self.flush()

    async def next(self) -> Event:
        """Wait for the next event."""
        with trio.fail_after(PATIENCE):
            while not self.events:
                data = bytes(await self.stream.receive_some(64 * 1024))
                if not data and self.engine.outbox.finished:
                    return EndOfStream()
                self.octets += len(data)
                self.engine.receive_data(data)
                self.events.extend(self.engine.events())
                try:
                    await self.flush()
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    pass  # the other side has gone, as the next event will say
        return self.events.popleft()

    async def expect(self, kind: type[E]) -> E:
        """Wait for the next event, which is of this kind."""
        event = await self.next()
        assert isinstance(event, kind), event
        return event

    async def ready(self) -> "Direct":
        """Go through the handshake."""
        await self.flush()
        await self.expect(Ready)
        return self

    async def refused(self) -> tuple[int, str]:
        """Wait for the server to say why it closes, and to close; give code and text."""
        await self.flush()
        event = await self.expect(RefusalReceived)
        await self.ended()
        return event.code, event.text

    async def ended(self) -> None:
        """Wait for the server to close."""
        await self.expect(EndOfStream)

    async def take(self, count: int) -> list[Taken]:
        """Wait for so many messages."""
        found: list[Taken] = []
        while len(found) < count:
            found += taken(await self.expect(MessageRun))
        assert len(found) == count, found
        return found

    async def bodies(self, count: int) -> list[bytes]:
        """Wait for so many messages; give their bodies."""
        return [message.body for message in await self.take(count)]

    async def silence(self, seconds: float = 30) -> None:
        """See that nothing comes but null messages."""
        with trio.move_on_after(seconds):
            event = await self.next()
            raise AssertionError(f"came unasked: {event}")

    async def hang_up(self) -> None:
        """Go away."""
        await self.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()


def taken(run: MessageRun) -> list[Taken]:
    """Take a run apart."""
    return [
        Taken(shape.body(content), shape.exchange, shape.routing_key, shape.properties(content))
        for shape, content in run.messages()
    ]


async def lease_sink(client: Client, name: str) -> str:
    return (await client.call(1, DirectPut(name), DirectPutOk)).lease


async def lease_feed(client: Client, name: str) -> str:
    return (await client.call(1, DirectGet(name), DirectGetOk)).lease


async def open_sink(endpoint: AMQPEndpoint, client: Client, name: str, **wishes: object) -> Direct:
    return await Direct(endpoint, await lease_sink(client, name), "sink", **wishes).ready()


async def open_feed(endpoint: AMQPEndpoint, client: Client, name: str, **wishes: object) -> Direct:
    return await Direct(endpoint, await lease_feed(client, name), "feed", **wishes).ready()
