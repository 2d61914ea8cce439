"""A broker's tree of actors: domains, consumers in this process, endpoints, peers; each needs those before it."""

import logging
from collections.abc import Mapping, Sequence
from math import inf

import trio

from triomq.actors import ChildSpec, DynamicSupervisor, Ref, Supervisor, System
from triomq.app.machine import keep_giving_back, resident_memory
from triomq.core import (
    QUEUE_MEMORY,
    Codecs,
    DeclareSink,
    Directory,
    Domain,
    MemoryAlarm,
    Persistence,
    Quotas,
    SinkKind,
    SinkOptions,
    recovered_domains,
    recovering,
)
from triomq.endpoints import EndpointConfig, EndpointTypes, Unfinished, UnreadAccount
from triomq.errors import ConfigError, NotAllWritten, StoreError, StoreLost
from triomq.store import Journal, words_of
from triomq.store.hosting import LEAST_WAIT, StoreSettings, StoreSupervisor
from triomq.tracelog import Recorder, Trace, TraceSupervisor

_log = logging.getLogger("triomq.app")

_BROKER = "broker"
"""The name of the broker's own supervisor."""

_STEPS = 400
"""Records that are recovered before other tasks of this process may run: those wait at most 10 ms."""

_Specs = Mapping[str, ChildSpec]
"""Children by name, to which its owner adds at run time."""


class Tree:
    """The actors of a broker, and the state that outlives their incarnations; made and started by ``open_broker``.

    It decodes the properties of all built-in protocols, whether their endpoints listen or not. With a store it decodes
    those of all installed protocols as well: the store may have messages that came by them.

    Args:
        store: Where the store is; None without one.
        queue_memory: Bytes of messages that each queue has in memory if there is a store.
        trace: What is traced; None for nothing.
        drain: Seconds that clients have to finish, and the store to write the rest, when the broker ends.
    """

    def __init__(
        self,
        store: StoreSettings | None = None,
        queue_memory: int = QUEUE_MEMORY,
        trace: Trace | None = None,
        drain: float = 0,
    ) -> None:
        self._drain = drain
        self.drained_by = -inf
        """Until when the store may take to write the rest, on Trio's clock, once the broker ends."""
        self.persistence = None if store is None else Persistence(Journal(), queue_memory)
        self._store = store
        self._trace = trace
        self.recorder = None if trace is None else Recorder(trace)
        self.memory = MemoryAlarm(resident=resident_memory())
        self.quotas = Quotas()
        self.unfinished = Unfinished(self.memory)
        self.unread = UnreadAccount(self.memory)
        self.codecs = Codecs()
        self._registered: set[type[EndpointConfig]] = set()
        self._standard_sinks: dict[str, SinkKind] = {}
        for kind in EndpointTypes.built_in:
            self._register(kind)
            self._standard_sinks.update(kind.standard_sinks)
        if store is not None:
            self._register_installed()
        self.directories: dict[str, Directory] = {}
        self.endpoint_specs: dict[str, ChildSpec] = {}
        self.peer_specs: dict[str, ChildSpec] = {}
        self._domain_specs: dict[str, ChildSpec] = {}
        self.top: Ref

    async def start(self, system: System) -> None:
        """Start the actors that every broker has."""
        specs = self._domain_specs, self.endpoint_specs, self.peer_specs
        accounts = self.memory, self.unfinished, self.unread
        self.top = await system.start(
            lambda: _Top(*specs, *accounts, self._store_spec(), self._trace_spec()),
            name=_BROKER,
        )

    def keep_giving_back(self) -> None:
        """Return to the system what this process has of memory that nobody uses, from now on."""
        assert isinstance(self.top.actor, _Top)
        self.top.actor.start_task(keep_giving_back)

    def _store_spec(self) -> list[ChildSpec]:
        settings, persistence = self._store, self.persistence
        if settings is None or persistence is None:
            return []
        patience = max(self._drain, LEAST_WAIT) + 1  # it looks at the deadline itself
        return [
            ChildSpec(
                lambda: StoreSupervisor(persistence.journal, settings, lambda: self.drained_by),
                name="store",
                shutdown=patience,
            )
        ]

    def find_unwritten(self) -> StoreError | None:
        """Return the error that says what is not on disk, and log it; called when all actors have ended."""
        if self.persistence is None or not self.persistence.journal.is_open:
            return None
        journal = self.persistence.journal
        counts, fault = journal.count_unwritten(), journal.fault
        if not counts and not isinstance(fault, StoreLost):
            return None
        if not counts:
            _log.error("the store is lost", extra={"fields": {"fault": str(fault)}})
            return StoreLost(f"the store is lost: {fault}")
        what, why = words_of(counts), "there was not enough time" if fault is None else str(fault)
        _log.error("not everything is on disk", extra={"fields": {"what": what, "fault": why}})
        return NotAllWritten(f"the broker has ended, and not on disk are {what}: {why}")

    def _trace_spec(self) -> list[ChildSpec]:
        trace, recorder = self._trace, self.recorder
        if trace is None or recorder is None:
            return []
        return [ChildSpec(lambda: TraceSupervisor(trace, recorder), name="trace")]

    @property
    def recovered_domains(self) -> list[str]:
        """The names of the domains that were in the store when it was opened."""
        return recovered_domains(self.persistence) if self.persistence is not None else []

    @property
    def store(self) -> Ref | None:
        """The store's actor, if there is one."""
        return self.top.children.get("store")

    @property
    def domains(self) -> Ref:
        """The supervisor of the domains."""
        return self.top.children["domains"]

    @property
    def endpoints(self) -> Ref:
        """The supervisor of the endpoints."""
        return self.top.children["endpoints"]

    @property
    def peers(self) -> Ref:
        """The supervisor of the peers."""
        return self.top.children["peers"]

    async def start_domain(self, name: str) -> Ref:
        """Start a domain with the standard sinks; recover it first if it is in the store."""
        directory = Directory(name, self.codecs, self.memory, self.persistence, self.quotas)
        if self.recorder is not None:
            directory.trace(self.recorder)
        for number, _ in enumerate(recovering(directory), 1):
            if number % _STEPS == 0:
                await trio.lowlevel.checkpoint()
        spec = ChildSpec(lambda: Domain(directory), name=name)
        await self.domains.wait_running()
        assert isinstance(self.domains.actor, Supervisor)
        ref = await self.domains.actor.start_child(spec)
        self.directories[name] = directory
        self._domain_specs[name] = spec
        await self._declare_standard_sinks(name)
        return ref

    async def add_endpoint_type(self, kind: type[EndpointConfig]) -> None:
        """Register a protocol's codecs, and declare its standard sinks in every domain; call this before it listens."""
        self._register(kind)
        if not kind.standard_sinks.keys() <= self._standard_sinks.keys():
            self._standard_sinks.update(kind.standard_sinks)
            for domain in list(self.directories):
                await self._declare_standard_sinks(domain)

    def _register(self, kind: type[EndpointConfig]) -> None:
        """Register the codecs of a protocol's messages."""
        if kind not in self._registered:
            for codec in kind.codecs:
                self.codecs.register(codec.tag, codec.decode, codec.amend)
            self._registered.add(kind)

    def _register_installed(self) -> None:
        types = EndpointTypes()
        for tag in types:
            try:
                self._register(types[tag])
            except (ConfigError, ValueError) as error:
                # Such a package stops no broker that has no endpoint of it; its messages are passed on as they are.
                _log.warning("endpoint type not available", extra={"fields": {"type": tag, "trouble": error}})

    async def _declare_standard_sinks(self, domain: str) -> None:
        ref, directory = self.domains.children[domain], self.directories[domain]
        for sink, kind in self._standard_sinks.items():
            if sink not in directory.sinks:
                await ref.ask(DeclareSink(sink, SinkOptions(kind=kind)))


