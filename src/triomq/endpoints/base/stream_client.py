"""A client on a stream: what it sends is worked off in turns, and it lives as long as the stream.

    transport ── a chunk ──> received            a turn begins
                               engine.receive_data, engine.events
                               event_handlers[type(event)](client, event)     one after the other
                               ├─ PublishingPaused, Restarting: the event stays first in line, a gate closes
                               ├─ Refused: the hook ``refused``
                               └─ the turn's budget is used up: the rest in a turn of its own
                             … queues dispatch, deliveries come …
                             after_batch         one write: replies, and deliveries as far as they fit

Rules:

- An event that cannot be done now stays first in line and is tried again: paused, never dropped. Since a run is taken
  whole or not at all, trying again doubles nothing.
- There are several reasons not to read, and each is a gate with a name (``ReadGates``). Each opens without any input
  from the same client, so that no client waits for itself.
- A client that reads nothing stops its queues (the writer's window), then its own requests (``unread replies``), and is
  let go when it has read nothing for ``patience`` seconds.
- The last words are to be read: the socket is closed for sending only, and for a moment the client may close its side.
  Closing a socket with unread bytes in it resets the connection, and the client may lose our last words.

What was tried: a task for each connection, which cost 15 µs per chunk; dispatch by a method ``handle`` with a
``match``, 2 % of a publish. A table by type costs one look-up.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Any, ClassVar, final

import trio

from triomq.core import (
    LONGEST_PAUSE,
    Batch,
    Directory,
    Persistence,
    Pressure,
    PublishingPaused,
    Restarting,
    Session,
    Subscription,
    Window,
)
from triomq.endpoints.base.client import Client
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.delivery_writer import DeliveryWriter
from triomq.endpoints.base.read_gates import ReadGates
from triomq.errors import ActorStopped, HandlerFailed, Refused, TriomqError
from triomq.protocols import Engine
from triomq.security import Access
from triomq.transports import LARGE_RECEIVE_SIZE, RECEIVE_SIZE, Driver, Transport

PATIENCE = 120.0
"""Seconds that a client may leave unread what it is sent, unless it has agreed to heartbeats: it may hold what others
want."""

_LINGER = 1.0
"""Seconds that a client gets to read our last words before the socket is shut."""

_LOOK = 0.5
"""Seconds between two looks at whether a client reads, while something waits for it."""

_LARGE_BODY = 512
"""Bytes per message from which messages count as large."""

_SMALL_RECEIVE_SIZE = 16 * 1024
"""Bytes that are read at once from a client that sends requests of a few bytes each: to parse 64 KiB of the smallest
takes 50 ms."""

_TELLING = _SMALL_RECEIVE_SIZE // 2
"""Bytes above which a chunk tells how much to read at once: it is half of the least that is asked for."""

_DENSE = 1_000
"""What a chunk of 64 KiB may be charged with before it counts as full of such requests."""

_BUDGET, _ROOM, _PRESSURE, _RESTART, _UNREAD = "budget", "unfinished messages", "pressure", "restart", "unread replies"
_CREDIT, _CLOSING = "credit", "closing"
"""Gates that are the same for all."""

EventHandlers = Mapping[type, Callable[[Any, Any], None]]
"""What is done for each event, by its class; the rows pair each function with the one class that it is written for."""


class StreamClient(Client):
    """Base of clients that come over a stream; what is spoken there is up to the protocols.

    Args:
        transport: The bytes; owned from now on.
        engine: The protocol, in the server's role.
        context: What the broker lends.
    """

    kind = "connection"
    noun = "connection"

    event_handlers: ClassVar[EventHandlers] = {}
    """What to do for each event of the engine. They may raise ``Refused``, ``Restarting`` and ``PublishingPaused``."""

    patience: float = PATIENCE
    """Seconds that the client may leave unread what it is sent."""

    last_words_are_long: ClassVar[bool] = False
    """Whether the client is to get all that is written before the second counts that it has to close its side."""

    gone: bool = False
    """Whether the client will send nothing more."""

    _reads = False  # whether the transport has a driver
    _linger_until = 0.0
    _look_at_reader = inf  # when to see whether the client reads
    _unfinished = 0  # bytes, as the account of all clients has it
    _paused_by: Pressure | None = None
    _held_back = 0  # by how many queues, since they hold more than their consumers can take for now
    _runs_until = 0.0  # before then no queue holds it back again

    def __init__(self, transport: Transport, engine: Engine[Any], context: BrokerContext) -> None:
        super().__init__(context, transport.peer)
        self.gates = ReadGates(transport, engine)
        self.writer = DeliveryWriter(engine, transport)
        self.window: Window = self.writer.window
        self._transport = transport
        self._engine = engine
        self._outbox = engine.outbox
        self._receive = engine.receive_data
        self._events: deque[Any] = deque()
        self._replies: dict[Callable[[], None], None] = {}

    # Hooks: what a protocol defines, beside those of ``Client``

    def first_driver(self) -> Driver:
        """Return what gets the first bytes: this client, or something that looks at them and then steps aside."""
        return self

    def encode(self, batch: Any) -> None:
        """Encode a batch for the client; called at the end of a turn, for as many as one write takes."""
        raise NotImplementedError(f"{type(self).__qualname__} subscribes to queues, so it needs `encode`")

    def refused(self, event: Any, error: TriomqError) -> None:
        """Tell the client that an event is refused, or leave, as this does."""
        self.ending = self.ending or str(error)
        self.leave()

    def pausing(self, pressure: Pressure) -> None:
        """Tell the client that it is not read while there is a pressure; log it, as this does."""
        if pressure is not Pressure.BEHIND:  # which takes moments
            self.note(logging.WARNING, f"{self.noun} paused", reason=pressure.value)

    def resuming(self, pressure: Pressure) -> None:
        """Tell the client that it is read again."""

    def judge_unfinished(self) -> None:
        """Refuse what has begun and may not come; let the client wait with what may come later."""

    def refuse_unfinished(self, reason: str) -> None:
        """Tell the client that too much is unfinished, and end; leave, as this does."""
        self.ending = self.ending or reason
        self.leave()

    # What the transport calls

    def _open(self) -> None:
        self._reads = True
        self._transport.start(self.first_driver())

    @final
    def received(self, data: bytes) -> None:
        """Work off one chunk from the client, in a turn."""
        self.ref.run_in_turn(self._take, data)

    @final
    def drained(self) -> None:
        """Go on writing, in a turn."""
        self.ref.run_in_turn(self._write_more)

    def _take(self, data: bytes) -> None:
        if not data:
            self.gone = True
            if self._left:
                self.end()
        if self._left:
            return
        self._receive(data)
        unfinished = self._engine.unfinished or self._unfinished  # what begins, begins here; work can only end it
        self.work_off()
        if unfinished:
            self._note_unfinished()
        if len(data) > _TELLING:
            self._choose_appetite(len(data))

    def _choose_appetite(self, size: int) -> None:
        """Choose how much is read at once from now on, by what a chunk has cost."""
        turn = self._turn
        if size > RECEIVE_SIZE // 2:
            # Few messages in many bytes are large ones: larger chunks then cost less, and hold no other client up.
            if (turn.spent + turn.charged) * _LARGE_BODY < size:
                self._transport.receive_size = LARGE_RECEIVE_SIZE
            else:
                self._transport.receive_size = RECEIVE_SIZE if turn.charged < _DENSE else _SMALL_RECEIVE_SIZE
        elif turn.charged < _DENSE // 8:
            self._transport.receive_size = RECEIVE_SIZE

    def work_off(self) -> None:
        """Work off what the engine has found, until the turn's budget is used up."""
        turn, events = self._turn, self._events
        found = self._engine.events()
        turn.charged += len(found)  # for what it took to parse them
        events.extend(found)
        while events:
            event = events.popleft()
            shaking_hands = not self.entered
            try:
                self.event_handlers[type(event)](self, event)
            except Restarting as restarting:
                events.appendleft(event)
                self.gates.close(_RESTART)
                self.when_restarted(restarting, partial(self.go_on, _RESTART))
                break
            except PublishingPaused as paused:
                events.appendleft(event)
                self.pause(paused.pressure)
                break
            except (Refused, ActorStopped, HandlerFailed) as error:
                self.refused(event, error)
            if shaking_hands and not events and not self._left:
                events.extend(self._engine.events())  # our answer may have let the engine read on
            if events and turn.exhausted:
                self.go_on_later()
                break
        if self._outbox.unsent or self._outbox.finished:
            self.ref.touch()

    def do_next(self, event: Any) -> None:
        """Put what is left of an event before all others; the turn's budget is looked at before it is handled."""
        self._events.appendleft(event)

    @property
    def is_finished(self) -> bool:
        """Whether the engine expects nothing more."""
        return self._outbox.finished

    # When nothing is read

    def take_no_more(self) -> None:
        """Read nothing more; what was read is worked off."""
        self.gates.close(_CLOSING)

    @property
    def owes_answers(self) -> bool:
        """Whether something that was read is worked off in turns to come."""
        return bool(self._events) and _BUDGET in self.gates.closed

    def _close_now(self, reason: str) -> None:
        super()._close_now(reason)
        self.gates.open(_CLOSING)

    @final
    def hold(self, gate: str) -> None:
        """Read nothing until ``go_on`` is called with the same name."""
        self.gates.close(gate)

    @final
    def go_on(self, gate: str) -> None:
        """Open a gate, and work off what was left when it was closed, unless the client leaves its replies unread."""
        self.gates.open(gate)
        if not self._left and not self.writer.is_choked:
            self.work_off()
            if self._unfinished:
                self._note_unfinished()

    @final
    def go_on_later(self) -> None:
        """Let others have the loop, then go on with what is left; read nothing until then."""
        self.gates.close(_BUDGET)
        self.in_turn(self.go_on, _BUDGET)

    def pause(self, pressure: Pressure) -> None:
        """Read nothing until a pressure is over that was met in this turn."""
        if self._paused_by is None:
            self._paused_by = pressure
            self.gates.close(_PRESSURE)
            self.pausing(pressure)
            self.when_open(pressure, self.resume)

    @final
    def resume(self) -> None:
        """Read again, if a pressure has stopped that."""
        pressure, self._paused_by = self._paused_by, None
        self.forget(self.resume)
        if pressure is not None and not self._left:
            self.resuming(pressure)
            self.go_on(_PRESSURE)

    @final
    def take_paused(self) -> tuple[Any, Pressure] | None:
        """Return the event that waits for the end of a pressure, and drop it: ``resume`` goes on behind it.

        For protocols that answer a request rather than let it wait for ever; None if nothing waits.
        """
        if self._paused_by is None or self._left:
            return None
        return self._events.popleft(), self._paused_by

    # When it is ahead of consumers (see ``triomq.core.publishing.credit``)

    @final
    def hold_back(self) -> bool:
        """Read nothing until each queue that has called this lets it go on; return False if it cannot wait.

        After a pause in vain it runs for as long: however many slow queues it publishes to, they cost it half of its
        time at most.
        """
        if self._left or not self.only_publishes:
            return False
        if not self._held_back and trio.current_time() < self._runs_until:
            return False
        self._held_back += 1
        self.gates.close(_CREDIT)
        return True

    @final
    def go_ahead(self, *, in_vain: bool) -> None:
        """Read again, soon, unless another queue holds this client back."""
        self._held_back -= 1
        if in_vain:
            self._runs_until = trio.current_time() + LONGEST_PAUSE
        if not self._held_back:
            self.in_turn(self._go_ahead)

    def _go_ahead(self) -> None:
        if not self._held_back:
            self.go_on(_CREDIT)

    # Messages that are not whole

    def _note_unfinished(self) -> None:
        """Tell the broker's account how much is here of messages that are not whole; see whether they may come."""
        self.judge_unfinished()
        size = self._engine.unfinished
        if size != self._unfinished and not self._left:
            self._unfinished = size
            self.context.unfinished.note(self, size)

    @property
    def is_held_otherwise(self) -> bool:
        """Whether nothing is read for another reason than that unfinished messages take too much."""
        return self.gates.is_closed_beside(_ROOM)

    @final
    def wait_for_room(self) -> None:
        """Read nothing as long as unfinished messages take too much."""
        self.gates.close(_ROOM)

    @final
    def go_on_with_room(self) -> None:
        """Read again."""
        self.in_turn(self.go_on, _ROOM)

    @final
    def give_up_message(self, reason: str) -> None:
        """End the client, since the rest of its message does not come."""
        self.in_turn(self._give_up, reason)

    def _give_up(self, reason: str) -> None:
        if not self._left:
            self.refuse_unfinished(reason)
            self._note_unfinished()

    # Writing

    def delivered(self, subscription: Subscription, batch: Batch) -> None:
        """Encode a batch at the end of the turn."""
        self.writer.outgoing.append(batch)

    def unsubscribe(self, subscription: Subscription) -> None:
        """Let nothing more come for a subscription, what is not encoded yet neither."""
        self.writer.drop(lambda batch: batch.feed is not None and batch.feed.key is subscription)
        super().unsubscribe(subscription)

    @final
    def reply_later(self, reply: Callable[[], None]) -> None:
        """Call something at the end of the turn, once, before anything is written: it replies to all of the turn."""
        self._replies[reply] = None
        self.ref.touch()

    def after_batch(self) -> None:
        """Make the replies that are due, encode deliveries, and write once; leave when nothing more will come."""
        if self._replies:
            replies, self._replies = self._replies, {}
            for reply in replies:
                reply()
        self.writer.flush(self.encode)
        if not self.writer.may_write:
            self._wait_for_reader()
        if self._outbox.finished and not self._left and not self._events and not self.writer.is_held:
            if self.writer.may_write or not self.last_words_are_long:
                self.leave()
        elif not self.entered:
            self.reschedule()  # each step of a handshake brings a timer of its own

    def _wait_for_reader(self) -> None:
        """Read nothing while too much waits for the client to read, or for others of its user, and see that it does."""
        account, unread = self.context.unread, self.writer.unread
        if not self._left:
            account.note(self, unread)
        if self.writer.is_choked or (unread and account.is_full(self.charged_user)):
            self.gates.close(_UNREAD)
        if self._look_at_reader == inf:
            now = trio.current_time()
            self.writer.stuck_for(now)  # counts from here
            self._look_at_reader = now + _LOOK
            self.reschedule()

    @property
    def charged_user(self) -> str:
        """Who is charged for what the client does not read."""
        return self.user

    @property
    def reading_progress(self) -> float:
        """A number that changes when the client takes something."""
        return self._transport.progress

    @final
    def give_up_reader(self, reason: str) -> None:
        """End the client, since it does not read, and its user has too much unread."""
        self.in_turn(self._give_up_reader, reason)

    def _give_up_reader(self, reason: str) -> None:
        if not self._left:  # a word about it could not be read either
            self.mark_lost(reason)
            self.leave()
            self.end()

    def _write_more(self) -> None:
        """Wake the feeds that waited for the transport; what they deliver is encoded and written by ``after_batch``."""
        self.writer.drained()
        self.context.unread.forget(self)
        if _UNREAD in self.gates.closed and not self._left:
            self.go_on(_UNREAD)
        self.ref.touch()

    @final
    def hold_replies(self, persistence: Persistence) -> None:
        """Write nothing until the store has what replies promise, which it has just got."""
        number = persistence.sync_point
        if number > persistence.journal.committed:
            self.writer.hold(number)
            persistence.when_committed(number, partial(self.ref.run_in_turn, self._release_replies, number))

    def _release_replies(self, number: int) -> None:
        self.writer.release(number)
        self.ref.touch()

    # Time

    def due_at(self) -> float:
        """Return when a timer of the engine is due, or a look at whether the client reads."""
        if self._left:
            return self._linger_until
        timer = self._engine.next_timer()
        return self._look_at_reader if timer is None else min(timer, self._look_at_reader)

    def due(self, now: float) -> None:
        """Let the engine look at its timers; end when the client had its while, or reads nothing."""
        if self._left:
            self.end()
            return
        if self.writer.stuck_for(now) >= self.patience:
            # A word about it could not be read either. What is out goes back to its queues.
            self.mark_lost("the client does not read what it is sent")
            self.leave()
            return
        self._look_at_reader = inf if self.writer.may_write else now + _LOOK
        self._engine.handle_timer(now)
        for event in self._engine.events():  # before all that wait: these are about the connection
            self.event_handlers[type(event)](self, event)
        if self._outbox.unsent or self._outbox.finished:
            self.ref.touch()

    # The end

    def put_back(self) -> None:
        """Return what is not encoded; a subclass that has more to put back awaits nothing and calls this too."""
        self.writer.drop_all()

    def left(self) -> None:
        """Send nothing more, and give the client a while to close its side first.

        Closing a socket with unread bytes would reset it, and the client might never see our last words.
        """
        if not self._reads:
            self.end()
            return
        self._transport.resume_reading()
        self._transport.end_sending()
        self._linger_until = trio.current_time() + _LINGER
        if self.gone and self.writer.may_write:
            self.end()
        else:
            self.reschedule()

    def _work_in(self, session: Session, directory: Directory, access: Access, virtual_host: str) -> None:
        super()._work_in(session, directory, access, virtual_host)
        self.publisher.source = self

    def _let_go(self) -> None:
        self._events.clear()
        if self.entered:
            self.publisher.source = None  # a cycle, which only the collector would find
        self.context.unfinished.forget(self)
        self.context.unread.forget(self)
        super()._let_go()

    def released(self) -> None:
        """Close the transport."""
        self._transport.close()
