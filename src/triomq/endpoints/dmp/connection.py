"""One direct connection: an actor in place, driven by its transport.

Its lease says whose it is: it becomes a further connection of that session, which lives until the last of them ends.
Then messages go one way, into a sink or out of a feed, in turns as on AMQP connections.
"""

import logging
from collections import deque

import trio

from triomq.core import (
    Deliver,
    Directory,
    FeedClosed,
    Lease,
    Leases,
    LeaseTarget,
    Pressure,
    PublishingPaused,
    Window,
)
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.endpoint import CloseConnection, ConnectionStatistics, Tick
from triomq.endpoints.base.stream_connection import PATIENCE, StreamConnection
from triomq.endpoints.direct import (
    DirectSubscription,
    FeedPace,
    Grant,
    MessagesLost,
    SinkFlow,
    attach_direct,
    detach_direct,
)
from triomq.endpoints.dmp.answers import Denied
from triomq.endpoints.dmp.events import EVENTS
from triomq.endpoints.dmp.outlet import DirectOutlet
from triomq.endpoints.dmp.sink import DirectSink
from triomq.protocols.dmp import DMPEngine, Event
from triomq.transports import Transport

_PRESSURE, _RETURNS, _FEEDS = "pressure", "unread returns", "slow feeds"
"""Why nothing is read for now."""

_LOOK = 0.5  # seconds between two looks at what nobody tells: that the queue is gone, that returns or octets are read


