"""The program that the broker lives in: no socket."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from doors.basic import present
from doors.door import HEADER, Consumed, Publish, Said, Taken, WayIn, WayOut
from doors.site import QUEUE, SINK
from triomq import Delivery, Properties

_SAME = [
    "persistent",
    "priority",
    "expiration",
    "message-id",
    "correlation-id",
    "reply-to",
    "type",
    "content-type",
    "content-encoding",
    "timestamp",
    "user-id",
    "app-id",
]


class ProgramWayIn(WayIn):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Publish]:
        async def publish(bodies: Sequence[bytes], said: Said) -> None:
            found: dict[str, Any] = {name.replace("-", "_"): said[name] for name in _SAME if name in said}
            headers = {name.removeprefix(HEADER): said[name] for name in said if name.startswith(HEADER)}
            properties = Properties(**found, headers=headers)
            for body in bodies:
                await self.site.broker.publish(SINK, str(said["routing key"]), body, properties)

        yield publish


class ProgramWayOut(WayOut):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Consumed[Any]]:
        async with self.site.broker.queue(QUEUE).open_feed(prefetch=self.window) as feed:
            yield Consumed(feed, _taken)


def _taken(delivery: Delivery) -> Taken:
    return Taken(delivery.body, lambda: _said(delivery), delivery.accept, delivery.redelivered)


def _said(delivery: Delivery) -> Said:
    properties = delivery.properties
    found = {name: getattr(properties, name.replace("-", "_")) for name in _SAME}
    headers = {HEADER + name: value for name, value in (properties.headers or {}).items()}
    return present(found, headers, {"routing key": delivery.key})
