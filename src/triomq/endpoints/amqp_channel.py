"""One AMQP channel: publish numbers, delivery tags, consumers, and what of all that is unsettled.

A channel is not an actor: it has no time of its own and lives inside its connection's turns. A delivery tag leads to
the batch that the message came in; its place in the batch is the tag less the batch's first tag.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from triomq.actors import Ref
from triomq.core import (
    Batch,
    Confirms,
    Feed,
    Head,
    Message,
    Outcome,
    Publish,
    Receipt,
    Route,
    Window,
    settle,
)
from triomq.endpoints.amqp_answers import AnswerError
from triomq.endpoints.amqp_arguments import check_expiration
from triomq.endpoints.amqp_properties import AMQP_CODEC, headers_of
from triomq.protocols import decode_properties
from triomq.protocols.amqp import (
    BasicAck,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    Framing,
    Method,
    PublishRun,
)

if TYPE_CHECKING:
    from triomq.endpoints.amqp_connection import AMQPConnection

__all__ = ["Channel", "Consumer"]

_NOWHERE = Route(())
_CHECKED = 0x0100 | 0x0010  # property flags of expiration and user-id (section 4.2.6.1)

_HEADS = 1024  # heads kept per channel: publishers repeat keys; those that do not only pay for a new head


class Consumer:
    """One consumer tag of a channel; the key of its feed."""

    __slots__ = ("channel", "feed", "no_ack", "open", "tag")

    feed: Feed

    def __init__(self, channel: "Channel", tag: str, *, no_ack: bool) -> None:
        """Make a consumer; its feed is set when it is made."""
        self.channel = channel
        self.tag = tag
        self.no_ack = no_ack
        self.open = True


class Channel:
    """An open channel; made by its connection at channel.open, gone with channel.close or the connection.

    Args:
        connection: The connection it belongs to.
        number: Its number there.
    """

    __slots__ = (
        "_framing",
        "_head",
        "_heads",
        "_method",
        "_oldest",
        "_route",
        "_version",
        "confirms",
        "connection",
        "consumers",
        "gate",
        "last_queue",
        "next_tag",
        "number",
        "open",
        "prefetch",
        "prefetch_size",
        "unsettled",
        "window",
    )

    def __init__(self, connection: "AMQPConnection", number: int) -> None:
        """Start without consumers, in neither confirm nor transaction mode."""
        self.connection = connection
        self.number = number
        self.open = True
        self.confirms: Confirms | None = None
        self.consumers: dict[str, Consumer] = {}
        self.last_queue = ""
        self.prefetch = 0
        self.prefetch_size = 0
        self.window = Window()
        self.gate = Window()  # held by channel.flow
        self.next_tag = 1
        self.unsettled: dict[int, Batch] = {}
        self._oldest = 1  # no tag below this one is unsettled
        self._method: BasicPublish | None = None
        self._framing: Framing | None = None
        self._version = -1
        self._route = _NOWHERE
        self._head = Head()
        self._heads: dict[tuple[str, str, Framing], Head] = {}

    def reply(self, method: Method) -> None:
        """Send a method on this channel."""
        self.connection.engine.send_method(self.number, method)

    # Publishing

    def publish(self, run: PublishRun) -> None:
        """Route a run of publishes and hand it to each queue.

        Raises:
            NoSuchSink: The exchange does not exist.
            SinkInternal: Only exchanges may publish into it.
            AnswerError: The properties or flags are not acceptable.
        """
        if run.method.immediate:
            raise AnswerError(540, "immediate=true")
        if run.framing.flags & _CHECKED:
            for number, content in enumerate(run.contents):
                try:
                    self._check(run.framing.properties(content))
                except AnswerError:
                    self._publish(run, run.contents[:number])  # what came before a bad one counts
                    raise
        self._publish(run, run.contents)

    def _check(self, encoded: bytes) -> None:
        """Check properties that the broker itself answers for.

        Raises:
            AnswerError: A user-id is not the user's, or an expiration is no number of milliseconds.
        """
        user = self.connection.session.user
        properties = decode_properties(encoded)
        if properties.user_id is not None and properties.user_id != user:
            text = f"user_id property set to '{properties.user_id}' but authenticated user was '{user}'"
            raise AnswerError(406, text)
        check_expiration(properties.expiration)

    def _publish(self, run: PublishRun, contents: list[bytes]) -> None:
        """Route contents of a run, all or the first of them."""
        if not contents:
            return
        directory = self.connection.directory
        if run.method is not self._method or run.framing is not self._framing or directory.version != self._version:
            self._resolve(run.method, run.framing, contents[0])
        if self._route.by_headers:
            for content in contents:
                self._place(run.method, [content], len(content), self._find(run.method, content).queues)
        else:
            size = run.size if contents is run.contents else sum(map(len, contents))
            self._place(run.method, contents, size, self._route.queues)

    def _resolve(self, method: BasicPublish, framing: Framing, content: bytes) -> None:
        """Find head and route, and keep them as long as the next runs are alike and no binding changes."""
        head = self._heads.get((method.exchange, method.routing_key, framing))
        if head is None:
            head = self._make_head(method, framing)
        self._head = head
        self._route = self._find(method, content)
        self._version = self.connection.directory.version
        self._method, self._framing = method, framing

    def _make_head(self, method: BasicPublish, framing: Framing) -> Head:
        if len(self._heads) >= _HEADS:
            self._heads.clear()
        head = Head(
            AMQP_CODEC,
            method.exchange,
            method.routing_key,
            framing.properties_start,
            framing.properties_stop,
            framing.body_start,
            framing.body_trailer,
            framing.channel,
            framing.flags,
        )
        self._heads[method.exchange, method.routing_key, framing] = head
        return head

    def _find(self, method: BasicPublish, content: bytes) -> Route:
        head = self._head
        return self.connection.directory.route(
            method.exchange, method.routing_key, lambda: headers_of(Message(head, content).properties)
        )

    def _place(self, method: BasicPublish, contents: list[bytes], size: int, queues: tuple[Ref, ...]) -> None:
        """Hand messages to their queues; what reaches none is returned if it is mandatory."""
        receipt: Receipt | None = None
        if self.confirms is not None:
            receipt = self.confirms.expect(len(contents), len(queues))
        if not queues:
            if method.mandatory:
                self._return(method, contents)
            return
        message = Publish(self._head, contents, size, receipt)
        for queue in queues:
            queue.tell_nowait(message)
        self.connection.spend(len(contents) * len(queues))

    def _return(self, method: BasicPublish, contents: Iterable[bytes]) -> None:
        """Send messages back that reached no queue (section 1.8.3.3, mandatory)."""
        answer = BasicReturn(312, "NO_ROUTE", method.exchange, method.routing_key)
        for content in contents:
            message = Message(self._head, content)
            self.connection.engine.send_content(self.number, answer, message.properties, message.body)

    def confirm(self) -> None:
        """Tell the publisher what is placed by now: refusals singly, then the rest."""
        if self.confirms is None or not self.open:
            return
        confirmed = self.confirms.take()
        for number in confirmed.refused:
            self.reply(BasicNack(number, multiple=False, requeue=False))
        for number in confirmed.single:
            self.reply(BasicAck(number, multiple=False))
        if confirmed.up_to:
            self.reply(BasicAck(confirmed.up_to, multiple=True))

    # Delivering

    def encode(self, consumer: Consumer, batch: Batch) -> None:
        """Give a batch its delivery tags and encode it."""
        first = self._tag(batch, no_ack=consumer.no_ack)
        head = batch.head
        contents = cast("list[bytes]", batch.contents)  # nothing is settled before it is encoded
        if head.codec == AMQP_CODEC:
            self._send(consumer, first, batch, framing_of(head), contents)
        else:
            for number, (framing, content) in enumerate(self._translate(head, contents)):
                self._send(consumer, first + number, batch, framing, [content])
        if consumer.no_ack:
            settle(batch, Outcome.ACCEPT)

    def _send(self, consumer: Consumer, first: int, batch: Batch, framing: Framing, contents: list[bytes]) -> None:
        head = batch.head
        self.connection.engine.send_deliveries(
            self.number,
            consumer.tag,
            first,
            batch.redelivered,
            head.exchange,
            head.routing_key,
            framing,
            contents,
        )

    def _translate(self, head: Head, contents: list[bytes]) -> Iterator[tuple[Framing, bytes]]:
        """Put what came over another wire, or from this process, into AMQP's form."""
        for content in contents:
            properties, body = self.connection.to_wire(Message(head, content))
            start = len(properties)
            flags = int.from_bytes(properties[:2], "big")
            yield Framing(0, 0, start, start, 0, flags), properties + body

    def _tag(self, batch: Batch, *, no_ack: bool) -> int:
        """Number the messages of a batch, and remember where the numbers lead."""
        first = self.next_tag
        self.next_tag = following = first + batch.left
        batch.first_tag = first
        if not no_ack:
            if following - first == 1:
                self.unsettled[first] = batch
            else:
                self.unsettled.update(dict.fromkeys(range(first, following), batch))
        return first

    def get_ok(self, batch: Batch, *, no_ack: bool, remaining: int) -> None:
        """Answer basic.get with the one message of a batch."""
        tag = self._tag(batch, no_ack=no_ack)
        message, head = batch.message(0), batch.head
        properties, body = self.connection.to_wire(message)
        answer = BasicGetOk(tag, batch.redelivered, head.exchange, head.routing_key, remaining)
        self.connection.engine.send_content(self.number, answer, properties, body)
        if no_ack:
            settle(batch, Outcome.ACCEPT)

    # Settling

    def settle_each(self, tags: Sequence[int], outcome: Outcome) -> None:
        """Settle deliveries one by one; neighbours of one batch are settled together.

        Raises:
            AnswerError: A tag is unknown; those before it are settled.
        """
        if len(tags) == 1:  # a consumer that acks each by itself: no grouping to do
            found = self.unsettled.pop(tags[0], None)
            if found is None:
                raise AnswerError(406, f"unknown delivery tag {tags[0]}")
            _settle_some(found, outcome, [tags[0] - found.first_tag])
            return
        batch: Batch | None = None
        positions: list[int] = []
        for tag in tags:
            found = self.unsettled.pop(tag, None)
            if found is not batch:
                _settle_some(batch, outcome, positions)
                batch, positions = found, []
            if found is None:
                raise AnswerError(406, f"unknown delivery tag {tag}")
            positions.append(tag - found.first_tag)
        _settle_some(batch, outcome, positions)

    def settle_up_to(self, tag: int, outcome: Outcome) -> None:
        """Settle all deliveries up to a tag, 0 meaning all (section 1.8.3.13, multiple).

        Raises:
            AnswerError: The tag is unknown.
        """
        if tag and tag not in self.unsettled:
            raise AnswerError(406, f"unknown delivery tag {tag}")
        last = tag or self.next_tag - 1
        unsettled, span = self.unsettled, range(self._oldest, last + 1)
        if len(span) <= len(unsettled):
            present = [number for number in span if number in unsettled]
        else:  # most were settled singly, or when they left: they may be milliards
            present = [number for number in unsettled if number <= last]
        self._oldest = last + 1
        self.settle_each(present, outcome)

    def settle_all(self, outcome: Outcome) -> None:
        """Settle all deliveries, in the order in which they went out."""
        self.settle_up_to(0, outcome)

    # Ending

    def end(self) -> None:
        """Stop: close the feeds, put back what is out. The connection has dropped what was not encoded yet."""
        self.open = False
        for consumer in self.consumers.values():
            consumer.open = False
            self.connection.session.close_feed(consumer.feed)
        self.consumers.clear()
        self.settle_all(Outcome.REQUEUE)


def _settle_some(batch: Batch | None, outcome: Outcome, positions: list[int]) -> None:
    if batch is not None:
        settle(batch, outcome, None if len(positions) == batch.left else positions)


def framing_of(head: Head) -> Framing:
    """Give the engine its own framing back."""
    return Framing(
        head.frame, head.properties_start, head.properties_stop, head.body_start, head.body_trailer, head.flags
    )
