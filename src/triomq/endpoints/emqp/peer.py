"""One peer of the eMQP endpoint: a client, a worker, a scheduler, or one that has not said what it is.

    frames ──> engine.receive ──> event ──> _HANDLERS ─┬─> MessageIntake: REQUEST, PUBLISH, and their ACKs
                                                       ├─> WorkerSide: READY, REPLY
                                                       └─> ``handlers``: all others
    deliveries ──> WorkerSide.give, or SubscriberSide.give ──> engine ──> frames

Rules:

- What a peer must be sent goes through the base, which lets go a peer that leaves too much unread. What it may miss
  (heartbeats, ACKs to released clients, which never read) is dropped while anything waits for it.
- What is refused is answered by ERROR where the peer knows that, otherwise counted and logged, as all that is
  malformed.
- READY, REPLY and heartbeats overtake what is parked: they are what makes room again.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from math import inf
from typing import TYPE_CHECKING, Any, Final

from triomq.core import Batch, PublishingPaused, Subscription
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.peer_listener import Frames, PeerListener
from triomq.endpoints.base.router_client import RouterClient
from triomq.endpoints.base.statistics import Role
from triomq.endpoints.emqp.handlers import HANDLERS
from triomq.endpoints.emqp.intake import MessageIntake
from triomq.endpoints.emqp.refusals import code_of
from triomq.endpoints.emqp.roles import describe, role_of
from triomq.endpoints.emqp.subscriber import SubscriberSide
from triomq.endpoints.emqp.worker import WorkerSide
from triomq.errors import AccessRefused, ActorStopped, HandlerFailed, Refused, TriomqError
from triomq.protocols.emqp import (
    BrokerEngine,
    Code,
    Extension,
    MessageDropped,
    PeerLeaving,
    Replied,
    ReplyRun,
    Requested,
    RequestRun,
    Silent,
    SlotsOffered,
    TopicPublished,
    command,
)

if TYPE_CHECKING:
    from triomq.endpoints.emqp.endpoint import EMQPEndpoint

_SILENT_GUEST: Final = 60.0
"""Seconds until a peer is forgotten that has never said what it is: nothing of it is here but the way back."""

_MOST_UNREAD: Final = 64 * 1024 * 1024
"""Bytes of answers that a peer may leave unread. They come when workers are done and not when the peer reads: one that
has ten thousand jobs out, and is busy with something else for a second, finds as many."""


class EMQPPeer(RouterClient):
    """One peer; its engine knows what it is.

    Args:
        listener: What carries its messages.
        identity: Under which it is found there.
        login: As whom it was let in.
        context: What the broker lends.
        hub: The endpoint.
    """

    tag = "emqp"
    most_unread = _MOST_UNREAD
    silence = inf  # the engine looks after that, as soon as a peer says what it is

    def __init__(
        self, listener: PeerListener, identity: bytes, login: str, context: BrokerContext, hub: "EMQPEndpoint"
    ) -> None:
        super().__init__(listener, identity, login, context)
        self.hub = hub
        self.new_id = hub.new_id
        self.engine: BrokerEngine = hub.make_engine(internal=listener.is_internal)

    # As for ``Client``: what most idle peers never set stands with the class, and is made when it is used.

    worker: WorkerSide | None = None
    subscriber: SubscriberSide | None = None
    called = ""  # what it calls itself
    _known_as = b""
    _closing = False
    _stranger = ""  # why it may not be here
    _frames: Frames  # the message that is being handled
    _intake: MessageIntake | None = None

    def started(self) -> None:
        """Work in the endpoint's domain, as the user that was let in; who may not hears that when it says something."""
        try:
            self.enter(self.login, self.hub.domain_name)
        except Refused as refused:
            self._stranger = str(refused)
            return
        there = self.hub.peers.get(self.identity)
        # What a connection said last may come behind its successor.
        if there is None or there.has_left or there.identity == self.identity:
            self.hub.peers[self.identity] = self

    @property
    def known_as(self) -> bytes:
        """Under which its requests and their answers are found: its identity, or that of its first connection."""
        return self._known_as or self.identity

    def succeed(self, identity: bytes) -> "EMQPPeer | None":
        """Be known by the identity of an earlier connection from now on; return who is known by it, if anybody.

        Raises:
            AccessRefused: That is another user's.
        """
        before = self.hub.peers.get(identity)
        if before is self:
            return None
        if before is not None and before.login != self.login:
            raise AccessRefused("the identity of your earlier connection is another user's")
        if self.hub.peers.get(self.known_as) is self:
            del self.hub.peers[self.known_as]
        self._known_as = identity
        self.hub.peers[identity] = self
        if self._intake is not None:
            self._intake.rename()
        return before

    def make_way(self) -> None:
        """End, since the peer has come back on another connection, and took with it what it has."""
        self.mark_lost("the peer has come back on another connection")
        self.leave()

    @cached_property
    def troubles(self) -> Counter[str]:
        """What went wrong with its messages, and how often."""
        return Counter()

    @property
    def intake(self) -> MessageIntake:
        """What takes its REQUESTs and PUBLISHes; workers have none."""
        if self._intake is None:
            self._intake = MessageIntake(self)
        return self._intake

    @property
    def last_message(self) -> float:
        """When something came last, on Trio's clock."""
        return self._last_message

    @property
    def role(self) -> Role:
        """What it is, for those who look into the broker."""
        return role_of(self)

    @property
    def about(self) -> str:
        """What it is, in a few words."""
        return describe(self)

    @property
    def outstanding(self) -> int:
        """How many jobs it has."""
        return 0 if self.worker is None else len(self.worker.out)

    @property
    def is_at_admin_port(self) -> bool:
        """Whether it has come where administrators come in."""
        return self._listener is self.hub.admin

    # What comes

    def handle(self, frames: Frames) -> None:
        """Do what a message wants."""
        event = self.engine.receive(frames)
        self._frames = frames
        self.ref.touch()
        if not self.entered:
            raise AccessRefused(self._stranger)
        if event is not None:
            _HANDLERS.get(type(event), EMQPPeer.unknown)(self, event)

    def handle_run(self, messages: Sequence[Frames], start: int) -> int:
        """Take jobs that are alike, or what a worker says of those that it has, with few calls for all of them."""
        run = self.engine.receive_run(messages, start) if self.entered else None
        if run is None:
            return 0
        self.ref.touch()
        if isinstance(run, ReplyRun):
            self._worked(run)
            return run.count
        try:
            gathers = self.intake.request(run)
        except (Refused, PublishingPaused, ActorStopped, HandlerFailed):
            return 0  # ``handle`` meets it again, for each
        if gathers:
            self.gathered += messages[start : start + run.count]
        return run.count

    def _worked(self, run: ReplyRun) -> None:
        if self.worker is not None:
            if run.replies:
                self.worker.replied(run.replies)
            if run.slots:
                self.worker.slots.offer(run.slots)
            self.end_when_done()

    def overtakes(self, frames: Frames) -> bool:
        """Return whether a message makes room, or says that the peer is alive."""
        return len(frames) > 2 and frames[2] in _OVERTAKING

    def requested(self, event: Requested) -> None:
        """Take a job; ``work_off`` publishes it with others."""
        run = RequestRun(event.queue, event.headers, event.extension, (event.msgid,), (event.message,))
        if self.intake.request(run):
            self.gathered.append(self._frames)

    def work_off(self) -> None:
        """Publish the jobs that have come together."""
        self.intake.publish_runs()

    def published(self, event: TopicPublished) -> None:
        """Publish to a topic."""
        self.intake.publish(event)

    # Troubles

    def refused(self, frames: Frames, error: TriomqError) -> None:
        """Tell the peer that a message is refused, if it knows how that is said."""
        self.refuse(frames[3] if len(frames) > 3 else b"", code_of(error), str(error))
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

    def dropped(self, event: MessageDropped) -> None:
        """Count a message that was none of the protocol's, or out of place."""
        self.count("malformed", event.reason, command=event.command)

    def unknown(self, event: object) -> None:
        """Pass over what an engine may report that this endpoint does not know."""
        self.count("unknown", type(event).__name__)

    # A worker's words

    def offered(self, event: SlotsOffered) -> None:
        """Let so many jobs come."""
        self._worked(ReplyRun((), event.count, 1))

    def replied(self, event: Replied) -> None:
        """Settle a job, or have it tried again."""
        self._worked(ReplyRun(((event.request, event.message, event.extension),), 0, 1))

    def cancelled(self, subscription: Subscription, reason: str) -> None:
        """Have a worker begin anew, since nothing more comes from a queue: then it subscribes again, or declares it.

        There is no word for that, but released workers inform again when they are told to disconnect.
        """
        self.note(logging.WARNING, "queue lost", reason=reason)
        if self.worker is not None and not self._closing:
            if not self.engine.refuse(b"", "inform", f"{reason}; begin with INFORM"):
                self.engine.disconnect()
            self.ref.touch()

    # What goes

    def reply_all(self, replies: Sequence[tuple[bytes, bytes, Extension]]) -> None:
        """Send the peer answers to its requests: the request, the message, the extension."""
        carries = self.engine.carries
        fit = [reply for reply in replies if carries(reply[1])]
        for _ in range(len(replies) - len(fit)):
            self.count("unfit", "an answer is not UTF-8, which this peer cannot read")
        self.engine.reply_all(fit)
        self.ref.touch()

    def acknowledge_when_safe(self, msgid: bytes, *, duplicate_of: bytes = b"") -> None:
        """ACK what was recorded in this turn, or before, when it is on disk."""
        persistence = self.directory.persistence
        if persistence is None:
            self.engine.acknowledge(msgid, duplicate_of=duplicate_of)
        else:
            safe = partial(self.in_turn, self.acknowledge_now, msgid, duplicate_of)
            persistence.when_committed(persistence.journal.require_commit(), safe)

    def acknowledge_now(self, msgid: bytes, duplicate_of: bytes = b"") -> None:
        """Send ACK at once."""
        self.engine.acknowledge(msgid, duplicate_of=duplicate_of)
        self._flush()

    def encode(self, batch: Batch) -> None:
        """Send a batch: jobs to a worker, or publications to a subscriber."""
        side = self.worker or self.subscriber
        assert side is not None, "neither of them has subscribed"
        side.give(batch)
        self._flush()

    def after_batch(self) -> None:
        """Settle, confirm, send; then deliver what there is room for."""
        if self.entered:
            if self.worker is not None:
                self.worker.settle()
            if self._intake is not None:
                self._intake.confirm()
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

    # Time

    def due_at(self) -> float:
        """Return when something is due, be it the engine's or the base's."""
        timer = self.engine.next_timer()
        own = self._last_message + _SILENT_GUEST if timer is None else timer
        late = inf if self.worker is None else self.worker.next_deadline
        return min(super().due_at(), own, late)

    def due(self, now: float) -> None:
        """Let the engine do what is due: heartbeats, silence."""
        super().due(now)
        if self._left:
            return
        event = self.engine.handle_timer(now)
        if self.worker is not None:
            self.worker.give_up_late(now)
        if event is not None:
            _HANDLERS.get(type(event), EMQPPeer.unknown)(self, event)
        elif self.engine.state == "guest" and now >= self._last_message + _SILENT_GUEST:
            self.leave()
        elif self.engine.state == "left" and self.worker is not None and not self.worker.is_done:
            # Its jobs are waited for, and only a message can show that nobody is there any more.
            self.send(*command(b"HEARTBEAT", self.new_id(), b"%.6f" % self.context.unix_time()))
        self._flush()

    # The end

    def leaving(self, event: PeerLeaving) -> None:
        """Send no more jobs; answers to those that are out are welcome."""
        if self.worker is not None:
            self.worker.stop()
        self.ending = "the peer has said goodbye"
        self._closing = True
        self.reschedule()
        self.end_when_done()

    def silent(self, event: Silent) -> None:
        """End."""
        self.mark_lost("the peer is silent")
        self.leave()

    def closing(self, reason: str) -> None:
        """Say goodbye; a worker may answer what it has, if it is the broker that goes."""
        self.ending = self.ending or reason
        self._closing = True
        self.engine.leave()
        if self.worker is not None:
            self.worker.stop()
        if self.hub.is_stopping:
            self.ref.touch()
            self.end_when_done()
        else:
            self.leave()

    def end_when_done(self) -> None:
        """Leave, if that was said and nothing is out any more."""
        if self._closing and (self.worker is None or self.worker.is_done):
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
        if not self.hub.is_stopping and self.hub.peers.get(self.known_as) is self:
            self.hub.jobs.endings.requester_left(self.known_as)
        super().left()

    def released(self) -> None:
        """Leave the endpoint's lists too."""
        super().released()
        if self.hub.peers.get(self.known_as) is self:
            del self.hub.peers[self.known_as]
        self.hub.schedulers.pop(self, None)


_OVERTAKING: Final = frozenset(
    b"READY REPLY PROGRESS RETURN HEARTBEAT INFORM KBAI KBYE STATUS ROUTER_SHOW_WORKERS ROUTER_SHOW_SCHEDULERS "
    b"HELLO".split()
)

_HANDLERS: Final[Mapping[type, Callable[[EMQPPeer, Any], None]]] = {
    Requested: EMQPPeer.requested,
    Replied: EMQPPeer.replied,
    SlotsOffered: EMQPPeer.offered,
    TopicPublished: EMQPPeer.published,
    PeerLeaving: EMQPPeer.leaving,
    MessageDropped: EMQPPeer.dropped,
    Silent: EMQPPeer.silent,
    **HANDLERS,
}
"""What each event does."""
