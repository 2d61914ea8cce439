"""A client of tap at the other end of a stream, and a broker that listens for it."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from triomq.app import Broker, open_broker
from triomq.chunks import Columns, StreamRecord, split_chunks
from triomq.core import DeclareQueue, DeclareStream, QueueOptions, QueueState, StreamOptions
from triomq.endpoints import AMQP, Tap
from triomq.endpoints.tap.endpoint import TapEndpoint
from triomq.protocols.tap import (
    ClientEvent,
    EndOfStream,
    PartitionBounds,
    RecordsAnswered,
    ServerClosing,
    ServerGreeting,
    TapClientEngine,
    TapRequest,
    Welcomed,
)


@asynccontextmanager
async def open_tap_broker(**options: Any) -> AsyncIterator[Broker]:
    """Open a broker that listens for AMQP and for tap."""
    async with open_broker(AMQP(host="127.0.0.1", port=0), Tap(host="127.0.0.1", port=0), **options) as broker:
        yield broker


def tap_endpoint(broker: Broker) -> TapEndpoint:
    """Return the endpoint of the broker that speaks tap."""
    (found,) = [ref.actor for ref in broker.endpoints.children.values() if isinstance(ref.actor, TapEndpoint)]
    return found


def declare_stream(broker: Broker, name: str = "orders", *, partitions: int = 0, durable: bool = False) -> QueueState:
    """Declare a stream; return it, or its first partition."""
    options = QueueOptions(durable=durable, stream=StreamOptions())
    if partitions:
        return broker.domain_ref.ask_nowait(DeclareStream(name, options, broker.session, partitions))[0]
    return broker.domain_ref.ask_nowait(DeclareQueue(name, options, broker.session))


async def append(broker: Broker, *values: bytes, name: str = "orders", at: float | None = None) -> None:
    """Publish records, in a second since 1970 if that matters."""
    if at is not None:
        broker.directory.queues[name].backlog.wall = lambda: at  # type: ignore[attr-defined]
    for value in values:
        await broker.publish("", name, value)


class TapParty:
    """A client of tap; ``answers`` are all that have come, in their order."""

    def __init__(self, stream: trio.abc.Stream, user: str = "guest", password: str = "") -> None:
        self.stream = stream
        self.engine = TapClientEngine(now=0.0)
        self.user, self.password = user, password or user
        self.events: deque[ClientEvent] = deque()
        self.ended: ClientEvent | None = None

    async def open(self, domain: str = "") -> "TapParty":
        """Log in."""
        await self.expect(ServerGreeting)
        self.engine.log_in("PLAIN", f"\0{self.user}\0{self.password}".encode(), domain)
        await self.expect(Welcomed)
        return self

    async def flush(self) -> None:
        if data := b"".join(self.engine.data_to_send()):
            await self.stream.send_all(data)

    async def next(self) -> ClientEvent:
        """Return what the server says next."""
        await self.flush()
        while not self.events:
            try:
                data = bytes(await self.stream.receive_some(65536))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                data = b""
            self.engine.receive_data(data)
            self.events += self.engine.events()
            assert self.events or data, "the stream has ended"
        event = self.events.popleft()
        if isinstance(event, ServerClosing | EndOfStream):
            self.ended = event
        return event

    async def expect(self, kind: type[Any]) -> Any:
        event = await self.next()
        assert isinstance(event, kind), event
        return event

    async def ask(self, number: int) -> TapRequest:
        """Return the answer to a request, which is the next one."""
        answer = await self.expect(TapRequest)
        assert isinstance(answer, TapRequest)
        assert answer.number == number
        return answer

    async def bounds(
        self, stream: str = "orders", group: str = "", since: int | None = None
    ) -> Sequence[PartitionBounds]:
        answer = await self.ask(self.engine.offsets(stream, group, since))
        return answer.partitions  # type: ignore[attr-defined, no-any-return]

    def fetch(
        self, first: int, stop: int | None = None, *, stream: str = "orders", wait: int = 0, **options: Any
    ) -> int:
        fields = {"partition": 0, "identity": None, "most_bytes": 1 << 20, **options}
        return self.engine.fetch(stream, first=first, stop=stop, wait=wait, **fields)


def values(answer: object) -> list[bytes]:
    """Return the bodies of an answer's records."""
    assert isinstance(answer, RecordsAnswered), answer
    return [value for chunk in split_chunks(answer.chunks) for value in Columns(chunk).values.each()]


def records_from(first: int, answer: RecordsAnswered) -> list[StreamRecord]:
    """Return an answer's records without those before the offset that was asked for: chunks come whole."""
    records = (record for chunk in split_chunks(answer.chunks) for record in Columns(chunk).records())
    return [record for record in records if record.offset >= first]


def dial(
    broker: Broker,
    user: str = "guest",
    password: str = "",
    *,
    pair: Callable[[], tuple[trio.abc.Stream, trio.abc.Stream]] = trio.testing.memory_stream_pair,
) -> TapParty:
    """Connect a client that has said nothing yet."""
    ours, theirs = pair()
    tap_endpoint(broker).listener.connect_stream(theirs, "memory")
    return TapParty(ours, user, password)
