"""One direct connection: what is DMP's own of a client on a stream.

Its lease tells whose it is: it becomes a further connection of that session, which lives until the last of them ends.
Then messages go one way, into a sink or out of a feed, in turns as on AMQP connections.
"""

import logging

import trio

from triomq.core import (
    Batch,
    Directory,
    Lease,
    Leases,
    LeaseTarget,
    Pressure,
    Subscription,
)
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.stream_client import StreamClient
from triomq.endpoints.direct import (
    DirectFeedClosed,
    DirectLimits,
    DirectProtocol,
    DirectSubscription,
    FeedPace,
    Grant,
    MessagesLost,
    SinkFlow,
    add_direct,
    attach_direct,
    detach_direct,
    remove_direct,
)
from triomq.endpoints.dmp.encoding import FeedEncoder
from triomq.endpoints.dmp.events import EVENTS
from triomq.endpoints.dmp.refusals import LeaseDenied, denial_of
from triomq.endpoints.dmp.sink import DirectSink
from triomq.errors import TriomqError
from triomq.protocols.dmp import PROTOCOL_HEADER, DMPEngine, Event, Settings
from triomq.transports import Transport

_RETURNS, _FEEDS = "unread returns", "slow feeds"
"""Why nothing is read for now."""

_LOOK = (
    0.5  # seconds between two looks at what no message tells: that the queue is gone, that returns or bytes are read
)


