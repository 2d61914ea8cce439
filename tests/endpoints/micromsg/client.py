"""A client of MicroMsg2 at the other end of a stream, and a broker that listens for it."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import trio
import trio.testing

from triomq.app import Broker, open_broker
from triomq.endpoints import AMQP, MicroMsg
from triomq.endpoints.micromsg.endpoint import MicroMsgEndpoint
from triomq.protocols.micromsg import (
    DEFAULT_OPTIONAL,
    CommandAnswered,
    EndOfStream,
    ErrorReceived,
    Event,
    HandshakeCompleted,
    HandshakeExtension,
    MessagesAcked,
    MicroMessageRun,
    MicroMsgClient,
    PropertyValue,
    SASLAccepted,
    Settings,
    encode_properties,
    parse_filter,
)

USUAL = tuple(each for each in DEFAULT_OPTIONAL if each.name != "x-heartbeat")
"""The extensions of clients that may be silent for as long as tests let time pass."""

WITHOUT_ACKS = tuple(each for each in USUAL if each.name not in ("batch-ack", "ack"))

_PATIENCE = 200.0
"""Seconds, most often virtual ones, for what has to come."""


@asynccontextmanager
async def open_micromsg_broker(config: MicroMsg | None = None, **options: Any) -> AsyncIterator[Broker]:
    """Open a broker that listens for AMQP and for MicroMsg2."""
    async with open_broker(AMQP(host="127.0.0.1", port=0), config or listening(), **options) as broker:
        yield broker


def listening(**options: Any) -> MicroMsg:
    return MicroMsg(**{"host": "127.0.0.1", "port": 0, **options})


def micromsg_endpoint(broker: Broker) -> MicroMsgEndpoint:
    """Return the endpoint of the broker that speaks MicroMsg2."""
    (found,) = [ref.actor for ref in broker.endpoints.children.values() if isinstance(ref.actor, MicroMsgEndpoint)]
    return found


class Got(NamedTuple):
    """A delivery."""

    destination: str
    body: bytes
    values: Mapping[str, PropertyValue]


class MicroMsgPeer:
    """A client; what comes is sorted as it is read."""

    def __init__(self, stream: trio.abc.Stream, settings: Settings | None = None) -> None:
        self.stream = stream
        self.engine = MicroMsgClient(now=0.0, settings=settings or Settings(identity="", optional=USUAL))
        self.events: deque[Event] = deque()
        self.got: deque[Got] = deque()
        self.last = 0  # the number of the last message that came
        self.acked = 0
        self.answers: dict[int, CommandAnswered] = {}
        self.error: ErrorReceived | None = None
        self.ended = False

    async def open(self, user: str = "", password: str = "") -> "MicroMsgPeer":
        """Shake hands, and log in if there is a user."""
        await self.expect(HandshakeCompleted)
        if user:
            self.engine.start_login("PLAIN", f"\0{user}\0{password or user}".encode())
            await self.expect(SASLAccepted)
        await self.flush()
        return self

    async def flush(self) -> None:
        if data := b"".join(self.engine.data_to_send()):
            await self.stream.send_all(data)

    async def next(self) -> Event:
        """Return what the server says next; fails at the end."""
        await self.flush()
        while not self.events:
            assert not self.ended, self.error or "the stream has ended"
            try:
                data = bytes(await self.stream.receive_some(65536))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                data = b""
            self.engine.receive_data(data)
            self.events += self.engine.events()
            self.ended = self.ended or not data
        event = self.events.popleft()
        match event:
            case ErrorReceived():
                self.error = event
                self.ended = True
            case EndOfStream():
                self.ended = True
            case MessagesAcked(up_to=up_to):
                self.acked = up_to
            case CommandAnswered(number=number):
                self.answers[number] = event
            case MicroMessageRun():
                self.got += [Got(shape.destination, shape.body(one), shape.values) for shape, one in event.messages()]
                self.last = event.last
        return event

    async def expect(self, kind: type[Any]) -> Any:
        event = await self.next()
        assert isinstance(event, kind), event
        return event

    async def until(self, has_come: Callable[[], bool]) -> None:
        """Read until something has come."""
        with trio.fail_after(_PATIENCE):
            await self.flush()
            while not has_come():
                await self.next()

    async def fails(self) -> tuple[int, str]:
        """Return the code and the text by which the server ends."""
        await self.until(lambda: self.ended)
        assert self.error is not None, "the stream has ended without a word"
        return self.error.code, self.error.text

    # Publishing

    def publish(self, destination: str, *bodies: bytes, **values: PropertyValue) -> None:
        named = {name.replace("_", "-"): value for name, value in values.items()}
        self.engine.send_messages(destination, encode_properties(named), bodies)

    async def send(self, destination: str, *bodies: bytes, **values: PropertyValue) -> None:
        """Publish, and wait until all is acked."""
        self.publish(destination, *bodies, **values)
        await self.until(lambda: self.acked == self.engine.sent)

    # Consuming

    async def subscribe(self, destination: str, filter: str = "", id: str = "", **options: str) -> int:
        """Return the code of the answer."""
        return (await self.answer(self.engine.subscribe(destination, parse_filter(filter, 16), id, options))).code

    async def unsubscribe(self, destination: str = "", id: str = "") -> int:
        return (await self.answer(self.engine.unsubscribe(destination, id))).code

    async def answer(self, number: int) -> CommandAnswered:
        await self.until(lambda: number in self.answers)
        return self.answers.pop(number)

    async def take(self, count: int) -> list[Got]:
        """Return so many deliveries, and ack nothing."""
        await self.until(lambda: len(self.got) >= count)
        return [self.got.popleft() for _ in range(count)]

    async def bodies(self, count: int) -> list[bytes]:
        """Return the bodies of so many deliveries, and ack all that came."""
        found = await self.take(count)
        await self.accept()
        return [got.body for got in found]

    async def accept(self) -> None:
        """Ack all that came."""
        self.engine.accept(self.last)
        self.engine.acknowledge_now()
        await self.flush()

    async def hang_up(self) -> None:
        await self.stream.aclose()


def dial(
    broker: Broker,
    settings: Settings | None = None,
    *,
    pair: Callable[[], tuple[trio.abc.Stream, trio.abc.Stream]] = trio.testing.memory_stream_pair,
) -> MicroMsgPeer:
    """Connect a client that has said nothing yet."""
    return MicroMsgPeer(wire(broker, pair=pair), settings)


def wire(
    broker: Broker,
    *,
    pair: Callable[[], tuple[trio.abc.Stream, trio.abc.Stream]] = trio.testing.memory_stream_pair,
) -> trio.abc.Stream:
    ours, theirs = pair()
    micromsg_endpoint(broker).listener.connect_stream(theirs, "memory")
    return ours


def logging_in(identity: str = "", **options: Any) -> Settings:
    """Return the settings of a client that logs in."""
    return Settings(**{"identity": identity, "required": (HandshakeExtension("x-sasl"),), "optional": USUAL, **options})
