"""What every endpoint owes its clients, whatever they speak: the parties that the contract's tests drive.

A party speaks one protocol from the client's side, and remembers what it hears. The tests (``test_contract_*``) know no
protocol: they ask the broker what is in its queues, and the party what it was told, and the two must agree. Whoever
adds an endpoint adds its parties to ``parties``, and is done when all tests pass.
"""

from collections.abc import Awaitable, Callable
from typing import ClassVar, NamedTuple

import trio
import trio.testing

from endpoints.client import Client, delivered
from endpoints.conftest import endpoint_of
from endpoints.direct import lease_feed, lease_sink
from endpoints.toy import Deframer, LineEndpoint, Lines, ToyEndpoint, Toys, framed
from triomq.actors import ChildSpec, Ref
from triomq.app import Broker
from triomq.core import Properties
from triomq.endpoints import AMQPEndpoint, Endpoint, StreamListener
from triomq.errors import TriomqError
from triomq.protocols import BasicProperties, encode_properties
from triomq.protocols.amqp import (
    AckRun,
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicNack,
    BasicPublish,
    ChannelClosed,
    Closed,
    ConfirmSelect,
    DeliverRun,
    EndOfStream,
    Event,
    QueueDeclare,
    Received,
    plain,
)
from triomq.protocols.dmp import DMPEngine, MessageRun, Ready, RefusalReceived, Settings
from triomq.protocols.dmp import EndOfStream as DirectEnd
from triomq.protocols.dmp import Event as DirectEvent


class Sent(NamedTuple):
    """A message as tests have it published."""

    body: bytes
    persistent: bool = True
    header: str = ""

    @property
    def properties(self) -> bytes:
        headers = {self.header: 1} if self.header else None
        return encode_properties(BasicProperties(delivery_mode=2 if self.persistent else 1, headers=headers))


class Party:
    """A client of one endpoint."""

    has_users: ClassVar[bool] = True
    """Whether it logs in as somebody."""
    has_threads: ClassVar[bool] = False
    """Whether its bytes pass through threads that are not ours, so that time cannot be virtual."""
    cushion: ClassVar[float] = 0.0
    """Seconds for which nothing must happen until nothing happens any more."""

    def __init__(self, broker: Broker, nursery: trio.Nursery, user: str = "guest") -> None:
        self.broker = broker
        self.nursery = nursery
        self.user = user
        self.ended = False  # it was put out, or told that it may not go on

    async def settled(self) -> None:
        """Wait until nothing happens any more."""
        await trio.testing.wait_all_tasks_blocked(self.cushion)

    async def passes(self, seconds: float) -> None:
        """Let time pass."""
        await trio.sleep(seconds)

    async def lasts(self, function: Callable[[], Awaitable[None]], seconds: float) -> None:
        """Call something that may take so long, and no longer."""
        await function()

    async def is_put_out(self) -> bool:
        """Return whether it has been told that it may not go on, or is told so when it tries."""
        return self.ended

    @property
    def endpoint(self) -> AMQPEndpoint:
        return endpoint_of(self.broker)

    async def principal(self) -> Client:
        """Log in over AMQP, with channel 1 open."""
        stream = self.connect()
        client = Client(stream, login=plain(self.user, self.user))
        await client.connect()
        await client.open_channel()
        return client

    def connect(self) -> trio.abc.Stream:
        ours, theirs = trio.testing.memory_stream_pair()
        self.listener.connect_stream(theirs, "memory")
        return ours

    @property
    def listener(self) -> StreamListener:
        return self.endpoint.listener

    @property
    def own_endpoint(self) -> Endpoint:
        """The endpoint whose client this is."""
        return self.endpoint

    @property
    def clients(self) -> list[Ref]:
        """The clients of that endpoint."""
        return list(self.own_endpoint.children.values())


# Publishers


