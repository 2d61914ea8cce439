"""MicroMsg2, with acks both ways: a topic to publish to, and a queue to consume from."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any

from doors.basic import present
from doors.door import HEADER, Consumed, Publish, Said, Taken, WayIn, WayOut
from doors.site import QUEUE, SINK, Site
from triomq.clients import MicroMsgConnection, MicroMsgDelivery, open_micromsg
from triomq.protocols.micromsg import PropertyValue

_STANDARD = "content-type content-encoding correlation-id reply-to message-id type user-id app-id priority timestamp"


def _connect(site: Site, window: int = 1000) -> AbstractAsyncContextManager[MicroMsgConnection]:
    return open_micromsg(site.url("micromsg", "MicroMsg2") + f"?window={window}")


class MicroMsgWayIn(WayIn):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Publish]:
        async with _connect(self.site) as micromsg:

            async def publish(bodies: Sequence[bytes], said: Said) -> None:
                properties = _to_values(said)
                async with micromsg.open_pipeline() as pipeline:
                    for body in bodies:
                        await pipeline.publish(f"topic/{SINK}", body, properties)

            yield publish


class MicroMsgWayOut(WayOut):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Consumed[Any]]:
        async with (
            _connect(self.site, self.window) as micromsg,
            micromsg.subscribe(f"queue/{QUEUE}") as subscription,
        ):
            yield Consumed(subscription, _taken)


def _to_values(said: Said) -> Mapping[str, PropertyValue]:
    found: dict[str, Any] = {name: said[name] for name in _STANDARD.split()}
    headers = {name.removeprefix(HEADER): said[name] for name in said if name.startswith(HEADER)}
    found |= {
        name: _number(value) for name, value in headers.items() if isinstance(value, str | float | int | datetime)
    }
    seconds = said["expiration"]
    assert isinstance(seconds, float)
    return {
        **found,
        "routing-key": str(said["routing key"]),
        "delivery-mode": 2 if said["persistent"] else 1,
        "expiration": round(seconds * 1000),
    }


def _number(value: object) -> object:
    """Say a boolean as MicroMsg2 can."""
    return int(value) if isinstance(value, bool) else value


def _taken(delivery: MicroMsgDelivery) -> Taken:
    return Taken(delivery.body, lambda: _said(delivery.properties), delivery.accept, delivery.redelivered)


def _said(values: Mapping[str, PropertyValue]) -> Said:
    left: dict[str, Any] = dict(values)
    standard = {name: left.pop(name, None) for name in _STANDARD.split()}
    mode, milliseconds = left.pop("delivery-mode", None), left.pop("expiration", None)
    also = {
        "routing key": left.pop("routing-key", None),
        "persistent": None if mode is None else mode == 2,
        "expiration": None if milliseconds is None else milliseconds / 1000,
    }
    left.pop("redelivered", None)
    return present(standard, also, {HEADER + name: value for name, value in left.items()})
