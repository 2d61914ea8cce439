"""DMP: direct connections beside AMQP's, on which nothing is settled."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from doors.amqp import open_channel
from doors.basic import from_basic, to_basic
from doors.door import Consumed, Publish, Said, Taken, WayIn, WayOut
from doors.site import QUEUE, SINK
from triomq.clients import AMQPChannel, DMPMessage, open_dmp_feed, open_dmp_sink


class DMPWayIn(WayIn):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Publish]:
        async with open_channel(self.site) as channel:

            async def publish(bodies: Sequence[bytes], said: Said) -> None:
                properties = to_basic(said)
                async with open_dmp_sink(channel, SINK) as sink:  # which ends when the broker has read all
                    for body in bodies:
                        await sink.publish(str(said["routing key"]), body, properties)

            yield publish


class DMPWayOut(WayOut):
    settles = False
    _channel: AMQPChannel

    @asynccontextmanager
    async def open_queue(self) -> AsyncIterator[None]:
        async with open_channel(self.site) as self._channel:  # whose own the queue has to be
            await self._channel.declare_queue(QUEUE, exclusive=True)
            await self._channel.bind(QUEUE, SINK, "#")
            yield

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Consumed[Any]]:
        async with open_dmp_feed(self._channel, QUEUE) as feed:
            yield Consumed(feed, _taken)

    def kill(self) -> None:
        self.site.cut(newest=True)  # the direct connection, and not the one that has leased it


def _taken(message: DMPMessage) -> Taken:
    return Taken(message.body, lambda: from_basic(message.properties, message.routing_key), lambda: None)