class Publishing(Party):
    """A client that publishes."""

    answers: ClassVar[bool] = False
    """Whether it hears of each message what became of it."""
    persists: ClassVar[bool] = True
    """Whether its messages can be durable, and go into any sink."""
    declares: ClassVar[bool] = False
    """Whether what it publishes declares the queue that it names."""
    names_sinks: ClassVar[bool] = True
    """Whether it says which sink a message goes into."""
    is_read: ClassVar[bool] = True
    """Whether the broker reads what it sends from a stream of its own, so that it can wait when it runs ahead."""
    cushion = 0.01  # for the store's thread or process

    def __init__(self, broker: Broker, nursery: trio.Nursery, user: str = "guest") -> None:
        super().__init__(broker, nursery, user)
        self.taken = 0
        self.refused = 0
        self._heard = trio.Event()

    def hear(self, *, taken: int, refused: int) -> None:
        """Note how many messages the broker says that it has taken, and refused, by now."""
        self.taken, self.refused = taken, refused
        self._heard.set()

    async def told(self, count: int) -> None:
        """Wait until so many messages are answered."""
        while self.answers and self.taken + self.refused < count:
            self._heard = trio.Event()
            await self._heard.wait()

    async def open(self, sink: str = "") -> None:
        """Be ready to publish into a sink."""
        raise NotImplementedError

    async def publish(self, *messages: Sent, key: str = "q") -> None:
        """Send messages in one piece, and wait for nothing."""
        raise NotImplementedError

    async def break_off(self, *messages: Sent, key: str = "q") -> None:
        """Send messages, the last of them only by half, and go away."""
        raise NotImplementedError


class AMQPPublishing(Publishing):
    client: Client
    _sink: str

    async def open(self, sink: str = "") -> None:
        self._sink = sink
        self.client = await self.principal()
        if self.answers:
            await self.client.call(1, ConfirmSelect())
        self._acked: set[int] = set()
        self._nacked: set[int] = set()
        self.nursery.start_soon(self._listen)

    async def _listen(self) -> None:
        async for event in events_of(self.client):
            self._hear(event)

    def _hear(self, event: Event) -> None:
        match event:
            case Received(method=BasicAck(delivery_tag=number, multiple=multiple)):
                first = 1 if multiple else number
                self._acked |= set(range(first, number + 1)) - self._nacked
                self.hear(taken=len(self._acked), refused=len(self._nacked))
            case AckRun(tags=tags):
                self._acked |= set(tags)
                self.hear(taken=len(self._acked), refused=len(self._nacked))
            case Received(method=BasicNack(delivery_tag=number)):
                self._nacked.add(number)
                self.hear(taken=len(self._acked), refused=len(self._nacked))
            case ChannelClosed() | Closed() | EndOfStream():
                self.ended = True

    def _octets(self, messages: tuple[Sent, ...], key: str) -> bytes:
        for message in messages:
            method = BasicPublish(self._sink, key)
            self.client.engine.send_content(1, method, message.properties, message.body)
        return b"".join(self.client.engine.data_to_send())

    async def publish(self, *messages: Sent, key: str = "q") -> None:
        await self.client.stream.send_all(self._octets(messages, key))

    async def break_off(self, *messages: Sent, key: str = "q") -> None:
        octets = self._octets(messages, key)
        await self.client.stream.send_all(octets[: len(octets) - len(messages[-1].body)])
        await self.client.hang_up()


class AMQPConfirming(AMQPPublishing):
    answers = True


