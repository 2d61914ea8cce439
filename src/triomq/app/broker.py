"""The handle of a broker in this process: its domains, users, endpoints and peers."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from triomq.actors import ChildSpec, DynamicSupervisor, Ref, System
from triomq.app.checks import check_number, check_text
from triomq.app.consumers import Consumers
from triomq.app.domain_handle import DomainHandle
from triomq.app.idle import describe_busy, wait_idle
from triomq.app.listening import Listening, check_endpoint, drain_endpoints, is_exposed, require_loopback
from triomq.app.machine import memory_mark, own_process
from triomq.app.peers import Peer
from triomq.app.tree import Tree
from triomq.app.users import User, closing_reasons, records_of
from triomq.endpoints import (
    DEFAULT_DIRECT,
    EMQP,
    BrokerContext,
    DomainAccess,
    EndpointConfig,
    EndUsers,
    Synchronise,
    peer_spec,
    shared_peers,
)
from triomq.errors import NotFound, StoreError
from triomq.security import UserChanges, Users
from triomq.store.hosting import BackUpStore
from triomq.transports import name_of

if TYPE_CHECKING:
    from triomq.clients import EMQPConnector

_log = logging.getLogger("triomq.app")

_DEFAULT_USERS = {"guest": "guest"}


class Broker(DomainHandle):
    """A broker in this process; made by ``open_broker``, ends with its block.

    It is the handle of its first domain; ``domain`` returns those of the others. With a data directory, what is durable
    in them outlives the broker.
    """

    def __init__(
        self, system: System, tree: Tree, first: str, *, users: Mapping[str, str | User] | None, drain: float
    ) -> None:
        consumers = Consumers(system, tree.top.children["consumers"], tree.codecs)
        super().__init__(tree.domains.children[first], tree.directories[first], consumers)
        self.system = system
        self.listening: list[Listening] = []
        self._emqp_domains: set[str] = set()  # those in which code of this program speaks eMQP
        self.peers: list[Peer] = []
        self.drain_seconds = drain
        self._users = Users(records_of(_DEFAULT_USERS if users is None else users))
        self._open_to_all = users is None
        self._tree = tree
        self._handles: dict[str, DomainHandle] = {first: self}
        self._access: dict[str, DomainAccess] = {first: DomainAccess(self.domain_ref, self.directory)}
        tree.quotas.limit_of = self._users.limit
        self.context = BrokerContext(
            self._access,
            self._users,
            tree.codecs,
            DEFAULT_DIRECT,
            quotas=tree.quotas,
            unfinished=tree.unfinished,
            unread=tree.unread,
        )

    # Domains

    def domain(self, name: str) -> DomainHandle:
        """Return the handle of a domain.

        Raises:
            NotFound: There is none of that name.
        """
        self.consumers.check_open()
        handle = self._handles.get(name)
        if handle is None:
            raise NotFound(f"there is no domain {name!r}, but {', '.join(map(repr, self._handles))}")
        return handle

    @property
    def domains(self) -> list[str]:
        """The names of all domains, the broker's own one first."""
        return list(self._handles)

    @property
    def recovered_domains(self) -> list[str]:
        """The names of the domains that were in the store at the start, whether they are open or not."""
        return self._tree.recovered_domains

    async def add_domain(self, name: str) -> DomainHandle:
        """Add a domain with the standard sinks, and return its handle; one that exists stays as it is."""
        self.consumers.check()
        check_text("the name of the domain", name)
        if name not in self._handles:
            ref = await self._tree.start_domain(name)
            handle = DomainHandle(ref, self._tree.directories[name], self.consumers)
            self._access[name] = DomainAccess(ref, handle.directory)
            self._handles[name] = handle
        return self._handles[name]

    async def wait_idle(self) -> None:
        """Wait until nothing happens by itself any more, in any domain; made for tests.

        Then no queue has a message that is unsettled, that is delayed or comes back after a failure, or that an open
        feed could take. Everything that clients have sent is read, and all other tasks of this Trio run wait for
        something. A consumer that has failed is not reported here.

        Raises:
            ActorStopped: The broker, or one of its domains, has ended.
        """
        self.consumers.check()
        await wait_idle(list(self._handles.values()), self.consumers)

    def describe_busy(self) -> str:
        """Return which queues ``wait_idle`` waits for now, and why; empty if there is none."""
        return describe_busy(list(self._handles.values()))

    # Users

    def set_users(self, users: Mapping[str, str | User] | None) -> UserChanges:
        """Replace all users.

        Connections of a user who is removed, has another password, or may do less, are closed with the reason.

        Args:
            users: Name to user, or to the password of one who may do everything; None for guest/guest.

        Raises:
            ConfigError: The users are to be the default ones, and an endpoint is open to other machines; or a password
                cannot be read.
        """
        self.consumers.check()
        records = records_of(_DEFAULT_USERS if users is None else users)
        if users is None:
            require_loopback(host for listening in self.listening for host in listening.config.hosts)
        self._open_to_all = users is None
        return self._end_users(self._users.replace(records))

    def put_user(self, name: str, user: str | User) -> UserChanges:
        """Add a user, or change the one of that name, whose connections are closed as by ``set_users``.

        Args:
            name: The name.
            user: The user, or the password of one who may do everything.

        Raises:
            ConfigError: The password cannot be read.
        """
        self.consumers.check()
        (record,) = records_of({name: user})
        return self._end_users(self._users.put(record))

    def remove_user(self, name: str) -> UserChanges:
        """Remove a user, and close its connections with the reason."""
        self.consumers.check()
        return self._end_users(self._users.remove(name))

    def _end_users(self, changes: UserChanges) -> UserChanges:
        """Close the connections of users who are gone or may do less."""
        reasons = closing_reasons(changes)
        for ref in self.endpoint_refs.values():
            ref.tell_nowait(EndUsers(reasons))
        return changes

    # The store

    async def back_up(self, path: Path | str) -> None:
        """Copy the store to a new directory, as it is at one moment, while everything goes on.

        Everything is in it that was confirmed to clients, or that a call of this program has returned from. To use it,
        start a broker on the directory, or on a copy of it.

        Args:
            path: The directory to create; its parent must exist.

        Raises:
            StoreUnwritable: The directory exists already, or cannot be created.
            StoreError: The store cannot be read, or there is none: the broker was opened without ``data_dir``.
            ActorStopped: The broker has ended.
        """
        self.consumers.check()
        store = self._tree.store
        if store is None:
            raise StoreError("this broker has no store, everything is in memory; open it with data_dir=… to back it up")
        error = await store.ask(BackUpStore(Path(os.getcwd(), path)))
        if error is not None:
            raise error

    # Memory

    def set_memory_high_watermark(self, watermark: float) -> None:
        """Change the mark from which publishers wait or are refused; ``open_broker`` explains it."""
        self.consumers.check()
        check_number("the memory high watermark", watermark, 0)
        self._tree.memory.set_mark(memory_mark(watermark))

    def watch_process_memory(self) -> None:
        """Start the memory alarm as well when this process has more than 60 % of what it could have; return to the
        system what the process does not need any more.

        That is for a broker that has its process for itself, as under ``serve``. Call it once.
        """
        process = own_process()
        if process is not None:
            self._tree.memory.watch_process(process)
            self._tree.keep_giving_back()

    # Endpoints

    @property
    def endpoints(self) -> DynamicSupervisor:
        """The supervisor of the endpoints."""
        actor = self._tree.endpoints.actor
        assert isinstance(actor, DynamicSupervisor)
        return actor

    @property
    def endpoint_refs(self) -> Mapping[str, Ref]:
        """The endpoints by name, also while they are being restarted."""
        return self._tree.endpoints.children

    async def listen(self, config: EndpointConfig) -> Listening:
        """Open an endpoint, any number of them, at any time.

        Args:
            config: What to listen for and where, such as ``AMQP(port=0)``.

        Raises:
            ConfigError: The address cannot be used, or it is open to other machines while the users are still the
                default ones.
        """
        self.consumers.check()
        check_endpoint(config)
        if self._open_to_all:
            require_loopback(config.hosts)
        configs = [config]
        name = _free_name(config.name, self.endpoint_refs)
        await self._tree.add_endpoint_type(type(config))
        spec = ChildSpec(lambda: configs[-1].make(self.context), name=name)
        await self.endpoints.start_child(spec)
        listening = Listening(self, name, config)
        if any(isinstance(address, tuple) for address in listening.addresses[:1]):
            configs.append(config.bound_to(listening.port))  # a restart must not move it
        self._tree.endpoint_specs[name] = spec
        self.listening.append(listening)
        places = ",".join(name_of(address) for address in listening.addresses)
        _log.info("listening", extra={"fields": {"endpoint": name, "address": places}})
        if is_exposed(config):
            _log.warning("passwords and messages can be read on the network: there is no TLS", extra=_of(name))
        return listening

    async def emqp_connector(self, domain: str | None = None, *, name: str = "") -> "EMQPConnector":
        """Return how code of this program speaks eMQP with the broker, without a socket; for ``open_emqp`` and jobs.

        It finds the endpoint of that domain, whatever it listens on. If there is none, or it is closed later, one is
        started that listens on nothing. There are no heartbeats, and it may do everything, as ``publish`` may.

        Args:
            domain: Where its queues are; None is the broker's own.
            name: How a person calls this peer, in lists of workers.

        Raises:
            NotFound: There is no such domain.
        """
        from triomq.clients import MemoryConnector  # loads all clients, of which most brokers have none

        handle = self if domain is None else self.domain(domain)
        where = handle.directory.name
        self._emqp_domains.add(where)
        await self.serve_memory_peers()
        return MemoryConnector(shared_peers(self.context, where).address, name)

    async def serve_memory_peers(self) -> None:
        """Start an eMQP endpoint for code of this program wherever that has none, or not any more."""
        for domain in self._emqp_domains:
            if not shared_peers(self.context, domain).address.is_bound:
                await self._start_emqp(domain)

    async def _start_emqp(self, domain: str) -> None:
        """Start an endpoint that listens on nothing, unless another task has."""
        config = EMQP(port=None, domain=domain)
        if config.name not in self.endpoint_refs:
            spec = self._tree.endpoint_specs[config.name] = ChildSpec(
                lambda: config.make(self.context), name=config.name
            )
            await self.endpoints.start_child(spec)

    def remove_listening(self, listening: Listening) -> None:
        """Remove an endpoint from those that a restart starts again; for ``Listening``."""
        if listening in self.listening:
            self.listening.remove(listening)
            del self._tree.endpoint_specs[listening.name]

    # Peers

    @property
    def peers_supervisor(self) -> DynamicSupervisor:
        """The supervisor of the peers."""
        actor = self._tree.peers.actor
        assert isinstance(actor, DynamicSupervisor)
        return actor

    @property
    def peer_refs(self) -> Mapping[str, Ref]:
        """The peers' actors by name, also while they are being restarted."""
        return self._tree.peers.children

    async def synchronise(self, config: Synchronise) -> Peer:
        """Announce a domain's sinks, queues and bindings to another broker, so that its clients can publish to ours.

        This returns at once; the connection is tried until the peer is there, and again when it is lost.

        Args:
            config: Where the peer is, and what to announce to it.

        Raises:
            ConfigError: There is no such domain, the URL is wrong, or a password or a certificate cannot be read.
        """
        self.consumers.check()
        if not isinstance(config, Synchronise):
            raise TypeError(f"a peer is of type {type(config).__name__}; it is a Synchronise(url)")
        name = _free_name(config.name, self.peer_refs)
        spec = peer_spec(config, self.context, name)
        await self.peers_supervisor.start_child(spec)
        self._tree.peer_specs[name] = spec
        peer = Peer(self, name, config)
        self.peers.append(peer)
        return peer

    def remove_peer(self, peer: Peer) -> None:
        """Remove a peer from those that a restart starts again; for ``Peer``."""
        if peer in self.peers:
            self.peers.remove(peer)
            del self._tree.peer_specs[peer.name]

    def close(self) -> None:
        """Close the handles, and let nobody wait for an endpoint any more; for ``open_broker``."""
        self.consumers.close()
        for domain in self._handles:
            shared_peers(self.context, domain).address.close()

    async def drain(self) -> None:
        """Close the endpoints to new clients, and give the others time to finish; for ``open_broker``."""
        self._tree.drained_by = trio.current_time() + self.drain_seconds
        await drain_endpoints(self.endpoint_refs.values(), self.drain_seconds)


def _free_name(name: str, taken: Mapping[str, Ref]) -> str:
    """Return a name that is not taken yet: two endpoints that each take any free port are called the same."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}.{number}"
    return free


def _of(endpoint: str) -> dict[str, object]:
    return {"fields": {"endpoint": endpoint}}
