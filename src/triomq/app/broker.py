"""A broker in your program: ``async with open_broker(AMQP()) as broker: …``."""

import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from triomq.actors import ChildSpec, DynamicSupervisor, Ref, System, open_system, require_trio
from triomq.app.checks import check_number, check_text, check_whole
from triomq.app.consumers import Consumers
from triomq.app.domain_handle import DomainHandle
from triomq.app.idle import describe_busy, wait_idle
from triomq.app.listening import Listening, check_endpoint, is_exposed, require_loopback, say_goodbye
from triomq.app.machine import DEFAULT_WATERMARK, memory_mark, own_process
from triomq.app.opening import opening
from triomq.app.peers import Peer
from triomq.app.tree import Root, Tree
from triomq.app.users import User, farewells, records_of
from triomq.core import QUEUE_MEMORY
from triomq.endpoints import (
    DEFAULT_DIRECT,
    BrokerContext,
    DomainAccess,
    EndpointConfig,
    EndUsers,
    Synchronise,
    peer_spec,
)
from triomq.errors import NotFound, StoreError
from triomq.security import UserChanges, Users
from triomq.store import DISK_RESERVE
from triomq.store.hosting import BackUpStore, HostKind, StoreSettings
from triomq.transports import name_of

_log = logging.getLogger("triomq.app")

_DEFAULT_USERS = {"guest": "guest"}


