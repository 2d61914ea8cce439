"""One broker that listens for every protocol on real sockets, and a network in front of it that can be cut."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from clients.amqp.proxy import Proxy
from triomq import AMQP, EMQP, MTL, Broker, MicroMsg, RestMS, WebSocket, open_broker

QUEUE = "q"
"""Where everything waits that was published, whichever way."""

SINK = "orders"
"""The sink that leads there by any key."""

HEARTBEAT = 0.25
"""Seconds between heartbeats over ZeroMQ: only when the broker sends one does it find that a peer is not there."""

_NEAR, _FAR = "127.0.0.1", "127.0.0.2"
"""Where the broker is, and where the same ports lead through the network that can be cut."""


class Site:
    """The broker, and where its clients find it; made by ``open_site``."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.host = _NEAR
        """Where clients connect from now on."""
        self.ports = {listening.config.protocol: listening.port for listening in broker.listening}
        self._proxies: list[Proxy] = []

    def url(self, scheme: str, protocol: str) -> str:
        """Return where clients of a protocol connect as guest: over WebSocket, if it is spoken over that here."""
        config = next(listening.config for listening in self.broker.listening if listening.config.protocol == protocol)
        scheme = "ws" if getattr(config, "websocket", None) else scheme
        return f"{scheme}://guest:guest@{self.host}:{self.ports[protocol]}"

    @asynccontextmanager
    async def through_network(self) -> AsyncIterator[None]:
        """Have clients connect through a network that can be cut, until the block ends."""
        ports = sorted({port for listening in self.broker.listening for _, port in listening.addresses})  # type: ignore[misc]
        async with trio.open_nursery() as nursery:
            self._proxies = [Proxy(_NEAR, port, nursery) for port in ports]
            for proxy, port in zip(self._proxies, ports, strict=True):
                await proxy.listen(_FAR, port)
            self.host = _FAR
            yield
            nursery.cancel_scope.cancel()

    def cut(self, *, newest: bool = False) -> None:
        """Break all connections without a goodbye, and let none come again, but by the direct way; or break one."""
        for proxy in self._proxies:
            proxy.cut(newest=newest)
            proxy.refusing = not newest
        if not newest:
            self.host = _NEAR


@asynccontextmanager
async def open_site(websocket: WebSocket | None = None) -> AsyncIterator[Site]:
    """Open a broker that has nothing but the sink; what can be spoken over WebSocket is, if that is given."""
    endpoints = (
        AMQP(host=_NEAR, port=0, websocket=websocket),
        RestMS(host=_NEAR, port=0),
        MTL(host=_NEAR, port=0, heartbeat=HEARTBEAT),
        MicroMsg(host=_NEAR, port=0, websocket=websocket),
        EMQP(host=_NEAR, port=0, topic_port=0, heartbeat=HEARTBEAT),
    )
    with trio.fail_after(60):
        async with open_broker(*endpoints, drain=0.5) as broker:
            await broker.declare_sink(SINK, "topic")
            yield Site(broker)