class DMPConnection(StreamConnection):
    """The actor of one direct connection; a temporary child of the endpoint that accepted it.

    Args:
        transport: The octets; owned from now on.
        engine: The protocol, in the server's role.
        broker: Domains and users.
        leases: Those of the listener; None if it has no direct connections.
    """

    log = logging.getLogger("triomq.dmp")
    closed_event = "direct connection closed"

    def __init__(self, transport: Transport, engine: DMPEngine, broker: BrokerContext, leases: Leases | None) -> None:
        super().__init__(transport, engine, broker)
        self.engine = engine
        self.outlet = DirectOutlet(engine, transport, broker, self.note)
        self.leases = leases
        self._events: deque[Event] = deque()
        self._lease: Lease | None = None
        self.sink: DirectSink | None = None
        self._flow: SinkFlow | None = None  # of a sink
        self._pace: FeedPace | None = None  # of a feed

    @property
    def window(self) -> Window:
        """How many octets may be on their way to the client."""
        return self.outlet.window

    @property
    def _grant(self) -> Grant:
        assert self._lease is not None
        assert isinstance(self._lease.key, Grant)
        return self._lease.key

    # Reading: what the transport calls

    def on_start(self) -> None:
        """Read from now on; say no at once where there are no direct connections."""
        self._turn = self.system.turn
        self._transport.start(self)
        if self.leases is None:
            self._deny(Denied(540, "there are no direct connections at this address"))

    def _work(self) -> None:
        """Work off events until the turn's budget is used up."""
        turn, events = self._turn, self._events
        events.extend(self.engine.events())
        while events and not turn.exhausted and not self._left:
            event = events.popleft()
            try:
                EVENTS[type(event)](self, event)
            except PublishingPaused as paused:
                events.appendleft(event)
                self._pause(paused.pressure)
                break
            except Denied as denied:
                self._deny(denied)
            if not events:
                events.extend(self.engine.events())  # our answer may have let the engine read on
        else:
            if events and not self._left:
                self.go_on_later()
        if self.sink is not None and self.sink.is_choked:
            self.gates.close(_RETURNS)  # it can only be returned, and nobody reads
        if self._flow is not None and self._flow.must_wait():
            self.gates.close(_FEEDS)
        if self.engine.outbox.unsent or self.engine.outbox.finished:
            self.ref.touch()

    def _pause(self, pressure: Pressure) -> None:
        """Read nothing until a pressure is over: who only publishes makes no room."""
        self.gates.close(_PRESSURE)
        if pressure is not Pressure.BEHIND:  # which takes moments
            self.note(logging.WARNING, "direct connection paused", reason=pressure.value)
        self.publisher.when_open(pressure, self._over)

    def _over(self) -> None:
        self.go_on_apart(_PRESSURE)

    def _feeds_follow(self) -> None:
        self.go_on_apart(_FEEDS)

    # What is too much

    def judge_unfinished(self) -> None:
        """Let a client that has begun a message wait while memory is short."""
        waits = _PRESSURE in self.gates.closed
        if self.sink is not None and self.directory.memory.on and not waits and not self._events:
            self._pause(Pressure.MEMORY)

    def refuse_unfinished(self, reason: str) -> None:
        """End: what the client has begun does not come, and others wait."""
        self._deny(Denied(530, reason))

    # Events

    def enter(self, lease: Lease, grant: Grant, directory: Directory) -> None:
        """Become a connection of the lease's session, and begin."""
        self._lease, self.user = lease, lease.session.user
        access = self.broker.users.access(self.user, directory.name)
        self.join(lease.session, directory, grant.virtual_host, access)
        self.note_user()
        if lease.target is LeaseTarget.SINK:
            self._flow = SinkFlow(self.broker.direct_feeds, trio.current_time, self._feeds_follow, self.note)
            self.sink = DirectSink(self, lease.name, grant, self._flow)
            self.engine.accept_sink(lease.name)
        else:
            self.engine.accept_feed(lease.name)
            assert grant.queue is not None
            attach_direct(grant, self)
            self._pace = self.broker.direct_feeds[grant.queue.ref] = FeedPace(grant.queue, self.outlet)
        self.note(logging.INFO, f"direct {lease.target.value} opened", name=lease.name)

    def _deny(self, denied: Denied) -> None:
        """Say why, where that can be said, and end."""
        self.note(logging.WARNING, "direct connection refused", code=denied.code, reason=denied.text)
        self.ending = denied.text
        self._events.clear()
        self.engine.refuse(denied.code, denied.text)
        self.ref.touch()

    # What others tell

    def deliver(self, message: Deliver) -> None:
        """Take a batch for a consumer of the feed's queue; it is encoded at the end of the turn."""
        if self._left:
            self.outlet.put_back(message.batch)
        else:
            self.outlet.put(message.batch)

    def feed_closed(self, message: FeedClosed) -> None:
        """Let the consumer hear that its queue has gone or crashed; end if nothing can ever come again."""
        subscription = message.feed.key
        assert isinstance(subscription, DirectSubscription)
        if subscription.lessee.open:
            subscription.lessee.connection.ref.tell_nowait(message)
        else:
            subscription.lost(message.feed)
            self._end(message.reason)

    def close_connection(self, message: CloseConnection) -> None:
        """Say goodbye where that is possible: behind a feed's messages nothing can be said."""
        if not self._left:
            self._end(message.reason)

    def statistics(self) -> ConnectionStatistics | None:
        """Give a snapshot; None before a lease was accepted, and after the end."""
        if not self.virtual_host:
            return None
        return ConnectionStatistics(
            peer=self.peer,
            user=self.user,
            domain=self.directory.name,
            virtual_host=self.virtual_host,
            channels=0,
            consumers=len(self.session.feeds_to(self.ref)),
            since=self._since,
        )

    # Time

    def due_at(self) -> float:
        """Say when something is to be done: soon at the latest, for there is what nobody tells."""
        if self._left:
            return self._linger_until
        timer, soon = self.engine.next_timer(), trio.current_time() + _LOOK
        return soon if timer is None else min(timer, soon)

    @property
    def _queue_is_gone(self) -> bool:
        lease = self._lease
        return (
            lease is not None
            and self._grant.queue is not None
            and self.directory.queues.get(lease.name) is not self._grant.queue
        )

    def tick(self, message: Tick) -> None:
        """Let the engine look at its timers; go when the client had its while, reads nothing, or the queue is gone."""
        if self._left:
            self._stop()
        elif self.outlet.stuck_for(message.now) >= PATIENCE:
            # A word about it could not be read either. What is out goes back to its queue.
            self._end("the client does not read what it is sent")
        elif self._queue_is_gone:
            self._end("the queue is deleted")
        else:
            if self.sink is not None and not self.sink.is_choked and _RETURNS in self.gates.closed:
                self.go_on(_RETURNS)
            if self._flow is not None:
                self._flow.look()
            if self._pace is not None and self._pace.has_lost(message.now):
                self._tell_lost(self._pace.take_lost(message.now))
            self.engine.handle_timer(message.now)
            self._work()

    def _tell_lost(self, messages: int) -> None:
        """Say in the log, and to who has leased the feed, what could not wait for the client."""
        assert self._lease is not None
        self.note(logging.WARNING, "messages lost", queue=self._lease.name, messages=messages)
        lessee = self._grant.lessee
        if lessee.open:
            lessee.connection.ref.tell_nowait(MessagesLost(lessee, self._lease.name, messages))

    # Writing

    def after_batch(self) -> None:
        """Encode what is due, and write once; leave when nothing more will be heard."""
        self.outlet.flush()
        if self._pace is not None and self._pace.waiting:
            self._pace.look()
        if self.engine.outbox.finished and not self._left and not self._events:
            self.leave()

    def _write_more(self) -> None:
        """Wake the feeds that waited for the transport; what they deliver is encoded and written by ``after_batch``."""
        self.outlet.drained()
        self.ref.touch()

    # Ending

    def _end(self, reason: str) -> None:
        """End for a reason that lies with us."""
        self.ending = self.ending or reason
        self._events.clear()
        self.engine.refuse(530, reason)
        self.ref.touch()

    def put_back(self) -> None:
        """Put back what is out, let consumers get messages at home again, and be told of no alarm any more."""
        self.outlet.put_all_back()
        if self._flow is not None:
            self._flow.close()
        if self._pace is not None:
            queue = self._grant.queue
            assert queue is not None
            if self.broker.direct_feeds.get(queue.ref) is self._pace:
                del self.broker.direct_feeds[queue.ref]
            self._pace.close()
            if lost := self._pace.take_lost(trio.current_time()):
                self._tell_lost(lost)
            detach_direct(self._grant, self)
        self.publisher.forget(self._over)

    def abandon(self) -> None:
        """Put back what is out, and close the transport; called once, or again after a crash in it."""
        super().abandon()
        # These hold the connection: cycles, which only the collector would find.
        self.sink = self._flow = self._pace = None
        self.__dict__.pop("outlet", None)