class DirectPublishing(Publishing):
    _stream: trio.abc.Stream
    _engine: DMPEngine

    async def open(self, sink: str = "") -> None:
        client = await self.principal()
        try:
            lease = await lease_sink(client, sink)
        except AssertionError:  # the channel was closed
            self.ended = True
            return
        self._engine, self._stream = await open_direct(self, lease, "sink")
        self.nursery.start_soon(self._listen)

    async def _listen(self) -> None:
        async for event in direct_events_of(self._engine, self._stream):
            self.ended = self.ended or isinstance(event, RefusalReceived | DirectEnd)

    def _octets(self, messages: tuple[Sent, ...], key: str) -> bytes:
        for message in messages:
            self._engine.send_message("", key, message.properties, message.body)
        return b"".join(self._engine.data_to_send())

    async def publish(self, *messages: Sent, key: str = "q") -> None:
        await self._stream.send_all(self._octets(messages, key))

    async def break_off(self, *messages: Sent, key: str = "q") -> None:
        octets = self._octets(messages, key)
        await self._stream.send_all(octets[: len(octets) - len(messages[-1].body) // 2])
        await self._stream.aclose()


class ProgramPublishing(Publishing):
    """The program that the broker lives in."""

    answers = True
    has_users = False
    is_read = False

    async def open(self, sink: str = "") -> None:
        self._sink = sink

    async def publish(self, *messages: Sent, key: str = "q") -> None:
        for message in messages:
            self.nursery.start_soon(self._publish, message, key)
            await trio.lowlevel.checkpoint()

    async def _publish(self, message: Sent, key: str) -> None:
        headers: dict[str, object] | None = {message.header: 1} if message.header else None
        properties = Properties(persistent=message.persistent, headers=headers)
        try:
            await self.broker.publish(self._sink, key, message.body, properties)
        except TriomqError:
            self.hear(taken=self.taken, refused=self.refused + 1)
        else:
            self.hear(taken=self.taken + 1, refused=self.refused)

    async def break_off(self, *messages: Sent, key: str = "q") -> None:
        await self.publish(*messages[:-1], key=key)
        with trio.CancelScope() as scope:
            scope.cancel()
            await self._publish(messages[-1], key)


class OwnEndpointParty(Party):
    """A client of an endpoint of the toys, which a test opens with its first client."""

    config: ClassVar[type[Lines]]

    @property
    def _name(self) -> str:
        return f"{self.config.__name__}-{self.user}"

    @property
    def own_endpoint(self) -> Endpoint:
        actor = self.broker.endpoints.children[self._name].actor
        assert isinstance(actor, Endpoint)
        return actor

    async def open_endpoint(self) -> None:
        if self._name not in self.broker.endpoints.children:
            config = self.config(port=0, user=self.user)
            spec = ChildSpec(lambda: config.make(self.broker.context), name=self._name)
            await self.broker.endpoints.start_child(spec)


class LineParty(OwnEndpointParty):
    config = Lines
    stream: trio.abc.Stream

    @property
    def listener(self) -> StreamListener:
        actor = self.own_endpoint
        assert isinstance(actor, LineEndpoint | ToyEndpoint)
        return actor.listener

    async def begin(self, *lines: str) -> None:
        """Connect and send some lines, which are answered by OK; after that, listen."""
        await self.open_endpoint()
        self.stream = self.connect()
        self._rest = b""
        self._reading = trio.CancelScope()
        for line in lines:
            await self.send(line.encode() + b"\n")
            answer = await self._read_line()
            assert answer is not None, "the client was closed"
            if not answer.startswith(b"OK"):
                self.ended = True
                return
        self.nursery.start_soon(self._listen)

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    def unwrap(self, data: bytes) -> bytes:
        return data

    async def _more(self) -> bool:
        try:
            data = bytes(await self.stream.receive_some(65536))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            data = b""
        self._rest += self.unwrap(data)
        return bool(data)

    async def _read_line(self) -> bytes | None:
        while b"\n" not in self._rest:
            if not await self._more():
                return None
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    async def _listen(self) -> None:
        with self._reading:
            while (line := await self._read_line()) is not None:
                if line.startswith(b"MSG "):
                    size = int(line.split()[-1])
                    while len(self._rest) < size + 1:
                        if not await self._more():
                            return
                    self.took(self._rest[:size])
                    self._rest = self._rest[size + 1 :]
                else:
                    self.told_line(line)
            self.ended = True

    def told_line(self, line: bytes) -> None:
        """Hear the answer to a line."""

    def took(self, body: bytes) -> None:
        """Hear a message."""


class ToyParty(LineParty):
    config = Toys

    async def begin(self, *lines: str) -> None:
        self._deframer = Deframer()
        await super().begin(f"LOGIN {self.user} {self.user}", *lines)

    async def send(self, data: bytes) -> None:
        await super().send(framed(data))

    def unwrap(self, data: bytes) -> bytes:
        return self._deframer.take(data)


class LinePublishing(LineParty, Publishing):
    persists = False

    async def open(self, sink: str = "") -> None:
        await self.begin("QUEUE other" if self.user == "guest" else "QUEUE")
        self.ended = self.user != "guest"

    async def publish(self, *messages: Sent, key: str = "q") -> None:
        await self.send(b"".join(b"PUB %b %b\n" % (key.encode(), message.body) for message in messages))

    async def break_off(self, *messages: Sent, key: str = "q") -> None:
        await self.publish(*messages[:-1], key=key)
        await self.send(b"PUB %b half" % key.encode())
        await self.stream.aclose()


class ToyPublishing(ToyParty, Publishing):
    answers = True

    async def open(self, sink: str = "") -> None:
        self._sink = sink or "-"
        self._sent = 0
        await self.begin()

    def _lines(self, messages: tuple[Sent, ...], key: str) -> bytes:
        lines = b""
        for message in messages:
            self._sent += 1
            persistent = "yes" if message.persistent else "no"
            lines += f"PUB {self._sent} {self._sink} {key} {persistent} {message.header}\t".encode()
            lines += message.body + b"\n"
        return lines

    def told_line(self, line: bytes) -> None:
        refused = line.startswith(b"ERR")
        self.hear(taken=self.taken + (not refused), refused=self.refused + refused)

    async def publish(self, *messages: Sent, key: str = "q") -> None:
        await self.send(self._lines(messages, key))

    async def break_off(self, *messages: Sent, key: str = "q") -> None:
        whole = framed(self._lines(messages[:-1], key))
        await self.stream.send_all(whole + framed(self._lines(messages[-1:], key))[:-3])
        await self.stream.aclose()


PUBLISHERS: dict[str, type[Publishing]] = {
    "amqp": AMQPPublishing,
    "amqp with confirms": AMQPConfirming,
    "dmp": DirectPublishing,
    "program": ProgramPublishing,
    "lines": LinePublishing,
    "toy": ToyPublishing,
}


# Consumers


class Consuming(Party):
    """A client that consumes from a queue, and settles nothing before it is told to."""

    settles: ClassVar[bool] = True
    """Whether what it has is its queue's until it says otherwise."""
    goes_on: ClassVar[bool] = False
    """Whether it goes on by itself when its queue has crashed and runs again."""
    keeps: ClassVar[bool] = False
    """Whether its queue keeps what was read, so that none of it goes back or comes twice."""

    def __init__(self, broker: Broker, nursery: trio.Nursery, user: str = "guest") -> None:
        super().__init__(broker, nursery, user)
        self.got: list[bytes] = []
        self.cancelled = False  # it was told that its queue delivers no more

    async def open(self, queue: str = "q") -> None:
        """Declare a queue of one's own and consume from it."""
        raise NotImplementedError

    def connect(self) -> trio.abc.Stream:
        ours, theirs = trio.testing.lockstep_stream_pair()  # which holds nothing that is not read
        self.listener.connect_stream(theirs, "lockstep")
        return ours

    async def stop_reading(self) -> None:
        """Read nothing any more."""
        raise NotImplementedError

    async def hang_up(self) -> None:
        """Go away without a word."""
        raise NotImplementedError


class AMQPConsuming(Consuming):
    client: Client
    _scope: trio.CancelScope

    async def open(self, queue: str = "q") -> None:
        self.client = await self.principal()
        await self.client.call(1, QueueDeclare(queue))
        try:
            await self.client.call(1, BasicConsume(queue))
        except AssertionError:  # the channel was closed
            self.ended = True
            return
        self._scope = trio.CancelScope()
        self.nursery.start_soon(self._listen)

    async def _listen(self) -> None:
        with self._scope:
            async for event in events_of(self.client):
                match event:
                    case DeliverRun():
                        self.got += [one.body for one in delivered(event)]
                    case Received(method=BasicCancel()):
                        self.cancelled = True
                    case Closed() | EndOfStream():
                        self.ended = True

    async def stop_reading(self) -> None:
        self._scope.cancel()

    async def hang_up(self) -> None:
        await self.client.hang_up()


class DirectConsuming(Consuming):
    settles = False
    _scope: trio.CancelScope
    _engine: DMPEngine
    _stream: trio.abc.Stream

    async def open(self, queue: str = "q") -> None:
        client = await self.principal()
        await client.call(1, QueueDeclare(queue, exclusive=True))
        try:
            lease = await lease_feed(client, queue)
            await client.call(1, BasicConsume(queue, no_ack=True))
        except AssertionError:  # the channel was closed
            self.ended = True
            return
        self._engine, self._stream = await open_direct(self, lease, "feed")
        self._scope = trio.CancelScope()
        self.nursery.start_soon(self._listen)
        self.nursery.start_soon(self._listen_to_principal, client)

    async def _listen(self) -> None:
        with self._scope:
            async for event in direct_events_of(self._engine, self._stream):
                if isinstance(event, MessageRun):
                    self.got += [envelope.body(content) for envelope, content in event.messages()]
                elif isinstance(event, DirectEnd):
                    self.ended = True

    async def _listen_to_principal(self, client: Client) -> None:
        async for event in events_of(client):
            if isinstance(event, Received) and isinstance(event.method, BasicCancel):
                self.cancelled = True

    async def stop_reading(self) -> None:
        self._scope.cancel()

    async def hang_up(self) -> None:
        await self._stream.aclose()


class ProgramConsuming(Consuming):
    has_users = False
    goes_on = True
    _scope: trio.CancelScope

    async def open(self, queue: str = "q") -> None:
        await self.broker.declare_queue(queue, durable=False)
        self._scope = trio.CancelScope()
        self._reading = trio.CancelScope()
        self.nursery.start_soon(self._listen, queue)
        await trio.testing.wait_all_tasks_blocked()

    async def _listen(self, queue: str) -> None:
        with self._scope:
            async with self.broker.queue(queue).open_feed() as feed:
                with self._reading:
                    async for delivery in feed:
                        self.got.append(delivery.body)
                    self.cancelled = True
                await trio.sleep_forever()

    async def stop_reading(self) -> None:
        self._reading.cancel()

    async def hang_up(self) -> None:
        self._scope.cancel()


class LineConsuming(LineParty, Consuming):
    settles = False

    async def open(self, queue: str = "q") -> None:
        if queue not in self.broker.directory.queues:
            await self.broker.declare_queue(queue, durable=False)
        await self.begin(f"SUB {queue}")

    def took(self, body: bytes) -> None:
        self.got.append(body)

    def told_line(self, line: bytes) -> None:
        self.cancelled = self.cancelled or line == b"END"

    async def stop_reading(self) -> None:
        self._reading.cancel()

    async def hang_up(self) -> None:
        self._reading.cancel()
        await self.stream.aclose()


class ToyConsuming(ToyParty, LineConsuming):
    settles = True

    async def open(self, queue: str = "q") -> None:
        if queue not in self.broker.directory.queues:
            await self.broker.declare_queue(queue, durable=False)
        try:
            await self.begin(f"SUB {queue}")
        except AssertionError:  # it was closed
            self.ended = True


CONSUMERS: dict[str, type[Consuming]] = {
    "amqp": AMQPConsuming,
    "dmp": DirectConsuming,
    "program": ProgramConsuming,
    "lines": LineConsuming,
    "toy": ToyConsuming,
}


# The two wires


async def events_of(client: Client):  # type: ignore[no-untyped-def]  # an async generator
    """Yield what comes over AMQP until the end; what the engine answers by itself is sent."""
    while client.events:
        yield client.events.popleft()
    while True:
        try:
            data = bytes(await client.stream.receive_some(65536))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            data = b""
        client.engine.receive_data(data)
        for event in client.engine.events():
            yield event
        try:
            await client.flush()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        if not data:
            return


async def open_direct(party: Party, lease: str, target: str) -> tuple[DMPEngine, trio.abc.Stream]:
    """Present a lease."""
    stream = party.connect()
    settings = Settings(heartbeat=0.0)
    engine = DMPEngine("client", now=trio.current_time(), settings=settings, lease=lease, target=target)  # type: ignore[arg-type]
    while not any(isinstance(event, Ready) for event in engine.events()):
        if octets := b"".join(engine.data_to_send()):
            await stream.send_all(octets)
        data = bytes(await stream.receive_some(65536))
        assert data, "the lease was not taken"
        engine.receive_data(data)
    return engine, stream


async def direct_events_of(engine: DMPEngine, stream: trio.abc.Stream):  # type: ignore[no-untyped-def]
    """Yield what comes over a direct connection until the end."""
    while True:
        try:
            data = bytes(await stream.receive_some(65536))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            data = b""
        engine.receive_data(data)
        events: list[DirectEvent] = list(engine.events())
        for event in events:
            yield event
        octets = b"".join(engine.data_to_send())
        if octets:
            try:
                await stream.send_all(octets)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return
        if not data:
            return
