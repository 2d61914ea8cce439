"""A connection as its users see it: links come and go below it.

    AMQPConnection ── channels ──► AMQPChannel     the user's; live as long as their blocks
         │ _link                       │ line
         ▼                             ▼
       Link ── lines ──────────────► Line          one connection to a broker, and the channels on it

When a link ends, ``_watch`` makes another one, if it was asked to and if that makes sense (a broker that closed the
connection because of what we did would do so again). Then, in this order: exchanges, queues and bindings are declared
again (``Topology``), on a channel of their own; each channel is opened again, with confirms and limits as before; what
was not confirmed is published again; each consumer begins again. Only then ``wait_connected`` returns, and calls that
have waited meanwhile go on. What a broker refuses to one channel then is raised by that channel; what it refuses of
the topology ends the connection, as nothing after it can be relied on; but for a queue that is still locked by the last
connection, which the broker takes for alive: that is tried again.

Requests that were on their way when the connection broke raise ``Disconnected``: whether the broker has done what they
asked is not known, and only publishes may be done twice.
"""

import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol
from weakref import WeakSet

import msgspec
import trio

from triomq.clients.amqp.channel import AMQPChannel
from triomq.clients.amqp.connecting import Reconnect, connect, dial
from triomq.clients.amqp.line import Line, Owner
from triomq.clients.amqp.link import Link
from triomq.clients.amqp.pending_reply import PendingReply, fresh
from triomq.clients.amqp.topology import Topology
from triomq.clients.url import AMQPUrl
from triomq.errors import Disconnected, ResourceLocked, TriomqError
from triomq.protocols import FieldValue
from triomq.protocols.amqp import ConnectionUpdateSecret
from triomq.transports import Poller, Transport

_log = logging.getLogger("triomq.clients")


class ConnectionStatistics(msgspec.Struct, frozen=True, gc=False):
    """A connection at one moment.

    Args:
        is_connected: Whether there is a broker at the other end, and everything is as it was before.
        channels: Channels that are open.
        reconnects: How often it has come back.
        buffered: Bytes of deliveries without a prefetch that wait to be taken.
    """

    is_connected: bool
    channels: int
    reconnects: int
    buffered: int


class Direct(Protocol):
    """A direct connection."""

    def end(self, error: TriomqError) -> None:
        """End, and fail everything that waits."""


