"""One AMQP connection: what is AMQP's own of a client on a stream.

``StreamClient`` works off what the client sends in turns: one chunk of bytes, all that follows from it, one write. Here
are channels and how they end, what the client is sent, and AMQP's way to close.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

import trio

from triomq.actors import Ref
from triomq.core import Batch, Leases, Pressure, QueueMessage, QueueState, Subscription
from triomq.endpoints.amqp.blocked import GAVE_UP, Blocked
from triomq.endpoints.amqp.channel import Consumer, ServerChannel, encode_delivery
from triomq.endpoints.amqp.compatibility import RABBITMQ_HANDLERS
from triomq.endpoints.amqp.direct import AMQPDirectFeeds, give_back
from triomq.endpoints.amqp.events import EVENTS, begin_publish
from triomq.endpoints.amqp.fronts import Fronts
from triomq.endpoints.amqp.handlers import HANDLERS
from triomq.endpoints.amqp.login import AMQPLogin
from triomq.endpoints.amqp.refusals import HARD_CODES, ReplyCode, reply_code_of
from triomq.endpoints.amqp.timeouts import AckTimeouts
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.stream_client import PATIENCE, StreamClient
from triomq.endpoints.base.switch import Switch
from triomq.endpoints.content import AMQP_CODEC, to_amqp
from triomq.endpoints.direct import DirectFeedClosed, MessagesLost, ReturnMessage
from triomq.errors import AccessRefused, TriomqError
from triomq.protocols.amqp import (
    BROKER_METHODS,
    LOST_CAPABILITY,
    AckRun,
    AMQPEngine,
    DirectLost,
    Event,
    Method,
    PublishMix,
    PublishRun,
    Received,
)
from triomq.security import MakeMechanism
from triomq.transports import Transport

_STEP_COST = 5
"""What ending a channel or a consumer counts against the turn's budget, in queue pushes: each takes some 5 µs."""

_AROUND_PROPERTIES = 128
"""Octets of a header frame that are not the properties of a message: the frame's own, and a header that is added."""

_OVER = object()