class Root(DynamicSupervisor):
    """The root of a broker's tree: the broker's own supervisor, and the actors that a program has started beside it.

    Restarts are counted for each of them. A program's actor that fails too often is stopped alone, since the others may
    do without it; without the broker's own supervisor the system ends.
    """

    def child_exited(self, ref: Ref, error: BaseException | None) -> None:
        """End the system if the broker has failed."""
        if ref.name == _BROKER and ref.state == "stopped" and error is not None:
            self.system.fail(error)


class _Top(Supervisor):
    """The broker's own supervisor.

    Args:
        domains: The domains.
        endpoints: The endpoints that listen.
        peers: The peers.
        memory: Watches the memory of the domains' queues.
        unfinished: Watches the memory of messages that have not arrived completely.
        unread: Watches that of what clients do not read.
        store: The store's actor, if there is one.
        trace: The trace log's actor, if there is one; last, so that no other is restarted with it.
    """

    def __init__(
        self,
        domains: _Specs,
        endpoints: _Specs,
        peers: _Specs,
        memory: MemoryAlarm,
        unfinished: Unfinished,
        unread: UnreadAccount,
        store: Sequence[ChildSpec],
        trace: Sequence[ChildSpec],
    ) -> None:
        super().__init__(
            [
                *store,
                ChildSpec(lambda: _Domains(domains), name="domains"),
                ChildSpec(DynamicSupervisor, name="consumers"),
                ChildSpec(lambda: _Specified(endpoints), name="endpoints"),
                ChildSpec(lambda: _Specified(peers), name="peers"),
                *trace,
            ],
            strategy="rest_for_one",
        )
        self._memory = memory
        self._unfinished = unfinished
        self._unread = unread

    async def on_start(self) -> None:
        """Start the children, and measure their memory from now on."""
        await super().on_start()
        self.start_task(self._memory.run)
        self.start_task(self._unfinished.keep_looking)
        self.start_task(self._unread.keep_looking)

    def child_exited(self, ref: Ref, error: BaseException | None) -> None:
        """End the broker if its store gives up: it has tried again as long as that made sense."""
        if isinstance(error, StoreError):
            self.system.fail(error)


class _Domains(Supervisor):
    """The supervisor of the domains.

    The feeds of a domain end when it crashes, so all that have feeds must begin again: this supervisor gives up at
    once, and the broker's own one restarts it with all that come after it.
    """

    max_restarts = 0

    def __init__(self, specs: _Specs) -> None:
        super().__init__()
        self._specs = specs

    def child_specs(self) -> list[ChildSpec]:
        """Return the domains to start."""
        return list(self._specs.values())


class _Specified(DynamicSupervisor):
    """The supervisor of the endpoints, or of the peers; a new incarnation starts those of the one before."""

    def __init__(self, specs: _Specs) -> None:
        super().__init__()
        self._specs = specs

    def child_specs(self) -> list[ChildSpec]:
        """Return the endpoints, or peers, to start."""
        return list(self._specs.values())
