"""Taking messages: the part of a channel's methods that consumes, fetches and limits."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING

from triomq.clients.amqp.deliveries import Consuming, Deliveries
from triomq.clients.amqp.delivery import Fetched
from triomq.clients.amqp.line import Line, Reply
from triomq.clients.amqp.topology_methods import DeclaredQueue, TopologyMethods
from triomq.clients.dmp.following import follow_feed
from triomq.protocols import Table
from triomq.protocols.amqp import (
    BasicGet,
    BasicGetEmpty,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    ChannelFlow,
    ChannelFlowOk,
    GetOk,
)

if TYPE_CHECKING:
    from triomq.clients.amqp.connection import AMQPConnection


class ConsumingMethods(TopologyMethods):
    """The base of ``AMQPChannel`` that takes messages; it holds the consumers that are open."""

    def __init__(self, connection: "AMQPConnection", *, prefetch: int) -> None:
        self.shared_prefetch: int | None = None
        """How many deliveries of all consumers together may be unsettled; None if that was not limited."""
        self.connection = connection
        """The connection that it belongs to."""
        self.lost_from: dict[str, Callable[[int], None]] = {}
        """The queues that ``open_dmp_feed`` reads here, with what to call when the broker had to drop messages."""
        self._prefetch = prefetch
        self._consumers: list[Deliveries] = []
        self._tags = count(1)

    @abstractmethod
    async def ready(self) -> Line:
        """Wait until the channel can be used; raises why it cannot be any more."""

    def remember_queue(self, name: str, *, exclusive: bool) -> None:
        """Remember whether a queue is this connection's own, so that it may be consumed from directly."""
        if exclusive:
            self.connection.own_queues.add(name)
        else:
            self.connection.own_queues.discard(name)

    @asynccontextmanager
    async def consume(
        self,
        queue: str | DeclaredQueue,
        *,
        prefetch: int | None = None,
        no_ack: bool = False,
        exclusive: bool = False,
        no_local: bool = False,
        consumer_tag: str = "",
        arguments: Table | None = None,
    ) -> AsyncIterator[Deliveries]:
        """Consume from a queue until the block is left; what is not settled then goes back.

        Args:
            queue: The queue.
            prefetch: How many deliveries may be unsettled at a time; 0 sets no limit, None is the channel's own.
            no_ack: Whether deliveries are settled by being sent. Then nothing holds the broker back but the socket,
                and what was sent and not read is lost with the connection.
            exclusive: Whether no other consumer may consume from it.
            no_local: Whether messages that this connection publishes are left out; RabbitMQ ignores it.
            consumer_tag: The name of this consumer; one is made up if it is empty.
            arguments: As ``x-priority``.

        Where the broker asks for direct connections, a consumer with ``no_ack`` of a queue that was declared exclusive
        here has one.

        Raises:
            Refused: The broker does not allow it; the channel is closed.
        """
        consuming = Consuming(
            queue=self.name_of(queue),
            tag=consumer_tag or f"ctag{next(self._tags)}",
            prefetch=self._prefetch if prefetch is None else prefetch,
            no_ack=no_ack,
            exclusive=exclusive,
            no_local=no_local,
            arguments=arguments or {},
        )
        deliveries = Deliveries(self, consuming)
        line = await self.ready()
        try:
            deliveries.direct = await follow_feed(self, line, self.name_of(queue), deliveries)
            await deliveries.begin(line)
            self._consumers.append(deliveries)
            yield deliveries
        finally:
            await deliveries.aclose()

    async def get(self, queue: str | DeclaredQueue, *, no_ack: bool = False) -> Fetched | None:
        """Take the first message of a queue, None if it is empty.

        A cancelled get puts the message back that it may have got, unless ``no_ack`` has settled it.

        Args:
            queue: The queue.
            no_ack: Whether it is settled by being sent.

        Raises:
            Refused: The broker does not allow it; the channel is closed.
        """
        line = await self.ready()
        acks = None if no_ack else line.acks

        def note(reply: Reply, abandoned: bool) -> None:
            if isinstance(reply, GetOk) and acks is not None:
                acks.received((reply.method.delivery_tag,))
                if abandoned:
                    acks.refuse(reply.method.delivery_tag, requeue=True, multiple=False)

        found = await line.ask(BasicGet(self.name_of(queue), no_ack), GetOk, BasicGetEmpty, on_reply=note).wait()
        return Fetched(acks, found.method, found.framing, found.content) if isinstance(found, GetOk) else None

    async def recover(self, *, requeue: bool = True) -> None:
        """Requeue everything that this channel has not settled; it is delivered again, marked.

        Args:
            requeue: Whether any consumer may have it then; RabbitMQ refuses False, which means the same one.
        """
        line = await self.ready()
        line.acks.flush()

        def forget(reply: Reply, abandoned: bool) -> None:
            line.acks.forget_all()
            for consumer in self._consumers:
                consumer.put_back()

        await line.ask(BasicRecover(requeue), BasicRecoverOk, on_reply=forget).wait()

    async def qos(self, prefetch: int, *, shared: bool = False) -> None:
        """Set how many deliveries may be unsettled.

        Args:
            prefetch: How many; 0 sets no limit.
            shared: Whether that is for all consumers of this channel together, at once; otherwise it is for each
                consumer that begins later, unless that has a prefetch of its own.
        """
        if not shared:
            self._prefetch = prefetch  # each consumer sends it when it begins
            return
        await self.call(BasicQos(0, prefetch, True), BasicQosOk)
        self.shared_prefetch = prefetch

    async def flow(self, active: bool) -> bool:
        """Ask the broker to send no deliveries on this channel, or to send them again; RabbitMQ refuses the former."""
        reply = await (await self.ready()).call(ChannelFlow(active), ChannelFlowOk)
        return reply.active

    def forget(self, deliveries: Deliveries) -> None:
        """Remove a consumer, so that it does not begin again; for ``Deliveries``."""
        if deliveries in self._consumers:
            self._consumers.remove(deliveries)
            topology = self.connection.topology
            if topology is not None:
                queue = topology.current(deliveries.consuming.queue)
                topology.consumer_ended(queue, others=self.connection.consumes(queue))

    def consumes(self, queue: str) -> bool:
        """Return whether a consumer of a queue is open here."""
        return any(self.current(each.consuming.queue) == queue for each in self._consumers)
