"""Expiry: which messages of a queue are over, when the next one is, and when the queue itself is.

A message expires at the front: one that waits behind another is looked at when it comes first, as in RabbitMQ. So a
queue has one next deadline, and finding it costs nothing. In a priority queue each level has a front.
"""

from math import inf

from triomq.core.backlog import Backlog
from triomq.core.dispatch.dispatch import PartOfReady
from triomq.core.queue.deadletter import MOST_DEAD_LETTERS, MOST_DROPPED, PORTION_COST, Reason, dead_letter
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
        stretch = backlog.first(MOST_DEAD_LETTERS if lettered else MOST_DROPPED, level)
        count = len(stretch.contents)
        if lettered:
            ids = backlog.first_ids(count, level)
            count, copies = dead_letter(state, stretch, Reason.EXPIRED, ids)
            stretch = stretch.up_to(count)
            dead_letters = MOST_DEAD_LETTERS if count < len(ids) else dead_letters + count
            state.dead_lettered += copies
        elif (observers := state.directory.message_observers) is not None:
            observers.expired(state, stretch)
        ids = backlog.drop(count, level)
        state.expired += count
        if (on_removed := state.directory.on_removed) is not None:
            on_removed(state, stretch, Reason.EXPIRED, ids)
        gone += count + PORTION_COST
    return True


class Unexpired(PartOfReady):
    """A backlog up to the first message that has expired, for a strategy: what is over is never handed out.

    Args:
        backlog: The queue's.
        now: Seconds of the domain's clock.
    """

    __slots__ = ("_expired_level", "_now")

    def __init__(self, backlog: Backlog, now: float) -> None:
        super().__init__(backlog)
        self._expired_level = backlog.expired_level
        self._now = now

    @property
    def resident(self) -> int:
        """How many messages may be taken; none when one that goes first in its level has expired."""
        return 0 if self._expired_level(self._now) is not None else self._backlog.resident


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
