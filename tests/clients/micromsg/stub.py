"""A peer at the other end of streams in memory: the engine's server, and a test that says what it does."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import trio
import trio.testing

from triomq.clients import MicroMsgConnection, MicroMsgUrl, Reconnect
from triomq.clients.block import run_in_block
from triomq.clients.micromsg.connecting import Dial
from triomq.errors import Disconnected
from triomq.protocols.micromsg import (
    Event,
    HandshakeCompleted,
    HandshakeExtension,
    MicroMessageRun,
    MicroMsgServer,
    Settings,
    SubscribeAsked,
    UnsubscribeAsked,
)
from triomq.transports import Poller, StreamTransport, Transport

E = TypeVar("E")
SOON = Reconnect(delay=1.0, max_delay=8.0, jitter=0.0)
SETTINGS = Settings(identity="stub", window=8, heartbeat=0)
NOBODY = MicroMsgUrl(identity="test", window=8)


class Place:
    """Where clients connect to: each connection is a ``StubPeer``, in the order in which they come."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.settings = settings
        self.is_open = True
        self.tries = list[float]()
        """When somebody tried to connect."""
        self._came, self.came = trio.open_memory_channel["StubPeer"](1000)

    def dial(self) -> Dial:
        async def dial(poller: Poller) -> Transport:
            self.tries.append(trio.current_time())
            await trio.lowlevel.checkpoint()
            if not self.is_open:
                raise Disconnected("nobody listens")
            ours, theirs = trio.testing.memory_stream_pair()
            self._came.send_nowait(StubPeer(theirs, self.settings))
            return StreamTransport(ours, "memory")

        return dial

    async def accept(self) -> "StubPeer":
        """Return the next connection, when its handshake is over."""
        peer = await self.came.receive()
        await peer.expect(HandshakeCompleted)
        return peer


class StubPeer:
    """One connection, served by the test."""

    def __init__(self, stream: trio.abc.Stream, settings: Settings) -> None:
        self.stream = stream
        self.engine = MicroMsgServer(now=trio.current_time(), settings=settings)
        self._events = list[Event]()

    async def expect(self, kind: type[E]) -> E:
        """Return the next event, which is of this kind."""
        while not self._events:
            await self.flush()
            self.engine.receive_data(bytes(await self.stream.receive_some()))
            self._events += self.engine.events()
        event = self._events.pop(0)
        assert isinstance(event, kind), event
        return event

    async def flush(self) -> None:
        for octets in self.engine.data_to_send():
            await self.stream.send_all(octets)

    async def accept_subscription(self) -> SubscribeAsked:
        asked = await self.expect(SubscribeAsked)
        self.engine.answer_command(asked.number, 200, "OK")
        await self.flush()
        return asked

    async def accept_end(self) -> UnsubscribeAsked:
        asked = await self.expect(UnsubscribeAsked)
        self.engine.answer_command(asked.number, 200, "OK")
        await self.flush()
        return asked

    async def read(self, count: int) -> list[bytes]:
        """Return the bodies of the messages that come next, which are exactly so many."""
        found = list[bytes]()
        while len(found) < count:
            found += bodies_of(await self.expect(MicroMessageRun))
        assert len(found) == count
        return found

    async def ack(self, up_to: int) -> None:
        self.engine.accept(up_to)
        self.engine.acknowledge_now()
        await self.flush()

    async def send(self, destination: str, *bodies: bytes, properties: bytes = b"") -> None:
        self.engine.send_messages(destination, properties, bodies)
        await self.flush()

    async def hang_up(self) -> None:
        await self.stream.aclose()


def bodies_of(run: MicroMessageRun) -> list[bytes]:
    return [shape.body(content) for shape, content in run.messages()]


@asynccontextmanager
async def open_connection(
    place: Place,
    url: MicroMsgUrl = NOBODY,
    policy: Reconnect = SOON,
    extensions: tuple[HandshakeExtension, ...] = (),
    on_extension: Callable[[str, bytes], None] | None = None,
) -> AsyncIterator[MicroMsgConnection]:
    """Open a client of a place, as ``open_micromsg`` does."""
    connection = MicroMsgConnection(url, place.dial(), policy, extensions, on_extension)
    async with run_in_block(connection, "open_connection", asyncio_way=""):
        yield connection


@asynccontextmanager
async def open_pair(
    place: Place, url: MicroMsgUrl = NOBODY, policy: Reconnect = SOON
) -> AsyncIterator[tuple[MicroMsgConnection, StubPeer]]:
    """Open a client, and its first connection at the other end."""
    peers = list[StubPeer]()

    async def accept() -> None:
        peers.append(await place.accept())
        await peers[0].flush()

    async with both(accept), open_connection(place, url, policy) as connection:
        while not peers:
            await trio.lowlevel.checkpoint()
        yield connection, peers[0]


@asynccontextmanager
async def both(function: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run something beside the block, to its end."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(function)
        yield
