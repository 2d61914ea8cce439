"""A client for tests: the client's half of our own engine at one end of a stream, driven by hand."""

from collections import deque
from typing import Any, NamedTuple, TypeVar

import trio

from triomq.protocols import NO_PROPERTIES
from triomq.protocols.amqp import (
    BROKER_METHODS,
    AckRun,
    AMQPEngine,
    BasicAck,
    BasicGet,
    BasicPublish,
    ChannelClosed,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpened,
    Closed,
    Connected,
    DeliverRun,
    EndOfStream,
    Event,
    GetOk,
    Login,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    Received,
    ServerStarted,
    Settings,
    plain,
)

PATIENCE = 200.0
"""Virtual seconds until a test that waits for what never comes is over."""

GUEST = plain("guest", "guest")

E = TypeVar("E")
M = TypeVar("M", bound=Method)


class Delivered(NamedTuple):
    """One delivery."""

    body: bytes
    tag: int
    redelivered: bool
    consumer: str
    exchange: str
    key: str
    properties: bytes
    channel: int


class Client:
    """One connection; reads only when a test asks for something, and sends only when told.

    Args:
        stream: Our end; closed by the test, or never.
        login: What to log in with; None leaves it to the test.
        wishes: Further settings of the engine; no heartbeat unless asked for.
    """

    def __init__(self, stream: trio.abc.Stream, *, login: Login | None = GUEST, **wishes: object) -> None:
        settings = Settings(**{"login": login, "heartbeat": 0, **wishes})  # type: ignore[arg-type]
        self.engine = AMQPEngine("client", now=trio.current_time(), settings=settings, methods=BROKER_METHODS)
        self.stream = stream
        self.events: deque[Event] = deque()

    # Sending

    async def flush(self) -> None:
        """Send what the engine has to say."""
        data = b"".join(self.engine.data_to_send())
        if data:
            await self.stream.send_all(data)

    async def say(self, channel: int, *methods: Method) -> None:
        """Send methods in one piece."""
        for method in methods:
            self.engine.send_method(channel, method)
        await self.flush()

    def publish(
        self,
        channel: int,
        exchange: str,
        key: str,
        *bodies: bytes,
        properties: bytes = NO_PROPERTIES,
        mandatory: bool = False,
        immediate: bool = False,
    ) -> None:
        """Prepare publishes; ``flush`` sends them."""
        method = BasicPublish(exchange, key, mandatory=mandatory, immediate=immediate)
        for body in bodies:
            self.engine.send_content(channel, method, properties, body)

    async def send(self, channel: int, exchange: str, key: str, *bodies: bytes, **options: Any) -> None:
        """Publish messages, in one piece with what is prepared."""
        self.publish(channel, exchange, key, *bodies, **options)
        await self.flush()

    # Reading

    async def next(self) -> Event:
        """Wait for the next event; what the engine answers by itself is sent."""
        with trio.fail_after(PATIENCE):
            while not self.events:
                data = bytes(await self.stream.receive_some(64 * 1024))
                if not data and self.engine.outbox.finished:
                    return EndOfStream()  # after a close the engine does not care any more
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

    async def read(self, kind: type[M], channel: int = 1) -> M:
        """Wait for the next event, which is this method; acks of a run are read one by one."""
        event = await self.next()
        if isinstance(event, AckRun):
            tag, *others = event.tags
            if others:
                self.events.appendleft(AckRun(event.channel, others))
            event = Received(event.channel, BasicAck(tag))
        assert isinstance(event, Received), event
        assert isinstance(event.method, kind), event
        assert event.channel == channel
        return event.method

    async def call(self, channel: int, method: Method, reply: type[M] = Method) -> M:  # type: ignore[assignment]
        """Send a method and wait for its reply, which is its own ok unless another one is given."""
        await self.say(channel, method)
        answer = await self.read(reply, channel)
        assert reply is not Method or type(answer).__name__ == f"{type(method).__name__}Ok", answer
        return answer

    async def get(self, queue: str, *, no_ack: bool = False) -> Delivered:
        """Get the next message of a queue, which is there, on channel 1."""
        await self.say(1, BasicGet(queue, no_ack=no_ack))
        return await self.got()

    async def deliveries(self, count: int) -> list[Delivered]:
        """Wait for so many deliveries."""
        found: list[Delivered] = []
        while len(found) < count:
            found += delivered(await self.expect(DeliverRun))
        assert len(found) == count, found
        return found

    async def got(self) -> Delivered:
        """Wait for a get-ok."""
        event = await self.expect(GetOk)
        method, framing, content = event.method, event.framing, event.content
        return Delivered(
            framing.body(content),
            method.delivery_tag,
            method.redelivered,
            "",
            method.exchange,
            method.routing_key,
            framing.properties(content),
            event.channel,
        )

    async def silence(self) -> None:
        """See that nothing comes, however long one waits."""
        with trio.move_on_after(30):
            event = await self.next()
            raise AssertionError(f"came unasked: {event}")

    # Whole exchanges

    async def connect(self) -> Connected:
        """Go through the handshake."""
        await self.flush()
        await self.expect(ServerStarted)
        return await self.expect(Connected)

    async def open_channel(self, number: int = 1) -> None:
        """Open a channel."""
        await self.say(number, ChannelOpen())
        assert (await self.expect(ChannelOpened)).channel == number

    async def close_channel(self, number: int = 1) -> None:
        """Close a channel in order."""
        self.engine.close_channel(number, 200, "enough")
        await self.flush()
        await self.expect(ChannelClosed)

    async def declare(self, name: str, channel: int = 1, **options: object) -> QueueDeclareOk:
        """Declare a queue."""
        return await self.call(channel, QueueDeclare(name, **options), QueueDeclareOk)  # type: ignore[arg-type]

    async def channel_closed(self, channel: int = 1) -> tuple[int, str]:
        """Wait for the server to close a channel, answer, and give code and text."""
        event = await self.expect(ChannelClosed)
        assert event.channel == channel
        assert event.by_peer
        await self.say(channel, ChannelCloseOk())
        return event.code, event.text

    async def closed(self) -> tuple[int, str]:
        """Wait for the server to close the connection, and give code and text."""
        event = await self.expect(Closed)
        assert event.by_peer
        return event.code, event.text

    async def hang_up(self) -> None:
        """Go away without a word."""
        await self.stream.aclose()

    async def leave(self) -> None:
        """Close the connection in order."""
        self.engine.close(200, "Goodbye")
        await self.flush()
        while not isinstance(await self.next(), Closed | EndOfStream):
            pass
        await self.stream.aclose()


def delivered(run: DeliverRun) -> list[Delivered]:
    """Take a run apart."""
    method, framing = run.method, run.framing
    return [
        Delivered(
            framing.body(content),
            tag,
            method.redelivered,
            method.consumer_tag,
            method.exchange,
            method.routing_key,
            framing.properties(content),
            run.channel,
        )
        for tag, content in zip(run.tags, run.contents, strict=True)
    ]
