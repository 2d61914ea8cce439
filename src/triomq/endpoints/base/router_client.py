"""A client found by its identity: begins with a message, ends by silence, and has a line and an outbox of its own.

    PeerListener ──── messages ──> received ─┬─ handle(frames)
                                             ├─ PublishingPaused, Restarting: parked, and tried again later
                                             ├─ too many are parked: refused(frames, error)
                                             └─ Refused: refused(frames, error)
    send(frames) ──> PeerListener ──> the peer's connection, or its outbox
    delivered ──> outgoing ── encode(batch) ──> send …      only while nothing waits in the outbox

Rules:

- Reading a peer does not stop: its acks make room, and it may be several clients. So what must wait is parked: a
  bounded number of messages, and then they are refused. What came later stays behind what is parked, so that the order
  holds; acks overtake (``overtakes``).
- A peer that is ahead of consumers is read all the same (see ``triomq.core.publishing.credit``): for the same reason,
  and because a parked publish may end as a refused one. What bounds it is what its protocol answers.
- Replies are sent at once. Deliveries are encoded when everything before them has left, so that what a slow peer has
  not been sent can go back to its queue unmarked. The window counts from the queue's hand-out until it has left.
- A peer that leaves too many replies unread is let go: it cannot be kept from asking for more.
- Silence is the only sign that a peer is gone, beside a connection that is not there when something is sent to it. A
  protocol therefore has its peers send something now and then, and answers that, so that they know the same of the
  broker.
- A peer that comes back under the same identity within that time is the same client. A client that has ended, or has
  crashed, is followed by a new one with the peer's next message: a protocol that has such peers say hello first can
  tell them that nothing is left of what they had.
"""

import logging
from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b
from math import inf
from typing import ClassVar, TypeVarTuple, final

import trio

from triomq.core import Batch, Directory, PublishingPaused, Restarting, Subscription, Window
from triomq.endpoints.base.client import Client
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.delivery_writer import UNREAD_BYTES, WINDOW_BYTES, WRITE_BYTES
from triomq.endpoints.base.domain_work import return_unseen
from triomq.endpoints.base.peer_listener import PARKED_BYTES, Frames, PeerListener
from triomq.endpoints.base.stream_client import PATIENCE
from triomq.errors import ActorStopped, HandlerFailed, LimitExceeded, Refused, TriomqError
from triomq.security import ALL, Access

Ts = TypeVarTuple("Ts")

_WINDOW_MESSAGES = 1000
"""Messages on the way to one client: each is a call to libzmq, and its frames take memory beside their bytes."""

_LINGER = 1.0
"""Seconds that a peer gets to take our last words from its outbox."""


