"""One peer of the eMQP endpoint: a client, a worker, a scheduler, or one that has not said what it is.

    frames ──> engine.receive ──> event ──> the table below ──> a call of the base
    deliveries ──> WorkerSide.give, or PUBLISH to a client that has subscribed ──> engine ──> frames

Rules:

- What a peer must be sent goes through the base, which lets go a peer that leaves too much unread. What it may miss
  (heartbeats, ACKs to released clients, which never read) is dropped while anything waits for it.
- A REQUEST is ACKed when its queue has it, and what is durable is on disk. What is refused is answered by ERROR where
  the peer knows that, otherwise counted and logged, as all that is malformed.
- READY, REPLY and heartbeats overtake what is parked: they are what makes room again.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final

from triomq.core import (
    Batch,
    Bind,
    CachedRoute,
    Confirms,
    DeclareQueue,
    Head,
    Outcome,
    Overflow,
    Properties,
    PublishingPaused,
    QueueOptions,
    RoutedRun,
    Subscription,
    Target,
    make_binding,
    settle,
    traits_of,
)
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.endpoint import StopListening
from triomq.endpoints.base.peer_listener import PeerListener
from triomq.endpoints.base.router_client import RouterClient
from triomq.endpoints.emqp.content import (
    DEFAULT_QUEUE,
    EMQP_CODEC,
    JSON,
    TOPICS,
    RequestProperties,
    decode_request,
    encode_request,
)
from triomq.endpoints.emqp.schedules import ScheduleBook
from triomq.endpoints.emqp.worker import Job, WorkerSide
from triomq.errors import AccessRefused, LimitExceeded, LocalProtocolError, NotFound, Refused, TriomqError
from triomq.protocols.emqp import (
    NO_EXTENSION,
    NO_HEADERS,
    AdminAsked,
    BrokerEngine,
    Code,
    DisconnectAsked,
    Extension,
    Headers,
    Informed,
    MessageDropped,
    PeerLeaving,
    Replied,
    Requested,
    ScheduleRemoved,
    ScheduleSet,
    Silent,
    SlotsOffered,
    Subscribed,
    TopicPublished,
    Unsubscribed,
    call_problem,
    command,
    complete_call,
    encode_extension,
    parse_headers,
    reply_frames,
    schedule_key,
)
from triomq.timetable import Timetable
from triomq.transports.zmq import Frames

if TYPE_CHECKING:
    from triomq.endpoints.emqp.endpoint import EMQPEndpoint

_SILENT_GUEST: Final = 60.0
"""Seconds until a peer is forgotten that has never said what it is: nothing of it is here but the way back."""

_SUBSCRIBED: Final = 10_000
"""Messages that wait for a subscriber before it loses the oldest."""

_HEADS: Final = 64
"""Heads of one peer: the lengths of what stands before the payload, for each of its queues."""

_SUBSCRIBER: Final = QueueOptions(
    durable=False, exclusive=True, auto_delete=True, max_length=_SUBSCRIBED, overflow=Overflow.DROP_HEAD
)


class _Run:
    """Jobs in a row that are alike."""

    __slots__ = ("contents", "head", "route", "size")

    def __init__(self, route: CachedRoute, head: Head) -> None:
        self.route = route
        self.head = head
        self.contents: list[bytes] = []
        self.size = 0


class EMQPPeer(RouterClient):
    """One peer; its engine knows what it is.

    Args:
        listener: What carries its messages.
        identity: Under which it is found there.
        login: As whom it was let in.
        context: What the broker lends.
        hub: The endpoint.
    """

    silence = inf  # the engine looks after that, as soon as a peer says what it is

    def __init__(
        self, listener: PeerListener, identity: bytes, login: str, context: BrokerContext, hub: "EMQPEndpoint"
    ) -> None:
        super().__init__(listener, identity, login, context)
        self.hub = hub
        self.new_id = hub.new_id
        self.engine: BrokerEngine = hub.make_engine(internal=listener.is_internal)
        self.worker: WorkerSide | None = None
        self.troubles: Counter[str] = Counter()
        self._heads: dict[tuple[str, str, int, bool], Head] = {}
        self._frames: Frames = []  # the message that is being handled
        self._runs: list[_Run] = []  # jobs that have come together
        self._ids: list[bytes] = []
        self._unconfirmed: deque[bytes] = deque()  # ids, by the numbers of ``_confirms``
        self._first = 1  # the number of the first of them
        self._answered: set[int] = set()  # numbers behind the first
        self._confirms: Confirms
        self._topics: dict[str, Subscription] = {}
        self._closing = False
        self._stranger = ""  # why it may not be here

    def started(self) -> None:
        """Work in the endpoint's domain, as the user that was let in; who may not hears that when it says something."""
        try:
            self.enter(self.login, self.hub.domain_name)
        except Refused as refused:
            self._stranger = str(refused)
            return
        self._confirms = Confirms(self.ref.touch, self.directory.persistence, self._committed)
        self.hub.peers[self.identity] = self

    @property
    def last_message(self) -> float:
        """When something came last, on Trio's clock."""
        return self._last_message

    # What comes

    def handle(self, frames: Frames) -> None:
        """Do what a message wants."""
        event = self.engine.receive(frames)
        self._frames = frames
        self.ref.touch()
        if not self.entered:
            raise AccessRefused(self._stranger)
        if event is not None:
            HANDLERS.get(type(event), EMQPPeer.unknown)(self, event)

    def overtakes(self, frames: Frames) -> bool:
        """Return whether a message makes room, or says that the peer is alive."""
        return len(frames) > 2 and frames[2] in _OVERTAKING

    def refused(self, frames: Frames, error: TriomqError) -> None:
        """Tell the peer that a message is refused, if it knows how that is said."""
        code: Code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), "unknown")
        msgid = frames[3] if len(frames) > 3 else b""
        self.refuse(msgid, code, str(error))
        self.ref.touch()
        if not self.entered or frames[2:3] == [b"INFORM"]:  # it is nothing that it could be here
            self.ending = str(error)
            self._flush()
            self.leave()

    def refuse(self, msgid: bytes, code: Code, text: str) -> None:
        """Refuse what has this id."""
        if self.engine.refuse(msgid, code, text):
            self.count("refused")
        else:
            self.count("refused", text, id=msgid[:40].decode("utf-8", "replace"))

    def count(self, trouble: str, reason: str = "", **fields: object) -> None:
        """Count something that went wrong; log it, and less loudly once it has been seen."""
        self.troubles[trouble] += 1
        self.hub.troubles[trouble] += 1
        if reason:
            level = logging.WARNING if self.troubles[trouble] == 1 else logging.DEBUG
            self.note(level, f"{trouble} message", reason=reason, **fields)

    # Roles

    def informed(self, event: Informed) -> None:
        """Begin as what the peer says that it is; nothing is left of what it was."""
        self._forget_role()
        if event.role == "worker":
            self.worker = WorkerSide(self, event.queues)
            try:
                self.worker.begin()
            except TriomqError:
                self._forget_role()
                raise
        elif event.role == "scheduler":
            self.hub.schedulers[self] = None
        self.engine.acknowledge(event.msgid)
        self.note(logging.INFO, f"{event.role} informed", queues=[queue.name for queue in event.queues])
        self.reschedule()

    def _forget_role(self) -> None:
        self.hub.schedulers.pop(self, None)
        if self.worker is not None:
            self.worker.stop()
            self.worker.lost()
            self.worker = None
        for topic in list(self._topics):
            self._unsubscribe(topic)

    def offered(self, event: SlotsOffered) -> None:
        """Let so many jobs come."""
        if self.worker is not None:
            self.worker.slots.offer(event.count)

    def replied(self, event: Replied) -> None:
        """Settle a job."""
        if self.worker is not None:
            self.worker.replied(event)
            self._end_when_done()

    def leaving(self, event: PeerLeaving) -> None:
        """Send no more jobs; answers to those that are out are welcome."""
        if self.worker is not None:
            self.worker.stop()
        self.ending = "the peer has said goodbye"
        self._closing = True
        self.reschedule()
        self._end_when_done()

    def _end_when_done(self) -> None:
        if self._closing and (self.worker is None or not self.worker.out):
            self.leave()

    # Requests

    def requested(self, event: Requested) -> None:
        """Put a job into its queue, or into the default one."""
        name = event.queue or DEFAULT_QUEUE
        queue = name
        if name not in self.directory.queues:
            queue = DEFAULT_QUEUE
            if queue not in self.directory.queues:
                self.ask_unguarded(self.domain, DeclareQueue(queue, QueueOptions(), self.session))
        origin = self._origin(event.msgid, event.headers, event.extension)
        head, content = self._message("", name, origin, event.headers, event.message)
        route = self.routes.find("", queue)
        if event.extension.delay:
            self._publish(route, head, content, event.msgid, event.extension.delay / 1000)
            return
        runs = self._runs
        if not runs or runs[-1].route is not route or runs[-1].head is not head:
            runs.append(_Run(route, head))
        runs[-1].contents.append(content)
        runs[-1].size += len(content)
        self._ids.append(event.msgid)
        self.gathered.append(self._frames)

    def work_off(self) -> None:
        """Publish the jobs that have come together."""
        runs, ids = self._runs, self._ids
        self._runs, self._ids = [], []
        self.publisher.publish_all(
            [RoutedRun(run.route, run.head, run.contents, run.size) for run in runs], self._confirms
        )
        self._unconfirmed += ids

    def published(self, event: TopicPublished) -> None:
        """Publish to a topic."""
        properties = RequestProperties(event.msgid, event.headers.frame, user=self.user)
        head, content = self._message(TOPICS, event.topic, properties, event.headers, event.message)
        self._publish(self.routes.find(TOPICS, event.topic), head, content, event.msgid)

    def _origin(self, msgid: bytes, headers: Headers, extension: Extension) -> RequestProperties:
        return RequestProperties(
            msgid,
            headers.frame,
            self.identity if headers.reply_requested else b"",
            self.user,
            b"" if extension is NO_EXTENSION else encode_extension(extension),
        )

    def _message(
        self, sink: str, name: str, properties: RequestProperties, headers: Headers, message: bytes
    ) -> tuple[Head, bytes]:
        """Return the head and the content of a message."""
        encoded = encode_request(properties)
        shape = (sink, name, len(encoded), headers.guarantee)
        return self._heads.get(shape) or self._head(*shape), encoded + message

    def _head(self, sink: str, name: str, start: int, persistent: bool) -> Head:
        if len(self._heads) >= _HEADS:
            self._heads.clear()
        traits = traits_of(codec=EMQP_CODEC, publisher=self.session.number, persistent=persistent)
        head = self._heads[sink, name, start, persistent] = Head(sink, name, 0, start, start, traits=traits)
        return head

    def _publish(self, route: CachedRoute, head: Head, content: bytes, msgid: bytes, delay: float = 0.0) -> None:
        """Publish a message; ACK follows when it is safe."""
        self.publisher.publish(route, head, [content], len(content), self._confirms, delay=delay)
        self._unconfirmed.append(msgid)

    def require_queue(self, name: str) -> None:
        """Declare a queue if it is not there."""
        if name not in self.directory.queues:
            self.ask(self.domain, DeclareQueue(name, QueueOptions(), self.session))

    def _committed(self) -> None:
        self.ref.touch()  # it ends in ``after_batch``

    def _confirm(self) -> None:
        """ACK what is safe, and refuse what found no room."""
        found = self._confirms.take()
        for number in found.refused:
            self.refuse(self._unconfirmed[number - self._first], "full", "a queue has no room for it")
        self._answered.update(found.refused)
        for number in found.single:
            self.engine.acknowledge(self._unconfirmed[number - self._first])
        self._answered.update(found.single)
        while self._unconfirmed and (self._first <= found.up_to or self._first in self._answered):
            msgid = self._unconfirmed.popleft()
            if self._first in self._answered:
                self._answered.discard(self._first)
            else:
                self.engine.acknowledge(msgid)
            self._first += 1

    # Answers

    def answer(self, job: Job, message: bytes, extension: Extension = NO_EXTENSION) -> None:
        """Bring the answer to a job to its requester, if it is there and wanted one."""
        if job.origin is None:
            if job.reply_to:
                self._answer_elsewhere(job, message)
            return
        if not job.headers.reply_requested:
            return
        peer = self.hub.peers.get(job.origin.identity)
        if peer is not None and peer.login == job.origin.user:
            peer.reply(job.request, message, extension)
        elif not self.hub.answers_strangers or not self._listener.send(
            job.origin.identity, reply_frames(self.new_id(), job.request, message)
        ):
            self.count("unanswered", "the requester has gone", id=job.request[:40].decode("utf-8", "replace"))

    def reply(self, request: bytes, message: bytes, extension: Extension) -> None:
        """Send the peer the answer to its request."""
        if self.engine.carries(message):
            self.engine.reply(request, message, extension)
            self.ref.touch()
        else:
            self.count("unfit", "an answer is not UTF-8, which this peer cannot read")

    def _answer_elsewhere(self, job: Job, message: bytes) -> None:
        """Publish the answer to a job that came over another wire to where it wants it, in that one's place."""
        properties = Properties(content_type=JSON, correlation_id=job.correlation_id, persistent=False)
        try:
            if not self.publish("", job.reply_to, message, properties):
                self.count("unanswered", "there is no such queue any more", reply_to=job.reply_to)
        except (Refused, PublishingPaused) as error:
            self.count("unanswered", str(error), reply_to=job.reply_to)

    # Topics

    def subscribed(self, event: Subscribed) -> None:
        """Let come what is published to a topic."""
        if event.topic not in self._topics:
            name = f"emqp.subscription-{self.session.number}-{event.topic}"[:255]
            state = self.ask(self.domain, DeclareQueue(name, _SUBSCRIBER, self.session))
            self.ask(self.domain, Bind(make_binding(TOPICS, Target.QUEUE, name, event.topic), self.session))
            self._topics[event.topic] = self.subscribe(state.name, no_ack=True)
        self.engine.acknowledge(event.msgid)

    def unsubscribed(self, event: Unsubscribed) -> None:
        """Let no more come of a topic."""
        self._unsubscribe(event.topic)
        self.engine.acknowledge(event.msgid)

    def _unsubscribe(self, topic: str) -> None:
        subscription = self._topics.pop(topic, None)
        if subscription is not None and subscription.open:
            self.unsubscribe(subscription)

    def cancelled(self, subscription: Subscription, reason: str) -> None:
        """Have a worker begin anew, since nothing more comes from a queue: then it subscribes again, or declares it.

        There is no word for that, but released workers inform again when they are told to disconnect.
        """
        self.note(logging.WARNING, "queue lost", reason=reason)
        if self.worker is not None and not self._closing:
            if not self.engine.refuse(b"", "inform", f"{reason}; begin with INFORM"):
                self.engine.disconnect()
            self.ref.touch()

    # What else

    def dropped(self, event: MessageDropped) -> None:
        """Count a message that was none of the protocol's, or out of place."""
        self.count("malformed", event.reason, command=event.command)

    def silent(self, event: Silent) -> None:
        """End."""
        self.ending = "the peer is silent"
        self.leave()

    def disconnect_asked(self, event: DisconnectAsked) -> None:
        """Stop the endpoint, if an administrator asks for that where administrators come in: all peers hear KBAI."""
        user = self.context.users.get(self.user)
        if self._listener is not self.hub.admin or user is None or not user.is_administrator:
            reason = "only an administrator may stop the endpoint, over its admin_port"
            self.refuse(event.msgid, "forbidden", reason)
            return
        self.note(logging.WARNING, "endpoint stopped", reason="DISCONNECT")
        self.engine.acknowledge(event.msgid)
        self._flush()
        self.hub.ref.tell_nowait(StopListening())

    def schedule_set(self, event: ScheduleSet) -> None:
        """Write a schedule into the book, or hand it to the scheduler that came last."""
        if self.hub.book is not None:
            self._set_schedule(self.hub.book, event)
            return
        scheduler = next(reversed(self.hub.schedulers), None)
        if scheduler is None:
            self.refuse(event.msgid, "unknown", "no scheduler is connected")
        elif problem := call_problem(event.message):
            self.refuse(event.msgid, "malformed", problem)  # it would end a released scheduler
        else:
            scheduler.schedule(event.queue, event.headers, event.message, event.interval, event.cron)
            self.engine.acknowledge(event.msgid)

    def _set_schedule(self, book: ScheduleBook, event: ScheduleSet) -> None:
        """Begin a schedule of the broker's own; it is acknowledged when it is on disk."""
        if not self.access.may_write(""):
            raise AccessRefused(f"user {self.user!r} may not publish jobs into queues, and so may schedule none")
        told = event.extension
        timetable = Timetable(
            interval=event.interval,
            cron=event.cron,
            timezone=told.timezone or self.hub.timezone,
            haste=not event.headers.nohaste,
            run_count=event.headers.run_count,
            missed="skip" if told.missed == "skip" else "once",
        )
        book.set(self._schedule_key(event.message), event.queue, event.headers, event.message, self.user, timetable)
        self._acknowledge_when_safe(event.msgid)

    def _schedule_key(self, message: bytes) -> str:
        return f"{schedule_key(message)}-{self.user}"

    def _acknowledge_when_safe(self, msgid: bytes) -> None:
        """ACK what was recorded in this turn."""
        persistence = self.directory.persistence
        if persistence is None:
            self.engine.acknowledge(msgid)
        else:
            safe = partial(self.in_turn, self._acknowledge, msgid)
            persistence.when_committed(persistence.journal.require_commit(), safe)

    def _acknowledge(self, msgid: bytes) -> None:
        self.engine.acknowledge(msgid)
        self._flush()

    def schedule_removed(self, event: ScheduleRemoved) -> None:
        """Have a schedule end, which is in the book, or with all schedulers."""
        if self.hub.book is not None:
            self.hub.book.remove(self._schedule_key(event.message))
            self._acknowledge_when_safe(event.msgid)
            return
        if problem := call_problem(event.message):
            self.refuse(event.msgid, "malformed", problem)
            return
        for scheduler in self.hub.schedulers:
            scheduler.schedule(event.queue, event.headers, event.message)
        self.engine.acknowledge(event.msgid)

    def schedule(self, queue: str, headers: Headers, message: bytes, interval: float = 0.0, cron: str = "") -> None:
        """Give a scheduler a schedule, or without times end one."""
        ends = not interval and not cron
        self.engine.schedule(queue, headers, complete_call(message), interval=interval, cron=cron, ends=ends)
        self.ref.touch()

    def asked(self, event: AdminAsked) -> None:
        """Answer an administrator."""
        user = self.context.users.get(self.user)
        if event.command == "HELLO":
            return
        if user is None or not user.may_monitor:
            raise AccessRefused(f"user {self.user!r} may not look into the broker; it needs the tag monitoring")
        self.engine.reply(event.msgid, self.hub.describe(event.command))

    def unknown(self, event: object) -> None:
        """Pass over what an engine may report that this endpoint does not know."""
        self.count("unknown", type(event).__name__)

    # What goes

    def encode(self, batch: Batch) -> None:
        """Send a batch: jobs to a worker, or publications to a subscriber."""
        if self.worker is not None:
            self.worker.give(batch)
        else:
            for position in batch.unsettled():
                head, message = batch.head_at(position), batch.message(position)
                headers = NO_HEADERS
                if head.traits.codec == EMQP_CODEC:
                    headers = parse_headers(decode_request(message.properties).headers)
                self.engine.publish(head.routing_key, message.body, headers)
            settle(batch, Outcome.ACCEPT)
        self._flush()

    def after_batch(self) -> None:
        """Settle, confirm, send; then deliver what there is room for."""
        if self.entered:
            if self.worker is not None:
                self.worker.settle()
            if self._unconfirmed:
                self._confirm()
        self._flush()
        super().after_batch()

    def _flush(self) -> None:
        if self.engine.outbox.messages:
            self.send_all(self.engine.messages_to_send())
        if self.engine.outbox.notices:
            notices = self.engine.notices_to_send()
            if self._listener.unsent(self.identity):
                self.troubles["unread"] += len(notices)
            else:
                self.send_all(notices)

    # Time and the end

    def due_at(self) -> float:
        """Return when something is due, be it the engine's or the base's."""
        timer = self.engine.next_timer()
        own = self._last_message + _SILENT_GUEST if timer is None else timer
        return min(super().due_at(), own)

    def due(self, now: float) -> None:
        """Let the engine do what is due: heartbeats, silence."""
        super().due(now)
        if self._left:
            return
        event = self.engine.handle_timer(now)
        if self.worker is not None:
            self.worker.give_up_late(now)
        if event is not None:
            HANDLERS.get(type(event), EMQPPeer.unknown)(self, event)
        elif self.engine.state == "guest" and now >= self._last_message + _SILENT_GUEST:
            self.leave()
        elif self.engine.state == "left" and self.worker is not None and self.worker.out:
            # Its jobs are waited for, and only a message can show that nobody is there any more.
            self.send(*command(b"HEARTBEAT", self.new_id(), b"%.6f" % self.context.unix_time()))
        self._flush()

    def closing(self, reason: str) -> None:
        """Say goodbye; a worker may answer what it has, if it is the broker that goes."""
        self.ending = self.ending or reason
        self._closing = True
        self.engine.leave()
        if self.worker is not None:
            self.worker.stop()
        if self.hub.is_stopping:
            self.ref.touch()
            self._end_when_done()
        else:
            self.leave()

    def put_back(self) -> None:
        """Put back the jobs that are out."""
        super().put_back()
        if self.worker is not None:
            self.worker.lost()

    def left(self) -> None:
        """Let the last words go out."""
        self.engine.close()
        self._flush()
        super().left()

    def released(self) -> None:
        """Leave the endpoint's lists too."""
        super().released()
        if self.hub.peers.get(self.identity) is self:
            del self.hub.peers[self.identity]
        self.hub.schedulers.pop(self, None)


