"""A client that behaves: what it publishes into a sink comes out of its feed, while others do what they should not."""

from itertools import count

import trio

from triomq.protocols import NO_PROPERTIES
from triomq.protocols.amqp import (
    AckRun,
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicPublish,
    DirectGet,
    DirectGetOk,
    DirectPut,
    DirectPutOk,
    QueueDeclare,
    QueueDeclareOk,
    Received,
)
from triomq.protocols.dmp import DMPEngine, Event, MessageRun, Ready, Target

from .broker_fuzz import Round
from .loop import Violation
from .wires import Healthy, Wire


class HealthyDirect:
    """A principal connection, a sink and a feed.

    Args:
        round: The round that it is a client in.
    """

    def __init__(self, round: Round) -> None:
        self._round = round
        self._principal = Healthy(round.connect(reads=True))
        self._sink: _Side
        self._feed: _Side
        self._queue = ""
        self._numbers = count(1)

    async def open(self) -> None:
        """Declare a queue, and open a sink and a feed."""
        call = self._principal.call
        await self._principal.open()
        declared = await call(QueueDeclare("", exclusive=True), QueueDeclareOk)
        assert isinstance(declared, QueueDeclareOk)
        self._queue = declared.queue
        await call(BasicConsume(self._queue, no_ack=True), BasicConsumeOk)
        put, get = await call(DirectPut(""), DirectPutOk), await call(DirectGet(self._queue), DirectGetOk)
        assert isinstance(put, DirectPutOk)
        assert isinstance(get, DirectGetOk)
        self._sink = _Side(self._round.connect(reads=True), put.lease, "sink")
        self._feed = _Side(self._round.connect(reads=True), get.lease, "feed")
        for side in (self._sink, self._feed):
            if not isinstance(event := await side.next(), Ready):
                raise Violation(f"a healthy client got {event}")

    async def exchange(self) -> None:
        """Publish directly and over AMQP: both come directly, in order, and nothing else."""
        await self._principal.exchange()
        first, second = (b"direct %d" % next(self._numbers) for _ in range(2))
        self._sink.engine.send_message("", self._queue, NO_PROPERTIES, first)
        await self._sink.flush()
        await self._receive(first)
        self._principal.engine.send_content(1, BasicPublish("", self._queue), NO_PROPERTIES, second)
        await self._principal.flush()
        await self._receive(second)
        match await self._principal.next():
            case AckRun() | Received(method=BasicAck()):
                pass
            case event:
                raise Violation(f"the healthy connection waited for a confirm and got {event}")

    async def _receive(self, body: bytes) -> None:
        match await self._feed.next():
            case MessageRun(envelope=envelope, contents=[content]) if envelope.body(content) == body:
                pass
            case event:
                raise Violation(f"the healthy feed waited for {body!r} and got {event}")

    async def leave(self) -> None:
        for side in (self._sink, self._feed):
            await side.wire.feed(b"")
        await self._principal.leave()


class _Side:
    """One of its direct connections."""

    def __init__(self, wire: Wire, lease: str, target: Target) -> None:
        self.wire = wire
        self.engine = DMPEngine("client", now=trio.current_time(), lease=lease, target=target)
        self._events: list[Event] = []

    async def flush(self) -> None:
        for piece in self.engine.data_to_send():
            await self.wire.feed(bytes(piece))

    async def next(self) -> Event:
        while not self._events:
            await self.flush()
            if received := self.wire.take():
                self.engine.receive_data(received)
                self._events += self.engine.events()
            else:
                await trio.sleep(0.001)
        return self._events.pop(0)
