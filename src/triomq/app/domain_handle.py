"""A domain of a broker in this process: its sinks and queues, and publishing into them."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from triomq.actors import Ref
from triomq.app.consumers import Consumers
from triomq.app.handles import QueueHandle, SinkHandle
from triomq.app.publishing import Publication, check_name, publish, publish_nowait
from triomq.core import (
    DeclareQueue,
    DeclareSink,
    Directory,
    Overflow,
    Properties,
    QueueOptions,
    QueueStore,
    Restarting,
    Session,
    SinkKind,
    SinkOptions,
)
from triomq.errors import ActorStopped

__all__ = ["DomainHandle"]

T = TypeVar("T")


class DomainHandle:
    """One domain; obtained from ``Broker.domain``, lives as long as the broker. The broker is one itself.

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
        check_name(name)
        options = SinkOptions(kind=SinkKind(kind), durable=durable, auto_delete=auto_delete, internal=internal)
        await self.domain_ref.ask(DeclareSink(name, options))
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
        check_name(name)
        options = QueueOptions(
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            max_length=max_length,
            max_bytes=max_bytes,
            overflow=Overflow(overflow),
        )
        await self.domain_ref.ask(DeclareQueue(name, options, self.session))
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
        publication = Publication(sink, key, body, properties or Properties(), mandatory)
        await publish(self.directory, self.consumers, publication)

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
        publication = Publication(sink, key, body, properties or Properties(), mandatory)
        publish_nowait(self.directory, self.consumers, publication)
