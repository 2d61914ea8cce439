"""A domain of a broker in this process: its sinks and queues, and publishing into them."""

from collections.abc import Awaitable, Callable, Iterable
from math import inf
from typing import TypeVar

from triomq.actors import Ref
from triomq.app.consumers import Consumers
from triomq.app.handles import QueueHandle, SinkHandle
from triomq.app.publishing import Publication, Publisher, check_name
from triomq.core import (
    HASHABLE,
    DeclareQueue,
    DeclareSink,
    Directory,
    ForgetOrigin,
    Overflow,
    Policy,
    Properties,
    QueueOptions,
    QueueStore,
    Restarting,
    Session,
    SetPolicies,
    SinkKind,
    SinkOptions,
)
from triomq.errors import ActorStopped

__all__ = ["DomainHandle"]

T = TypeVar("T")


class DomainHandle:
    """One domain; obtained from ``Broker.domain``, lives as long as the broker. The broker is one itself.

    In a broker with a store, what declares, binds, deletes, purges or publishes something durable returns when that is
    on disk.

    Args:
        ref: The domain's actor.
        directory: Its sinks and queues by name.
        consumers: Where its feeds in this process have their actors.
    """

    def __init__(self, ref: Ref, directory: Directory, consumers: Consumers) -> None:
        """Begin the session to which this program's exclusive queues and feeds belong."""
        self.domain_ref = ref
        self.directory = directory
        self.consumers = consumers
        self.session = Session(ref, directory)
        self.session.attach()
        self._publisher = Publisher(directory, self.session, consumers.shared_turn)

    def __repr__(self) -> str:
        """Show the domain's name."""
        return f"<{type(self).__name__} {self.directory.name!r}>"

    # Sinks and queues

    async def declare_sink(
        self,
        name: str,
        kind: str = "direct",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        alternate: str | None = None,
        hash_header: str | None = None,
        hash_property: str | None = None,
    ) -> SinkHandle:
        """Let there be a sink.

        Args:
            name: Its name.
            kind: How it routes: direct, fanout, topic, headers or x-consistent-hash.
            durable: Whether it is there again after a restart.
            auto_delete: Whether it goes when its last binding goes.
            internal: Whether only other sinks may publish into it.
            alternate: The sink that takes what no binding of this one matches, should it be there then.
            hash_header: The header by which an x-consistent-hash sink chooses; None takes the routing key.
            hash_property: The same for a property: ``correlation_id``, ``message_id`` or ``timestamp``.

        Raises:
            Inequivalent: It exists and differs.
            ValueError: There is no such kind or property, it is to choose by two things, or the name is too long.
        """
        check_name(name)
        _check_hashed(hash_header, hash_property)
        options = SinkOptions(
            kind=SinkKind(kind),
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            alternate=alternate,
            hash_header=hash_header,
            hash_property=hash_property,
        )
        await self.retry(lambda: self.domain_ref.ask(DeclareSink(name, options)))
        await self.wait_noted()
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
        message_ttl: float | None = None,
        expires: float | None = None,
        dead_letter_sink: str | None = None,
        dead_letter_key: str | None = None,
        max_priority: int = 0,
        delivery_limit: int | None = None,
        single_active: bool = False,
    ) -> QueueHandle:
        """Let there be a queue.

        Args:
            name: Its name.
            durable: Whether it is there again after a restart.
            exclusive: Whether only this program may use it, so that clients of endpoints are locked out.
            auto_delete: Whether it goes when its last feed closes.
            max_length: How many ready messages it keeps; None keeps all.
            max_bytes: How many octets of ready bodies it keeps; None keeps all.
            overflow: What it does when it is full: ``drop-head``, ``reject-publish``, ``reject-publish-dlx`` (what is
                refused becomes a dead letter as well), or ``wait`` (publishers in this process wait for room; clients
                of endpoints are refused).
            message_ttl: Seconds that a message may be ready before it expires; None keeps it for ever.
            expires: Seconds that nobody may use the queue before it is deleted; None keeps it.
            dead_letter_sink: Where rejected, expired and shed messages are published to; None drops them.
            dead_letter_key: With which key; None keeps each message's own.
            max_priority: The highest priority that counts, up to 255; 0 takes messages in the order in which they came.
            delivery_limit: How often a message may come back before it becomes a dead letter; None sets no limit.
            single_active: Whether one feed gets everything until it is closed, and then the next.

        Raises:
            Inequivalent: It exists and differs.
            QueueLocked: It belongs exclusively to a client.
            ValueError: There is no such overflow, a number is out of its range, or the name is too long.
        """
        check_name(name)
        options = QueueOptions(
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            max_length=max_length,
            max_bytes=max_bytes,
            overflow=Overflow(overflow),
            message_ttl=message_ttl,
            expires=expires,
            dead_letter_sink=dead_letter_sink,
            dead_letter_key=dead_letter_key,
            max_priority=max_priority,
            delivery_limit=delivery_limit,
            single_active=single_active,
        )
        _check_ranges(options)
        await self.retry(lambda: self.domain_ref.ask(DeclareQueue(name, options, self.session)))
        await self.wait_noted()
        return QueueHandle(self, name)

    async def forget_origin(self, origin: str) -> int:
        """Delete all that a peer had made, since it will not come back; tell how many sinks, queues and bindings.

        Args:
            origin: The peer, as ``ForeignResource`` and the log name it: its user, ``@``, and where it comes from.
        """
        return await self.retry(lambda: self.domain_ref.ask(ForgetOrigin(origin)))

    # Policies

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies of this domain."""
        return self.directory.policies.all

    async def set_policies(self, policies: Iterable[Policy]) -> int:
        """Let these be the policies and no others, at once and also for what is there; tell how much that changes.

        Args:
            policies: Options for queues and sinks by their names, whoever declares them; of those that match the one
                with the highest priority holds, of several such the first.
        """
        govern = await self.domain_ref.ask(SetPolicies(tuple(policies)))
        return await govern.wait_done()

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
        if self.domain_ref.state != "running":
            await self.domain_ref.wait_running()
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
                await error.wait_over()

    async def wait_noted(self) -> None:
        """Wait until what was just declared, bound, deleted or forgotten is on disk, if there is one; for handles."""
        if self.directory.keeping is not None:
            await self.directory.keeping.wait_noted()

    # Publishing

    async def publish(
        self,
        sink: str,
        key: str,
        body: bytes,
        properties: Properties | None = None,
        *,
        mandatory: bool = False,
        delay: float = 0.0,
    ) -> None:
        """Publish a message; when this returns, it is in every queue that it was routed to.

        In a broker with a store, what is persistent is on disk then in those of the queues that are durable.

        Queues with overflow ``wait`` are waited for: it goes nowhere until all of them have room. Cancelled, it may or
        may not have been published.

        Args:
            sink: The sink's name; the empty name leads to the queue that is called like the key.
            key: The routing key.
            body: The octets.
            properties: What to say about it.
            mandatory: Whether it is an error if no queue wants it.
            delay: Seconds until consumers can have it; limits of queues do not apply to it.

        Raises:
            NoSuchSink: There is no such sink.
            SinkInternal: Only other sinks may publish into it.
            Unroutable: ``mandatory`` is set and no queue wants it.
            LimitExceeded: A queue is full and refuses new messages, will never have room for this one, or was stopped.
            StoreError: The store cannot be written, so that nothing durable is published; it may be tried again.
            ValueError: The key is too long, a property is not of its type, or the delay is no time.
        """
        publication = Publication(sink, key, body, properties or Properties(), mandatory, delay)
        await self._publisher.publish(publication)

    def publish_nowait(
        self,
        sink: str,
        key: str,
        body: bytes,
        properties: Properties | None = None,
        *,
        mandatory: bool = False,
        delay: float = 0.0,
    ) -> None:
        """Publish without waiting, not for the disk either; arguments and errors are those of ``publish``.

        Raises:
            trio.WouldBlock: A queue has publishers wait for room, or is being restarted, or 16 MiB are on their way to
                the disk; nothing was published.
        """
        publication = Publication(sink, key, body, properties or Properties(), mandatory, delay)
        self._publisher.publish_nowait(publication)


_RANGES: dict[str, tuple[float, float]] = {
    "max_length": (0, inf),
    "max_bytes": (0, inf),
    "message_ttl": (0, inf),
    "expires": (0.001, inf),  # what is deleted at once could not be used
    "max_priority": (0, 255),
    "delivery_limit": (0, inf),
}
"""The least and the most of each number that a queue is declared with."""


def _check_hashed(header: str | None, hashed: str | None) -> None:
    """Refuse what no consistent-hash sink could choose by.

    Raises:
        ValueError: It is no such property, or there is a header as well.
    """
    if hashed is not None and hashed not in HASHABLE:
        raise ValueError(f"hash_property is {hashed!r}; it is one of {', '.join(map(repr, HASHABLE))}")
    if header is not None and hashed is not None:
        raise ValueError(f"choose by the header {header!r} or by the property {hashed!r}, not by both")


def _check_ranges(options: QueueOptions) -> None:
    """Refuse numbers that no queue could live by.

    Raises:
        ValueError: A number is out of its range, or a key is given to no sink.
    """
    for option, (least, most) in _RANGES.items():
        value = getattr(options, option)
        if value is not None and not least <= value <= most:
            bounds = f"at least {least}" if most == inf else f"from {least} to {most}"
            raise ValueError(f"{option} is {value!r}; it is a number {bounds}")
    if options.dead_letter_key is not None and options.dead_letter_sink is None:
        raise ValueError(
            f"dead_letter_key is {options.dead_letter_key!r}, but there is no dead_letter_sink to use it at"
        )
