"""A domain of a broker in this process: its sinks and queues, and publishing into them."""

from collections.abc import Awaitable, Callable, Container, Iterable
from typing import Literal, TypeAlias, TypeVar

from triomq.actors import Ref, Request
from triomq.app.checks import (
    check_choice,
    check_flags,
    check_hashed,
    check_number,
    check_ranges,
    check_text,
    check_whole,
    explain_publish,
)
from triomq.app.consumers import Consumers
from triomq.app.handles import QueueHandle, SinkHandle
from triomq.app.publishing import InProcessPublisher, Publication, check_name
from triomq.app.streams import StreamHandle
from triomq.core import (
    MOST_PARTITIONS,
    DeclareQueue,
    DeclareSink,
    DeclareStream,
    Directory,
    ForgetOrigin,
    NoSuchQueue,
    Overflow,
    Policy,
    Properties,
    QueueOptions,
    QueueState,
    Restarting,
    Session,
    SetPolicies,
    SinkKind,
    SinkOptions,
    StreamOptions,
    partitions_of,
)
from triomq.errors import ActorStopped

T = TypeVar("T")

SinkKindName: TypeAlias = Literal["direct", "fanout", "topic", "headers", "x-consistent-hash"]
"""How a sink routes, as programs write it: the values of ``SinkKind``."""

OverflowName: TypeAlias = Literal["drop-head", "reject-publish", "reject-publish-dlx", "wait"]
"""What a queue does when it is full, as programs write it: the values of ``Overflow``."""

HashProperty: TypeAlias = Literal["correlation_id", "message_id", "timestamp"]
"""By which property an x-consistent-hash sink may choose."""