class DMPServerConnection(StreamClient):
    """The actor of one direct connection; a temporary child of the endpoint that accepted it.

    Args:
        transport: The bytes; owned from now on.
        engine: The protocol, in the server's role.
        context: Domains and users.
        leases: Those of the listener; None if it has no direct connections.
    """

    kind = "direct"
    noun = "direct connection"
    tag = "dmp"
    log = logging.getLogger("triomq.dmp")
    event_handlers = EVENTS

    def __init__(self, transport: Transport, engine: DMPEngine, context: BrokerContext, leases: Leases | None) -> None:
        super().__init__(transport, engine, context)
        self.engine = engine
        self.leases = leases
        self._encoder = FeedEncoder(engine, context.codecs, self.note)
        self._lease: Lease | None = None
        self.sink: DirectSink | None = None
        self._flow: SinkFlow | None = None  # of a sink
        self._pace: FeedPace | None = None  # of a feed

    @property
    def taken(self) -> int:
        """Bytes of messages that the transport was given."""
        return self._encoder.taken

    @property
    def progress(self) -> int:
        """Grows whenever the client has read something, and the transport was given more or sent some of the rest."""
        return self._encoder.taken + self._transport.progress

    @property
    def _grant(self) -> Grant:
        assert self._lease is not None
        assert isinstance(self._lease.key, Grant)
        return self._lease.key

    # Reading: what the transport calls

    def started(self) -> None:
        """Refuse at once where there are no direct connections."""
        if self.leases is None:
            self._deny(LeaseDenied(540, "there are no direct connections at this address"))

    def work_off(self) -> None:
        super().work_off()
        if self.sink is not None and self.sink.is_choked:
            self.gates.close(_RETURNS)  # it can only be returned, and is not read
        if self._flow is not None and self._flow.must_wait():
            self.gates.close(_FEEDS)

    def refused(self, event: Event, error: TriomqError) -> None:
        """Send the code, where one can be sent, and end."""
        self._deny(denial_of(error))

    def _feeds_follow(self) -> None:
        self.in_turn(self.go_on, _FEEDS)

    # What is too much

    def judge_unfinished(self) -> None:
        """Pause a client that has begun a message while memory is short: one that only publishes makes no room."""
        if self.sink is not None and self.directory.memory.on and not self._events:
            self.pause(Pressure.MEMORY)

    def refuse_unfinished(self, reason: str) -> None:
        """End: what the client has begun does not come, and others wait."""
        self._deny(LeaseDenied(530, reason))

    # Events

    def take_up(self, lease: Lease, grant: Grant, directory: Directory) -> None:
        """Become a connection of the lease's session, and begin."""
        self._lease = lease
        self.join(lease.session, directory, grant.virtual_host)
        add_direct(grant, self.ref)
        if lease.target is LeaseTarget.SINK:
            self._flow = SinkFlow(self.context.direct_feeds, trio.current_time, self._feeds_follow, self.note)
            self.sink = DirectSink(self, lease.name, grant, self._flow)
            self.engine.accept_sink(lease.name)
        else:
            self.engine.accept_feed(lease.name)
            assert grant.queue is not None
            attach_direct(grant, self)
            self._pace = self.context.direct_feeds[grant.queue.ref] = FeedPace(grant.queue, self)
        self.note(logging.INFO, f"direct {lease.target.value} opened", name=lease.name)

    def _deny(self, denied: LeaseDenied) -> None:
        """Send why, where that is possible, and end."""
        self.note(logging.WARNING, "direct connection refused", code=denied.code, reason=denied.text)
        self.ending = denied.text
        self._events.clear()
        self.engine.refuse(denied.code, denied.text)
        self.ref.touch()

    # What others tell

    def encode(self, batch: Batch) -> None:
        """Encode messages of the feed; they count as accepted."""
        self._encoder.encode(batch)

    def cancelled(self, subscription: Subscription, reason: str) -> None:
        """Tell the lessee that the queue has gone or crashed; end if nothing can ever come again."""
        assert isinstance(subscription, DirectSubscription)
        if subscription.lessee.open:
            subscription.lessee.connection.ref.tell_nowait(DirectFeedClosed(subscription, reason))
        else:
            self._end(reason)

    def closing(self, reason: str) -> None:
        """Send why, where that is possible: behind a feed's messages there is no room for it."""
        self._end(reason)

    @property
    def consumers(self) -> int:
        """How many consumers get their messages here."""
        return len(self.session.feeds_to(self.ref))

    # Time

    def due_at(self) -> float:
        """Return when something is to be done: soon at the latest, for some things no message tells."""
        return super().due_at() if self._left else min(super().due_at(), trio.current_time() + _LOOK)

    @property
    def _queue_is_gone(self) -> bool:
        lease = self._lease
        return (
            lease is not None
            and self._grant.queue is not None
            and self.directory.queues.get(lease.name) is not self._grant.queue
        )

    def due(self, now: float) -> None:
        """Look at timers, and at what no message tells; end if the queue is gone."""
        if not self._left and self._queue_is_gone:
            self._end("the queue is deleted")
            return
        super().due(now)
        if self._left:
            return
        if self.sink is not None and not self.sink.is_choked and _RETURNS in self.gates.closed:
            self.go_on(_RETURNS)
        if self._flow is not None:
            self._flow.look()
        if self._pace is not None and self._pace.has_lost(now):
            self._tell_lost(self._pace.take_lost(now))

    def _tell_lost(self, messages: int) -> None:
        """Log what could not wait for the client, and tell the lessee."""
        assert self._lease is not None
        self.note(logging.WARNING, "messages lost", queue=self._lease.name, messages=messages)
        lessee = self._grant.lessee
        if lessee.open:
            lessee.connection.ref.tell_nowait(MessagesLost(lessee, self._lease.name, messages))

    # Writing

    def after_batch(self) -> None:
        """Encode what is due, and write once; leave when nothing more will come."""
        super().after_batch()
        if self._pace is not None and self._pace.waiting:
            self._pace.look()

    # Ending

    def _end(self, reason: str) -> None:
        """End for a reason that lies with us."""
        self.ending = self.ending or reason
        self._events.clear()
        self.engine.refuse(530, reason)
        self.ref.touch()

    def put_back(self) -> None:
        """Put back what is out, send consumers their messages at home again, and wait for no feed any more."""
        super().put_back()
        remove_direct(self._grant, self.ref)
        if self._flow is not None:
            self._flow.close()
        if self._pace is not None:
            queue = self._grant.queue
            assert queue is not None
            if self.context.direct_feeds.get(queue.ref) is self._pace:
                del self.context.direct_feeds[queue.ref]
            self._pace.close()
            if lost := self._pace.take_lost(trio.current_time()):
                self._tell_lost(lost)
            detach_direct(self._grant, self)

    def released(self) -> None:
        """Close the transport."""
        super().released()
        # These hold the connection: cycles, which only the collector would find.
        self.sink = self._flow = self._pace = None
        self.__dict__.pop("_encoder", None)


def _connect(
    transport: Transport, context: BrokerContext, leases: Leases | None, limits: DirectLimits
) -> DMPServerConnection:
    largest = context.unfinished.largest(limits.message_size)
    settings = Settings(max_message_size=largest, heartbeat=limits.heartbeat)
    engine = DMPEngine("server", now=trio.current_time(), settings=settings)
    return DMPServerConnection(transport, engine, context, leases)


DMP = DirectProtocol(PROTOCOL_HEADER, _connect)
"""Direct connections that speak DMP (6/DMP), for the listener on whose port they come."""
