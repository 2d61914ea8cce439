"""The AMQP client for programs without an event loop, scripts and the shell: ``open_amqp``, in a thread of its own.

Every call crosses to the thread: with its round trip it takes some 0.4 ms. Publishing would be slow that way, so
messages are put on a queue that a task in the thread empties, and a caller waits only when too many are on their way.
"""

import os
import ssl
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

import msgspec
import trio

from triomq.clients.amqp.channel import AMQPChannel
from triomq.clients.amqp.connection import AMQPConnection
from triomq.clients.amqp.delivery import Fetched
from triomq.clients.amqp.opening import open_amqp
from triomq.clients.amqp.pipeline import Pipeline, check_properties
from triomq.clients.transport_link import WRITE_AT
from triomq.clients.url import AMQPUrl, parse_amqp_url
from triomq.errors import ConfigError, Disconnected, LimitExceeded, Refused, TriomqError, Unroutable
from triomq.process import close_run_in_forks, end_with_process, fork_error, notice_fork, tell_forks
from triomq.protocols import BasicProperties, FieldValue, encode_properties
from triomq.protocols.amqp import CONTROL_CAPABILITY, ControlRequest, ControlResponse, Method
from triomq.protocols.control import Listing, Operation, decode_result, encode, name_of

M = TypeVar("M", bound=Method)
R = TypeVar("R")
T = TypeVar("T")

_MOST_QUEUED = 256
"""Messages that wait to be sent: enough that a caller crosses to the thread seldom, few when the connection breaks."""


class _Silent(Disconnected):
    """Nothing has come for as long as the URL's ``timeout`` says."""


