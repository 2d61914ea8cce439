"""One AMQP connection: an actor in place, driven by its transport.

What the client sends is worked off in turns: one chunk of octets, all that follows from it, one write. Replies are
encoded when they are made, deliveries by the ``Outlet`` at the end of the turn.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from math import inf
from typing import TypeVar, TypeVarTuple

import trio

from triomq.actors import BUDGET, Ref, Request, Supervisor
from triomq.core import (
    Deliver,
    FeedClosed,
    Leases,
    Persistence,
    Pressure,
    PublishingPaused,
    QueueMessage,
    QueueState,
    Restarting,
    Session,
)
from triomq.endpoints.amqp.answers import AnswerError
from triomq.endpoints.amqp.blocked import GAVE_UP, Blocked
from triomq.endpoints.amqp.channel import Channel, Consumer
from triomq.endpoints.amqp.direct import AMQPDirectFeeds, give_back
from triomq.endpoints.amqp.events import EVENTS, begin_publish, fail, unacknowledged, undeliverable
from triomq.endpoints.amqp.login import LogIn
from triomq.endpoints.amqp.outlet import Outlet
from triomq.endpoints.amqp.timeouts import AckTimeouts
from triomq.endpoints.base.context import BrokerContext, DomainAccess
from triomq.endpoints.base.endpoint import CloseConnection, ConnectionStatistics, Tick
from triomq.endpoints.base.stream_connection import PATIENCE, StreamConnection
from triomq.endpoints.base.switch import Switch
from triomq.endpoints.content import AMQP_CODEC, to_amqp
from triomq.endpoints.direct import MessagesLost, ReturnMessage
from triomq.errors import ActorStopped, HandlerFailed
from triomq.protocols.amqp import LOST_CAPABILITY, AMQPEngine, DirectLost, Event
from triomq.security import Access, MakeMechanism
from triomq.transports import Transport

_LOOK = 0.5  # seconds between two looks at whether a client reads, while something waits for it

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

_STEP_COST = 5
"""What ending a channel or a consumer counts against the turn's budget, in queue pushes: each takes some 5 µs."""

_OVER = object()


