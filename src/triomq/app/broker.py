"""A broker in your program: ``async with open_broker(AMQP()) as broker: …``."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import TypeVar

import msgspec
import trio

from triomq.actors import ChildSpec, DynamicSupervisor, InPlaceActor, Ref, Supervisor, System, open_system
from triomq.app.handles import QueueHandle, SinkHandle
from triomq.core import (
    CORE_CODEC,
    Codecs,
    DeclareQueue,
    DeclareSink,
    Directory,
    Domain,
    Head,
    Overflow,
    Properties,
    Publish,
    QueueOptions,
    QueueStore,
    Receipt,
    Restarting,
    Session,
    SinkKind,
    SinkOptions,
    decode_core,
    encode_core,
)
from triomq.endpoints import AMQP_CODEC, AMQPEndpoint, DomainAccess, EndpointConfig, House, StopListening, from_amqp
from triomq.errors import ActorStopped, ConfigError, LimitExceeded, Unroutable
from triomq.security import Users

__all__ = ["Broker", "Listening", "open_broker"]

T = TypeVar("T")

_DEFAULT_USERS = {"guest": "guest"}

_DEFAULT_SINKS = {
    "amq.direct": SinkKind.DIRECT,
    "amq.fanout": SinkKind.FANOUT,
    "amq.topic": SinkKind.TOPIC,
    "amq.headers": SinkKind.HEADERS,
    "amq.match": SinkKind.HEADERS,
}
"""The sinks that every domain has from the start (AMQP 0-9-1 section 3.1.3)."""

_LONGEST_NAME = 255

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
            await _say_goodbye([ref])
            await self._broker.endpoints.stop_child(ref)


class Broker:
    """A broker in this process; made by ``open_broker``, which says how long it lives."""

    def __init__(self, system: System, users: Mapping[str, str] | None) -> None:
        """Prepare; ``open_broker`` starts the actors."""
        self.system = system
        self.directory = Directory("default")
        self.codecs = Codecs()
        self.codecs.register(AMQP_CODEC, from_amqp)
        self._open_to_all = users is None
        self._users = Users(dict(_DEFAULT_USERS if users is None else users))
        self.domain: Ref
        self.session: Session
        self._endpoints: Ref
        self._consumers: Ref
        self.listening: list[Listening] = []
        self._endpoint_specs: dict[str, ChildSpec] = {}

    async def _start(self) -> None:
        """Start the tree: domain, consumers in this process, endpoints; each of them rests on those before it."""
        top = await self.system.start(lambda: _Top(self.directory, self._endpoint_specs), name="broker")
        children = top.children
        self.domain, self._consumers, self._endpoints = (
            children["default"],
            children["consumers"],
            children["endpoints"],
        )
        self.session = Session(self.domain, user="", origin="")
        self.session.attach()
        for name, kind in _DEFAULT_SINKS.items():
            await self.domain.ask(DeclareSink(name, SinkOptions(kind=kind)))

    @property
    def endpoints(self) -> DynamicSupervisor:
        """The supervisor of the endpoints."""
        assert isinstance(self._endpoints.actor, DynamicSupervisor)
        return self._endpoints.actor

    @property
    def endpoint_refs(self) -> Mapping[str, Ref]:
        """The endpoints by name, also while they are being restarted."""
        return self._endpoints.children

    async def start_consumer(self, factory: Callable[[], InPlaceActor]) -> Ref:
        """Start the actor at a consumer's end, when the supervisor of consumers runs; for handles."""
        await self._consumers.wait_running()
        assert isinstance(self._consumers.actor, DynamicSupervisor)
        return self._consumers.actor.start_child_nowait(ChildSpec(factory, restart="temporary"))

    def stop_consumer(self, ref: Ref) -> None:
        """Stop such an actor, unless its supervisor was restarted meanwhile, which has ended it; for handles."""
        if isinstance(self._consumers.actor, DynamicSupervisor):
            self._consumers.actor.stop_child_nowait(ref)

    def turn(self, function: Callable[[], T]) -> T:
        """Do something as one turn: what it tells the core is dispatched and written when it ends."""
        return self.system.turn.run(function)

    # Endpoints

    async def listen(self, config: EndpointConfig) -> Listening:
        """Open an endpoint, any number of them, at any time.

        Args:
            config: What to listen for and where, such as ``AMQP(port=0)``.

        Raises:
            ConfigError: The address cannot be had, or it is open to other machines while the users are still the
                default ones.
        """
        self._check_users(getattr(config, "host", "localhost"))
        house = House({"default": DomainAccess(self.domain, self.directory)}, self._users, self.codecs)
        configs = [config]
        name = self._free_name(config.name)
        spec = ChildSpec(lambda: configs[-1].make(house), name=name)
        await self.endpoints.start_child(spec)
        listening = Listening(self, name)
        configs.append(config.bound_to(listening.port))  # a restart must not move it
        self._endpoint_specs[name] = spec
        self.listening.append(listening)
        return listening

    def _free_name(self, name: str) -> str:
        """Tell endpoints apart that are called the same, such as two that each take any free port."""
        taken, number, free = self.endpoint_refs, 1, name
        while free in taken:
            number += 1
            free = f"{name}.{number}"
        return free

    def forget(self, listening: Listening) -> None:
        """Do not start an endpoint again with the others; for ``Listening``."""
        if listening in self.listening:
            self.listening.remove(listening)
            del self._endpoint_specs[listening.name]

    def _check_users(self, host: str) -> None:
        if self._open_to_all and not _is_loopback(host):
            raise ConfigError(
                f"host {host!r} is open to other machines, where everybody knows the password of the user guest; "
                "give open_broker(users={name: password}), or listen on localhost"
            )

    async def _drain(self) -> None:
        """Let endpoints take nothing new and clients go in order."""
        await _say_goodbye(list(self._endpoints.children.values()))

    # Sinks and queues

    async def declare_sink(
        self,
        name: str,
        kind: str = "direct",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
    ) -> SinkHandle:
        """Let there be a sink.

        Args:
            name: Its name.
            kind: How it routes: direct, fanout, topic or headers.
            durable: Whether it is there again after a restart.
            auto_delete: Whether it goes when its last binding goes.
            internal: Whether only other sinks may publish into it.

        Raises:
            Inequivalent: It exists and differs.
            ValueError: There is no such kind, or the name is too long.
        """
        _check_name(name)
        options = SinkOptions(kind=SinkKind(kind), durable=durable, auto_delete=auto_delete, internal=internal)
        await self.domain.ask(DeclareSink(name, options))
        return SinkHandle(self, name)

    async def declare_queue(
        self,
        name: str,
        *,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        max_length: int | None = None,
        max_bytes: int | None = None,
        overflow: str = "drop-head",
    ) -> QueueHandle:
        """Let there be a queue.

        Args:
            name: Its name.
            durable: Whether it is there again after a restart.
            exclusive: Whether only this program may use it, so that clients of endpoints are locked out.
            auto_delete: Whether it goes when its last feed closes.
            max_length: How many ready messages it keeps; None keeps all.
            max_bytes: How many octets of ready bodies it keeps; None keeps all.
            overflow: What it does when it is full: ``drop-head`` or ``reject-publish``.

        Raises:
            Inequivalent: It exists and differs.
            QueueLocked: It belongs exclusively to a client.
            ValueError: There is no such overflow, or the name is too long.
        """
        _check_name(name)
        options = QueueOptions(
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            max_length=max_length,
            max_bytes=max_bytes,
            overflow=Overflow(overflow),
        )
        await self.domain.ask(DeclareQueue(name, options, self.session))
        return QueueHandle(self, name)

    def queue(self, name: str) -> QueueHandle:
        """Hold a queue that exists.

        Raises:
            NoSuchQueue: It does not.
        """
        return QueueHandle(self, self.directory.queue(name, self.session).name)

    def sink(self, name: str) -> SinkHandle:
        """Hold a sink that exists.

        Raises:
            NoSuchSink: It does not.
        """
        return SinkHandle(self, self.directory.sink(name).name)

    async def wait_queue(self, name: str) -> QueueStore:
        """Find a queue, and wait until it runs if it is being restarted, alone or with its domain; for handles.

        Raises:
            NoSuchQueue: It does not exist, any more.
            QueueStopped: It crashed so often that it was stopped.
        """
        if self.domain.state != "running":
            await self.domain.wait_running()
        store = self.directory.queue(name, self.session)
        try:
            await store.ref.wait_running()
        except ActorStopped:
            pass  # the directory knows why
        return self.directory.queue(name, self.session)

    async def retry(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again when an actor that was being restarted runs; for handles."""
        while True:
            try:
                return await ask()
            except Restarting as error:
                await error.ref.wait_running()

    # Publishing

    async def publish(
        self,
        sink: str,
        key: str,
        body: bytes,
        properties: Properties | None = None,
        *,
        mandatory: bool = False,
    ) -> None:
        """Publish a message; when this returns, it is in every queue that it was routed to.

        Cancelled, it may or may not have been published.

        Args:
            sink: The sink's name; the empty name leads to the queue that is called like the key.
            key: The routing key.
            body: The octets.
            properties: What to say about it.
            mandatory: Whether it is an error if no queue wants it.

        Raises:
            NoSuchSink: There is no such sink.
            SinkInternal: Only other sinks may publish into it.
            Unroutable: ``mandatory`` is set and no queue wants it.
            LimitExceeded: A queue is full and refuses new messages, or was stopped.
            ValueError: The key is too long, or a property is not of its type.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        done = trio.Event()
        receipt = self.turn(lambda: self._place(sink, key, body, properties, done.set, mandatory=mandatory))
        if receipt.missing:
            await done.wait()
        else:
            await trio.lowlevel.cancel_shielded_checkpoint()
        _check(receipt, sink, key)

    def publish_nowait(
        self,
        sink: str,
        key: str,
        body: bytes,
        properties: Properties | None = None,
        *,
        mandatory: bool = False,
    ) -> None:
        """Publish without waiting; arguments and errors are those of ``publish``.

        Raises:
            trio.WouldBlock: A queue is being restarted: it will have the message in a moment, but has not yet.
        """
        receipt = self.turn(lambda: self._place(sink, key, body, properties, _nothing, mandatory=mandatory))
        if receipt.missing:
            raise trio.WouldBlock
        _check(receipt, sink, key)

    def _place(
        self,
        sink: str,
        key: str,
        body: bytes,
        properties: Properties | None,
        done: Callable[[], None],
        *,
        mandatory: bool,
    ) -> Receipt:
        said = properties or Properties()
        encoded = _encode(said)
        _check_name(key)
        route = self.directory.route(sink, key, lambda: said.headers or {})
        if mandatory and not route.queues:
            raise Unroutable(f"no queue is bound to sink {sink!r} for key {key!r}; bind one, or leave mandatory out")
        start = len(encoded)
        head = Head(CORE_CODEC, sink, key, 0, start, start)
        content = encoded + body
        receipt = Receipt(1, 1, len(route.queues), done)
        for queue in route.queues:
            queue.tell_nowait(Publish(head, [content], len(content), receipt))
        return receipt


def _encode(properties: Properties) -> bytes:
    """Encode properties, and see to it that consumers can read them: a mistake is told to whoever makes it.

    Raises:
        ValueError: A property is not of its type.
    """
    encoded = encode_core(properties)
    try:
        decode_core(encoded)
    except msgspec.ValidationError as error:
        raise ValueError(f"these properties cannot be read again: {error}") from None
    return encoded


def _check_name(name: str) -> None:
    """Refuse a name or a key that wires cannot carry (AMQP 0-9-1 section 4.2.5.3, short strings).

    Raises:
        ValueError: It is too long, or holds what is no text.
    """
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > _LONGEST_NAME:
        raise ValueError(f"{name[:40]!r}… takes {size} octets in UTF-8; names and keys have at most {_LONGEST_NAME}")


def _nothing() -> None:
    """Nobody waits for this receipt."""


def _check(receipt: Receipt, sink: str, key: str) -> None:
    if receipt.refusals:
        raise LimitExceeded(
            f"a queue behind sink {sink!r} and key {key!r} refused the message: it is full (overflow reject-publish) "
            "or was stopped; consume from it, or raise its max_length"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


async def _say_goodbye(endpoints: list[Ref]) -> None:
    """Ask endpoints to stop listening, and give their clients a while to go."""
    for ref in endpoints:
        try:
            await ref.tell(StopListening())
        except ActorStopped:
            continue
    with trio.move_on_after(_GOODBYE):
        for ref in endpoints:
            if isinstance(ref.actor, AMQPEndpoint):
                await ref.actor.wait_empty()


class _Top(Supervisor):
    """The broker's own supervisor: who comes later rests on who came before."""

    def __init__(self, directory: Directory, endpoints: Mapping[str, ChildSpec]) -> None:
        super().__init__(
            [
                ChildSpec(lambda: Domain(directory), name="default"),
                ChildSpec(DynamicSupervisor, name="consumers"),
                ChildSpec(lambda: _Endpoints(endpoints), name="endpoints"),
            ],
            strategy="rest_for_one",
        )


class _Endpoints(DynamicSupervisor):
    """The supervisor of the endpoints; starts those that listened when it was ended."""

    def __init__(self, specs: Mapping[str, ChildSpec]) -> None:
        super().__init__()
        self._specs = specs

    def child_specs(self) -> list[ChildSpec]:
        """Give the endpoints that are to listen."""
        return list(self._specs.values())


@asynccontextmanager
async def open_broker(*endpoints: EndpointConfig, users: Mapping[str, str] | None = None) -> AsyncIterator[Broker]:
    """Open a broker that lives until the block is left; it keeps its messages in memory.

    Leaving the block drains it: endpoints take nothing new, clients are told goodbye, queues finish what they were
    told. An error that supervision could not absorb comes out of the block, bare; so does the block's own.

    Args:
        endpoints: What to listen for, such as ``AMQP(port=0)``; more can follow with ``Broker.listen``.
        users: Who may log in, name to password; without it guest/guest, on loopback addresses alone.

    Raises:
        ConfigError: An address cannot be had.
    """
    async with open_system() as system:
        broker = Broker(system, users)
        await broker._start()
        for config in endpoints:
            await broker.listen(config)
        yield broker
        await broker._drain()
