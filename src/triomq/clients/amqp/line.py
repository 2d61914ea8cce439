"""One channel of one link: what is asked there, what comes there, until either ends.

Replies of one kind come in the order of the requests, so a deque of pending requests is all that it takes; those to a
consumer name it. Replies of different kinds may overtake each other: RabbitMQ answers consume when it finds the time. A
task that is cancelled while it waits leaves its request in the deque, and the reply is taken in its stead: all stays
in step.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec

from triomq.clients.amqp.acks import Acks
from triomq.clients.amqp.confirms import ConfirmReceiver, PublisherConfirms
from triomq.clients.amqp.delivery import ReturnedMessage
from triomq.clients.amqp.pending_reply import PendingReply, fresh
from triomq.clients.refusals import error_of
from triomq.clients.transport_link import WRITE_AT
from triomq.errors import RemoteProtocolError, TriomqError
from triomq.protocols.amqp import (
    AckRun,
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicNack,
    ChannelClosed,
    ChannelCloseOk,
    ChannelFailed,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpened,
    DeliverRun,
    DirectLost,
    Event,
    GetOk,
    Method,
    Received,
    Returned,
)

if TYPE_CHECKING:
    from triomq.clients.amqp.deliveries import Deliveries
    from triomq.clients.amqp.link import Link

NO_REASON = 200
"""The reply code of a close that has no reason but the end."""

M = TypeVar("M")
E = TypeVar("E", bound=Event)
Reply: TypeAlias = "Method | GetOk | ChannelOpened | ChannelClosed"
_Handler: TypeAlias = "Callable[[Line, Event], None]"


class PendingRequest(msgspec.Struct, gc=True):
    """A method that was sent: its replies, what the task waits for, and what to do as soon as the reply is read.

    The task that waits goes on only after the rest of the chunk is handled. What must happen before that, or also when
    no task waits any more (its second argument), is done by ``on_reply``.
    """

    replies: tuple[type, ...]
    tag: str
    answer: PendingReply[Reply]
    on_reply: "Callable[[Reply, bool], None] | None"


class Owner:
    """Who a line works for: an ``AMQPChannel``; this one, for short errands, does nothing."""

    def took_returned(self, message: ReturnedMessage) -> None:
        """Called with a message that came back and that no publish waits for."""

    def took_lost(self, queue: str, messages: int) -> None:
        """Called when messages for a direct feed were lost."""

    def line_failed(self, line: "Line", error: TriomqError) -> None:
        """Called when the broker has closed the channel."""

    def line_lost(self, line: "Line", error: TriomqError) -> None:
        """Called when the connection is lost."""


class Line:
    """Made by its channel, once for each link.

    Args:
        link: The connection.
        number: The channel's number there; no other channel's until the broker has confirmed its end.
        owner: Whom to tell what concerns the channel.
    """

    def __init__(self, link: "Link", number: int, owner: Owner) -> None:
        self.link = link
        self.engine = link.engine
        self.number = number
        self.acks = Acks(link, number)
        self.confirms = PublisherConfirms()
        self.consumers: dict[str, Deliveries] = {}
        self.error: TriomqError | None = None
        self.reported = False
        """Whether the reason of its end was raised to a caller."""
        self.go = not link.held
        """Whether one may publish at once."""
        self.closing = False
        self.prefetch = 0
        """How many deliveries each new consumer may have, as it was sent last; none yet is no limit."""
        self.gated = False
        """Whether one may not publish just now, for there is no transaction."""
        self._owner = owner
        self._flowing = True
        self._requests: deque[PendingRequest] = deque()
        link.lines[number] = self

    @property
    def expects(self) -> bool:
        """Whether anything is to be answered."""
        return bool(self._requests) or bool(self.confirms.pending)

    # Asking

    def ask(
        self, method: Method | None, *replies: type, on_reply: "Callable[[Reply, bool], None] | None" = None
    ) -> "PendingReply[Reply]":
        """Send a method; the answer is one of these replies.

        Args:
            method: What to send; None if it is sent already.
            replies: Types of what may come.
            on_reply: Called with the reply at once, and with whether its task has stopped to wait.

        Raises:
            TriomqError: The channel is closed.
            LocalProtocolError: What is in the method cannot be sent.
        """
        self.check()
        if method is not None:
            self.engine.send_method(self.number, method)
            self.link.write()
        answer: PendingReply[Reply] = PendingReply()
        tag = method.consumer_tag if isinstance(method, BasicConsume | BasicCancel) else ""
        self._requests.append(PendingRequest(replies, tag, answer, on_reply))
        self.link.expecting()
        return answer

    async def call(self, method: Method, reply: type[M]) -> M:
        """Send a method and wait for its reply; raises what the broker closes the channel with."""
        found = await self.ask(method, reply).wait()
        assert isinstance(found, reply)
        return found

    def check(self) -> None:
        """Raise what the channel was closed with, if it was."""
        if self.error is not None:
            self.reported = True
            raise fresh(self.error)

    async def open(self) -> None:
        """Open the channel."""
        await self.ask(ChannelOpen(), ChannelOpened).wait()

    def begin_close(self) -> "PendingReply[Reply] | None":
        """Close the channel; return what to wait for, None if it is closed or closing already."""
        if self.error is not None or self.closing:
            return None
        self.acks.flush()
        self.acks.close()
        self.closing = True
        self.update()
        self.engine.close_channel(self.number, NO_REASON, "Goodbye")
        self.link.write_later()
        # Nothing else is answered any more.
        waiting, self._requests = self._requests, deque()
        answer = self.ask(None, ChannelClosed)
        for request in waiting:
            request.answer.fail(RemoteProtocolError("the channel was closed by this program"))
        return answer

    def publish(
        self,
        receiver: ConfirmReceiver | None,
        exchange: str,
        routing_key: str,
        mandatory: bool,
        properties: bytes,
        body: bytes,
    ) -> None:
        """Publish; the caller has looked at ``go``. Without a receiver it is not confirmed."""
        unsent = self.engine.send_publish(self.number, exchange, routing_key, mandatory, properties, body)
        if receiver is not None:
            self.confirms.sent((receiver, exchange, routing_key, mandatory, properties, body))
        link = self.link
        if unsent >= WRITE_AT or not link.armed:
            link.write(unsent)

    # What comes

    def handle(self, event: Event) -> None:
        """Handle an event of this channel."""
        _HANDLERS[type(event)](self, event)

    def _delivered(self, run: DeliverRun) -> None:
        consumer = self.consumers.get(run.method.consumer_tag)
        if consumer is not None:
            consumer.put(run, self.acks)

    def _confirmed(self, event: AckRun) -> None:
        self.confirms.ack(event.tags)

    def _returned(self, event: Returned) -> None:
        message = ReturnedMessage(event.method, event.framing, event.content)
        if not self.confirms.returned(message):
            self._owner.took_returned(message)

    def _received(self, event: Received) -> None:
        method = event.method
        match method:
            case BasicAck(tag):
                self.confirms.ack_until(tag)
            case BasicNack(tag, multiple):
                self.confirms.nack(tag, multiple=multiple)
            case DirectLost(queue, messages):
                self._owner.took_lost(queue, messages)
            case BasicCancel(tag, no_wait):
                consumer = self.consumers.pop(tag, None)
                if consumer is not None:
                    consumer.cancelled()
                if not no_wait:
                    self.link.send(self.number, BasicCancelOk(tag))
            case ChannelFlow(active):
                self._flowing = active
                self.update()
                self.link.send(self.number, ChannelFlowOk(active))
                if active:
                    self.link.may_publish.unpark_all()
            case _:
                self._replied(method)

    def _replied(self, reply: Reply) -> None:
        for index, request in enumerate(self._requests):
            if isinstance(reply, request.replies) and request.tag == getattr(reply, "consumer_tag", ""):
                del self._requests[index]
                if request.on_reply is not None:
                    request.on_reply(reply, request.answer.abandoned)
                request.answer.resolve(reply)
                return
        name = type(reply).__name__
        self.link.engine.close(505, f"unexpected {name}")
        self.link.end(RemoteProtocolError(f"{self.link.place} sent {name} without a request for it"))

    def update(self) -> None:
        """Compute anew whether one may publish at once."""
        self.go = self._flowing and not self.link.held and not self.gated and self.error is None and not self.closing

    # The end

    def _closed(self, event: ChannelClosed) -> None:
        self.link.lines.pop(self.number, None)
        if event.by_peer:
            self.engine.send_method(self.number, ChannelCloseOk())
            self.link.write_later()
            self._fail(error_of(event.code, event.text))
        elif self.closing:
            # The broker's close may have crossed ours; then its reason is to be raised.
            self._replied(event)
            self._fail(error_of(event.code, event.text))
            self.reported = event.code == NO_REASON

    def _failed(self, event: ChannelFailed) -> None:
        self._fail(RemoteProtocolError(f"{event.code} {event.text}"))

    def _fail(self, error: TriomqError) -> None:
        if self._end(error):
            for publish in self.confirms.take_all():
                publish[0].failed(len(publish[5]), error)
                self.reported = True
            for consumer in list(self.consumers.values()):
                consumer.failed(error)
            self._owner.line_failed(self, error)
        self.link.may_publish.unpark_all()

    def lost(self, error: TriomqError) -> None:
        """End with the link; publishes are left to the owner, which may send them again."""
        if self._end(error):
            self._owner.line_lost(self, error)

    def _end(self, error: TriomqError) -> bool:
        if self.error is not None:
            return False
        self.error = error
        self.acks.close()
        self.update()
        waiting, self._requests = self._requests, deque()
        for request in waiting:
            self.reported |= not request.answer.abandoned
            request.answer.fail(error)
        return True


def _row(kind: type[E], handler: Callable[[Line, E], None]) -> "tuple[type[Event], _Handler]":
    return kind, handler  # type: ignore[return-value]  # the key is the type of what the handler gets


_HANDLERS: "dict[type[Event], _Handler]" = dict(
    (
        _row(DeliverRun, Line._delivered),
        _row(AckRun, Line._confirmed),
        _row(Returned, Line._returned),
        _row(Received, Line._received),
        _row(GetOk, Line._replied),
        _row(ChannelOpened, Line._replied),
        _row(ChannelClosed, Line._closed),
        _row(ChannelFailed, Line._failed),
    )
)