class BlockingConnection:
    """A connection that is open; made by ``open_blocking``, ends with ``close`` or its ``with`` block.

    A channel that the broker has closed over a refusal is opened again by the next call. Every method raises
    ``Disconnected`` when the connection is lost, and the error of the broker's reply code when it refuses:
    ``NotFound``, ``AccessRefused`` and so on.

    Args:
        url: Where, and as whom; its ``timeout`` is how many seconds the broker may be silent when something is awaited.
        ssl_context: Whom to trust over TLS; None trusts whom the system trusts.
    """

    def __init__(self, url: AMQPUrl, ssl_context: ssl.SSLContext | None = None) -> None:
        self.url = url
        self._ssl_context = ssl_context
        self._connection: AMQPConnection
        self._channel: _Channel
        self.publisher: BlockingPublisher
        """For many messages in a row."""
        self._leave = trio.Event()
        self._process = os.getpid()
        self._is_foreign = False  # whether this process is a fork of that one
        tell_forks(self, BlockingConnection._in_fork)
        self._opened: Future[trio.lowlevel.TrioToken] = Future()
        self._thread = threading.Thread(target=self._run, name="triomq client", daemon=True)
        self._thread.start()
        self._token = self._opened.result()
        end_with_process(self, lambda connection, seconds: connection._end(seconds))

    def _run(self) -> None:
        try:
            trio.run(self._live)
        except BaseException as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)

    async def _live(self) -> None:
        close_run_in_forks()
        async with open_amqp(self.url, ssl_context=self._ssl_context) as connection, trio.open_nursery() as nursery:
            self._connection = connection
            self._channel = _Channel(connection)
            self.publisher = BlockingPublisher(self, _Channel(connection, confirms=True))
            nursery.start_soon(self.publisher.run)
            self._opened.set_result(trio.lowlevel.current_trio_token())
            await self._leave.wait()
            nursery.cancel_scope.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection in order; what is not settled goes back to its queue. A second time nothing happens."""
        self._end(None)

    def _end(self, seconds: float | None) -> None:
        notice_fork()
        if not self._is_foreign:  # in a fork there is neither a thread nor a connection
            self.post(self._leave.set)
            self._thread.join(seconds)

    def post(self, function: Callable[[], object]) -> None:
        """Call a function in the client's thread soon; for ``BlockingPublisher``.

        Raises:
            RuntimeError: This process is a fork of the one with the connection.
        """
        self._check_process()
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            pass  # callers that wait get ``Disconnected``

    def wait(self, function: Callable[[], Awaitable[T]]) -> T:
        """Wait for something that the client's thread does; for ``BlockingPublisher``.

        Raises:
            Disconnected: The connection has ended, or nothing comes for as long as the URL's ``timeout`` says.
            TriomqError: What the broker refuses it with.
            RuntimeError: This process is a fork of the one with the connection.
        """
        self._check_process()
        try:
            return trio.from_thread.run(self._in_time, function, trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled):
            raise Disconnected(f"the connection to {self.url.place} has ended; open a new one") from None

    def _in_fork(self) -> None:
        self._is_foreign = True

    def _check_process(self) -> None:
        notice_fork()
        if self._is_foreign:
            raise fork_error(f"the connection to {self.url.place}", self._process)

    async def _in_time(self, function: Callable[[], Awaitable[T]]) -> T:
        with trio.move_on_after(self.url.timeout):
            return await function()
        raise _Silent(
            f"the broker at {self.url.place} says nothing for {self.url.timeout:g} s; "
            "see whether it is busy, or raise ?timeout= in the URL"
        )

    @property
    def server_properties(self) -> dict[str, FieldValue]:
        """The broker's description of itself."""
        return dict(self._connection.server_properties)

    @property
    def has_control(self) -> bool:
        """Whether the broker answers ``control``."""
        capabilities = self.server_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(CONTROL_CAPABILITY) is True

    def call(self, method: Method, reply: type[M]) -> M:
        """Send a method and wait for its reply."""
        return self._use(lambda channel: channel.call(method, reply))

    def _use(self, function: Callable[[AMQPChannel], Awaitable[T]]) -> T:
        return self.wait(partial(self._channel.use, function))

    # Publishing

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: BasicProperties | None = None,
        *,
        mandatory: bool = True,
    ) -> None:
        """Publish one message; when this returns, the broker has it.

        Raises:
            Unroutable: ``mandatory`` is set and no queue wants it.
            LimitExceeded: A queue is full and refuses it.
        """
        self.publisher.send(exchange, routing_key, body, properties, mandatory=mandatory)
        self.publisher.wait_confirmed()

    # Taking

    def get(self, queue: str) -> Fetched | None:
        """Take the first message of a queue, None if it is empty; ``accept`` settles it."""
        return self._use(lambda channel: channel.get(queue))

    def accept(self, message: Fetched) -> None:
        """Settle a message for good; when this returns, the broker is sent."""
        self._use(partial(_accept, message))

    def requeue_all(self) -> None:
        """Put everything back that was taken and not settled, marked as redelivered."""
        self._use(lambda channel: channel.recover())

    def purge(self, queue: str) -> int:
        """Drop all ready messages of a queue and return how many they were."""
        return self._use(lambda channel: channel.purge(queue))

    # Looking inside

    def control(self, operation: Operation[R]) -> R:
        """Ask the broker about itself.

        Raises:
            Refused: It is no triomq.
            RemoteProtocolError: The answer cannot be read.
        """
        if not self.has_control:
            raise Refused(
                f"the broker at {self.url.place} is {self._description()} and cannot be looked into: it does not "
                f"offer {CONTROL_CAPABILITY}; publish, get and purge work with any AMQP 0-9-1 broker"
            )
        response = self.call(ControlRequest(name_of(operation), encode(operation)), ControlResponse)
        return decode_result(operation, response.result)

    def _description(self) -> str:
        known = (self.server_properties.get(name) for name in ("product", "version"))
        return " ".join(str(part) for part in known if part) or "of an unknown kind"

    def control_all(self, operation: Listing[T]) -> Iterator[T]:
        """Ask for a list, page by page; errors are those of ``control``."""
        while True:
            page = self.control(operation)
            yield from page.items
            if page.next is None:
                return
            operation = msgspec.structs.replace(operation, after=page.next)


async def _accept(message: Fetched, channel: AMQPChannel) -> None:
    """Accept at once: elsewhere acks wait for others, and may come behind what is asked after them."""
    line = await channel.ready()
    message.accept()
    line.acks.flush()
    line.link.write(WRITE_AT)


class _Channel:
    """A channel that is opened when it is first used, and again after the broker has closed it."""

    def __init__(self, connection: AMQPConnection, *, confirms: bool = False) -> None:
        self._connection = connection
        self._confirms = confirms
        self._channel: AMQPChannel | None = None

    async def use(self, function: Callable[[AMQPChannel], Awaitable[T]]) -> T:
        channel = await self.open()
        try:
            return await function(channel)
        except TriomqError:
            self.look()
            raise

    async def open(self) -> AMQPChannel:
        if self._channel is None:
            self._channel = await self._connection.begin_channel(confirms=self._confirms)
        return self._channel

    def look(self) -> bool:
        """Drop the channel if it is closed; return whether it was."""
        if self._channel is None or not self._channel.is_closed:
            return False
        self._channel.abandon()
        self._channel = None
        return True


