"""MTL with its profile ``amqp``: contents to an exchange and from a queue, confirmed both ways."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from doors.basic import from_basic, to_basic
from doors.door import Consumed, Publish, Said, Taken, WayIn, WayOut
from doors.site import QUEUE, SINK, Site
from triomq.clients import MTLConnection, MTLDelivery, open_mtl


def _connect(site: Site) -> AbstractAsyncContextManager[MTLConnection]:
    return open_mtl(site.url("mtl", "MTL") + "?profile=amqp")


class MTLWayIn(WayIn):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Publish]:
        async with _connect(self.site) as mtl, mtl.open_writer(f"exchange/{SINK}") as writer:

            async def publish(bodies: Sequence[bytes], said: Said) -> None:
                key, properties = str(said["routing key"]), to_basic(said)
                async with writer.open_pipeline() as pipeline:
                    for body in bodies:
                        await pipeline.publish(body, key, properties)

            yield publish


class MTLWayOut(WayOut):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Consumed[Any]]:
        async with _connect(self.site) as mtl, mtl.open_reader(f"queue/{QUEUE}", prefetch=self.window) as reader:
            yield Consumed(reader, _taken)


def _taken(delivery: MTLDelivery) -> Taken:
    return Taken(
        delivery.body, lambda: from_basic(delivery.properties, delivery.address), delivery.accept, delivery.redelivered
    )