class AMQPConnection(StreamConnection):
    """The actor of one connection; a temporary child of the endpoint that accepted it.

    Args:
        transport: The octets; owned from now on.
        engine: The protocol, in the server's role.
        broker: Domains and users.
        virtual_hosts: Which domain each virtual host is.
        mechanisms: How one may log in.
        consumer_timeout: Seconds that a delivery may stay unsettled; 0 for ever.
        leases: Those of the listener, for direct connections.
        fork: Called instead of all this if a direct connection begins, with the transport and the first octets.
        part: Called at the end with transport, engine and the time, if the socket is left to the client.
    """

    log = logging.getLogger("triomq.amqp")
    closed_event = "connection closed"

    def __init__(
        self,
        transport: Transport,
        engine: AMQPEngine,
        broker: BrokerContext,
        *,
        virtual_hosts: Mapping[str, str],
        mechanisms: Mapping[str, MakeMechanism],
        consumer_timeout: float = 0.0,
        leases: Leases,
        fork: Callable[[Transport, bytes], None],
        part: Callable[[Transport, AMQPEngine, float], None],
    ) -> None:
        super().__init__(transport, engine, broker)
        self.engine = engine
        self.domain: DomainAccess
        self.access: Access
        self.outlet = Outlet(engine, transport, undeliverable)
        self.virtual_hosts = virtual_hosts
        self.login = LogIn(broker.users, mechanisms)
        self.channels: dict[int, Channel] = {}
        self._confirming: dict[Channel, None] = {}
        self._events: deque[Event] = deque()
        self.blocked = Blocked(self)
        self.timeouts = AckTimeouts(consumer_timeout, unacknowledged)
        self.closed_by_client = False  # in order: the socket is the client's to close
        self.leases = leases
        self.direct_feeds = AMQPDirectFeeds(self.channels, self.outlet)
        self._fork = fork
        self._part = part
        self._handed_over = False  # the transport belongs to somebody else now
        self._ending_channels: Iterator[None] | None = None  # what is left to do for their end
        self._stops = False  # whether this actor is to end after that
        self._look_at_reader = inf  # when to see whether the client reads
        self._came_to = ""  # the domain that it has entered as a peer

    # Reading: what the transport calls

    def on_start(self) -> None:
        """Read from now on."""
        self._turn = self.system.turn
        self._transport.start(Switch(self._transport, self, self.broker.direct.header, self._go_direct))

    def _go_direct(self, data: bytes) -> None:
        """Leave the transport to a direct connection."""
        self.ref.run_in_turn(self._hand_over, data)

    def _hand_over(self, data: bytes) -> None:
        self._left = self._handed_over = True
        self._fork(self._transport, data)
        self._stop()

    def _work(self) -> None:
        """Work off events until the turn's budget is used up."""
        turn, events = self._turn, self._events
        found = self.engine.events()
        turn.charged += len(found)  # for what it took to parse them
        events.extend(found)
        while events and turn.spent + turn.charged <= BUDGET:  # as ``Turn.exhausted`` has it, for each event
            event = events.popleft()
            shaking_hands = not self.virtual_host
            try:
                EVENTS[type(event)](self, event)
            except Restarting as error:
                events.appendleft(event)
                self._wait_for(error)
                break
            except PublishingPaused as paused:
                events.appendleft(event)
                self.blocked.pause(paused.pressure)
                break
            if shaking_hands and not events:
                events.extend(self.engine.events())  # our answer may have let the engine read on
        else:
            if events:
                self.go_on_later()
        if self.engine.outbox.unsent or self.engine.outbox.finished:
            self.ref.touch()

    def _wait_for(self, restarting: Restarting) -> None:
        """Wait until an actor that we asked can answer; read nothing until then."""
        self.gates.close("restart")
        self.start_task(self._ask_again, restarting)

    def start_task(self, async_function: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
        """Let something be done that waits; it ends with the endpoint at the latest, and tells us by ``Ref.act``."""
        assert self.ref.parent is not None
        assert isinstance(self.ref.parent.actor, Supervisor)
        self.ref.parent.actor.start_task(async_function, *args)

    async def _ask_again(self, restarting: Restarting) -> None:
        try:
            await restarting.wait_over()
        except ActorStopped:
            pass  # the next try says so
        self.ref.run_in_turn(self.go_on, "restart")

    def ask(self, ref: Ref, request: Request[R]) -> R:
        """Ask an actor of the core in place.

        Raises:
            Restarting: It cannot answer just now; the event that led here is tried again when it can.
            Refused: It says no.
        """
        try:
            return ref.ask_nowait(request)
        except trio.WouldBlock:
            raise Restarting(ref) from None
        except (ActorStopped, HandlerFailed) as error:
            raise AnswerError(541, str(error)) from error

    def begin(self, consumer: Consumer) -> None:
        """Let messages come to a consumer; raises as ``ask`` does."""
        try:
            consumer.begin()
        except trio.WouldBlock:
            raise Restarting(consumer.feed.queue) from None
        except (ActorStopped, HandlerFailed) as error:
            raise AnswerError(541, str(error)) from error

    # Who the client is

    def authenticated(self, user: str) -> None:
        """Know who the client is."""
        self.user = user
        self.note_user()

    def enter(self, virtual_host: str, domain: DomainAccess, access: Access) -> None:
        """Work in a domain from now on, as a session of its own."""
        self.access = access
        self.domain = domain
        session = Session(domain.ref, domain.directory, user=self.user, origin=self._origin())
        self.join(session, domain.directory, virtual_host, access)
        self.reschedule()

    def come_from(self, domain: str) -> bool:
        """Come as a peer, if the client says that it is one; tell whether it may, for no other one has its name."""
        if self.login.instance:
            if not self.broker.origins.come(domain, self._origin(), self.login.instance):
                return False
            self._came_to = domain
        return True

    def _origin(self) -> str:
        """Name where the client comes from: the same after a reconnect, and no other user's."""
        return f"{self.user}@{self.login.origin or self.peer.rpartition(':')[0] or self.peer}"

    # What is too much

    def judge_unfinished(self) -> None:
        """Ask whether publishes that have begun may be, before their bodies are read."""
        if not self._events:  # those come before
            for number, method in self.engine.take_begun():
                begin_publish(self, number, method)
            if self.engine.unfinished_contents and self.blocked.is_to_wait:
                self.blocked.pause(Pressure.MEMORY)
            if self.engine.outbox.unsent:
                self.ref.touch()

    def refuse_unfinished(self, reason: str) -> None:
        """Close with 506: what the client has begun does not come, and others wait."""
        fail(self, 506, reason)
        self.engine.close(506, reason)
        self.ref.touch()

    # What others tell

    def deliver(self, message: Deliver) -> None:
        """Take a batch for one of our consumers; it is encoded at the end of the turn."""
        consumer = message.feed.key
        assert isinstance(consumer, Consumer)
        if consumer.open:
            self.outlet.put(message.batch)
        else:
            self.outlet.put_back(message.batch)

    def feed_closed(self, message: FeedClosed) -> None:
        """Tell the client that its consumer is cancelled (RabbitMQ's consumer_cancel_notify)."""
        consumer = message.feed.key
        assert isinstance(consumer, Consumer)
        self.outlet.drop(consumer)
        consumer.lost(message.feed)
        known = consumer.channel.consumers.pop(consumer.tag, None) is not None
        if known and self.login.client_can("consumer_cancel_notify"):
            consumer.channel.cancelled(consumer.tag)

    def return_message(self, message: ReturnMessage) -> None:
        """Give a message back that was published over a direct connection, which one of our channels has leased."""
        if not self._left:
            give_back(self, message)

    def messages_lost(self, message: MessagesLost) -> None:
        """Tell a client that knows the method how many messages for its direct feed were lost."""
        channel = message.lessee
        assert isinstance(channel, Channel)
        if not self._left and channel.open and self.login.client_can(LOST_CAPABILITY):
            channel.reply(DirectLost(message.feed, message.messages))

    def close_connection(self, message: CloseConnection) -> None:
        """Say goodbye; the client's close-ok ends the connection, or the engine's deadline does."""
        self.end_channels()
        self._close(320, message.reason)

    def _close(self, code: int, reason: str) -> None:
        """Say goodbye; the client's answer is to be read."""
        self.engine.close(code, reason)
        self.blocked.lift()

    def statistics(self) -> ConnectionStatistics | None:
        """Give a snapshot; None outside of a virtual host."""
        if not self.virtual_host:
            return None
        return ConnectionStatistics(
            peer=self.peer,
            user=self.user,
            domain=self.directory.name,
            virtual_host=self.virtual_host,
            channels=len(self.channels),
            consumers=sum(len(channel.consumers) for channel in self.channels.values()),
            since=self._since,
        )

    def due_at(self) -> float:
        """Say when something is to be done: a timer of the engine, a look at what is unsettled, or at who reads."""
        if self._left:
            return self._linger_until
        timer = self.engine.next_timer()
        return min(inf if timer is None else timer, self._look_at_reader, self.timeouts.next, self.blocked.due)

    def watch_unsettled(self, queue: QueueState) -> None:
        """Note that deliveries of a queue are going out that the client is to settle in time."""
        if self.timeouts.watch(queue):
            self.reschedule()

    @property
    def _patience(self) -> float:
        """For how many seconds the client may leave what we sent unread: two heartbeats, or long if it has none."""
        return 2 * self.engine.heartbeat or PATIENCE

    def _watch_reader(self, now: float) -> None:
        """Look now and then whether the client reads, as long as something waits for it to do so."""
        self._look_at_reader = inf if self.outlet.may_write else now + _LOOK

    def tick(self, message: Tick) -> None:
        """Let the engine look at its timers; go when the client had its while, or reads nothing."""
        if self._left:
            self._stop()
            return
        if self.outlet.stuck_for(message.now) >= self._patience:
            # A word about it could not be read either. What is out goes back to its queues.
            self.ending = self.ending or "the client does not read what it is sent"
            self.leave()
            return
        self._watch_reader(message.now)
        self.engine.handle_timer(message.now)
        for event in self.engine.events():
            EVENTS[type(event)](self, event)
        if self.timeouts.next <= message.now:
            self.timeouts.look(message.now, self.channels.values(), self.directory)
        if self.blocked.take_due(message.now):
            fail(self, 506, GAVE_UP)
            self._close(506, GAVE_UP)

    # Writing

    def confirming(self, channel: Channel) -> None:
        """Note that a channel has publishers to tell something."""
        self._confirming[channel] = None
        self.ref.touch()

    def to_wire(self, message: QueueMessage) -> tuple[bytes, bytes]:
        """Give a message's properties, as AMQP writes them, and its body."""
        if message.head.codec == AMQP_CODEC:
            return message.properties, message.body
        return to_amqp(self.broker.codecs.decode(message)), message.body

    def after_batch(self) -> None:
        """Encode what is due, and write once; leave when nothing more will be heard."""
        if self._confirming:
            confirming, self._confirming = self._confirming, {}
            for channel in confirming:
                if channel.open:
                    channel.publisher.confirm()
        self.outlet.flush()
        if not self.outlet.may_write:
            self._wait_for_reader()
        if self.engine.state != "running" and not self._left:
            # The handshake and the end bring timers of their own.
            if self.engine.outbox.finished and not self._events and not self.outlet.is_held:
                self.leave()
            else:
                self.reschedule()

    def _wait_for_reader(self) -> None:
        """Read nothing while too much waits for the client to read, and see that it does."""
        if self.outlet.is_choked:
            self.gates.close("unread replies")
        if self._look_at_reader == inf:
            now = trio.current_time()
            self.outlet.stuck_for(now)  # counts from here
            self._watch_reader(now)
            self.reschedule()

    def leave(self) -> None:
        """Put back what is out and let the session go; a client that has closed in order closes the socket as well."""
        if self.gone or not self.closed_by_client:
            super().leave()
            return
        self.note_closed()
        self._let_go()
        self._handed_over = True
        self._part(self._transport, self.engine, trio.current_time())
        self._stop()

    def hold_replies(self, persistence: Persistence) -> None:
        """Write nothing until the store has what they say: it was just told."""
        number = persistence.sync_point
        if number > persistence.journal.committed:
            self.outlet.hold(number)
            persistence.when_committed(number, partial(self.ref.run_in_turn, self._release_replies, number))

    def _release_replies(self, number: int) -> None:
        self.outlet.release(number)
        self.ref.touch()

    def _write_more(self) -> None:
        """Wake the feeds that waited for the transport; what they deliver is encoded and written by ``after_batch``."""
        self.outlet.drained()
        self.gates.open("unread replies")
        self.ref.touch()

    # Ending

    def end_channel(self, number: int) -> None:
        """Put back what is out on a channel, and forget it."""
        if number in self.channels:
            for _ in self._ending(number, connection_ends=False):
                self._turn.charge(_STEP_COST)

    def _ending(self, number: int, *, connection_ends: bool) -> Iterator[None]:
        """End a channel, step by step."""
        channel = self.channels.pop(number)
        self.broker.quotas.give(self.user, "channels")
        self._confirming.pop(channel, None)
        self.outlet.drop(channel)
        yield
        yield from channel.end(connection_ends=connection_ends)

    def end_channels(self) -> None:
        """End all channels, since the connection ends: what fits into this turn, and the rest in turns of their own.

        Nothing more is delivered meanwhile. As long as there are channels the actor stays, since whatever a queue had
        told one that is gone would be lost.
        """
        if self.channels and self._ending_channels is None:
            self.outlet.window.hold()
            self.outlet.drop_all()
            self._ending_channels = self._ending_all()
        self._go_on_ending()

    def _ending_all(self) -> Iterator[None]:
        for number in list(self.channels):
            if number in self.channels:
                yield from self._ending(number, connection_ends=True)

    def _go_on_ending(self) -> None:
        """End channels until the turn's budget is used up."""
        turn = self._turn
        while self._ending_channels is not None:
            if turn.exhausted:
                trio.lowlevel.current_trio_token().run_sync_soon(self.ref.run_in_turn, self._go_on_ending)
                return
            turn.charge(_STEP_COST)
            if next(self._ending_channels, _OVER) is _OVER:
                self._ending_channels = None
        if self._stops:
            super()._stop()

    def _stop(self) -> None:
        """End this actor, when its last channel has ended."""
        self._stops = True
        if self._ending_channels is None:
            super()._stop()

    @property
    def is_written(self) -> bool:
        """Whether the transport has taken all that it was given: who has half closed may still read."""
        return self.outlet.may_write

    def put_back(self) -> None:
        """End all channels, and be told of no alarm any more."""
        self.end_channels()
        self.blocked.forget()
        if self._came_to:
            self.broker.origins.go(self._came_to, self._origin())

    def abandon(self) -> None:
        """Put back what is out, all at once, and close the transport, unless somebody else has it."""
        for _ in chain(self._ending_channels or (), self._ending_all()):
            pass
        if not self._handed_over:
            super().abandon()
        for name in ("blocked", "timeouts"):  # they hold the connection: cycles, which only the collector would find
            self.__dict__.pop(name, None)
