"""One AMQP channel: its consumers, and what goes out to them.

A channel is not an actor: it has no time of its own and lives inside its connection's turns. What it publishes is its
``ChannelPublisher``'s business, what is out with its client stands in a ``Ledger``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from triomq.core import (
    Batch,
    Directory,
    Head,
    Ledger,
    Numbered,
    Outcome,
    Permissions,
    Place,
    QueueMessage,
    QueueState,
    Stretch,
    Window,
    settle,
)
from triomq.endpoints.amqp.fronts import framing_of
from triomq.endpoints.amqp.publishing import ChannelPublisher
from triomq.endpoints.amqp.streams import deliver_records
from triomq.endpoints.amqp.transaction import ChannelTransaction
from triomq.endpoints.content import AMQP_CODEC, amend_amqp
from triomq.endpoints.declaring import is_quorum
from triomq.endpoints.direct import DirectSubscription
from triomq.protocols.amqp import AckRun, BasicCancel, BasicGetOk, Framing, Method

if TYPE_CHECKING:
    from triomq.endpoints.amqp.connection import AMQPServerConnection


class Consumer(DirectSubscription):
    """One consumer tag of a channel. While a direct connection takes what it gets, its feed is another than its own.

    Args:
        channel: The channel.
        tag: The tag.
        queue: Where it takes from.
        access: What the user may do.
        no_ack: Whether what it gets counts as accepted.
        exclusive: Whether it wants to be the queue's only one.
        priority: Of several consumers those with the highest get messages first.
        no_local: Whether what the connection itself publishes never comes.
        start: Where in a stream it begins; None if it consumes a queue.

    Raises:
        Forbidden: The user may not.
    """

    __slots__ = ("channel", "no_ack", "reads_stream", "tag")

    def __init__(
        self,
        channel: "ServerChannel",
        tag: str,
        queue: QueueState,
        access: Permissions,
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        priority: int = 0,
        no_local: bool = False,
        start: Place | None = None,
    ) -> None:
        connection = channel.connection
        super().__init__(
            connection.session,
            access,
            queue,
            connection.ref,
            window=Window(channel.prefetch, bytes=channel.prefetch_size),
            shared=(channel.window,),
            socket_window=connection.writer.window,
            gate=channel.gate,
            settles=not no_ack,
            exclusive=exclusive,
            priority=priority,
            no_local=no_local,
            start=start,
        )
        self.channel = channel
        self.reads_stream = start is not None
        self.tag = tag
        self.no_ack = no_ack

    @property
    def lessee(self) -> "ServerChannel":
        """The channel that has leased the queue, if a direct connection takes what it gets."""
        return self.channel

    @property
    def is_direct(self) -> bool:
        """Whether a direct connection takes what it gets."""
        return self.feed is not self.home


class ServerChannel:
    """An open channel; made by its connection at channel.open, gone with channel.close or the connection.

    Args:
        connection: The connection it belongs to.
        number: Its number there.
    """

    __slots__ = (
        "_framing",
        "_head",
        "_held_cancels",
        "_recovers",
        "connection",
        "consumers",
        "gate",
        "last_queue",
        "number",
        "open",
        "prefetch",
        "prefetch_size",
        "publisher",
        "reads_streams",
        "reply_consumer",
        "transaction",
        "unsettled",
        "window",
    )

    def __init__(self, connection: "AMQPServerConnection", number: int) -> None:
        self.connection = connection
        self.number = number
        self.open = True
        self.consumers: dict[str, Consumer] = {}
        self.last_queue = ""
        self.prefetch = 0
        self.prefetch_size = 0
        self.window = Window()
        self.gate = Window()  # held by channel.flow
        self.publisher = ChannelPublisher(self)
        self.reads_streams = False  # whether it ever had a consumer of a stream
        self.reply_consumer: Consumer | None = None  # of direct replies
        self.unsettled = Ledger()
        self.unsettled.begin_later = connection.directory.chores.add
        self._head = Head()  # of the messages that were delivered last, and their framing
        self._framing = framing_of(self._head)
        self.transaction: ChannelTransaction | None = None
        self._held_cancels: list[str] | None = None  # tags of consumers whose cancels are sent later
        self._recovers = False  # whether to deliver again what is unsettled, once deliveries may go

    def reply(self, method: Method) -> None:
        """Send a method on this channel."""
        self.connection.engine.send_method(self.number, method)

    def select_transactions(self) -> None:
        """Make all that is published and settled from now on part of a transaction."""
        if self.transaction is None:
            self.transaction = ChannelTransaction(self)
            self.unsettled.settler = self.transaction.settle

    def cancelled(self, tag: str) -> None:
        """Tell the client that a consumer is cancelled."""
        if self._held_cancels is None:
            self.reply(BasicCancel(tag, no_wait=True))
        else:
            self._held_cancels.append(tag)

    @contextmanager
    def cancels_behind(self) -> Iterator[None]:
        """Send cancels behind the replies of the block, as RabbitMQ does."""
        held = self._held_cancels = []
        try:
            yield
        finally:
            self._held_cancels = None
            for tag in held:
                self.cancelled(tag)

    @property
    def reply_name(self) -> str:
        """The name of the queue in which its client takes direct replies; empty if it takes none."""
        consumer = self.reply_consumer
        return "" if consumer is None or not consumer.open else Directory.name_of(consumer.feed.queue)

    @property
    def can_make_room(self) -> bool:
        """Whether its client may take messages off a queue without asking for more: consumes, or could settle some."""
        return bool(self.consumers or not self.unsettled.is_empty or (self.transaction and self.transaction.settles))

    # Delivering

    def deliver(
        self,
        consumer: Consumer,
        first: int,
        head: Head,
        contents: Sequence[bytes],
        heads: Sequence[Head] | None,
        *,
        redelivered: bool,
        counts: Sequence[int] | None = None,
    ) -> None:
        """Encode messages under delivery tags from the first one on."""
        if head.traits.codec != AMQP_CODEC or counts is not None:
            messages = Stretch(head, contents, heads).messages()
            self._translate(consumer, first, messages, redelivered=redelivered, counts=counts)
        elif heads is None:
            if head is not self._head:
                self._head, self._framing = head, framing_of(head)
            engine, framing = self.connection.engine, self._framing
            engine.send_deliveries(
                self.number, consumer.tag, first, redelivered, head.exchange, head.routing_key, framing, contents
            )
        else:
            fronts = self.connection.fronts.find((self.number, consumer.tag, redelivered), heads)
            self.connection.engine.send_mixed_deliveries(self.number, first, fronts, contents)

    def _translate(
        self,
        consumer: Consumer,
        first: int,
        messages: Iterable[QueueMessage],
        *,
        redelivered: bool,
        counts: Sequence[int] | None,
    ) -> None:
        """Encode what came over another wire, or from this process, or is sent with how often it came back."""
        for number, message in enumerate(messages):
            properties, body = self.connection.to_wire(message)
            if counts is not None:
                properties = _with_count(properties, counts[number])
            start = len(properties)
            framing = Framing(0, 0, start, start, 0, int.from_bytes(properties[:2], "big"))
            exchange, key = message.head.exchange, message.head.routing_key
            self.connection.engine.send_deliveries(
                self.number, consumer.tag, first + number, redelivered, exchange, key, framing, [properties + body]
            )

    def get_ok(self, batch: Batch, *, no_ack: bool, remaining: int) -> None:
        """ReplyCode basic.get with the one message of a batch."""
        tag = self.unsettled.skip(1) if no_ack else self.unsettled.enter(batch)
        message, head = batch.message(0), batch.head
        properties, body = self.connection.to_wire(message)
        counts = _delivery_counts(batch, self.connection.directory)
        if counts is not None:
            properties = _with_count(properties, counts[0])
        answer = BasicGetOk(tag, batch.redelivered, head.exchange, head.routing_key, remaining)
        self.connection.engine.send_content(self.number, answer, properties, body)
        if no_ack:
            settle(batch, Outcome.ACCEPT)

    # Pausing (section 1.5.2.3, channel.flow)

    def pause(self) -> None:
        """Deliver nothing until further notice; what is not encoded yet goes back to its place."""
        self.gate.hold()
        self.connection.drop_channel(self)

    def resume(self) -> None:
        """Deliver again."""
        self.gate.release()
        if self._recovers:
            self.deliver_again()

    # Recovering (section 1.8.3.16, basic.recover)

    def deliver_again(self) -> None:
        """Deliver what is unsettled to its own consumers again; what has none any more goes back to its queue."""
        self._recovers = self.gate.held
        if self._recovers:
            return
        for numbered, tags in list(self.unsettled.groups()):
            if _consumer_of(numbered) is None:
                self.unsettled.requeue(tags)
            else:
                self._put_again(numbered, tags)

    def _put_again(self, numbered: Numbered, tags: Sequence[int]) -> None:
        """Add deliveries that go out once more."""
        size = sum(map(len, numbered.stretch().contents))
        writer = self.connection.writer
        writer.window.take(len(tags), size)
        writer.outgoing.append(Again(self, numbered, tags, size))

    def encode_again(self, numbered: Numbered, tags: Sequence[int]) -> None:
        """Encode deliveries under new tags, as far as they are still unsettled and their consumer is there."""
        tags = self.unsettled.still(numbered, tags)
        consumer = _consumer_of(numbered)
        if not tags:
            return
        if consumer is None:
            self.unsettled.requeue(tags)
        elif self.gate.held:
            self._recovers = True
        else:
            again = self.unsettled.renumber(numbered, tags)
            self.deliver(consumer, again.first, *again.stretch(), redelivered=True)

    # Ending

    def end(self, *, connection_ends: bool) -> Iterator[None]:
        """Stop, step by step: close the feeds, put back what is out. The connection has dropped what was not encoded.

        A feed to a direct connection ends with the channel, but not with its connection: then the direct one has it.
        """
        self.open = False
        for consumer in list(self.consumers.values()):
            if not consumer.open or (connection_ends and consumer.is_direct):
                continue  # its queue may have gone since the last step
            consumer.close()
            yield
        if connection_ends and self.gate.held:
            self.gate.release()  # the client cannot any more
        self.consumers.clear()
        if self.transaction is not None:
            self.transaction.rollback()
        self.unsettled.requeue_all()
        # These hold the channel: cycles, which only the collector would find.
        self.transaction = None
        self.unsettled = Ledger()
        self.publisher.confirms = None
        del self.publisher


class Again(msgspec.Struct, frozen=True):
    """Deliveries that are to go out once more, to the channel that has them."""

    channel: ServerChannel
    numbered: Numbered
    tags: Sequence[int]
    size: int

    @property
    def left(self) -> int:
        """How many messages."""
        return len(self.tags)


def encode_delivery(connection: "AMQPServerConnection", parcel: Batch | Again) -> None:
    """Encode a batch under delivery tags."""
    if isinstance(parcel, Again):
        parcel.channel.encode_again(parcel.numbered, parcel.tags)
        return
    consumer = parcel.feed.key  # type: ignore[union-attr]  # see Consumer; this is the hot path
    assert isinstance(consumer, Consumer)
    channel = consumer.channel
    ledger = channel.unsettled
    if consumer.no_ack:
        first = ledger.next_number
        ledger.next_number = first + parcel.left  # as ``Ledger.skip`` does, without the call
    else:
        first = ledger.enter(parcel)
        if consumer.reads_stream:
            deliver_records(channel, consumer, first, parcel)
            return
    contents: list[bytes] = parcel.contents  # type: ignore[assignment]  # nothing is settled before it is encoded
    counts = _delivery_counts(parcel, connection.directory) if parcel.redelivered else None
    channel.deliver(consumer, first, parcel.head, contents, parcel.heads, redelivered=parcel.redelivered, counts=counts)
    if consumer.no_ack:
        settle(parcel, Outcome.ACCEPT)


def settle_run(connection: "AMQPServerConnection", event: AckRun) -> None:
    """Settle the deliveries of a run of acks."""
    channel = connection.open_channels.get(event.channel)
    if channel is not None:
        channel.unsettled.settle_each(event.tags, Outcome.ACCEPT)


Handler: TypeAlias = Callable[[ServerChannel, Method], None]
"""What does the work for one method that a client may send on a channel."""


def _consumer_of(numbered: Numbered) -> Consumer | None:
    """Find the consumer that messages went to, if it still is one."""
    feed = numbered.batch.feed
    return feed.key if feed is not None and isinstance(feed.key, Consumer) and feed.key.open else None


def _delivery_counts(batch: Batch, directory: Directory) -> Sequence[int] | None:
    """Return how often each message of a batch came back, as queues of the type quorum tell consumers.

    None if its queue is of another type, or is gone.
    """
    assert batch.queue is not None
    queue = directory.queues.get(directory.name_of(batch.queue))
    if queue is None or not is_quorum(queue.options):
        return None
    return [batch.attempts] * len(batch.ids)


def _with_count(properties: bytes, count: int) -> bytes:
    """Add the header ``x-delivery-count`` to encoded properties."""
    return amend_amqp(properties, {"x-delivery-count": count}, drop_expiration=False)[0]
