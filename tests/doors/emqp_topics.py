"""eMQP's topics: PUBLISH, and two ways to get what is published, SUBSCRIBE and plain SUB sockets of ZeroMQ."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from doors.basic import present
from doors.door import Consumed, Publish, Said, Taken, WayIn, WayOut
from doors.emqp import url_of
from doors.site import SINK, Site
from endpoints.emqp.subscriber import Subscriber
from triomq.clients import open_emqp
from triomq.endpoints.emqp.endpoint import EMQPEndpoint
from triomq.protocols.emqp import TopicPublished
from triomq.transports.zmq import close_context

TOPICS = "emqp.topic"
"""The sink of all topics."""


class PublishWayIn(WayIn):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Publish]:
        await self.site.broker.sink(TOPICS).bind(self.site.broker.sink(SINK), "#")
        async with open_emqp(url_of(self.site)) as emqp:

            async def publish(bodies: Sequence[bytes], said: Said) -> None:
                for body in bodies:
                    await emqp.publish(str(said["routing key"]), body, guarantee=bool(said["persistent"]))

            yield publish


class TopicsWayOut(WayOut):
    """What all ways have in common that subscribe: nothing waits for them, and nothing is settled."""

    settles = False

    @asynccontextmanager
    async def open_queue(self) -> AsyncIterator[None]:
        await self.site.broker.sink(SINK).bind(self.site.broker.sink(TOPICS), "#")
        yield


class SubscribeWayOut(TopicsWayOut):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Consumed[Any]]:
        async with open_emqp(url_of(self.site)) as emqp, emqp.subscribe("#") as subscription:
            yield Consumed(subscription, _taken)


def _taken(event: TopicPublished) -> Taken:
    said = {"routing key": event.topic, "persistent": event.headers.guarantee}
    return Taken(event.message, lambda: present(said), lambda: None)


class SocketWayOut(TopicsWayOut):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Consumed[Any]]:
        messages = SocketMessages(topics_port(self.site))
        try:
            await messages.let_in(self.site)
            yield Consumed(messages, _taken_from_frames)
        finally:
            await messages.close()


def _taken_from_frames(frames: list[bytes]) -> Taken:
    topic, body = frames
    return Taken(body, lambda: {"routing key": topic.decode()}, lambda: None)


def topics_port(site: Site) -> int:
    """Return where SUB sockets connect."""
    (endpoint,) = (ref.actor for ref in site.broker.endpoint_refs.values() if isinstance(ref.actor, EMQPEndpoint))
    assert endpoint.topics is not None
    return endpoint.topics.port


class SocketMessages:
    """What comes to a SUB."""

    def __init__(self, port: int) -> None:
        self._subscriber = Subscriber(port, "")
        self._here: list[list[bytes]] = []

    async def let_in(self, site: Site) -> None:
        """Publish until that comes: nothing tells that a subscription has arrived."""
        while True:
            await site.broker.publish(TOPICS, "hello", b"first")
            with trio.move_on_after(0.02):
                await self._subscriber.socket.receive()
                break
        await site.broker.publish(TOPICS, "hello", b"last")
        while await anext(self) != [b"hello", b"last"]:
            pass

    def __aiter__(self) -> "SocketMessages":
        return self

    async def __anext__(self) -> list[bytes]:
        while not self._here:
            self._here += await self._subscriber.socket.receive()
        return self._here.pop(0)

    async def close(self) -> None:
        self._subscriber.socket.close()
        with trio.CancelScope(shield=True):
            await close_context(self._subscriber.context)
