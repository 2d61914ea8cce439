"""What a queue does as time passes: delayed messages become ready, others expire.

Time is the domain's: a queue sets its next deadline in the domain's clock, and is told ``Due`` when it comes. A message
that expires may still be taken in the turn in which it came, so that a time to live of 0 means: at once, or never.
"""

from collections.abc import Callable, Sequence
from math import inf, nextafter
from time import time

from triomq.actors import Message
from triomq.core.batch import Batch
from triomq.core.dispatch.dispatch import ReadyMessages
from triomq.core.message import Head
from triomq.core.persistence.recorded_delay import DelayedRead, forget_delayed, put_back_delayed, record_delayed
from triomq.core.publishing.publish import Publish
from triomq.core.queue.delay import Delayed, DelayedRun
from triomq.core.queue.expiry import Unexpired, drop_expired, next_deadline
from triomq.core.queue.limits import is_full
from triomq.core.queue.queue_state import QueueState


class Due(Message, frozen=True):
    """To a queue: the deadline that you have set has come."""


class Timekeeper:
    """The deadlines of one incarnation of a queue; created by the queue, ends with it.

    ``needs_clock`` is false while the queue has no deadline, so that its turns do not read the clock. ``has_expiring``
    is true if a ready message may have a deadline, first or not.

    Args:
        state: The queue's.
    """

    __slots__ = ("_hurries", "_state", "_turn_began", "has_expiring", "needs_clock")

    def __init__(self, state: QueueState) -> None:
        self._state = state
        self._turn_began = inf  # when the first message of this turn that can expire came
        self._hurries = False
        self.needs_clock = True  # looked at once even if there is no deadline
        self.has_expiring = state.backlog.resident > 0

    def begin(self) -> None:
        """Set the first deadline, if there is one; called when a queue starts or gets other options, which counts as a
        use.

        A queue may start with more than its limits allow, if its domain has crashed and unsettled messages came back.
        These give way a moment later, since dead letters go to queues that may not run yet. A queue with paged messages
        that may expire or have to give way is looked at once, to page them in.
        """
        state = self._state
        self.needs_clock = True
        state.use()
        options = state.options
        unseen = state.backlog.paged and (options.message_ttl is not None or options.dead_letter_sink is not None)
        deadline = state.directory.clock.now() if unseen or is_full(state) else next_deadline(state)
        if deadline < inf:
            state.directory.clock.set(state, deadline)

    def expect_expiry(self, came: float = inf) -> None:
        """Expect messages to expire that came at a time, or that came back."""
        self._turn_began = min(self._turn_began, came)
        self.needs_clock = self.has_expiring = True

    def put_off(self, run: Publish) -> None:
        """Delay a run until its time has come; it is stored then, whatever the limits are."""
        state = self._state
        delayed = state.delayed
        if delayed is None:
            delayed = state.delayed = Delayed()
        number = delayed.last_number + 1 if state.persists(run.head) else 0
        put_off = DelayedRun(run.head, run.contents, run.size, number, run.heads)
        delayed.push(put_off, state.directory.clock.now() + run.delay)
        if number:
            record_delayed(state, put_off, time() + run.delay)
        self.needs_clock = True

    def put_back(self, message: DelayedRead) -> None:
        """Delay runs again that were delayed before a restart of the broker."""
        put_back_delayed(self._state, message)
        self.needs_clock = True

    def hurry(self) -> None:
        """Ask for ``Due`` at once: there is more to do than one turn should take."""
        self.needs_clock = self._hurries = True

    def use(self) -> None:
        """Record that a client uses the queue."""
        if self._state.options.expires is not None:
            self._state.use()
            self.needs_clock = True

    def catch_up(self, push: Callable[[Head, Sequence[bytes], int, Sequence[Head] | None], None]) -> bool:
        """Make ready what is due, and drop what expired before this turn; return whether all of it was dropped."""
        state, now = self._state, self._state.directory.clock.now()
        while state.delayed is not None and (run := state.delayed.take_due(now)) is not None:
            push(run.head, run.contents, run.size, run.heads)
            forget_delayed(state, (run.number,))
        while state.postponed is not None and (batch := state.postponed.take_due(now)) is not None:
            state.backlog.requeue(batch, marked=False)  # its failure was counted when it was postponed
            if batch.deadline < inf:
                self.expect_expiry()
        if drop_expired(state, self._over_before()):
            return True
        state.directory.clock.set(state, now)
        return False

    def _over_before(self) -> float:
        """Return up to which time deadlines count: what is over when it comes may still be taken in its turn."""
        return min(self._state.directory.clock.now(), nextafter(self._turn_began, -inf))

    def look_ahead(self) -> bool:
        """Drop what was not taken in time, and set the next deadline; return whether all of it was dropped."""
        state = self._state
        clock = state.directory.clock
        now = clock.now()
        self._turn_began = inf
        dropped_all = drop_expired(state, now)
        deadline = next_deadline(state) if dropped_all and not self._hurries else now
        self._hurries = False
        self.has_expiring = self.has_expiring and state.backlog.resident > 0
        self.needs_clock = self.has_expiring or deadline < inf
        if deadline < inf:
            clock.set(state, deadline)
        return dropped_all

    def dispatch_unexpired(self, deal: Callable[[ReadyMessages], list[Batch]]) -> list[Batch]:
        """Dispatch up to the first message that has expired, drop it, and go on behind it."""
        over, backlog = self._over_before(), self._state.backlog
        batches: list[Batch] = []
        while drop_expired(self._state, over):
            batches += deal(Unexpired(backlog, over))
            if backlog.expired_level(over) is None:
                break
        return batches
