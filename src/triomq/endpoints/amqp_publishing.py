"""The publishing half of one AMQP channel: from runs of publishes to the queues that they are routed to."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from triomq.actors import Ref
from triomq.core import Confirms, Head, Message, Offer, Publish, Receipt, Route
from triomq.endpoints.amqp_answers import AnswerError
from triomq.endpoints.amqp_arguments import check_expiration
from triomq.endpoints.amqp_properties import AMQP_CODEC, headers_of
from triomq.errors import ActorError
from triomq.protocols import decode_properties
from triomq.protocols.amqp import BasicAck, BasicNack, BasicPublish, BasicReturn, Framing, PublishRun

if TYPE_CHECKING:
    from triomq.endpoints.amqp_channel import Channel

__all__ = ["Publisher"]

_NOWHERE = Route(())

# Property flags (section 4.2.6.1, and the order of properties in section 1.8.2)
_PRIORITY, _EXPIRATION, _USER_ID = 0x0800, 0x0100, 0x0010
_CHECKED = _EXPIRATION | _USER_ID

_HEADS = 1024  # heads kept per channel: publishers repeat keys; those that do not only pay for a new head

_NO_ROUTE = (312, "NO_ROUTE")
_NO_CONSUMERS = (313, "NO_CONSUMERS")


class Publisher:
    """What one channel publishes; made with the channel, ends with it.

    Args:
        channel: The channel.
    """

    __slots__ = ("_channel", "_framing", "_head", "_heads", "_method", "_route", "_version", "confirms")

    def __init__(self, channel: "Channel") -> None:
        """Start in neither confirm nor transaction mode."""
        self.confirms: Confirms | None = None
        self._channel = channel
        self._method: BasicPublish | None = None
        self._framing: Framing | None = None
        self._version = -1
        self._route = _NOWHERE
        self._head = Head()
        self._heads: dict[tuple[str, str, Framing], Head] = {}

    def publish(self, run: PublishRun) -> None:
        """Route a run of publishes and hand it to each queue.

        Raises:
            NoSuchSink: The exchange does not exist.
            SinkInternal: Only exchanges may publish into it.
            AnswerError: The properties or flags are not acceptable.
        """
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
        user = self._channel.connection.session.user
        properties = decode_properties(encoded)
        if properties.user_id is not None and properties.user_id != user:
            text = f"user_id property set to '{properties.user_id}' but authenticated user was '{user}'"
            raise AnswerError(406, text)
        check_expiration(properties.expiration)

    def _publish(self, run: PublishRun, contents: list[bytes]) -> None:
        """Route contents of a run, all or the first of them."""
        if not contents:
            return
        directory = self._channel.connection.directory
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
        self._version = self._channel.connection.directory.version
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
            self._channel.connection.session.number,
            bool(framing.flags & _EXPIRATION),
            bool(framing.flags & _PRIORITY),
        )
        self._heads[method.exchange, method.routing_key, framing] = head
        return head

    def _find(self, method: BasicPublish, content: bytes) -> Route:
        head = self._head
        return self._channel.connection.directory.route(
            method.exchange, method.routing_key, lambda: headers_of(Message(head, content).properties)
        )

    def _place(self, method: BasicPublish, contents: list[bytes], size: int, queues: tuple[Ref, ...]) -> None:
        """Hand messages to their queues; what reaches none is returned if it is mandatory."""
        channel = self._channel
        if channel.transaction is not None:
            channel.transaction.publish(method, Publish(self._head, contents, size), queues)
        elif not queues or method.immediate:
            if self.confirms is not None:
                self.confirms.expect(len(contents), 0)  # nothing will be missing when the returns are said
            self.offer(method, self._head, contents, queues)
        else:
            receipt: Receipt | None = None
            if self.confirms is not None:
                receipt = self.confirms.expect(len(contents), len(queues))
            message = Publish(self._head, contents, size, receipt)
            for queue in queues:
                queue.tell_nowait(message)
        channel.connection.spend(len(contents) * len(queues))

    def offer(self, method: BasicPublish, head: Head, contents: Sequence[bytes], queues: Sequence[Ref]) -> None:
        """Deal with messages that no queue may keep: there is none, or they are for consumers that are there now."""
        for content in contents:
            taken = [self._takes(queue, Offer(head, content)) for queue in queues]
            if not any(taken):
                self._return(method, Message(head, content), _NO_CONSUMERS if queues else _NO_ROUTE)

    @staticmethod
    def _takes(queue: Ref, offer: Offer) -> bool:
        try:
            return queue.ask_nowait(offer)
        except (trio.WouldBlock, ActorError):
            return False  # it is being restarted, or was stopped: no consumer gets anything from it now

    def _return(self, method: BasicPublish, message: Message, reason: tuple[int, str]) -> None:
        """Send a message back that was to reach a queue or a consumer (section 1.8.3.7, mandatory and immediate)."""
        if reason is _NO_ROUTE and not method.mandatory:
            return
        answer = BasicReturn(*reason, method.exchange, method.routing_key)
        self._channel.connection.engine.send_content(self._channel.number, answer, message.properties, message.body)

    def confirm(self) -> None:
        """Tell the publisher what is placed by now: refusals singly, then the rest."""
        channel = self._channel
        if self.confirms is None or not channel.open:
            return
        confirmed = self.confirms.take()
        for number in confirmed.refused:
            channel.reply(BasicNack(number, multiple=False, requeue=False))
        for number in confirmed.single:
            channel.reply(BasicAck(number, multiple=False))
        if confirmed.up_to:
            channel.reply(BasicAck(confirmed.up_to, multiple=True))
