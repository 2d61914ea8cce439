"""Consuming over a direct connection."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self

import trio

from triomq.clients.amqp.deliveries import Deliveries
from triomq.clients.amqp.pending_reply import fresh
from triomq.clients.amqp.topology_methods import DeclaredQueue
from triomq.clients.dmp.link import DirectLink, check_announced, open_link
from triomq.clients.transport_link import BUFFERED_MOST, CLOSE_TIMEOUT
from triomq.errors import ConsumerCancelled, TriomqError
from triomq.protocols import BasicProperties, decode_properties
from triomq.protocols.amqp import DirectGet, DirectGetOk
from triomq.protocols.dmp import LARGEST_MESSAGE, MessageRun, Settings

if TYPE_CHECKING:
    from triomq.clients.amqp.channel import AMQPChannel


class DMPMessage:
    """One message of a feed; there is nothing to settle."""

    __slots__ = ("_encoded", "body", "exchange", "routing_key")

    def __init__(self, exchange: str, routing_key: str, encoded: bytes, body: bytes) -> None:
        self.exchange = exchange
        """What its publisher has called the exchange."""
        self.routing_key = routing_key
        """The key that it was published with."""
        self._encoded = encoded
        self.body = body
        """Its body."""

    def __repr__(self) -> str:
        """Show where it came from and how large it is."""
        return f"<DMPMessage {self.exchange!r} {self.routing_key!r} {len(self.body)} bytes>"

    @property
    def properties(self) -> BasicProperties:
        """The properties that its publisher gave it; decoded anew each time."""
        return decode_properties(self._encoded)


class DMPFeed:
    """Messages of one queue, in order; made by ``open_dmp_feed``, ends with its block.

    Several tasks may iterate over it; each gets other messages.
    """

    def __init__(self, queue: str) -> None:
        self.queue = queue
        """The queue's name."""
        self.lost = 0
        """How many messages the broker had to drop, because they were not read in time, as it reports now and then."""
        self.link: DirectLink
        """The direct connection; for ``open_dmp_feed``."""
        self._runs: deque[tuple[list[DMPMessage], int]] = deque()
        self._ready: list[DMPMessage] = []  # the last one first
        self._buffered = 0
        self._paused = False
        self._error: TriomqError | None = None
        self._over = False
        self._arrived = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        """Show where it comes from."""
        return f"<DMPFeed {self.queue!r}>"

    def __aiter__(self) -> Self:
        """Iterate."""
        return self

    async def __anext__(self) -> DMPMessage:
        """Wait for the next message.

        Raises:
            StopAsyncIteration: The block of ``open_dmp_feed`` is left.
            ConsumerCancelled: The broker has ended the consumer: the queue was deleted, or has failed.
            Disconnected: The direct connection is lost.
        """
        if self._ready:
            return self._ready.pop()
        while True:
            if self._runs:
                self._begin()
                await trio.lowlevel.checkpoint()
            elif self._over:
                raise StopAsyncIteration
            elif self._error is not None:
                raise fresh(self._error)
            else:
                await self._arrived.park()
            if self._ready:
                return self._ready.pop()

    def _begin(self) -> None:
        """Hand out one more run."""
        messages, size = self._runs.popleft()
        messages.reverse()
        self._ready[:0] = messages
        self._buffered -= size
        if self._paused and self._buffered <= BUFFERED_MOST // 2:
            self._paused = False
            self.link.pause(paused=False)

    # What comes

    def take(self, run: MessageRun) -> None:
        """Add a run from the direct connection."""
        messages: list[DMPMessage] = []
        for part in run.alike():
            shape = part.envelope
            exchange, key, start, stop, body = (
                shape.exchange,
                shape.routing_key,
                shape.properties_start,
                shape.properties_stop,
                shape.body_start,
            )
            messages += [DMPMessage(exchange, key, content[start:stop], content[body:]) for content in part.contents]
        self._put(messages, run.size)

    def _put(self, messages: list[DMPMessage], size: int) -> None:
        if self._over:
            return
        self._runs.append((messages, size))
        self._buffered += size
        if self._buffered > BUFFERED_MOST and not self._paused:
            self._paused = True
            self.link.pause(paused=True)
        self._arrived.unpark_all()

    def count_lost(self, messages: int) -> None:
        """Count messages that the broker has dropped."""
        self.lost += messages

    def fail(self, error: TriomqError) -> None:
        """End with an error, once what has come is taken."""
        if self._error is None:
            self._error = error
            self._arrived.unpark_all()

    def link_ended(self) -> None:
        """End with the direct connection."""
        assert self.link.error is not None
        self.fail(self.link.error)

    async def watch(self, deliveries: Deliveries) -> None:
        """Add what a broker delivers over AMQP all the same, and end when it cancels the consumer."""
        try:
            async for delivery in deliveries:
                message = DMPMessage(delivery.exchange, delivery.routing_key, delivery.encoded, delivery.body)
                self._put([message], len(delivery.body))
        except ConsumerCancelled as error:
            self.fail(error)
        except TriomqError:
            pass  # the channel or its connection has gone: the broker may let the feed go on

    def close(self) -> None:
        """End the iteration; what still comes is read and dropped."""
        self._over = True
        if self._paused:
            self.link.pause(paused=False)
        self._runs.clear()
        self._ready.clear()
        self._arrived.unpark_all()


@asynccontextmanager
async def open_dmp_feed(
    channel: "AMQPChannel", queue: str | DeclaredQueue, *, no_local: bool = False, heartbeat: float = 5.0
) -> AsyncIterator[DMPFeed]:
    """Consume from a queue of one's own over a direct connection (6/DMP), until the block is left.

    Messages count as settled when they are sent: what was sent and not read is lost. After a reconnect it is to be
    opened again.

    Args:
        channel: A channel to a broker that has direct connections.
        queue: A queue that was declared exclusive on the same connection.
        no_local: Whether messages that this connection publishes, directly or not, are left out.
        heartbeat: Seconds between null messages of the broker; three times that is waited for one. 0 waits for ever.

    Raises:
        Refused: The broker has no direct connections, or none to this queue: the channel is closed then.
    """
    check_announced(channel)
    name = channel.name_of(queue)
    lease = (await channel.call(DirectGet(name), DirectGetOk)).lease
    feed = DMPFeed(name)
    settings = Settings(heartbeat=heartbeat, max_message_size=LARGEST_MESSAGE)
    async with open_link(channel, lease, "feed", feed.take, settings) as (link, nursery):
        feed.link, link.on_end = link, feed.link_ended
        channel.lost_from[name] = feed.count_lost
        try:
            async with channel.consume(queue, no_ack=True, no_local=no_local) as deliveries:
                nursery.start_soon(feed.watch, deliveries)
                yield feed
        finally:
            del channel.lost_from[name]
            feed.close()
        with trio.move_on_after(CLOSE_TIMEOUT):
            await link.finish()  # then it can be opened again at once
