"""RestMS: messages are posted to a feed, and read from a pipe as server-sent events."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from doors.basic import from_basic, to_basic
from doors.door import Consumed, Publish, Said, Taken, WayIn, WayOut
from doors.site import QUEUE, SINK, Site
from triomq.clients import RestMSConnection, RestMSDelivery, RestMSMessage, open_restms

_TOGETHER = 100
"""Messages of one request."""


def _connect(site: Site) -> AbstractAsyncContextManager[RestMSConnection]:
    return open_restms(site.url("http", "RestMS"))


class RestMSWayIn(WayIn):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Publish]:
        async with _connect(self.site) as restms:
            feed = restms.feed(SINK)

            async def publish(bodies: Sequence[bytes], said: Said) -> None:
                key, properties = str(said["routing key"]), to_basic(said)
                for start in range(0, len(bodies), _TOGETHER):
                    some = bodies[start : start + _TOGETHER]
                    await feed.publish_many([RestMSMessage(body, key, properties) for body in some])

            yield publish


class RestMSWayOut(WayOut):
    """A pipe that is joined to the queue. It is the user's, not the connection's: another one goes on with it."""

    window = 256
    _pipe = ""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Consumed[Any]]:
        async with _connect(self.site) as restms:
            if self._pipe:
                async with restms.resume_pipe(self._pipe) as pipe:
                    yield Consumed(pipe, _taken)
                return
            async with restms.open_pipe() as pipe:
                self._pipe = pipe.name
                await pipe.join(restms.feed(QUEUE))
                yield Consumed(pipe, _taken)


def _taken(delivery: RestMSDelivery) -> Taken:
    return Taken(delivery.body, lambda: from_basic(delivery.properties, delivery.address), delivery.accept)
