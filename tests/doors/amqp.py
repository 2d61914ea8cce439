"""AMQP 0-9-1, with confirms and acks."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from doors.basic import from_basic, to_basic
from doors.door import Consumed, Publish, Said, Taken, WayIn, WayOut
from doors.site import QUEUE, SINK, Site
from triomq.clients import AMQPChannel, AMQPDelivery, open_amqp


@asynccontextmanager
async def open_channel(site: Site, prefetch: int = 0) -> AsyncIterator[AMQPChannel]:
    """Open a connection with a channel."""
    async with (
        open_amqp(site.url("amqp", "AMQP 0-9-1")) as connection,
        connection.open_channel(prefetch=prefetch) as channel,
    ):
        yield channel


class AMQPWayIn(WayIn):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Publish]:
        async with open_channel(self.site) as channel:

            async def publish(bodies: Sequence[bytes], said: Said) -> None:
                properties = to_basic(said)
                async with channel.open_pipeline() as pipeline:
                    for body in bodies:
                        await pipeline.publish(SINK, str(said["routing key"]), body, properties)

            yield publish


class AMQPWayOut(WayOut):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Consumed[Any]]:
        async with open_channel(self.site, self.window) as channel, channel.consume(QUEUE) as deliveries:
            yield Consumed(deliveries, _taken)


def _taken(delivery: AMQPDelivery) -> Taken:
    return Taken(
        delivery.body,
        lambda: from_basic(delivery.properties, delivery.routing_key),
        delivery.accept,
        delivery.redelivered,
    )