_OVERTAKING: Final = frozenset(
    b"READY REPLY HEARTBEAT INFORM KBAI KBYE STATUS ROUTER_SHOW_WORKERS ROUTER_SHOW_SCHEDULERS HELLO".split()
)

_CODES: Final[Mapping[type[TriomqError], Code]] = {
    AccessRefused: "forbidden",
    LimitExceeded: "full",
    NotFound: "unknown",
    Refused: "malformed",
    LocalProtocolError: "malformed",
}

HANDLERS: Final[Mapping[type, Callable[[EMQPPeer, Any], None]]] = {
    Requested: EMQPPeer.requested,
    Replied: EMQPPeer.replied,
    SlotsOffered: EMQPPeer.offered,
    Informed: EMQPPeer.informed,
    TopicPublished: EMQPPeer.published,
    Subscribed: EMQPPeer.subscribed,
    Unsubscribed: EMQPPeer.unsubscribed,
    PeerLeaving: EMQPPeer.leaving,
    MessageDropped: EMQPPeer.dropped,
    Silent: EMQPPeer.silent,
    DisconnectAsked: EMQPPeer.disconnect_asked,
    ScheduleSet: EMQPPeer.schedule_set,
    ScheduleRemoved: EMQPPeer.schedule_removed,
    AdminAsked: EMQPPeer.asked,
}
"""What each event does."""
