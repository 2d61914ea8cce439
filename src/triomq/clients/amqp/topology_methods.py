"""Declaring, binding and deleting: the part of a channel's methods that concern the topology."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from triomq.clients.amqp.topology import Topology
from triomq.protocols import Table
from triomq.protocols.amqp import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)

M = TypeVar("M", bound=Method)


class DeclaredQueue:
    """What declaring a queue gives; every method of a channel that wants a queue takes this or a name.

    A queue that the broker has named is another one after a reconnect, with another ``name``.
    """

    __slots__ = ("_current", "_name", "consumer_count", "message_count")

    def __init__(self, name: str, message_count: int, consumer_count: int, current: Callable[[str], str]) -> None:
        self._name = name
        self._current = current
        self.message_count = message_count
        """Messages that were ready when it was declared."""
        self.consumer_count = consumer_count
        """Consumers that it had then."""

    @property
    def name(self) -> str:
        """Its present name."""
        return self._current(self._name)

    def __repr__(self) -> str:
        """Show its name."""
        return f"<DeclaredQueue {self.name!r}>"


class TopologyMethods(ABC):
    """The base of ``AMQPChannel`` that declares, binds and deletes.

    What is made here is made again after a reconnect, until it is deleted here.
    """

    @abstractmethod
    async def call(self, method: Method, reply: type[M]) -> M:
        """Send any method and wait for its reply."""

    @abstractmethod
    def current(self, name: str) -> str:
        """Return the present name of a queue, which may have another one since a reconnect."""

    @property
    @abstractmethod
    def topology(self) -> Topology | None:
        """What is to be made again; None where nothing is."""

    @abstractmethod
    def remember_queue(self, name: str, *, exclusive: bool) -> None:
        """Remember whether a queue is this connection's own."""

    async def declare_exchange(
        self,
        name: str,
        type: str = "direct",
        *,
        passive: bool = False,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table | None = None,
    ) -> None:
        """Declare an exchange.

        Args:
            name: Its name.
            type: ``direct``, ``fanout``, ``topic``, ``headers``, or what else the broker knows.
            passive: Whether to make none, but see that it is there.
            durable: Whether it survives a restart of the broker.
            auto_delete: Whether it goes when the last binding from it goes.
            internal: Whether one can only bind to it, not publish.
            arguments: As ``alternate-exchange``.

        Raises:
            NotFound: ``passive`` is set and it is not there.
            PreconditionFailed: It is there and differs.
            AccessRefused: The name is reserved, or this user may not.
        """
        method = ExchangeDeclare(
            name,
            type,
            passive=passive,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments or {},
        )
        await self.call(method, ExchangeDeclareOk)
        if self.topology is not None:
            self.topology.declared_exchange(method)

    async def declare_queue(
        self,
        name: str = "",
        *,
        passive: bool = False,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Table | None = None,
    ) -> DeclaredQueue:
        """Declare a queue.

        Args:
            name: Its name; empty has the broker make one up.
            passive: Whether to make none, but see that it is there.
            durable: Whether it survives a restart of the broker.
            exclusive: Whether only this connection may use it; then it goes with the connection.
            auto_delete: Whether it goes when its last consumer goes.
            arguments: As ``x-message-ttl``.

        Raises:
            NotFound: ``passive`` is set and it is not there.
            PreconditionFailed: It is there and differs.
            ResourceLocked: It is exclusive to another connection.
        """
        method = QueueDeclare(
            self.current(name),
            passive=passive,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            arguments=arguments or {},
        )
        reply = await self.call(method, QueueDeclareOk)
        self.remember_queue(reply.queue, exclusive=exclusive)
        if self.topology is not None:
            self.topology.declared_queue(reply.queue, method)
        return DeclaredQueue(reply.queue, reply.message_count, reply.consumer_count, self.current)

    async def bind(
        self, queue: str | DeclaredQueue, exchange: str, routing_key: str = "", *, arguments: Table | None = None
    ) -> None:
        """Bind a queue to an exchange.

        Raises:
            NotFound: One of them is not there.
        """
        method = QueueBind(self.name_of(queue), exchange, routing_key, arguments=arguments or {})
        await self.call(method, QueueBindOk)
        if self.topology is not None:
            self.topology.bound(method)

    async def unbind(
        self, queue: str | DeclaredQueue, exchange: str, routing_key: str = "", *, arguments: Table | None = None
    ) -> None:
        """Undo a ``bind`` with the same arguments."""
        method = QueueUnbind(self.name_of(queue), exchange, routing_key, arguments or {})
        await self.call(method, QueueUnbindOk)
        if self.topology is not None:
            self.topology.unbound(method)

    async def bind_exchange(
        self, destination: str, source: str, routing_key: str = "", *, arguments: Table | None = None
    ) -> None:
        """Bind an exchange to another one, whose messages it then gets (RabbitMQ's ``exchange.bind``).

        Raises:
            NotFound: One of them is not there.
        """
        method = ExchangeBind(destination, source, routing_key, arguments=arguments or {})
        await self.call(method, ExchangeBindOk)
        if self.topology is not None:
            self.topology.bound(method)

    async def unbind_exchange(
        self, destination: str, source: str, routing_key: str = "", *, arguments: Table | None = None
    ) -> None:
        """Undo a ``bind_exchange`` with the same arguments."""
        method = ExchangeUnbind(destination, source, routing_key, arguments=arguments or {})
        await self.call(method, ExchangeUnbindOk)
        if self.topology is not None:
            self.topology.unbound(method)

    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange and its bindings; one that is not there is no error.

        Raises:
            PreconditionFailed: ``if_unused`` is set and something is bound to it.
        """
        await self.call(ExchangeDelete(name, if_unused), ExchangeDeleteOk)
        if self.topology is not None:
            self.topology.deleted_exchange(name)

    async def delete_queue(self, queue: str | DeclaredQueue, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue, and tell how many messages went with it; one that is not there is no error.

        Raises:
            PreconditionFailed: It has consumers, or messages, and was not to be deleted then.
        """
        name = self.name_of(queue)
        reply = await self.call(QueueDelete(name, if_unused, if_empty), QueueDeleteOk)
        if self.topology is not None:
            self.topology.deleted_queue(name)
        return reply.message_count

    async def purge(self, queue: str | DeclaredQueue) -> int:
        """Drop all ready messages of a queue, and tell how many they were.

        Raises:
            NotFound: It is not there.
        """
        return (await self.call(QueuePurge(self.name_of(queue)), QueuePurgeOk)).message_count

    def name_of(self, queue: str | DeclaredQueue) -> str:
        """Return the present name of a queue."""
        return self.current(queue) if isinstance(queue, str) else queue.name