class AMQPServerConnection(StreamClient):
    """The actor of one connection; a temporary child of the endpoint that accepted it.

    Args:
        transport: The bytes; owned from now on.
        engine: The protocol, in the server's role.
        context: Domains and users.
        virtual_hosts: Which domain each virtual host is.
        mechanisms: How one may log in.
        consumer_timeout: Seconds that a delivery may stay unsettled; 0 for ever.
        leases: Those of the listener, for direct connections.
        as_rabbitmq: Whether to refuse what RabbitMQ refuses, though the specification offers it.
        fork: Called instead of all this if a direct connection begins, with the transport and the first bytes.
        part: Called at the end with transport, engine and the time, if the socket is left to the client.
    """

    tag = "amqp"
    direct: tuple[Ref, ...] = ()
    log = logging.getLogger("triomq.amqp")
    event_handlers = EVENTS
    encode = encode_delivery  # type: ignore[assignment]  # a function of the class is a method

    def __init__(
        self,
        transport: Transport,
        engine: AMQPEngine,
        context: BrokerContext,
        *,
        virtual_hosts: Mapping[str, str],
        mechanisms: Mapping[str, MakeMechanism],
        consumer_timeout: float = 0.0,
        leases: Leases,
        as_rabbitmq: bool = False,
        fork: Callable[[Transport, bytes], None],
        part: Callable[[Transport, AMQPEngine, float], None],
    ) -> None:
        super().__init__(transport, engine, context)
        self.engine = engine
        self.virtual_hosts = virtual_hosts
        self.login = AMQPLogin(context, transport.peer, mechanisms)
        self.open_channels: dict[int, ServerChannel] = {}
        self.as_rabbitmq = as_rabbitmq
        self.handlers = RABBITMQ_HANDLERS if as_rabbitmq else HANDLERS
        self.blocked = Blocked(self)
        self.timeouts = AckTimeouts(consumer_timeout, self.unacknowledged)
        self.closed_by_client = False  # in order: the socket is the client's to close
        self.leases = leases
        self.direct_feeds = AMQPDirectFeeds(self.open_channels, self.writer)
        self._fronts: Fronts | None = None
        self._fork = fork
        self._part = part
        self._handed_over = False  # the transport belongs to another owner now
        self._ending_channels: Iterator[None] | None = None  # what is left to do for their end
        self._ends = False  # whether this actor is to end after that
        self._peer_in = ""  # the domain that it has entered as a peer

    # The first bytes, and the log-in

    def first_driver(self) -> Switch:
        """Return what tells direct connections from others, on the same port."""
        return Switch(self._transport, self, self.context.direct.header, self._go_direct)

    def _go_direct(self, data: bytes) -> None:
        """Leave the transport to a direct connection."""
        self.ref.run_in_turn(self._hand_over, data)

    def _hand_over(self, data: bytes) -> None:
        self._left = self._handed_over = True
        self._fork(self._transport, data)
        self.end()

    def enter(self, user: str, domain: str, *, virtual_host: str = "", origin: str = "") -> None:
        """Work in a domain from now on; as a peer, if the client presents itself as one.

        Raises:
            AccessRefused: The user may not be there, or another peer has its name.
            NotFound: There is no such domain.
            UserLimitReached: The user has as many connections as it may have.
        """
        origin = (
            f"{user}@{self.login.origin or self.peer.rpartition(':')[0] or self.peer}"  # the same after a reconnect
        )
        if self.login.instance and not self.context.origins.come(domain, origin, self.login.instance):
            peer = f"origin '{self.login.origin}' of user '{user}'"
            raise AccessRefused(f"{peer} is here already, and is another broker; give each an origin of its own")
        try:
            super().enter(user, domain, virtual_host=virtual_host, origin=origin)
        except TriomqError:
            if self.login.instance:
                self.context.origins.go(domain, origin)
            raise
        self._peer_in = domain if self.login.instance else ""

    # Refusals

    def refused(self, event: Event, error: TriomqError) -> None:
        """Close the channel, or the connection, as RabbitMQ does."""
        if isinstance(event, AckRun):
            numbers = (60, 80)
            answer = reply_code_of(error, self.virtual_host, "queue")
        else:
            assert isinstance(event, Received | PublishRun | PublishMix)
            numbers = _numbers_of(event.method)
            answer = reply_code_of(error, self.virtual_host, _resource(event.method))
        self.refuse(self.open_channels[event.channel], answer, *numbers)

    def refuse(self, channel: ServerChannel, answer: ReplyCode, class_id: int, method_id: int) -> None:
        """Close a channel, or the connection where the code wants that; the numbers name the method to blame."""
        if answer.code in HARD_CODES:
            self.fail(answer.code, answer.text, class_id, method_id)
        else:
            channel.publisher.confirm()  # replies to what was done on the channel before come before its end
            self.note(logging.INFO, "channel failed", channel=channel.number, code=answer.code, reason=answer.text)
            self.end_channel(channel.number)
            self.engine.close_channel(channel.number, answer.code, answer.text, class_id, method_id)

    def refuse_begun(self, channel: ServerChannel, error: TriomqError, method: Method) -> None:
        """Refuse a publish whose content is still to come."""
        self.refuse(channel, reply_code_of(error, self.virtual_host, "exchange"), *_numbers_of(method))

    def unacknowledged(self, channel: ServerChannel, answer: ReplyCode) -> None:
        """Refuse a channel whose client has left deliveries unsettled for too long; no method is to blame."""
        self.refuse(channel, answer, 0, 0)

    def fail(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        """End all channels and close, since something has failed."""
        self.note_failure(code, text)
        self.close(code, text, class_id, method_id)

    def note_failure(self, code: int, text: str) -> None:
        """Log that the connection fails, and end all channels."""
        self.note(logging.WARNING, "connection failed", code=code, reason=text)
        self.ending = self.ending or text
        self.end_channels()
        self.reschedule()

    def close(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        """Send connection.close; the client's close-ok ends the connection, or the engine's deadline does."""
        self.engine.close(code, text, class_id, method_id)
        self.resume()  # the client's answer is to be read
        self.reschedule()
        self.ref.touch()

    # What is too much

    def pausing(self, pressure: Pressure) -> None:
        """Send connection.blocked, where that is known."""
        self.blocked.begin(pressure)

    def resuming(self, pressure: Pressure) -> None:
        """Send connection.unblocked, where that is known."""
        self.blocked.end(pressure)

    def judge_unfinished(self) -> None:
        """Check publishes that have begun, before their bodies are read."""
        if not self._events:  # those come before
            for number, method in self.engine.take_begun():
                begin_publish(self, number, method)
            if self.engine.unfinished_contents and self.blocked.is_to_wait:
                self.pause(Pressure.MEMORY)
            if self.engine.outbox.unsent:
                self.ref.touch()

    def refuse_unfinished(self, reason: str) -> None:
        """Close with 506: what the client has begun does not come, and others wait."""
        self.fail(506, reason)

    # What others tell

    def cancelled(self, subscription: Subscription, reason: str) -> None:
        """Tell the client that its consumer is cancelled (RabbitMQ's consumer_cancel_notify)."""
        assert isinstance(subscription, Consumer)
        self.drop(subscription)
        channel = subscription.channel
        known = channel.consumers.pop(subscription.tag, None) is not None
        if known and self.login.client_can("consumer_cancel_notify"):
            channel.cancelled(subscription.tag)

    def direct_feed_closed(self, message: DirectFeedClosed) -> None:
        """Tell the client that a consumer is cancelled whose messages went to a direct connection."""
        if not self._left:
            self.cancelled(message.subscription, message.reason)

    def return_message(self, message: ReturnMessage) -> None:
        """Send a message back that was published over a direct connection, which one of our channels has leased."""
        if not self._left:
            give_back(self, message)

    def messages_lost(self, message: MessagesLost) -> None:
        """Tell a client that knows the method how many messages for its direct feed were lost."""
        channel = message.lessee
        assert isinstance(channel, ServerChannel)
        if not self._left and channel.open and self.login.client_can(LOST_CAPABILITY):
            channel.reply(DirectLost(message.feed, message.messages))

    def closing(self, reason: str) -> None:
        """Close; the client's close-ok ends the connection, or the engine's deadline does."""
        self.end_channels()
        self.close(320, reason)

    @property
    def fronts(self) -> Fronts:
        """What stands before its deliveries."""
        if self._fronts is None:
            self._fronts = Fronts(self.engine)
        return self._fronts

    @property
    def channels(self) -> int:
        """How many channels are open."""
        return len(self.open_channels)

    @property
    def consumers(self) -> int:
        """How many consumers they have."""
        return sum(len(channel.consumers) for channel in self.open_channels.values())

    @property
    def outstanding(self) -> int:
        """How many deliveries they have not settled."""
        return sum(len(channel.unsettled) for channel in self.open_channels.values())

    @property
    def has_outstanding(self) -> bool:
        """Whether there is any such delivery; of 65,535 channels that takes a few milliseconds, a sum takes 25."""
        return not all(channel.unsettled.is_empty for channel in self.open_channels.values())

    @property
    def only_publishes(self) -> bool:
        """Whether no channel has a consumer, or something unsettled."""
        return not self.blocked.can_make_room

    # Time

    @property
    def patience(self) -> float:  # type: ignore[override]  # two heartbeats, once they are agreed
        """For how many seconds the client may leave what we sent unread: two heartbeats, or long if it has none."""
        return 2 * self.engine.heartbeat or PATIENCE

    def due_at(self) -> float:
        """Return when a timer is due, a look at what is unsettled, or the end of a client's patience."""
        if self._left:
            return super().due_at()
        return min(super().due_at(), self.timeouts.next, self.blocked.due)

    def due(self, now: float) -> None:
        """Look at timers and at what is unsettled; close where waiting has no end."""
        super().due(now)
        if self._left:
            return
        if self.timeouts.next <= now:
            self.timeouts.look(now, self.open_channels.values(), self.directory)
            self.ref.touch()
        if self.blocked.take_due(now):
            self.fail(506, GAVE_UP)

    def watch_unsettled(self, queue: QueueState) -> None:
        """Watch that the client settles deliveries of a queue in time."""
        if self.timeouts.watch(queue):
            self.reschedule()

    # Writing

    def to_wire(self, message: QueueMessage) -> tuple[bytes, bytes]:
        """Return a message's properties, as AMQP writes them, and its body."""
        if message.head.traits.codec == AMQP_CODEC:
            return message.properties, message.body
        # Not more than a header frame can carry, which is never cut.
        room = self.engine.frame_max - _AROUND_PROPERTIES
        return to_amqp(self.context.codecs.decode(message), room=room), message.body

    def drop(self, consumer: Consumer) -> None:
        """Return what is not encoded yet of a consumer's deliveries to its place."""
        self.writer.drop(lambda batch: batch.feed is not None and batch.feed.key is consumer)

    def drop_channel(self, channel: ServerChannel) -> None:
        """Return what is not encoded yet of a channel's deliveries to its place."""
        self.writer.drop(lambda batch: _channel_of(batch) is channel)

    # The end

    def end_channel(self, number: int) -> None:
        """Put back what is out on a channel, and forget it."""
        if number in self.open_channels:
            for _ in self._ending(number, connection_ends=False):
                self._turn.charge(_STEP_COST)

    def _ending(self, number: int, *, connection_ends: bool) -> Iterator[None]:
        """End a channel, step by step."""
        channel = self.open_channels.pop(number)
        self.context.quotas.give(self.user, "channels")
        self.drop_channel(channel)
        yield
        yield from channel.end(connection_ends=connection_ends)

    def end_channels(self) -> None:
        """End all channels, since the connection ends: what fits into this turn, and the rest in turns of their own.

        Nothing more is delivered meanwhile. As long as there are channels the actor stays, since a message of a
        queue to one that is gone would be lost.
        """
        if self.open_channels and self._ending_channels is None:
            self.writer.window.hold()
            self.writer.drop_all()
            self._ending_channels = self._ending_all()
        self._go_on_ending()

    def _ending_all(self) -> Iterator[None]:
        for number in list(self.open_channels):
            if number in self.open_channels:
                yield from self._ending(number, connection_ends=True)

    def _go_on_ending(self) -> None:
        """End channels until the turn's budget is used up."""
        turn = self._turn
        while self._ending_channels is not None:
            if turn.exhausted:
                self.in_turn(self._go_on_ending)
                return
            turn.charge(_STEP_COST)
            if next(self._ending_channels, _OVER) is _OVER:
                self._ending_channels = None
        if self._ends:
            super().end()

    def end(self) -> None:
        """End this actor, when its last channel has ended."""
        self._ends = True
        if self._ending_channels is None:
            super().end()

    def put_back(self) -> None:
        """End all channels, and wait for no alarm any more."""
        super().put_back()
        self.end_channels()
        self.blocked.forget()
        if self._peer_in:
            self.context.origins.go(self._peer_in, self.session.origin)

    def left(self) -> None:
        """Leave the socket to a client that has closed in order; otherwise linger."""
        if self.gone or not self.closed_by_client:
            super().left()
            return
        self._handed_over = True
        self._part(self._transport, self.engine, trio.current_time())
        self.end()

    def released(self) -> None:
        """Put back what is left, all at once, and close the transport, unless it has another owner now."""
        for _ in chain(self._ending_channels or (), self._ending_all()):
            pass
        if not self._handed_over:
            super().released()
        for name in ("blocked", "timeouts"):  # they hold the connection: cycles, which only the collector would find
            self.__dict__.pop(name, None)


def _channel_of(batch: Batch) -> ServerChannel | None:
    consumer = None if batch.feed is None else batch.feed.key
    return consumer.channel if isinstance(consumer, Consumer) else None


def _numbers_of(method: Method) -> tuple[int, int]:
    row = BROKER_METHODS.by_type[type(method)].row
    return row.class_id, row.method_id


def _resource(method: Method) -> str:
    return "exchange" if type(method).__name__.startswith(("Exchange", "BasicPublish")) else "queue"
