"""The handle of an endpoint that listens, and the checks before it does."""

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import trio

from triomq.actors import Ref
from triomq.endpoints import Endpoint, EndpointConfig, StopListening
from triomq.errors import ActorStopped, ConfigError
from triomq.transports import Address, is_loopback

if TYPE_CHECKING:
    from triomq.app.broker import Broker

_log = logging.getLogger("triomq.app")


class Listening:
    """An endpoint that listens; obtained from ``Broker.listen``, ends with ``aclose`` or with the broker."""

    def __init__(self, broker: "Broker", name: str, config: EndpointConfig) -> None:
        self._broker = broker
        self.name = name
        self.config = config

    @property
    def addresses(self) -> list[Address]:
        """Host and port of each address that it listens on, or the path of its Unix socket."""
        ref = self._broker.endpoint_refs.get(self.name)
        return list(ref.actor.addresses) if ref is not None and isinstance(ref.actor, Endpoint) else []

    @property
    def others(self) -> Mapping[str, Address]:
        """Where it listens for something else, by what that is, such as ``topics`` of eMQP."""
        ref = self._broker.endpoint_refs.get(self.name)
        return ref.actor.others if ref is not None and isinstance(ref.actor, Endpoint) else {}

    @property
    def address(self) -> Address:
        """Host and port of the first address, or the path of its Unix socket.

        Raises:
            ActorStopped: It does not listen, any more or just now.
        """
        addresses = self.addresses
        if not addresses:
            raise ActorStopped(f"{self.name} does not listen, any more or just now; the log says why")
        return addresses[0]

    @property
    def port(self) -> int:
        """The port, the same on all addresses.

        Raises:
            ActorStopped: It does not listen, any more or just now.
            ValueError: It listens on a Unix socket.
        """
        address = self.address
        if isinstance(address, str):
            raise ValueError(f"{address} is a Unix socket, which has no port; use the address")
        return address[1]

    async def aclose(self) -> None:
        """Accept no new connections, close those that are open in order, and stop listening."""
        ref = self._broker.endpoint_refs.get(self.name)
        self._broker.remove_listening(self)
        if ref is not None:
            await drain_endpoints([ref], self._broker.drain_seconds)
            await self._broker.endpoints.stop_child(ref)
        await self._broker.serve_memory_peers()


async def drain_endpoints(endpoints: Iterable[Ref], seconds: float) -> None:
    """Ask endpoints to stop listening, give their clients so many seconds to finish, and log how many were cut."""
    refs, began = list(endpoints), trio.current_time()
    for ref in refs:
        try:
            await ref.tell(StopListening())
        except ActorStopped:
            continue
    with trio.move_on_after(seconds):
        for ref in refs:
            if isinstance(ref.actor, Endpoint):
                await ref.actor.wait_empty()
    cut = sum(ref.actor.note_cut() for ref in refs if isinstance(ref.actor, Endpoint))
    fields = {"seconds": round(trio.current_time() - began, 3), "cut": cut}
    _log.log(logging.WARNING if cut else logging.INFO, "drained", extra={"fields": fields})


def check_endpoint(config: object) -> None:
    """Refuse what is no configuration of an endpoint.

    Raises:
        TypeError: It is something else; the text suggests what may be meant.
    """
    if isinstance(config, int) and not isinstance(config, bool):
        raise TypeError(f"an endpoint is {config!r}; write what listens there: AMQP(port={config})")
    if isinstance(config, str):
        raise TypeError(f"an endpoint is {config!r}; write what listens there, such as AMQP(host=…, port=…)")
    if isinstance(config, type):
        raise TypeError(f"an endpoint is the class {config.__name__}; write {config.__name__}(), with parentheses")
    if not isinstance(config, EndpointConfig):
        raise TypeError(
            f"an endpoint is a {type(config).__name__}; it is the configuration of what listens, such as AMQP()"
        )


def require_loopback(hosts: Iterable[str]) -> None:
    """Refuse to listen where other machines can connect; for brokers with the default users.

    Raises:
        ConfigError: One of the hosts is open to other machines.
    """
    for host in hosts:
        if not is_loopback(host):
            raise ConfigError(
                f"host {host!r} is open to other machines, and the default user guest has a well-known password; "
                "configure users, as open_broker(users={name: password}) or as a table [users.NAME] in the file, "
                "or listen on localhost"
            )


def is_exposed(config: EndpointConfig) -> bool:
    """Return whether messages can be read on the network: other machines can connect, and nothing is encrypted."""
    return not config.is_encrypted and not all(map(is_loopback, config.hosts))