class RouterClient(Client):
    """Base of clients that come over a ROUTER.

    Args:
        listener: What carries its messages.
        identity: Under which its peer is found there.
        login: As whom the peer was let in; ``started`` is to ``enter`` a domain with it.
        context: What the broker lends.
    """

    kind = "peer"
    noun = "peer"

    silence: float = 30.0
    """Seconds without any message after which the peer counts as gone."""

    patience: ClassVar[float] = PATIENCE
    """Seconds that the peer may take nothing of what waits for it."""

    most_unread: ClassVar[int] = UNREAD_BYTES
    """Bytes of answers that the peer may leave unread; more where they come when others have done something."""

    most_parked: ClassVar[int] = 100
    """Messages that may wait for the end of a pressure: more than a peer sends that waits for answers."""

    cuts_itself: ClassVar[bool] = False
    """Whether ``handle`` puts off what is too much for a turn."""

    _parked_bytes = 0
    _count = 0  # messages that are encoded, and that the window counts
    _size = 0  # bytes of these
    _linger_until = inf
    _lost = False  # whether its peer is known to be gone
    _goes_on = False  # whether ``drained`` will be called in a turn of its own

    def __init__(self, listener: PeerListener, identity: bytes, login: str, context: BrokerContext) -> None:
        super().__init__(context, shown_identity(context, identity))
        self.identity = identity
        self.key: Hashable = identity
        """By which its listener finds it: another one where its peer has several clients."""
        self.login = login
        self.window: Window = Window(_WINDOW_MESSAGES, bytes=WINDOW_BYTES)
        self._listener = listener
        self._last_message = trio.current_time()
        self._parked: list[Frames] = []  # few, and an empty deque takes 700 bytes
        self.gathered: list[Frames] = []
        """Messages that ``handle`` has looked at, and whose work is done by ``work_off`` when all are looked at."""
        self._outgoing: list[Batch] = []
        self._later: list[Frames] = []  # what has come, and was too much for one turn

    def _admit(self, user: str, directory: Directory) -> Access:
        return Access(ALL) if self._listener.is_internal else super()._admit(user, directory)

    # Hooks: what a protocol defines, beside those of ``Client``

    def handle(self, frames: Frames) -> None:
        """Do what a message wants; may raise ``Refused``, ``Restarting`` and ``PublishingPaused``."""
        raise NotImplementedError

    def handle_run(self, messages: Sequence[Frames], start: int) -> int:
        """Do what messages in a row want, from a place on, with fewer calls than ``handle`` takes for each.

        Returns:
            How many they are; 0 if the first of them is to be handled singly, which tells what is wrong with it.
        """
        return 0

    def work_off(self) -> None:
        """Do what the messages in ``gathered`` want, all of it or nothing; may raise what ``handle`` may."""

    def overtakes(self, frames: Frames) -> bool:
        """Return whether a message need not wait behind those that are parked, such as an ack."""
        return False

    def refused(self, frames: Frames, error: TriomqError) -> None:
        """Tell the peer that a message is refused, or leave, as this does."""
        self.ending = self.ending or str(error)
        self.leave()

    def encode(self, batch: Batch) -> None:
        """Send the messages of a batch, each by ``send``."""
        raise NotImplementedError(f"{type(self).__qualname__} subscribes to queues, so it needs `encode`")

    # What comes

    @final
    def received(self, messages: list[Frames]) -> None:
        """Work off what has come, in a turn; what must wait is parked, and what is too much is refused.

        What is more than one turn should do is done in further ones, in its order; meanwhile ``is_behind``.
        """
        self._last_message = trio.current_time()
        if self._later:
            self._later += messages
        else:
            self._work_through(messages)

    @property
    def is_behind(self) -> bool:
        """Whether some of what has come waits for a turn of its own: its listener should not read more of the peer."""
        return bool(self._later)

    def _work_on(self) -> None:
        """Go on with what was too much for one turn."""
        later, self._later = self._later, []
        self._work_through(later)

    def _work_through(self, messages: list[Frames]) -> None:
        turn = self.system.turn
        place = 0
        while place < len(messages):
            if self._left:
                return
            if place and turn.exhausted and not self.cuts_itself:
                self._later = messages[place:]
                self.in_turn(self._work_on)
                break
            if not self._parked and not self._is_closing and (count := self.handle_run(messages, place)):
                place += count
                continue
            frames = messages[place]
            place += 1
            if self._is_closing and not self.overtakes(frames):
                continue  # unanswered, it is sent again to the next broker
            if (self._parked and not self.overtakes(frames)) or self._must_wait([frames], self.handle, frames):
                self._park(frames)
        self._work_off()

    def _must_wait(self, messages: Sequence[Frames], work: Callable[[*Ts], object], *args: *Ts) -> bool:
        """Do what messages want, or return that they are to be tried again when ``_go_on`` is called."""
        try:
            work(*args)
        except PublishingPaused as paused:
            self.when_open(paused.pressure, self._go_on)
            return True
        except Restarting as restarting:
            self.when_restarted(restarting, self._go_on)
            return True
        except (Refused, ActorStopped, HandlerFailed) as error:
            for frames in messages:
                self.refused(frames, error)
        return False

    def _work_off(self) -> None:
        """Do what has gathered; what must wait stands before all that is parked, since it came before."""
        gathered, self.gathered = self.gathered, []
        if gathered and not self._left and self._must_wait(gathered, self.work_off):
            parked, self._parked = self._parked, []
            self._count_parked(-self._parked_bytes)
            for frames in (*gathered, *parked):
                self._park(frames)

    def _park(self, frames: Frames) -> None:
        size = sum(map(len, frames))
        if len(self._parked) >= self.most_parked or self._listener.parked + size > PARKED_BYTES:
            reason = "too many messages wait for memory, for the disk, or for a queue; wait for answers before you send"
            self.refused(frames, LimitExceeded(reason))
            return
        if not self._parked:
            self.note(logging.WARNING, f"{self.noun} parked", reason="a message has to wait, and those behind it")
        self._parked.append(frames)
        self._count_parked(size)

    def _count_parked(self, size: int) -> None:
        self._parked_bytes += size
        self._listener.parked += size

    def _go_on(self) -> None:
        """Try again what is parked, in its order."""
        while self._parked and not self._left:
            if self._must_wait([self._parked[0]], self.handle, self._parked[0]):
                break
            if self._parked:
                self._count_parked(-sum(map(len, self._parked.pop(0))))
        self._work_off()

    # What goes

    @final
    def send(self, *frames: bytes) -> None:
        """Send a message to the peer; it may wait in the peer's outbox. Nothing is sent to one that is lost."""
        self.send_all((frames,))

    @final
    def send_all(self, messages: Sequence[Sequence[bytes]]) -> None:
        """Send messages, as ``send`` does."""
        if self._lost:
            return
        if not self._listener.send_all(self.identity, messages):
            self.in_turn(self.lost)
        elif self._leaves_too_much():
            self.in_turn(self._let_down)

    def _leaves_too_much(self) -> bool:
        waiting = self._listener.unsent(self.identity)
        if not (self._left or self._listener.is_internal):
            self.context.unread.note(self, waiting)
        return waiting - self._size > max(UNREAD_BYTES, self.most_unread)

    def _let_down(self) -> None:
        self.mark_lost("the peer does not read its answers")
        self.leave()

    @property
    def charged_user(self) -> str:
        """Who is charged for what the peer does not read."""
        return self.user or self.login

    @property
    def reading_progress(self) -> float:
        """A number that changes when the peer takes something."""
        return self._listener.taken_at(self.identity)

    @final
    def give_up_reader(self, reason: str) -> None:
        """End, since the peer does not read, and its user has too much unread."""
        self.in_turn(self._give_up_reader, reason)

    def _give_up_reader(self, reason: str) -> None:
        if not self._left:
            self.mark_lost(reason)
            self.leave()
            self.end()

    def delivered(self, subscription: Subscription, batch: Batch) -> None:
        """Encode a batch at the end of the turn, or when the peer has taken what is before it."""
        self._outgoing.append(batch)

    def unsubscribe(self, subscription: Subscription) -> None:
        """Let nothing more come for a subscription, what is not encoded yet neither."""
        outgoing, self._outgoing = self._outgoing, []
        for batch in outgoing:
            if batch.feed is not None and batch.feed.key is subscription:
                return_unseen(batch, self.window)
            else:
                self._outgoing.append(batch)
        super().unsubscribe(subscription)

    def after_batch(self) -> None:
        """Encode what is due, as far as one turn goes, while libzmq takes everything."""
        room = WRITE_BYTES
        while self._outgoing and room > 0 and not self._left and not self._listener.unsent(self.identity):
            batch = self._outgoing.pop(0)
            self._count += batch.left  # before a protocol without acks settles them
            self._size += batch.size
            room -= batch.size
            self.encode(batch)
        if self._count and not self._goes_on and not self._listener.unsent(self.identity):
            if self._outgoing or self.window.waiting:
                self._goes_on = True
                self.in_turn(self.drained)  # the rest, and feeds that wait for room, in a turn of their own
            else:
                self._give_back()

    def _give_back(self) -> None:
        """Give the window back what libzmq has taken."""
        count, size, self._count, self._size = self._count, self._size, 0, 0
        self.window.give(count, size)

    @final
    def drained(self) -> None:
        """Go on with what waits, since libzmq has taken everything before it; called by the listener, in a turn."""
        self._goes_on = False
        if not (self._left or self._listener.is_internal):
            self.context.unread.note(self, self._listener.unsent(self.identity))
        if self._linger_until < inf:
            self.end()
        elif not self._listener.unsent(self.identity):
            self._give_back()
            self.ref.touch()

    @final
    def lost(self) -> None:
        """End, since the peer has turned out to be gone; called in a turn."""
        self._lost = True
        self.mark_lost("the peer has gone")
        self.leave()
        self.end()

    # Time

    def due_at(self) -> float:
        """Return when the peer has been silent for too long; or when it has had its while to take our last words."""
        return min(self._linger_until, self._last_message + self.silence)

    def due(self, now: float) -> None:
        """End when the peer is silent, or takes nothing."""
        if self._left:
            self.end()
        elif now >= self._last_message + self.silence:
            self.mark_lost("the peer is silent")
            self.leave()
        elif self._listener.stuck_for(self.identity, now) >= self.patience:
            self.mark_lost("the peer does not read what it is sent")
            self.leave()

    # The end

    def put_back(self) -> None:
        """Return what is not encoded; a subclass that has more to put back awaits nothing and calls this too."""
        outgoing, self._outgoing = self._outgoing, []
        for batch in outgoing:
            return_unseen(batch, self.window)

    def left(self) -> None:
        """End when the peer has taken our last words, or has had a while to do so."""
        if self._listener.unsent(self.identity):
            self._linger_until = trio.current_time() + _LINGER
            self.reschedule()
        else:
            self.end()

    def _let_go(self) -> None:
        self._parked.clear()
        self._count_parked(-self._parked_bytes)
        self.context.unread.forget(self)
        super()._let_go()

    def released(self) -> None:
        """Drop what waits for the peer."""
        self._listener.forget(self)


def shown_identity(context: BrokerContext, identity: bytes) -> str:
    """Return what a peer is called in logs and lists: whoever knew its identity could speak in its place."""
    return blake2b(identity, key=context.instance.encode(), digest_size=6).hexdigest()
