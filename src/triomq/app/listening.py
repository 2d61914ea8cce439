"""Endpoints that listen, as a program holds them."""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING

import trio

from triomq.actors import Ref
from triomq.endpoints import AMQPEndpoint, StopListening
from triomq.errors import ActorStopped

if TYPE_CHECKING:
    from triomq.app.broker import Broker

__all__ = ["Listening", "is_loopback", "say_goodbye"]

_GOODBYE = 3.0
"""Seconds that clients get to answer the broker's goodbye before their connections are cut."""


class Listening:
    """An endpoint that listens; obtained from ``Broker.listen``, ends with ``aclose`` or with the broker."""

    def __init__(self, broker: "Broker", name: str) -> None:
        """Hold an endpoint by its name."""
        self._broker = broker
        self.name = name

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each address that it listens on."""
        ref = self._broker.endpoint_refs.get(self.name)
        return list(ref.actor.addresses) if ref is not None and isinstance(ref.actor, AMQPEndpoint) else []

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first address.

        Raises:
            ActorStopped: It does not listen, any more or just now.
        """
        addresses = self.addresses
        if not addresses:
            raise ActorStopped(f"{self.name} does not listen, any more or just now; the log says why")
        return addresses[0]

    @property
    def port(self) -> int:
        """The port, the same on all addresses."""
        return self.address[1]

    async def aclose(self) -> None:
        """Take no new connections, say goodbye to those that are there, and stop listening."""
        ref = self._broker.endpoint_refs.get(self.name)
        self._broker.forget(self)
        if ref is not None:
            await say_goodbye([ref])
            await self._broker.endpoints.stop_child(ref)


async def say_goodbye(endpoints: Iterable[Ref]) -> None:
    """Ask endpoints to stop listening, and give their clients a while to go."""
    refs = list(endpoints)
    for ref in refs:
        try:
            await ref.tell(StopListening())
        except ActorStopped:
            continue
    with trio.move_on_after(_GOODBYE):
        for ref in refs:
            if isinstance(ref.actor, AMQPEndpoint):
                await ref.actor.wait_empty()


def is_loopback(host: str) -> bool:
    """Tell whether an address can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
