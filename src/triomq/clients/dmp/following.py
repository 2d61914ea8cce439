"""Doing what a server asks for that announces ``direct`` = 1: direct connections where AMQP promises no more.

That is where nothing is acknowledged: a consumer with ``no_ack`` of a queue of one's own, and what is published without
confirms and outside of transactions. Everything else goes over AMQP as ever.

    consume ──► follow_feed ──► direct.get, a second connection ──► runs, as if they had come over AMQP
    publish ──► Sinks ──┬─────► direct.put, a connection for each exchange
                        └─────► AMQP: large bodies, and where no direct connection can be opened

The caller has not asked for any of this, so it must not notice:

- Where a direct connection cannot be opened (the user may have no more of them, a proxy leads to one address alone),
  AMQP is used. What AMQP itself refuses, such as a missing exchange, is raised.
- Messages to one exchange stay in order. So a message that is too large for a direct connection ends it, in order, and
  goes over AMQP; the next one opens another.
- A direct consumer has a socket of its own, which is held back when it does not read; it holds up no other consumer.
- A direct connection that is lost may have taken messages with it, as AMQP without confirms may: one publish raises.
"""

import logging
from typing import TYPE_CHECKING

import trio

from triomq.clients.dmp.link import DirectLink
from triomq.clients.transport_link import BUFFERED_MOST, CLOSE_TIMEOUT
from triomq.errors import Disconnected, TriomqError
from triomq.protocols.amqp import (
    DIRECT_PROPERTY,
    BasicDeliver,
    DeliverRun,
    DirectGet,
    DirectGetOk,
    DirectPut,
    DirectPutOk,
    Framing,
)
from triomq.protocols.dmp import LARGEST_MESSAGE, DMPEngine, MessageRun, Settings, Target
from triomq.transports import Poller

if TYPE_CHECKING:
    from triomq.clients.amqp.consuming_methods import ConsumingMethods
    from triomq.clients.amqp.deliveries import Deliveries
    from triomq.clients.amqp.line import Line
    from triomq.protocols import FieldValue

_log = logging.getLogger("triomq.clients")

SMALL = 256 * 1024
"""Bytes of a body up to which it goes directly: brokers have limits, and none as low as that."""


def is_asked_for(announced: "FieldValue") -> bool:
    """Return whether a server asks for direct connections, by its field ``direct``."""
    return isinstance(announced, int) and announced > 0


def prefers_direct(channel: "ConsumingMethods") -> bool:
    """Return whether a channel's broker asks for direct connections."""
    return is_asked_for(channel.connection.server_properties.get(DIRECT_PROPERTY))


async def _open(channel: "ConsumingMethods", lease: str, target: Target, feed: "_Feed | None" = None) -> DirectLink:
    """Open a direct connection that ends with the AMQP connection at the latest."""
    poller = Poller()
    try:
        transport, place = await channel.connection.fork(poller)
    except BaseException:
        poller.close()
        raise
    settings = Settings(max_message_size=LARGEST_MESSAGE)
    engine = DMPEngine("client", now=trio.current_time(), settings=settings, lease=lease, target=target)
    take = _ignore if feed is None else feed.take
    link = DirectLink(transport, poller, engine, place, take)
    channel.connection.direct.add(link)
    if feed is not None:
        feed.link = link
    channel.connection.run(link.run)
    try:
        await link.opened.wait()
    except BaseException:
        link.end(_left(place))
        raise
    return link


def _left(place: str) -> TriomqError:
    return TriomqError(f"no task waits for the direct connection to {place} any more")


def _ignore(run: MessageRun) -> None:
    """Drop a run: nothing comes out of a sink."""


# Consuming


