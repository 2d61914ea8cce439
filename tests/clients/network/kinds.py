"""The kinds of clients that there are, each as something that sends and receives numbered bodies over a network.

Heartbeats and the like are set short by the options that a user has. ``silent`` is how long the documentation says
that a silent broker goes unnoticed with these.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final, NamedTuple, TypeVar

import trio

from triomq import Broker
from triomq.chunks import RecordRun, encode_chunk
from triomq.clients import (
    BlockingConnection,
    Reconnect,
    TapConnection,
    open_amqp,
    open_blocking,
    open_dmp_feed,
    open_dmp_sink,
    open_emqp,
    open_emqp_worker,
    open_micromsg,
    open_mtl,
    open_restms,
    open_tap,
)
from triomq.errors import Disconnected
from triomq.pipeline.connecting import BrokerLink
from triomq.pipeline.options import ConnectionOptions, read_options
from triomq.protocols.emqp import Extension, make_headers

T = TypeVar("T")

SURE: Final = make_headers(reply_requested=True, guarantee=True)

POLICY: Final = Reconnect(delay=0.05, max_delay=0.5)

_PAUSE: Final = 0.02
"""Seconds between two looks of clients that cannot wait."""


class Place(NamedTuple):
    """Where one client finds the broker, and what it works with.

    Args:
        broker: The broker itself, for those who are no part of the network.
        host: The client's name for it.
        ports: The ports, by ``protocol`` and ``protocol/ws``.
        queue: A queue, or a stream, that is the client's alone.
    """

    broker: Broker
    host: str
    ports: Mapping[str, tuple[int, ...]]
    queue: str

    def url(self, scheme: str, protocol: str, options: str, *, user: str = "guest:guest@") -> str:
        return f"{scheme}://{user}{self.host}:{self.ports[protocol][0]}{options}"


class Client(NamedTuple):
    """An open client.

    Args:
        send: Sends a body; returns when it is confirmed.
        receive: Waits for the next body that was published to ``source``, and settles it.
        source: The queue that it reads.
    """

    send: Callable[[bytes], Awaitable[None]]
    receive: Callable[[], Awaitable[bytes]]
    source: str


class Kind(NamedTuple):
    """One kind of clients.

    Args:
        name: What it is called in the table.
        protocol: Whose ports it comes to.
        open: Opens one.
        silent: Seconds after which it has noticed that its broker is silent, at the latest, while it waits for it.
        is_stream: Whether it works with a stream.
        publish: Publishes a body that it is to receive; over the broker's own feeds, if that is not said.
        settles: Whether what is on its way when the network breaks comes again.
        keeps: Whether what it sends can be seen in its queue.
        returns: Whether it connects again while nobody uses it.
        speaks: Whether it says something while nobody uses it, so that its broker misses that.
        logs: Whether it says something in the log when its broker is silent; a blocking one has errors for that.
    """

    name: str
    protocol: str
    open: Callable[[Place], AbstractAsyncContextManager[Client]]
    silent: float
    is_stream: bool = False
    publish: Callable[[Place, str, bytes], Awaitable[object]] | None = None
    settles: bool = True
    keeps: bool = True
    returns: bool = True
    speaks: bool = True
    logs: bool = True


# AMQP, and what is spoken with its words


@asynccontextmanager
async def _open_amqp(place: Place, *, scheme: str = "amqp", protocol: str = "amqp") -> AsyncIterator[Client]:
    options = "/amqp?heartbeat=1&timeout=10" if scheme == "ws" else "?heartbeat=1&timeout=10"
    url = place.url(scheme, protocol, options)
    async with (
        open_amqp(url, reconnect=POLICY) as connection,
        connection.open_channel() as channel,
        connection.open_channel() as reading,
        reading.consume(f"{place.queue}-in") as deliveries,
    ):

        async def receive() -> bytes:
            delivery = await anext(deliveries)
            delivery.accept()
            return delivery.body

        yield Client(lambda body: channel.publish("", place.queue, body), receive, f"{place.queue}-in")


def _open_amqp_websocket(place: Place) -> AbstractAsyncContextManager[Client]:
    return _open_amqp(place, scheme="ws", protocol="amqp/ws")


async def _never() -> bytes:
    raise AssertionError("nothing comes here; `why_not` has the reason")


async def _nowhere(body: bytes) -> None:
    raise AssertionError("nothing goes from here; `why_not` has the reason")


@asynccontextmanager
async def _open_sink(place: Place) -> AsyncIterator[Client]:
    """A program that opens its direct sink again; leaving the block is all that confirms anything."""
    url = place.url("amqp", "amqp", "?heartbeat=1&timeout=10")
    async with open_amqp(url, reconnect=POLICY) as connection, connection.open_channel() as channel:

        async def send(body: bytes) -> None:
            async with open_dmp_sink(channel, "") as sink:
                await sink.publish(place.queue, body)

        yield Client(lambda body: _again(send, body), _never, "")


@asynccontextmanager
async def _open_feed(place: Place) -> AsyncIterator[Client]:
    """A program that opens its direct feed again. What is on its way there when that breaks is gone."""
    url, source = place.url("amqp", "amqp", "?heartbeat=1&timeout=10"), f"{place.queue}-own"
    come, receive = trio.open_memory_channel[bytes](10_000)
    async with open_amqp(url, reconnect=POLICY) as connection, connection.open_channel() as channel:
        await channel.declare_queue(source, exclusive=True)

        async def read() -> None:
            async with open_dmp_feed(channel, source) as feed:
                async for message in feed:
                    await come.send(message.body)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(_again, read)
            yield Client(_nowhere, receive.receive, source)
            nursery.cancel_scope.cancel()


async def _again(what: Callable[..., Awaitable[T]], *args: object) -> T:
    while True:
        try:
            return await what(*args)
        except Disconnected:
            await trio.sleep(_PAUSE)


# eMQP

_EMQP: Final = "?heartbeat=0.4&silence=1.2&timeout=10"


@asynccontextmanager
async def _open_emqp(place: Place) -> AsyncIterator[Client]:
    """A client whose answers come from a worker that no network is between."""
    wanted, receive_wanted = trio.open_memory_channel[bytes](1000)
    answered, receive_answer = trio.open_memory_channel[bytes](1000)
    _wanted[place.queue] = wanted

    async def work() -> None:
        async with open_emqp_worker(await place.broker.emqp_connector(), [f"{place.queue}-in"], slots=10) as worker:
            async for job in worker:
                job.reply(job.message)

    async with open_emqp(place.url("emqp", "emqp", _EMQP, user="")) as emqp, trio.open_nursery() as nursery:

        async def ask(body: bytes) -> None:
            # Kept, since an answer that is on its way when the network breaks does not come again by itself.
            reply = await emqp.begin(f"{place.queue}-in", body, SURE, Extension(keep=60_000)).reply()
            await answered.send(reply.message)

        async def ask_all() -> None:
            async for body in receive_wanted:
                nursery.start_soon(ask, body)

        nursery.start_soon(work)
        nursery.start_soon(ask_all)

        def send(body: bytes) -> Awaitable[None]:
            return emqp.send(place.queue, body, guarantee=True)

        yield Client(send, receive_answer.receive, f"{place.queue}-in")
        nursery.cancel_scope.cancel()


_wanted: Final[dict[str, trio.MemorySendChannel[bytes]]] = {}
"""By queue, what takes bodies that a client of eMQP is to ask for: answers are all that it reads."""


async def _have_asked(place: Place, source: str, body: bytes) -> None:
    await _wanted[place.queue].send(body)


@asynccontextmanager
async def _open_worker(place: Place) -> AsyncIterator[Client]:
    """A worker; what it sends are answers, which come to a client that no network is between."""
    got, receive_job = trio.open_memory_channel[bytes](10_000)
    url = place.url("emqp", "emqp", _EMQP, user="")
    async with (
        open_emqp(await place.broker.emqp_connector()) as asking,
        open_emqp_worker(url, [place.queue], slots=10) as worker,
        trio.open_nursery() as nursery,
    ):

        async def work() -> None:
            async for job in worker:
                await got.send(job.message)
                job.reply(job.message)

        async def send(body: bytes) -> None:
            reply = await asking.begin(place.queue, body, SURE).reply()
            assert reply.message == body, reply

        nursery.start_soon(work)
        yield Client(send, receive_job.receive, place.queue)
        nursery.cancel_scope.cancel()


async def _give_job(place: Place, source: str, body: bytes) -> None:
    async with open_emqp(await place.broker.emqp_connector()) as asking:
        await asking.send(source, body, guarantee=True)


# MTL, MicroMsg2, RestMS


@asynccontextmanager
async def _open_mtl(place: Place) -> AsyncIterator[Client]:
    url = place.url("mtl", "mtl", "?heartbeat=0.4&silence=1.2&timeout=10")
    async with (
        open_mtl(url, reconnect=POLICY) as mtl,
        mtl.open_writer(place.queue) as writer,
        mtl.open_reader(f"{place.queue}-in") as reader,
    ):

        async def receive() -> bytes:
            delivery = await anext(reader)
            delivery.accept()
            return delivery.body

        yield Client(writer.publish, receive, f"{place.queue}-in")


@asynccontextmanager
async def _open_micromsg(
    place: Place, *, scheme: str = "micromsg", protocol: str = "micromsg"
) -> AsyncIterator[Client]:
    options = ("/micromsg" if scheme == "ws" else "") + "?heartbeat=0.5&timeout=10"
    async with (
        open_micromsg(place.url(scheme, protocol, options), reconnect=POLICY) as micromsg,
        micromsg.subscribe(f"queue/{place.queue}-in") as subscription,
    ):

        async def receive() -> bytes:
            delivery = await anext(subscription)
            delivery.accept()
            return delivery.body

        yield Client(lambda body: micromsg.publish(f"queue/{place.queue}", body), receive, f"{place.queue}-in")


def _open_micromsg_websocket(place: Place) -> AbstractAsyncContextManager[Client]:
    return _open_micromsg(place, scheme="ws", protocol="micromsg/ws")


@asynccontextmanager
async def _open_restms(place: Place, type: str = "") -> AsyncIterator[Client]:
    url = place.url("http", "restms", "?silence=3&timeout=4")
    async with open_restms(url, reconnect=POLICY) as restms, restms.open_pipe(type) as pipe:
        feed, source = restms.feed(), pipe.name
        if type:
            await pipe.join(await restms.create_feed(source := f"{place.queue}-feed", "service"))

        async def receive() -> bytes:
            delivery = await anext(pipe)
            delivery.accept()
            return delivery.body

        yield Client(lambda body: feed.publish(body, place.queue), receive, source)


def _open_restms_polls(place: Place) -> AbstractAsyncContextManager[Client]:
    return _open_restms(place, "ondemand")


# Blocking clients, in threads


@asynccontextmanager
async def _open_blocking(place: Place) -> AsyncIterator[Client]:
    """A script that connects again when its connection is lost."""
    url = place.url("amqp", "amqp", "?heartbeat=1&timeout=3")
    sending, receiving = _Reopened(lambda: open_blocking(url)), _Reopened(lambda: open_blocking(url))

    def get(connection: BlockingConnection) -> bytes | None:
        message = connection.get(f"{place.queue}-in")
        if message is None:
            return None
        connection.accept(message)
        return message.body

    async with sending, receiving:

        async def send(body: bytes) -> None:
            await sending.use(lambda connection: connection.publish("", place.queue, body))

        async def receive() -> bytes:
            while (body := await receiving.use(get)) is None:  # noqa: ASYNC110  # it asks, as scripts do
                await trio.sleep(_PAUSE)
            return body

        yield Client(send, receive, f"{place.queue}-in")


class _Reopened(AsyncExitStack):
    """A blocking connection that is opened again by whoever uses it."""

    def __init__(self, open: Callable[[], "BlockingConnection | TapConnection"]) -> None:
        super().__init__()
        self._open = open
        self._connection: BlockingConnection | TapConnection | None = None
        self.push_async_callback(self._close)

    async def use(self, function: "Callable[..., T]") -> T:
        while True:
            try:
                return await trio.to_thread.run_sync(self._use, function)
            except Disconnected:
                await self._close()
                await trio.sleep(_PAUSE)

    def _use(self, function: "Callable[..., T]") -> T:
        if self._connection is None:
            self._connection = self._open()
        return function(self._connection)

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await trio.to_thread.run_sync(connection.close)


def _chunk(body: bytes) -> bytes:
    return encode_chunk(0, 1, [RecordRun(0, b"", b"", b"", [body])])


def _stage(connection: TapConnection, stream: str, body: bytes) -> None:
    """Write one record; done twice, it is there once."""
    batch = int(body.rpartition(b"-")[2])
    connection.stage(stream, "tests", batch=batch, part=0, attempt=0, chunk=_chunk(body))
    connection.commit(stream, "tests", batch=batch, attempts={0: 0})


@asynccontextmanager
async def _open_tap(place: Place) -> AsyncIterator[Client]:
    """A program that opens its connection again, and goes on where it was."""
    url = place.url("tap", "tap", "?timeout=2")
    writing, reading = _Reopened(lambda: open_tap(url)), _Reopened(lambda: open_tap(url))
    source, offset = f"{place.queue}-in", 0

    def fetch(connection: TapConnection) -> bytes | None:
        for columns in connection.fetch(source, 0, offset, offset + 1, wait=0.3):
            return bytes(columns.values.each()[0])
        return None

    async with writing, reading:

        async def receive() -> bytes:
            nonlocal offset
            while (body := await reading.use(fetch)) is None:
                pass
            offset += 1
            return body

        yield Client(
            lambda body: writing.use(lambda connection: _stage(connection, place.queue, body)), receive, source
        )


@asynccontextmanager
async def _open_spark(place: Place) -> AsyncIterator[Client]:
    """What tasks of Spark and its driver have: a connection that is opened again by itself, while it is used."""
    address = f"{place.host}:{place.ports['tap'][0]}"
    given = {"address": address, "connecttimeout": "2", "retrybackoffms": "50"}
    options = read_options(ConnectionOptions, given)
    writing, reading = BrokerLink(options), BrokerLink(options)
    source, offset = f"{place.queue}-in", 0

    def fetch() -> bytes | None:
        if reading.call(lambda connection: connection.offsets(source))[0].next == offset:
            return None
        for columns in reading.fetch(source, 0, offset, offset + 1, identity=None, most_bytes=1000):
            return bytes(columns.values.each()[0])
        return None

    async def send(body: bytes) -> None:
        await trio.to_thread.run_sync(lambda: writing.call(lambda connection: _stage(connection, place.queue, body)))

    async def receive() -> bytes:
        nonlocal offset
        while (body := await trio.to_thread.run_sync(fetch)) is None:  # noqa: ASYNC110  # as a query does
            await trio.sleep(_PAUSE)
        offset += 1
        return body

    try:
        yield Client(send, receive, source)
    finally:
        writing.close()
        reading.close()


KINDS: Final = (
    Kind("AMQP", "amqp", _open_amqp, silent=2.6),
    Kind("AMQP over WebSocket", "amqp/ws", _open_amqp_websocket, silent=2.6),
    Kind("DMP sink", "amqp", _open_sink, silent=3.0),
    # A lease that was asked for before the connection broke keeps the exclusive queue for 30 s, as 6/DMP has it.
    Kind("DMP feed", "amqp", _open_feed, silent=33.0, settles=False),
    Kind("eMQP client", "emqp", _open_emqp, silent=1.8, publish=_have_asked),
    Kind("eMQP worker", "emqp", _open_worker, silent=1.8, publish=_give_job, keeps=False),
    Kind("MTL", "mtl", _open_mtl, silent=1.8),
    Kind("MicroMsg2", "micromsg", _open_micromsg, silent=1.8),
    Kind("MicroMsg2 over WebSocket", "micromsg/ws", _open_micromsg_websocket, silent=1.8),
    Kind("RestMS events", "restms", _open_restms, silent=3.0, speaks=False),
    Kind("RestMS polls", "restms", _open_restms_polls, silent=4.0, returns=False),
    Kind("blocking AMQP", "amqp", _open_blocking, silent=2.6, returns=False, logs=False),
    Kind("tap", "tap", _open_tap, silent=2.3, is_stream=True, returns=False, logs=False),
    Kind("Spark's tasks", "tap", _open_spark, silent=2.0, is_stream=True, returns=False, logs=False),
)
