"""Expiry: which messages of a queue are over, when the next one is, and when the queue itself is.

A message expires at the front: one that waits behind another is looked at when it comes first, as in RabbitMQ. So a
queue has one next deadline, and finding it costs nothing. In a priority queue each level has a front.
"""

from math import inf

from triomq.core.backlog import Backlog
from triomq.core.queue.deadletter import MOST_DEAD_LETTERS, MOST_DROPPED, Reason, dead_letter
from triomq.core.queue.queue_state import QueueState


def drop_expired(state: QueueState, now: float) -> bool:
    """Drop the messages that have expired, as dead letters if the queue has a sink for them.

    Args:
        state: The queue's.
        now: Seconds of the domain's clock.

    Returns:
        Whether that was all; the rest is for another turn, and must not be delivered before.
    """
    backlog, dead_letters, gone = state.backlog, 0, 0
    lettered = state.options.dead_letter_sink is not None
    while (level := backlog.expired_level(now)) is not None:
        if dead_letters >= MOST_DEAD_LETTERS or gone >= MOST_DROPPED:
            return False
        stretch = backlog.first(MOST_DEAD_LETTERS, level)
        count = len(stretch.contents)
        if (observers := state.directory.message_observers) is not None:
            observers.expired(state, stretch)
        if lettered:
            state.dead_lettered += dead_letter(state, stretch, Reason.EXPIRED)
            dead_letters += count
        backlog.drop(count, level)
        state.expired += count
        gone += count
    return True


class Unexpired:
    """A backlog up to the first message that has expired, for a strategy: what is over is never handed out.

    Messages that share a head and a deadline leave together, so it is enough to look at the first.

    Args:
        backlog: The queue's.
        now: Seconds of the domain's clock.
    """

    __slots__ = ("_backlog", "_now", "longest", "next_head", "next_size", "take", "take_turns")

    def __init__(self, backlog: Backlog, now: float) -> None:
        self._backlog = backlog
        self._now = now
        self.next_head = backlog.next_head
        self.next_size = backlog.next_size
        self.longest = backlog.longest
        self.take = backlog.take
        self.take_turns = backlog.take_turns

    @property
    def resident(self) -> int:
        """How many messages may be taken; none when one that goes first in its level has expired."""
        return 0 if self._backlog.expired_level(self._now) is not None else self._backlog.resident

    @property
    def run_length(self) -> int:
        """How many messages ``take_turns`` can hand out."""
        return self._backlog.run_length


def next_deadline(state: QueueState) -> float:
    """Return when the queue has its next deadline, in seconds of the domain's clock; infinity if never."""
    deadline = state.backlog.next_deadline()
    if state.delayed is not None:
        deadline = min(deadline, state.delayed.next_due)
    if state.postponed is not None:
        deadline = min(deadline, state.postponed.next_due)
    if state.options.expires is not None and not state.feeds:
        deadline = min(deadline, state.used + state.options.expires)
    return deadline


def is_unused(state: QueueState, now: float) -> bool:
    """Return whether the queue was not used for as long as it lives without."""
    expires = state.options.expires
    return expires is not None and not state.feeds and state.used + expires <= now < inf