class Broker(DomainHandle):
    """A broker in this process; made by ``open_broker``, which says how long it lives.

    It is the handle of its first domain, and ``domain`` gives the others. With a data directory, what is durable in
    them outlives it.
    """

    def __init__(
        self, system: System, tree: Tree, first: str, *, users: Mapping[str, str | User] | None, drain: float
    ) -> None:
        consumers = Consumers(system, tree.top.children["consumers"], tree.codecs)
        super().__init__(tree.domains.children[first], tree.directories[first], consumers)
        self.system = system
        self.listening: list[Listening] = []
        self.peers: list[Peer] = []
        self.drain_seconds = drain
        self._users = Users(records_of(_DEFAULT_USERS if users is None else users))
        self._open_to_all = users is None
        self._tree = tree
        self._handles: dict[str, DomainHandle] = {first: self}
        self._access: dict[str, DomainAccess] = {first: DomainAccess(self.domain_ref, self.directory)}
        tree.quotas.limit_of = self._users.limit
        self.context = BrokerContext(
            self._access, self._users, tree.codecs, DEFAULT_DIRECT, quotas=tree.quotas, unfinished=tree.unfinished
        )

    # Domains

    def domain(self, name: str) -> DomainHandle:
        """Hold one of the domains.

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
        """The names of the domains that the store had something of at the start, whether they are open or not."""
        return self._tree.recovered_domains

    async def add_domain(self, name: str) -> DomainHandle:
        """Let there be one more domain, with the sinks that every domain has; if it is there already it is given."""
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

        Then no queue has a message that is out with a consumer, that is delayed or comes back after a failure, or that
        an open feed could take, what
        clients have sent is read, and all other tasks of this Trio run wait for something. A consumer that has failed
        is not reported here.

        Raises:
            ActorStopped: The broker, or one of its domains, has ended.
        """
        self.consumers.check()
        await wait_idle(list(self._handles.values()), self.consumers)

    def describe_busy(self) -> str:
        """Say which queues ``wait_idle`` waits for just now, and why; empty when there is none."""
        return describe_busy(list(self._handles.values()))

    # Users

    def set_users(self, users: Mapping[str, str | User] | None) -> UserChanges:
        """Let these be the users and no others.

        Whoever is connected and is no user any more, has another password, or may do less, is told goodbye.

        Args:
            users: Name to user, or to the password of one who may do everything; None for guest/guest.

        Raises:
            ConfigError: There are to be no users of one's own, and an endpoint is open to other machines; or a password
                cannot be read.
        """
        self.consumers.check()
        records = records_of(_DEFAULT_USERS if users is None else users)
        if users is None:
            require_loopback(host for listening in self.listening for host in listening.config.hosts)
        self._open_to_all = users is None
        return self._note_users(self._users.replace(records))

    def put_user(self, name: str, user: str | User) -> UserChanges:
        """Add a user, or change the one of that name, who is told goodbye as by ``set_users``.

        Args:
            name: The name.
            user: The user, or the password of one who may do everything.

        Raises:
            ConfigError: The password cannot be read.
        """
        self.consumers.check()
        (record,) = records_of({name: user})
        return self._note_users(self._users.put(record))

    def remove_user(self, name: str) -> UserChanges:
        """Let there be no such user; who is connected as that one is told goodbye."""
        self.consumers.check()
        return self._note_users(self._users.remove(name))

    def _note_users(self, changes: UserChanges) -> UserChanges:
        reasons = farewells(changes)
        for ref in self.endpoint_refs.values():
            ref.tell_nowait(EndUsers(reasons))
        return changes

    # The store

    async def back_up(self, path: Path | str) -> None:
        """Copy the store to a new directory, as it is at one moment, while everything goes on.

        What was confirmed, and what was awaited in this program, is in it. To use it, start a broker on the directory,
        or on a copy of it.

        Args:
            path: The directory to make; its parent must be there.

        Raises:
            StoreUnwritable: The directory is there already, or cannot be made.
            StoreError: The store cannot be read, or there is none: the broker was opened without ``data_dir``.
            ActorStopped: The broker has ended.
        """
        self.consumers.check()
        store = self._tree.store
        if store is None:
            raise StoreError("this broker keeps everything in memory; open it with data_dir=… to have what to copy")
        error = await store.ask(BackUpStore(Path(os.getcwd(), path)))
        if error is not None:
            raise error

    # Memory

    def set_memory_high_watermark(self, watermark: float) -> None:
        """Let publishers wait or be refused from another mark on; ``open_broker`` says what it means."""
        self.consumers.check()
        check_number("the memory high watermark", watermark, 0)
        self._tree.memory.set_mark(memory_mark(watermark))

    def watch_process_memory(self) -> None:
        """Start the memory alarm as well when this process has more than 60 % of what it could have.

        That is for a broker which has its process for itself, as under ``serve``. Call it once.
        """
        process = own_process()
        if process is not None:
            self._tree.memory.watch_process(process)

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
            ConfigError: The address cannot be had, or it is open to other machines while the users are still the
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
        if config.hosts:
            configs.append(config.bound_to(listening.port))  # a restart must not move it
        self._tree.endpoint_specs[name] = spec
        self.listening.append(listening)
        places = ",".join(name_of(address) for address in listening.addresses)
        _log.info("listening", extra={"fields": {"endpoint": name, "address": places}})
        if is_exposed(config):
            _log.warning("passwords and messages can be read on the network: there is no TLS", extra=_of(name))
        return listening

    def forget(self, listening: Listening) -> None:
        """Do not start an endpoint again with the others; for ``Listening``."""
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
        """Let another broker know what there is in a domain, so that its clients can publish to ours.

        This returns at once; whether the other one is there or not, it is tried again and again.

        Args:
            config: Where it is, and what else there is to say about it.

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

    def forget_peer(self, peer: Peer) -> None:
        """Do not start a peer's actor again with the others; for ``Peer``."""
        if peer in self.peers:
            self.peers.remove(peer)
            del self._tree.peer_specs[peer.name]

    async def drain(self) -> None:
        """Let endpoints take nothing new and clients go in order; for ``open_broker``."""
        await say_goodbye(self.endpoint_refs.values(), self.drain_seconds)