class BlockingPublisher:
    """Publishes with confirms, many messages at a time; made by its connection for all that is published on it."""

    def __init__(self, connection: BlockingConnection, channel: _Channel) -> None:
        self._connection = connection
        self._channel = channel
        self._queued: deque[tuple[str, str, bytes, BasicProperties | None, bool]] = deque()
        self._pipeline: Pipeline | None = None
        self._confirmed = 0  # by pipelines of channels that are closed
        self._trouble: Exception | None = None
        self._more = trio.Event()
        self._sent = trio.Event()

    @property
    def confirmed(self) -> int:
        """Messages that the broker has taken, and has not given back."""
        return self._confirmed + (self._pipeline.count_confirmed if self._pipeline is not None else 0)

    def send(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: BasicProperties | None = None,
        *,
        mandatory: bool = True,
    ) -> None:
        """Send a message on its way; wait only while too many are.

        Args:
            exchange: Where to publish it.
            routing_key: How.
            body: Its body.
            properties: Its properties; without ``delivery_mode`` 2 it does not survive a restart of the broker.
            mandatory: Whether it is an error if no queue wants it.

        Raises:
            Unroutable: No queue wants an earlier message.
            LimitExceeded: A queue is full and refused an earlier one.
            LocalProtocolError: The properties cannot be encoded.
            TriomqError: The broker has closed the channel or the connection.
        """
        self._raise_trouble()
        if not isinstance(body, bytes):
            raise TypeError(f"a body is bytes, not {type(body).__name__}; encode text first, as in body.encode()")
        if properties is not None:
            check_properties(properties)
            encode_properties(properties)  # here, so that what is wrong with them is raised where they came from
        self._queued.append((exchange, routing_key, body, properties, mandatory))
        self._connection.post(self._wake)
        if len(self._queued) >= _MOST_QUEUED:
            self._wait(self._wait_sent)

    def wait_confirmed(self) -> None:
        """Wait until nothing is on its way, then raise as ``send`` does; ``confirmed`` is exact now."""
        self._wait(self._wait_confirmed)
        self._raise_trouble()

    def _wait(self, function: Callable[[], Awaitable[None]]) -> None:
        """Wait for many messages, as long as there is progress: a slow broker is not a silent one."""
        while True:
            before = len(self._queued), self.confirmed
            try:
                return self._connection.wait(function)
            except _Silent:
                if before == (len(self._queued), self.confirmed):
                    raise

    def _raise_trouble(self) -> None:
        """Raise the first thing that went wrong since this was asked last."""
        if self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble

    # In the client's thread

    def _wake(self) -> None:
        self._more.set()

    async def run(self) -> None:
        """Send what is queued, until cancelled."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            while self._queued:
                await self._try(partial(self._publish, *self._queued[0]))
            self._sent.set()
            self._sent = trio.Event()

    async def _publish(
        self, exchange: str, routing_key: str, body: bytes, properties: BasicProperties | None, mandatory: bool
    ) -> None:
        if self._pipeline is None:
            self._pipeline = Pipeline(await self._channel.open(), _MOST_QUEUED)
        pipeline = self._pipeline
        try:
            await pipeline.publish(exchange, routing_key, body, properties, mandatory=mandatory, persistent=False)
        except (Unroutable, LimitExceeded):
            raise  # this is about an earlier message; this one is still to be sent
        except Exception:
            self._queued.popleft()
            raise
        self._queued.popleft()

    async def _try(self, function: Callable[[], Awaitable[None]]) -> None:
        """Call something, and store what it raises for the caller; a channel that is closed takes all messages with it.

        A wrong argument, such as a routing key that is no text, is stored as well: it must not end the connection.
        """
        try:
            await function()
        except Exception as error:
            self._trouble = self._trouble or error
            if self._channel.look() or self._pipeline is None:
                self._queued.clear()
                self._confirmed, self._pipeline = self.confirmed, None

    async def _wait_sent(self) -> None:
        while self._queued:
            await self._sent.wait()

    async def _wait_confirmed(self) -> None:
        await self._wait_sent()
        if self._pipeline is not None:
            await self._try(self._pipeline.wait_confirmed)


def open_blocking(url: str | AMQPUrl, *, ssl_context: ssl.SSLContext | None = None) -> BlockingConnection:
    """Connect to a broker from a program without an event loop; the client has a thread of its own.

    Args:
        url: As for ``open_amqp``; its ``timeout`` is how many seconds the broker may be silent when something is
            awaited.
        ssl_context: Whom to trust over TLS; None trusts whom the system trusts.

    Raises:
        ConfigError: The URL is wrong.
        Disconnected: No broker answers there.
        AccessRefused: It does not let this user in.
    """
    found = parse_amqp_url(url) if isinstance(url, str) else url
    if found.websocket:
        raise ConfigError(
            "this client speaks no WebSocket; use open_amqp, or a URL that begins with amqp:// or amqps://"
        )
    return BlockingConnection(found, ssl_context)
