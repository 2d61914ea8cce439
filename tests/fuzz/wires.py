"""Transports without a socket, for connections of a whole broker; and a client at the end of one that behaves well."""

import struct
from collections.abc import Sequence
from itertools import count

import trio

from triomq.protocols.amqp import (
    AMQP_METHODS,
    BROKER_METHODS,
    AckRun,
    AMQPEngine,
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicPublish,
    ChannelOpen,
    ChannelOpened,
    Closed,
    ConfirmSelect,
    ConfirmSelectOk,
    Connected,
    DeliverRun,
    Event,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    Received,
    Settings,
    plain,
)
from triomq.transports import RECEIVE_SIZE, Driver

from .loop import Violation


class Wire:
    """A transport whose other end is the caller: ``feed`` is what the peer sends, ``sent()`` what it was sent.

    Args:
        reads: whether the peer takes what it is sent; otherwise the broker can never write again.
    """

    is_encrypted = False

    def __init__(self, *, reads: bool) -> None:
        self.peer = "fuzz"
        self.receive_size = RECEIVE_SIZE
        self.progress = 0  # nothing is ever taken from one that does not read
        self.closed = False
        self._reads = reads
        self._driver: Driver | None = None
        self._sent: list[bytes | memoryview] = []
        self._may_read = trio.Event()

    async def feed(self, data: bytes) -> None:
        """Send octets to the broker, once it reads; ``b""`` is the end."""
        while not self._may_read.is_set():
            await self._may_read.wait()
        if self._driver is not None:
            self._driver.received(data)
        await trio.lowlevel.checkpoint()

    def sent(self) -> bytes:
        return b"".join(self._sent)

    def take(self) -> bytes:
        sent, self._sent = self.sent(), []
        return sent

    # What the broker calls

    @property
    def bottom(self) -> "Wire":
        return self

    def client_name(self, kind: str) -> str:
        return ""

    def start(self, driver: Driver) -> None:
        self._driver = driver
        self._may_read.set()

    def send_nowait(self, buffers: Sequence[bytes | memoryview]) -> bool:
        self._sent += buffers
        return self._reads

    def notify_drained(self) -> None:
        if self._reads:
            trio.lowlevel.current_trio_token().run_sync_soon(self._drained)

    def _drained(self) -> None:
        if self._driver is not None:
            self._driver.drained()

    def pause_reading(self) -> None:
        if not self.closed:
            self._may_read = trio.Event()

    def resume_reading(self) -> None:
        self._may_read.set()

    def end_sending(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True
        self._driver = None
        self._may_read.set()


def outcome(sent: bytes) -> str:
    """Name how the broker ended a conversation, from all that it sent."""
    position, found = 8 if sent.startswith(b"AMQP") else 0, "no close"
    if position:
        return "another protocol"
    while position < len(sent):
        kind, _, size = struct.unpack_from(">BHI", sent, position)
        payload = sent[position + 7 : position + 7 + size]
        position += 8 + size
        name = AMQP_METHODS.find(payload).row.name if kind == 1 else ""
        if name == "connection.close":
            return f"connection closed {int.from_bytes(payload[4:6], 'big')}"
        if name == "connection.close-ok":
            return "closed by the client"
        if name == "channel.close":
            found = f"channel closed {int.from_bytes(payload[4:6], 'big')}"
    return found


class Healthy:
    """A client that publishes to a queue of its own and consumes from it, while others do what they should not."""

    def __init__(self, wire: Wire) -> None:
        settings = Settings(login=plain("guest", "guest"), heartbeat=0)
        self.wire = wire
        self.engine = AMQPEngine("client", now=trio.current_time(), settings=settings, methods=BROKER_METHODS)
        self.queue = ""
        self._events: list[Event] = []
        self._numbers = count(1)

    async def exchange(self) -> None:
        """Publish one message; it is confirmed and delivered, and nothing else comes."""
        if not self.queue:
            await self.open()
        body = b"number %d" % next(self._numbers)
        self.engine.send_content(1, BasicPublish("", self.queue), b"\0\0", body)
        delivered = confirmed = False
        while not (delivered and confirmed):
            match await self.next():
                case DeliverRun(framing=framing, contents=[content], tags=[tag]) if framing.body(content) == body:
                    delivered = True
                    self.engine.send_method(1, BasicAck(tag))
                case AckRun() | Received(method=BasicAck()):
                    confirmed = True
                case event:
                    raise Violation(f"the healthy connection waited for {body!r} and got {event}")

    async def open(self) -> None:
        await self.expect(Connected)
        self.engine.send_method(1, ChannelOpen())
        await self.expect(ChannelOpened)
        self.queue = (await self.call(QueueDeclare("", exclusive=True), QueueDeclareOk)).queue  # type: ignore[attr-defined]
        await self.call(BasicConsume(self.queue), BasicConsumeOk)
        await self.call(ConfirmSelect(), ConfirmSelectOk)

    async def leave(self) -> None:
        self.engine.close(200, "done")
        await self.expect(Closed)
        await self.wire.feed(b"")

    async def call(self, method: Method, reply: type[Method]) -> Method:
        self.engine.send_method(1, method)
        event = await self.expect(Received)
        assert isinstance(event, Received)
        assert isinstance(event.method, reply), event
        return event.method

    async def expect(self, kind: type[Event]) -> Event:
        """Wait for an event of this kind; the server's introduction is passed over."""
        while True:
            event = await self.next()
            if isinstance(event, kind):
                return event

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
