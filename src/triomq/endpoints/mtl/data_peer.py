"""One data flow of the MTL endpoint: claims a lease, and then reads or writes under it.

    Lease ──> _claim ──> join the lease's session ──> 200
    Content ─────────────────────> ContentIntake ──> the guarded way in ──> Confirm, Reject
    Summon, Dismiss, Confirm … ──> ContentReader <── the guarded way out <── queues

Rules:

- A peer without a lease leaves nothing here: it has its 403, and is let go.
- Reading never stops. Content that cannot be published now is parked, so many and so large; what is too much is
  rejected for another try, or answered by 503 where nothing is confirmed, and counted. So the client is to keep to a
  window. Confirms and pings overtake what is parked.
- A flow that is silent for a heartbeat, and is not gone for certain, loses its lease to another one that shows the
  token. It is told nothing: its next command is refused (403).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final

import trio

from triomq.core import Batch, PublishingPaused, Restarting, Subscription
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.peer_listener import Frames, PeerListener
from triomq.endpoints.base.statistics import Role
from triomq.endpoints.mtl.intake import ContentIntake
from triomq.endpoints.mtl.leases import DataLease
from triomq.endpoints.mtl.mtl_peer import MTLPeer
from triomq.endpoints.mtl.reader import ContentReader
from triomq.endpoints.mtl.refusals import code_of
from triomq.errors import AccessRefused, ActorError, ActorStopped, HandlerFailed, LimitExceeded, Refused, TriomqError
from triomq.protocols.mtl import (
    ConfirmRun,
    ContentRun,
    ContentsRejected,
    Dismissed,
    IllFormed,
    LeaseClaimed,
    MTLDataServer,
    Summoned,
)

if TYPE_CHECKING:
    from triomq.endpoints.mtl.endpoint import MTLEndpoint

_LEASE, _SUMMON, _DISMISS, _CONTENT = 1, 3, 4, 5
_OVERTAKING: Final = frozenset((1, 2, 6, 7, 8, 9))  # Lease, Response, Confirm, Reject, Ping, Pong

_GRACE: Final = 1.0
"""Seconds in which a client may confirm what it has, and hears what is safe, when the broker ends."""

_LEAST_NUMBERED: Final = 9
"""Octets of a header with a sequence: type and sequence."""

_OF_CONTENT: Final = frozenset((400, 403, 404, 413, 503))
"""Codes of a Response to a Content."""


class MTLDataPeer(MTLPeer):
    """One data flow; see ``MTLPeer``."""

    noun = "data flow"
    most_parked = 1_000  # the contents that a client with a usual window sends before it waits for a Confirm

    lease: DataLease | None = None
    reader: ContentReader | None = None
    intake: ContentIntake | None = None
    _close_at = inf  # when it ends, since the broker does

    def __init__(
        self, listener: PeerListener, identity: bytes, login: str, context: BrokerContext, hub: "MTLEndpoint"
    ) -> None:
        super().__init__(listener, identity, login, context, hub)
        self.engine = MTLDataServer(now=trio.current_time(), settings=hub.settings)

    @property
    def last_message(self) -> float:
        """When something came last, on Trio's clock."""
        return self._last_message

    @property
    def role(self) -> Role | None:
        """What it is, for those who look into the broker."""
        return None if self.lease is None else Role(self.lease.terms.asked.direction, self._last_message)

    @property
    def about(self) -> str:
        """What it is, in a few words."""
        if self.lease is None:
            return "no lease"
        terms = self.lease.terms
        return f"{terms.asked.direction} of {', '.join(terms.asked.resources) or 'any resource'} for {terms.user}"

    # What comes

    def handle(self, frames: Frames) -> None:
        """Do what a message wants."""
        event = self.engine.receive(frames)
        self.ref.touch()
        if isinstance(event, IllFormed):
            self.drop(event)
        elif event is not None:
            try:
                _HANDLERS[type(event)](self, event)
            except (Restarting, PublishingPaused):
                self.engine.put_back()
                raise

    def handle_run(self, messages: Sequence[Frames], start: int) -> int:
        """Take contents that are alike, or confirms, with few calls for all of them."""
        run = self.engine.receive_run(messages, start)
        if run is None:
            return 0
        self.ref.touch()
        if isinstance(run, ConfirmRun):
            self._confirm(run)
            return run.count
        try:
            self._write(run)
        except (Refused, PublishingPaused, ActorStopped, HandlerFailed):
            self.engine.put_back()
            return 0  # ``handle`` meets it again, for each
        return run.count

    def overtakes(self, frames: Frames) -> bool:
        """Return whether a message makes room, or says that the peer is alive."""
        return bool(frames[0]) and frames[0][0] in _OVERTAKING

    def refused(self, frames: Frames, error: TriomqError) -> None:
        """Answer a command that cannot be done, as the specification has it for each."""
        if len(frames[0]) < _LEAST_NUMBERED:
            self.drop(IllFormed("header"))
            return
        kind, sequence = frames[0][0], int.from_bytes(frames[0][1:_LEAST_NUMBERED], "big")
        if kind == _CONTENT:
            self._refuse_content(sequence, error)
        elif kind in (_SUMMON, _DISMISS):
            # A user that may do less hears by 403 what it would hear a moment later, when its lease has ended.
            self.engine.respond(sequence, 403 if isinstance(error, AccessRefused) else 400)
        elif kind == _LEASE:
            self.engine.respond(sequence, 403)
        self.note(logging.DEBUG, "command refused", reason=str(error))
        self.ref.touch()

    def _refuse_content(self, sequence: int, error: TriomqError) -> None:
        if isinstance(error, LimitExceeded | ActorError):  # there is no room now, and may be later
            self.hub.count("not-now", "too much content waits for memory, for the disk or for a queue")
            self.engine.refuse_content(sequence, 503, recycle=True)
            return
        code = code_of(error)
        self.engine.refuse_content(sequence, code if code in _OF_CONTENT else 400)

    # The lease

    def _claim(self, event: LeaseClaimed) -> None:
        """Take a lease that is free, or whose flow is silent."""
        lease = self.hub.leases.find(event.lease)
        if lease is None or lease.terms.let_in_as != self.connection.user or self.hub.is_stopping:
            self.engine.respond(event.sequence, 403)
            return
        other, terms = lease.flow, lease.terms
        if other is not None and trio.current_time() - other.last_message <= self.hub.config.heartbeat:
            self.engine.respond(event.sequence, 403)
            return
        if not self.entered:
            self.join(lease.session, lease.directory, terms.virtual_host)
        self.hub.leases.claim(lease, self)
        self.lease = lease
        if other is not None:
            other.lose_lease("it was silent, and another flow has claimed its lease")
        asked = terms.asked
        self.engine.grant(event, asked.direction, asked.resources, confirm=asked.confirm, log=lease.log)
        if terms.reads:
            self.reader = ContentReader(self, lease)
        else:
            self.intake = ContentIntake(self, lease)
        self.note(logging.INFO, "data flow opened", direction=asked.direction)
        self.reschedule()

    def wake(self) -> None:
        """Look for what can be confirmed, when the turn ends."""
        self.ref.touch()

    def lose_lease(self, reason: str) -> None:
        """Let go of the lease, and end."""
        if not self._left:
            self.ref.run_in_turn(self._lose_lease, reason)

    def _lose_lease(self, reason: str) -> None:
        self._flush()
        self.engine.revoke()
        self.ending = self.ending or reason
        self.leave()

    # Contents

    def _write(self, run: ContentRun) -> None:
        assert self.intake is not None  # the engine knows that it writes
        self.intake.take(run)

    def _summon(self, event: Summoned) -> None:
        assert self.reader is not None
        if self._is_closing or self._close_at < inf:
            # A user that may do less hears what it would a moment later, when the lease has ended.
            self.engine.answer(event, 400 if self.hub.is_stopping else 403)
        else:
            self.reader.summon(event)

    def _dismiss(self, event: Dismissed) -> None:
        assert self.reader is not None
        self.reader.dismiss(event)

    def _confirm(self, run: ConfirmRun) -> None:
        assert self.reader is not None
        self.reader.confirm(run)
        self._end_when_done()

    def _reject(self, event: ContentsRejected) -> None:
        assert self.reader is not None
        self.reader.reject(event)
        self._end_when_done()

    def cancelled(self, subscription: Subscription, reason: str) -> None:
        """Go on when a queue runs again; tell the client when it has gone."""
        if self.reader is not None:
            self.reader.queue_lost(subscription, reason)
            self.ref.touch()

    # What goes

    def encode(self, batch: Batch) -> None:
        """Send a batch."""
        assert self.reader is not None, "only readers subscribe"
        self.reader.give(batch)
        self._flush()

    def after_batch(self) -> None:
        """Confirm, send; then deliver what there is room for."""
        if self.lease is not None and self.lease.flow is self and self.lease.confirms is not None:
            self.lease.confirms.tell(self.engine)
            self._end_when_done()
        self._flush()
        super().after_batch()
        if self.lease is None and not self._left:
            self.ending = self.ending or "it has no lease"
            self.leave()

    def _flush(self) -> None:
        if messages := self.engine.messages_to_send():
            self.send_all(messages)

    # Time

    def due_at(self) -> float:
        """Return when something is due, be it the engine's or the base's."""
        timer = self.engine.next_timer()
        own = min(super().due_at(), self._close_at)
        return own if timer is None else min(own, timer)

    def due(self, now: float) -> None:
        """Ping a peer that is quiet, and let go one that is silent."""
        super().due(now)
        if self._left:
            return
        if now >= self._close_at:
            self.leave()
        elif self.engine.handle_timer(now) is not None:
            self.mark_lost("the peer is silent")
            self.leave()
        self._flush()

    # The end

    def closing(self, reason: str) -> None:
        """End the lease, since its user may do less or nothing; or end soon, since the broker ends."""
        self.ending = self.ending or reason
        if not self.hub.is_stopping:
            if self.lease is not None:
                self.hub.leases.end(self.lease, reason)
            self.leave()
            return
        if self.reader is not None:
            self.reader.stop()
        self._close_at = trio.current_time() + _GRACE
        self._end_when_done()
        self.reschedule()

    def _end_when_done(self) -> None:
        """Leave, if the broker ends and nothing is open any more."""
        if self._close_at < inf and not self._left and not self._is_open:
            self._flush()
            self.leave()

    @property
    def _is_open(self) -> bool:
        if self.lease is None or not self.lease.terms.confirms:
            return False
        return self.outstanding > 0 or (self.lease.confirms is not None and self.lease.confirms.is_open)

    def put_back(self) -> None:
        """Let go of the lease, which another flow may claim."""
        super().put_back()
        if self.reader is not None:
            self.reader.stop()
        if self.lease is not None and self.lease.flow is self:
            self.hub.leases.let_go(self.lease)

    def left(self) -> None:
        """Let the last words go out."""
        self.engine.close()
        self._flush()
        super().left()


_HANDLERS: Final[Mapping[type, Callable[[MTLDataPeer, Any], None]]] = {
    LeaseClaimed: MTLDataPeer._claim,
    Summoned: MTLDataPeer._summon,
    Dismissed: MTLDataPeer._dismiss,
    ContentRun: MTLDataPeer._write,
    ConfirmRun: MTLDataPeer._confirm,
    ContentsRejected: MTLDataPeer._reject,
}
"""What each command does."""