class DomainHandle:
    """A domain; obtained from ``Broker.domain``, lasts as long as the broker, which is the handle of the first one.

    In a broker with a store, methods that declare, bind, delete, purge or publish something durable return when that is
    on disk.

    Args:
        ref: The domain's actor.
        directory: Its sinks and queues by name.
        consumers: Where its feeds in this process have their actors.
    """

    def __init__(self, ref: Ref, directory: Directory, consumers: Consumers) -> None:
        self.domain_ref = ref
        self.directory = directory
        self.consumers = consumers
        self.session = Session(ref, directory)
        self.session.attach()
        if directory.tracer is not None:
            directory.tracer.entered(directory.name, self.session.number, None, "local")
        self._publisher = InProcessPublisher(directory, self.session, consumers.shared_turn, consumers.warn)

    def __repr__(self) -> str:
        """Show the domain's name."""
        return f"<{type(self).__name__} {self.directory.name!r}>"

    # Sinks and queues

    async def declare_sink(
        self,
        name: str,
        kind: SinkKindName = "direct",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        alternate: str | SinkHandle | None = None,
        hash_header: str | None = None,
        hash_property: HashProperty | None = None,
    ) -> SinkHandle:
        """Declare a sink, and return its handle; one that exists and is the same stays as it is.

        Args:
            name: Its name.
            kind: How it routes: direct, fanout, topic, headers or x-consistent-hash.
            durable: Whether it outlives a restart of the broker.
            auto_delete: Whether it is deleted with its last binding.
            internal: Whether only other sinks may publish into it.
            alternate: The sink for messages that no binding of this one matches; ignored while it does not exist.
            hash_header: The header by which an x-consistent-hash sink chooses; None takes the key.
            hash_property: The same for a property: ``correlation_id``, ``message_id`` or ``timestamp``.

        Raises:
            Inequivalent: It exists and differs.
            ValueError: There is no such kind or property, it is to choose by two things, or the name is too long.
        """
        self._check_new("sink", name, self.directory.sinks)
        check_flags(durable=durable, auto_delete=auto_delete, internal=internal)
        check_hashed(hash_header, hash_property)
        options = SinkOptions(
            kind=check_choice("kind", kind, SinkKind),
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            alternate=None if alternate is None else _sink_name(alternate),
            hash_header=hash_header,
            hash_property=hash_property,
        )
        await self.retry(lambda: self.ask(DeclareSink(name, options)))
        await self.wait_synced()
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
        overflow: OverflowName = "drop-head",
        message_ttl: float | None = None,
        expires: float | None = None,
        dead_letter_sink: str | SinkHandle | None = None,
        dead_letter_key: str | None = None,
        max_priority: int = 0,
        delivery_limit: int | None = None,
        single_active: bool = False,
    ) -> QueueHandle:
        """Declare a queue, and return its handle; one that exists and is the same stays as it is.

        Args:
            name: Its name.
            durable: Whether it outlives a restart of the broker.
            exclusive: Whether only this program may use it, so that clients of endpoints are refused.
            auto_delete: Whether it is deleted when its last feed closes.
            max_length: The most ready messages; None sets no limit.
            max_bytes: The most bytes of ready bodies; None sets no limit.
            overflow: What it does when it is full: ``drop-head``, ``reject-publish``, ``reject-publish-dlx`` (a refused
                message becomes a dead letter as well), or ``wait`` (publishers in this process wait for room; clients
                of endpoints are refused).
            message_ttl: Seconds after which a ready message expires; None lets none expire.
            expires: Seconds without use after which the queue is deleted; None lets it stay.
            dead_letter_sink: Where rejected, expired and dropped messages are published to; None discards them.
            dead_letter_key: With which key; None leaves each message its own.
            max_priority: The highest priority that counts, up to 255; 0 delivers messages in the order of arrival.
            delivery_limit: How often a message may come back before it becomes a dead letter; None sets no limit.
            single_active: Whether one feed gets everything until it is closed, and then the next.

        Raises:
            Inequivalent: It exists and differs.
            QueueLocked: It belongs exclusively to a client.
            ValueError: There is no such overflow, a number is out of its range, or the name is too long.
        """
        self._check_new("queue", name, self.directory.queues)
        check_flags(durable=durable, exclusive=exclusive, auto_delete=auto_delete, single_active=single_active)
        options = QueueOptions(
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            max_length=max_length,
            max_bytes=max_bytes,
            overflow=check_choice("overflow", overflow, Overflow),
            message_ttl=message_ttl,
            expires=expires,
            dead_letter_sink=None if dead_letter_sink is None else _sink_name(dead_letter_sink),
            dead_letter_key=dead_letter_key,
            max_priority=max_priority,
            delivery_limit=delivery_limit,
            single_active=single_active,
        )
        check_ranges(options)
        await self.retry(lambda: self.ask(DeclareQueue(name, options, self.session)))
        await self.wait_synced()
        return QueueHandle(self, name)

    async def declare_stream(
        self,
        name: str,
        *,
        partitions: int = 0,
        durable: bool = True,
        max_age: float | None = None,
        max_bytes: int | None = None,
        max_length: int | None = None,
        segment_bytes: int = 64 * 1024 * 1024,
        deduplicate: bool = False,
    ) -> StreamHandle:
        """Declare a stream, and return its handle; one that exists and is the same stays as it is.

        A stream keeps what was read: each reader has its own place in it. The oldest records go when a bound is
        exceeded, by whole segments, never the last one.

        Args:
            name: Its name.
            partitions: How many streams it is made of, ``name-0`` and so on, among which a sink of its name shares
                records by the hash of their keys; the number is fixed. 0 for a stream of that name alone.
            durable: Whether it outlives a restart of the broker.
            max_age: Seconds for which records are kept at least; None sets no limit.
            max_bytes: The most bytes of each partition; None sets no limit if it is durable and the broker has a store,
                64 MiB otherwise.
            max_length: The most records of each partition; None sets no limit.
            segment_bytes: Bytes that go at once; a quarter of ``max_bytes`` if that is less.
            deduplicate: Whether a record is stored once that its publisher sends again: with the headers
                ``x-publisher``, the publisher's name, and ``x-publisher-number``, which grows.

        Raises:
            Inequivalent: It exists and differs.
            ValueError: A number is out of its range, or the name is too long.
        """
        self._check_new("stream", name, self.directory.queues)
        check_flags(durable=durable, deduplicate=deduplicate)
        check_whole("partitions", partitions, 0, MOST_PARTITIONS)
        check_whole("segment_bytes", segment_bytes, 1)
        if max_age is not None:
            check_number("max_age", max_age, 0.0)
        stream = StreamOptions(max_age, segment_bytes, deduplicate=deduplicate)
        options = QueueOptions(durable=durable, max_bytes=max_bytes, max_length=max_length, stream=stream)
        check_ranges(options)
        await self.retry(lambda: self.ask(DeclareStream(name, options, self.session, partitions)))
        await self.wait_synced()
        return StreamHandle(self, name)

    async def forget_origin(self, origin: str) -> int:
        """Delete all sinks, queues and bindings that a peer has made, and return how many, since it will not come back.

        Args:
            origin: The peer, as ``ForeignResource`` and the log name it: its user, ``@``, and where it connects from.
        """
        return await self.retry(lambda: self.ask(ForgetOrigin(origin)))

    def _check_new(self, what: str, name: str, existing: Container[str]) -> None:
        """Refuse a name that no new sink or queue can have.

        Raises:
            TypeError: It is no text.
            ValueError: It is too long, empty, or reserved.
        """
        self.consumers.check()
        check_text(f"the name of the {what}", name)
        check_name(name)
        if not name:
            raise ValueError(f"a {what} needs a name that is not empty: the empty one is that of the default sink")
        if name.startswith(_RESERVED) and name not in existing:
            raise ValueError(
                f"{what} {name!r}: names that begin with {_RESERVED!r} are those of the broker itself; choose another"
            )

    # Policies

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies of this domain."""
        return self.directory.policies.all

    async def set_policies(self, policies: Iterable[Policy]) -> int:
        """Replace all policies, at once and for existing queues and sinks; return how many of those change.

        Args:
            policies: Options for queues and sinks by their names; of the policies that match, the one with the highest
                priority holds, of several such the first.
        """
        apply_policy = await self.ask(SetPolicies(tuple(policies)))
        return await apply_policy.wait_done()

    def queue(self, name: str) -> QueueHandle:
        """Return the handle of a queue that exists.

        Raises:
            NoSuchQueue: There is none of that name.
        """
        self.consumers.check_open()
        return QueueHandle(self, self.directory.queue(name, self.session).name)

    def stream(self, name: str) -> StreamHandle:
        """Return the handle of a stream that exists.

        Raises:
            NoSuchQueue: There is none of that name.
        """
        self.consumers.check_open()
        if not partitions_of(self.directory, name):
            raise NoSuchQueue(name)
        return StreamHandle(self, name)

    def sink(self, name: str) -> SinkHandle:
        """Return the handle of a sink that exists.

        Raises:
            NoSuchSink: There is none of that name.
        """
        self.consumers.check_open()
        return SinkHandle(self, self.directory.sink(name).name)

    async def wait_queue(self, name: str) -> QueueState:
        """Return a queue when it runs: it may be restarted just now, alone or with its domain; for handles.

        Raises:
            NoSuchQueue: It does not exist, or no longer.
            QueueStopped: It crashed so often that it was stopped.
        """
        self.consumers.check()
        if self.domain_ref.state != "running":
            await self.domain_ref.wait_running()
        queue = self.directory.queue(name, self.session)
        try:
            await queue.ref.wait_running()
        except ActorStopped:
            pass  # the directory raises the reason
        return self.directory.queue(name, self.session)

    async def ask(self, request: Request[T]) -> T:
        """Ask the domain's actor, if the broker can be used in this thread; for handles."""
        self.consumers.check()
        return await self.domain_ref.ask(request)

    async def retry(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask, and ask again after the restart of an actor that could not answer; for handles."""
        while True:
            try:
                return await ask()
            except Restarting as error:
                await error.wait_over()

    async def wait_synced(self) -> None:
        """Wait until all changes so far are on disk, if there is a store; for handles."""
        if self.directory.persistence is not None:
            await self.directory.persistence.wait_synced()

    # Publishing

    async def publish(
        self,
        sink: str | SinkHandle,
        key: str,
        body: bytes,
        properties: Properties | None = None,
        *,
        mandatory: bool = False,
        delay: float = 0.0,
    ) -> None:
        """Publish a message; when this returns, it is in every queue that it was routed to.

        In a broker with a store, a persistent message is on disk then in those of the queues that are durable.

        If it is routed to queues with overflow ``wait``, it waits until all of them have room, and goes nowhere before.
        When this is cancelled, the message may or may not have been published.

        Args:
            sink: The sink or its name; the empty name is the default sink, which routes to the queue named by the key.
            key: What the sink routes by (AMQP's routing key).
            body: The content.
            properties: Type, headers, priority and the like.
            mandatory: Whether it is an error if no queue matches. Otherwise the message is dropped then, as in AMQP. A
                key of the default sink that names no queue is often a typing error, so that is logged at WARNING, at
                most once a minute; it is no error by itself, since the reply to a client that has gone is no error.
            delay: Seconds until consumers can have it; limits of queues do not apply to it.

        Raises:
            NoSuchSink: There is no such sink.
            SinkInternal: Only other sinks may publish into it.
            Unroutable: ``mandatory`` is set and no queue matches.
            LimitExceeded: A queue is full and refuses new messages, will never have room for this one, or was stopped.
            StoreError: The store cannot be written, so that nothing durable is published; it may be tried again.
            ValueError: The key is too long, a property is not of its type, or the delay is no time.
        """
        self.consumers.check()
        name = sink if isinstance(sink, str) else _sink_name(sink)
        properties = _PLAIN if properties is None else properties
        try:
            publication = Publication(name, key, body, properties, mandatory, delay)
            await self._publisher.publish(publication)
        except (TypeError, AttributeError):
            explain_publish(key, body, properties, delay)
            raise

    def publish_nowait(
        self,
        sink: str | SinkHandle,
        key: str,
        body: bytes,
        properties: Properties | None = None,
        *,
        mandatory: bool = False,
        delay: float = 0.0,
    ) -> None:
        """Publish without waiting for room or for the disk; arguments and errors are those of ``publish``.

        Raises:
            trio.WouldBlock: A queue with overflow ``wait`` has no room, a queue is being restarted, or 16 MiB wait to
                be written to disk; nothing was published.
        """
        self.consumers.check()
        name = sink if isinstance(sink, str) else _sink_name(sink)
        properties = _PLAIN if properties is None else properties
        try:
            publication = Publication(name, key, body, properties, mandatory, delay)
            self._publisher.publish_nowait(publication)
        except (TypeError, AttributeError):
            explain_publish(key, body, properties, delay)
            raise


_PLAIN = Properties()
"""The properties of a message that is published without any."""

_RESERVED = "amq."
"""How names begin that only the broker assigns (AMQP 0-9-1, section 3.1.3.1 and class queue)."""


def _sink_name(sink: object) -> str:
    """Return the name of a sink, which may be given by its handle.

    Raises:
        TypeError: It is neither a name nor a handle.
    """
    if isinstance(sink, SinkHandle):
        return sink.name
    if isinstance(sink, QueueHandle):
        raise TypeError(f'{sink!r} is no sink; publish into the default sink: publish("", {sink.name!r}, body)')
    check_text("the sink", sink)
    return str(sink)