def _free_name(name: str, taken: Mapping[str, Ref]) -> str:
    """Tell those apart that are called the same, such as two endpoints that each take any free port."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}.{number}"
    return free


def _of(endpoint: str) -> dict[str, object]:
    return {"fields": {"endpoint": endpoint}}


@opening("async with open_broker() as broker:")
async def open_broker(
    *endpoints: EndpointConfig,
    users: Mapping[str, str | User] | None = None,
    domains: Sequence[str] = ("default",),
    peers: Sequence[Synchronise] = (),
    drain: float = 3.0,
    memory_high_watermark: float = DEFAULT_WATERMARK,
    data_dir: Path | str | None = None,
    queue_memory: int = QUEUE_MEMORY,
    store_host: HostKind = "process",
    disk_reserve: int = DISK_RESERVE,
) -> AsyncIterator[Broker]:
    """Open a broker that lives until the block is left.

    With a data directory, what is durable outlives it: sinks, queues, bindings, and persistent messages. Without one
    everything is in memory, and gone when the block is left.

    Leaving the block drains it: endpoints take nothing new, clients are told goodbye, queues finish what they were
    told. An error of the broker itself that supervision could not absorb comes out of the block, bare; so does the
    block's own. An actor of the program's own, started with ``broker.system.start``, that fails too often is stopped
    alone.

    Args:
        endpoints: What to listen for, such as ``AMQP(port=0)``; more can follow with ``Broker.listen``.
        users: Who may log in: name to ``User``, or to the password of one who may do everything; without it
            guest/guest, on loopback addresses alone.
        domains: The namespaces of sinks and queues, of which nothing leads from one to another; the first is the one
            that the broker itself is the handle of.
        peers: Brokers that are to know what there is here; more can follow with ``Broker.synchronise``.
        drain: Seconds that clients get to answer the goodbye before their connections are cut.
        memory_high_watermark: What queues may hold before publishers have to wait or are refused: octets if it is
            above 1, a part of the machine's memory if it is not, 0 for no such mark. Unfinished messages may take an
            eighth of it.
        data_dir: The directory of the store, made if it is not there; no other broker may have it.
        queue_memory: Octets of messages that each queue has in memory if there is a store; the others are on disk.
        store_host: Where the store's work is done: in a ``process`` of its own, or on a ``thread``, which is much
            slower while the broker is busy, where no child may be started.
        disk_reserve: Octets, beside the size of the store's log, that are to be free on its disk: below it publishers
            are refused as on a full disk, until there is twice as much; 0 for no such reserve.

    Raises:
        ConfigError: An address cannot be had, or a peer cannot be.
        StoreError: The store cannot be opened: another broker has it, a newer version wrote it, it is damaged.
        RuntimeError: This does not run in Trio.
        TypeError, ValueError: An argument is not of its type, or out of its range.
    """
    require_trio(
        "open_broker",
        asyncio_way="use `async with open_asyncio_broker() as broker:`, which takes the same arguments",
        otherwise="call it in trio.run(main), or use `with open_blocking_broker() as broker:`",
    )
    for config in endpoints:
        check_endpoint(config)
    _check_domains(domains)
    check_number("drain", drain, 0)
    check_number("memory_high_watermark", memory_high_watermark, 0)
    check_whole("queue_memory", queue_memory, 1)
    check_whole("disk_reserve", disk_reserve, 0)
    if store_host not in get_args(HostKind):
        raise ValueError(f"store_host is {store_host!r}, allowed are {', '.join(map(repr, get_args(HostKind)))}")
    store = None if data_dir is None else StoreSettings(Path(data_dir), store_host, reserve=disk_reserve)
    broker: Broker | None = None
    try:
        async with open_system(supervisor=Root()) as system:
            tree = Tree(store, queue_memory)
            tree.memory.mark = memory_mark(memory_high_watermark)
            await tree.start(system)
            first, *others = domains
            await tree.start_domain(first)
            broker = Broker(system, tree, first, users=users, drain=drain)
            for name in others:
                await broker.add_domain(name)
            for config in endpoints:
                await broker.listen(config)
            for peer in peers:
                await broker.synchronise(peer)
            yield broker
            await broker.drain()
    finally:
        if broker is not None:
            broker.consumers.close()


def _check_domains(domains: Sequence[str]) -> None:
    """Refuse what is no list of names.

    Raises:
        TypeError: It is something else, such as one name alone, whose letters would be domains.
        ValueError: There is no name in it.
    """
    if isinstance(domains, str):
        raise TypeError(f"domains is the text {domains!r}; it is a list of names, such as [{domains!r}]")
    for name in domains:
        check_text("the name of a domain", name)
    if not domains:
        raise ValueError("domains is empty; a broker needs at least one, such as 'default'")