class AMQPConnection:
    """Made by ``open_amqp``, ends with its block."""

    def __init__(self, urls: Sequence[AMQPUrl], ssl_context: ssl.SSLContext | None, policy: Reconnect | None) -> None:
        self.url = urls[0]
        """Where it is connected to, or was last."""
        self.server_properties: Mapping[str, FieldValue] = {}
        """The broker's description of itself."""
        self.topology = None if policy is None else Topology()
        self._urls = list(urls)
        self._ssl_context = ssl_context
        self._policy = policy
        self._link: Link | None = None
        self._up = trio.Event()
        self._down = trio.Event()
        self._error: TriomqError | None = None
        self._channels: list[AMQPChannel] = []
        self._reconnects = 0
        self._is_ending = False
        """Whether this program ends it, so that its loss is no news."""
        self._nursery: trio.Nursery | None = None
        self.own_queues: set[str] = set()
        """Queues that were declared exclusive on it, for direct connections."""
        self.direct: WeakSet[Direct] = WeakSet()
        """Direct connections of its leases; they end with it when its heartbeats stop, for on some nobody speaks."""

    def __repr__(self) -> str:
        """Show where it leads."""
        return f"<AMQPConnection to {self.url.place}>"

    @property
    def blocked(self) -> str | None:
        """Why the broker takes no publishes at present (connection.blocked), None if it does; they wait meanwhile."""
        return self._link.blocked if self._link is not None else None

    @property
    def resends(self) -> bool:
        """Whether unconfirmed publishes are sent again after a reconnect."""
        return self._policy is not None and self._policy.resend and self._error is None

    def statistics(self) -> ConnectionStatistics:
        """Return a snapshot."""
        link = self._link
        connected = link is not None and link.error is None
        return ConnectionStatistics(connected, len(self._channels), self._reconnects, link.buffered if link else 0)

    @asynccontextmanager
    async def open_channel(self, *, confirms: bool = True, prefetch: int = 100) -> AsyncIterator[AMQPChannel]:
        """Open a channel; consumers, pipelines and transactions are its business.

        Args:
            confirms: Whether ``publish`` returns only when the broker has the message.
            prefetch: How many deliveries a consumer may have unsettled unless it says something else; 0 sets no limit.

        Raises:
            LimitExceeded: As many channels are open as the broker allows.
            Disconnected: The connection is lost.
        """
        channel = await self.begin_channel(confirms=confirms, prefetch=prefetch)
        try:
            yield channel
        except BaseException:
            channel.abandon()
            raise
        await channel.close()

    async def begin_channel(self, *, confirms: bool, prefetch: int = 0) -> AMQPChannel:
        """Open a channel that its caller abandons, or the connection's end; for clients that have no blocks."""
        channel = AMQPChannel(self, confirms=confirms, prefetch=prefetch)
        await self._begin(channel)
        self._channels.append(channel)
        return channel

    async def _begin(self, channel: AMQPChannel) -> None:
        """Open a channel for the first time; again if the connection is lost meanwhile and comes back."""
        while True:
            link = await self._ready()
            line = Line(link, link.new_line_number(), channel)
            try:
                await channel.begin(line)
            except Disconnected:
                if self._policy is None or link.error is None:
                    raise
            except BaseException:
                line.begin_close()
                raise
            else:
                return

    def run(self, function: Callable[[], Awaitable[None]]) -> None:
        """Run something as long as this connection, if it does not end before; for direct connections."""
        assert self._nursery is not None
        self._nursery.start_soon(function)

    async def fork(self, poller: Poller) -> tuple[Transport, str]:
        """Connect a second time to where this connection leads now; for direct connections.

        Args:
            poller: Who watches the socket, where it is a plain one.

        Returns:
            What carries bytes, and where it leads, for texts.
        """
        url = self.url
        with trio.move_on_after(url.timeout):
            return await dial(url, self._ssl_context, poller), url.place
        raise Disconnected(f"the broker at {url.place} does not let us in a second time within {url.timeout:g} s")

    def forget(self, channel: AMQPChannel) -> None:
        """Remove a channel, so that it is not opened again; for ``AMQPChannel``."""
        if channel in self._channels:
            self._channels.remove(channel)

    def consumes(self, queue: str) -> bool:
        """Return whether a consumer of a queue is open on any channel; for ``AMQPChannel``."""
        return any(channel.consumes(queue) for channel in self._channels)

    async def update_secret(self, secret: str, *, reason: str = "") -> None:
        """Send the broker a new password before the old one expires (RabbitMQ's connection.update-secret).

        Args:
            secret: The new one; it is also what a reconnect logs in with.
            reason: Why, for the broker's log.
        """
        link = await self._ready()
        answer: PendingReply[None] = PendingReply()
        link.engine.send_method(0, ConnectionUpdateSecret(secret.encode(), reason))
        link.secrets.append(answer)
        link.write()
        link.expecting()
        await answer.wait()
        self._urls = [msgspec.structs.replace(url, password=secret) for url in self._urls]

    async def wait_disconnected(self) -> None:
        """Wait until the connection is lost; returns at once while there is none."""
        await self._down.wait()

    async def wait_connected(self) -> None:
        """Wait while there is no connection, until everything is as it was before; for those that reconnect.

        Raises:
            Disconnected: There will be none any more.
            TriomqError: The broker has closed it for another reason.
        """
        await self._up.wait()
        if self._error is not None:
            raise fresh(self._error)

    async def _ready(self) -> Link:
        while True:
            if self._error is not None:
                raise fresh(self._error)
            link = self._link
            if link is not None and link.error is None:
                return link
            await self._up.wait()

    # Beginning, going on, ending; for ``open_amqp``

    async def start(self, nursery: trio.Nursery) -> None:
        """Connect to the first broker that answers; raises what the last one did, or the first that refuses us."""
        self._nursery = nursery
        failure: TriomqError | None = None
        for url in self._urls:
            try:
                link = await self._connect(url)
            except Disconnected as error:
                failure = error
            else:
                self._link = link
                self._up.set()
                nursery.start_soon(self._watch, link)
                return
        assert failure is not None
        raise failure

    async def close(self) -> None:
        """Close in order."""
        self._is_ending = True
        if self._link is not None:
            await self._link.close()

    def abandon(self) -> None:
        """End without waiting for anything."""
        self._is_ending = True
        self._give_up(Disconnected(f"the connection to {self.url.place} was closed when its block was left"))

    async def _connect(self, url: AMQPUrl) -> Link:
        assert self._nursery is not None
        link, connected = await connect(url, self._ssl_context, self._nursery)
        self.url = url
        self.server_properties = connected.server_properties
        return link

    async def _watch(self, link: Link) -> None:
        """Connect again whenever the connection is lost, as long as that makes sense."""
        while True:
            await link.ended.wait()
            assert link.error is not None
            for direct in self.direct if link.fell_silent else ():
                direct.end(link.error)
            comes_back = self._policy is not None and link.may_return
            if not self._is_ending:  # without a reconnect it is an error to each caller, and no warning as well
                level = logging.WARNING if comes_back else logging.INFO
                _log_state(level, "connection lost", self.url, reason=link.error)
            if self._policy is None or not link.may_return:
                self._give_up(link.error)
                return
            lost = trio.current_time()
            self._up = trio.Event()
            self._down.set()
            self._link = None
            returned = await self._come_back(self._policy)
            if returned is None:
                return
            self._link = link = returned
            self._reconnects += 1
            self._down = trio.Event()
            self._up.set()
            _log_state(logging.INFO, "connection is back", self.url, seconds=round(trio.current_time() - lost, 3))

    async def _come_back(self, policy: Reconnect) -> Link | None:
        """Try all brokers in order, again and again; None if that is over."""
        failures = 0
        while True:
            seconds = policy.seconds(failures)
            await trio.sleep(seconds)
            failures += 1
            for url in self._urls:
                _log_state(logging.INFO, "connecting again", url, attempt=failures, waited=round(seconds, 3))
                try:
                    return await self._recover(await self._connect(url))
                except (Disconnected, ResourceLocked) as error:
                    # Locked: the broker has not noticed yet that our last connection is gone, and our queues are its.
                    failure: TriomqError = error
                    _log_state(logging.WARNING, "cannot connect again", url, attempt=failures, reason=error)
                except TriomqError as error:
                    _log_state(logging.ERROR, "connection given up", url, attempt=failures, reason=error)
                    self._give_up(error)
                    return None
            if failures == policy.attempts:
                _log_state(logging.ERROR, "connection given up", self.url, attempt=failures, reason=failure)
                self._give_up(failure)
                return None

    async def _recover(self, link: Link) -> Link:
        """Make everything on a new link as it was on the last one.

        Raises:
            TriomqError: It cannot be; the link is closed.
        """
        try:
            assert self.topology is not None
            line = Line(link, link.new_line_number(), Owner())
            await line.open()
            await self.topology.restore(line.call)
            line.begin_close()
            for channel in list(self._channels):
                await self._recover_channel(link, channel)
        except BaseException as error:
            lost = (
                error if isinstance(error, TriomqError) else Disconnected("no task waits for this connection any more")
            )
            link.end(lost)
            raise
        return link

    async def _recover_channel(self, link: Link, channel: AMQPChannel) -> None:
        """Open a channel again; what the broker refuses of it, it will tell its user itself."""
        if channel.is_closed:
            return
        line = Line(link, link.new_line_number(), channel)
        try:
            await channel.begin(line)
        except TriomqError:
            if link.error is not None:
                raise
        if channel not in self._channels:
            line.begin_close()

    def _give_up(self, error: TriomqError) -> None:
        """Fail everything that waits: there will be no connection any more."""
        if self._error is not None:
            return
        self._error = error
        if self._link is not None:
            self._link.end(error)
        for channel in list(self._channels):
            channel.failed(error)
        self._up.set()
        self._down.set()


def _log_state(level: int, text: str, url: AMQPUrl, **fields: object) -> None:
    """Log what becomes of a connection; where it leads, without the password."""
    _log.log(level, text, extra={"fields": {"place": url.place, **fields}})