class _Feed:
    """What comes directly for one consumer, as if it had come over AMQP."""

    def __init__(self, line: "Line", deliveries: "Deliveries") -> None:
        self.link: DirectLink
        self._line = line
        self._deliveries = deliveries
        self._paused = False
        deliveries.on_taken = self._taken

    def take(self, run: MessageRun) -> None:
        """Pass a run on to the consumer."""
        for part in run.alike():
            shape, tags = part.envelope, [0] * len(part.contents)
            method = BasicDeliver(self._deliveries.consumer_tag, 0, False, shape.exchange, shape.routing_key)
            framing = Framing(0, shape.properties_start, shape.properties_stop, shape.body_start, 0, shape.flags)
            self._deliveries.put(
                DeliverRun(self._line.number, method, tags, framing, part.contents, part.size), self._line.acks
            )
        if self._deliveries.buffered > BUFFERED_MOST and not self._paused:
            self._paused = True
            self.link.pause(paused=True)

    def _taken(self) -> None:
        if self._paused and self._deliveries.buffered <= BUFFERED_MOST // 2:
            self._paused = False
            self.link.pause(paused=False)


async def follow_feed(
    channel: "ConsumingMethods", line: "Line", queue: str, deliveries: "Deliveries"
) -> DirectLink | None:
    """Open a direct connection for a consumer that is about to begin, where the server asks and it changes nothing.

    Should it break, or not be opened, the broker delivers over AMQP.
    """
    own = queue in channel.connection.own_queues and queue not in channel.lost_from  # which a feed reads already
    if not (deliveries.consuming.no_ack and own and prefers_direct(channel)) or channel.connection.consumes(queue):
        return None
    lease = (await line.call(DirectGet(queue), DirectGetOk)).lease
    try:
        return await _open(channel, lease, "feed", _Feed(line, deliveries))
    except TriomqError as error:
        _log_refused(channel, error)
        deliveries.on_taken = None
        return None


def _log_refused(channel: "ConsumingMethods", error: TriomqError) -> None:
    place = channel.connection.url.place
    _log.info("no direct connection", extra={"fields": {"place": place, "reason": error}})


# Publishing


class Sinks:
    """The direct connections that a channel without confirms publishes over; made by the channel, ends with it.

    Messages to one exchange stay in order: one that is too large goes over AMQP when all before it have been read.

    Args:
        channel: The channel.
    """

    __slots__ = ("_channel", "_links", "_opening", "_refused")

    def __init__(self, channel: "ConsumingMethods") -> None:
        self._channel = channel
        self._links: dict[str, DirectLink] = {}
        self._opening = trio.Lock()
        self._refused: set[str] = set()  # exchanges to which none could be opened

    async def publish(self, exchange: str, routing_key: str, mandatory: bool, properties: bytes, body: bytes) -> bool:
        """Publish directly; return whether that was done, so that it is not to go over AMQP.

        Raises:
            Disconnected: The direct connection was lost, and with it perhaps some messages; this one is not sent.
            TriomqError: What the broker has refused earlier messages to this exchange with.
        """
        link = self._links.get(exchange)
        if len(body) > SMALL:
            await self._finish(exchange)
            return False
        if link is None and exchange not in self._refused:
            link = await self._open(exchange)
        if link is None:
            return False
        if isinstance(link.error, Disconnected) and self._links.get(exchange) is link:
            del self._links[exchange]  # the next one opens another; a refusal stays, as on a closed channel
        link.check()
        link.engine.send_message(exchange, routing_key, properties, body, mandatory=mandatory)
        link.write()
        while link.full:
            await link.may_publish.park()
        return True

    async def _open(self, exchange: str) -> DirectLink | None:
        async with self._opening:
            link = self._links.get(exchange)
            if link is None and exchange not in self._refused:
                # The answer comes when the broker has worked off what was published over AMQP before.
                lease = (await self._channel.call(DirectPut(exchange), DirectPutOk)).lease
                try:
                    link = self._links[exchange] = await _open(self._channel, lease, "sink")
                except TriomqError as error:
                    _log_refused(self._channel, error)
                    self._refused.add(exchange)
            return link

    async def _finish(self, exchange: str) -> None:
        link = self._links.pop(exchange, None)
        if link is not None:
            await link.finish()
            if not link.finished_well:
                link.check()

    async def finish(self) -> None:
        """Wait until the broker has read everything; raises what it has refused."""
        for exchange in list(self._links):
            await self._finish(exchange)

    async def close(self) -> None:
        """Finish within the time for a close, then end."""
        try:
            with trio.move_on_after(CLOSE_TIMEOUT):
                await self.finish()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """End without waiting."""
        links, self._links = self._links, {}
        for exchange, link in links.items():
            link.end(_left(exchange))
