"""Settlements other than accept: messages become dead letters, go back to their places, or come back after a delay."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from triomq.actors import Message
from triomq.core.batch import Batch
from triomq.core.queue.deadletter import Reason, dead_letter
from triomq.core.queue.delay import MOST_FAILURES, Postponed, delay_after
from triomq.core.queue.queue_state import QueueState

if TYPE_CHECKING:
    from triomq.core.topology.domain import Domain

_log = logging.getLogger("triomq.core")


def give_up(state: QueueState, batch: Batch, positions: Sequence[int] | None, reason: Reason) -> tuple[int, int]:
    """Settle messages that will not be delivered again, as dead letters if their queue has a sink for them.

    Where that is too much for this turn, the rest is settled in further ones.

    Args:
        state: The queue's.
        batch: The batch that holds them.
        positions: Where in it they are; None for all that are left.
        reason: Why.

    Returns:
        How many messages and how many bytes are outstanding no longer.
    """
    if state.options.dead_letter_sink is not None:
        positions = _dead_letter(state, batch, positions, reason)
    if (on_removed := state.directory.on_removed) is not None:
        on_removed(state, batch.stretch(positions), reason, batch.unsettled_ids(positions))
    count, size = state.backlog.accept(batch, positions)
    if reason is Reason.DELIVERY_LIMIT:
        state.exhausted += count
    else:
        state.rejected += count
    return count, size


def _dead_letter(state: QueueState, batch: Batch, positions: Sequence[int] | None, reason: Reason) -> Sequence[int]:
    """Make dead letters of as many messages as this turn has room for, and let a chore go on; return where they are."""
    going = batch.unsettled() if positions is None else list(dict.fromkeys(positions))
    done, copies = dead_letter(state, batch.stretch(going), reason, batch.unsettled_ids(going))
    state.dead_lettered += copies
    going = [position for position in going if batch.contents[position] is not None]
    if done < len(going):
        state.directory.chores.add(_GiveUpLater(state, GiveUp(batch, going[done:], reason)))
    return going[:done]


class GiveUp(Message, frozen=True):
    """To a queue: give up the rest of the messages that a consumer will not have; see ``give_up``."""

    batch: Batch
    positions: Sequence[int]
    reason: Reason


class _GiveUpLater:
    """A chore: tell a queue to go on."""

    def __init__(self, state: QueueState, message: GiveUp) -> None:
        self._state = state
        self._message = message

    def step(self, domain: "Domain") -> bool:
        """Tell it."""
        if not self._state.gone:
            self._state.ref.tell_nowait(self._message)
        return False


def put_back(state: QueueState, batch: Batch, positions: Sequence[int] | None, *, marked: bool) -> tuple[int, int]:
    """Requeue messages in their places, except those that have come back too often, which become dead letters.

    Args:
        state: The queue's.
        batch: The batch that holds them.
        positions: Where in it they are; None for all that are left.
        marked: Whether a consumer may have seen them.

    Returns:
        How many messages and how many bytes are outstanding no longer.
    """
    limit = state.options.delivery_limit
    if marked and limit is not None and batch.attempts >= limit:
        return give_up(state, batch, positions, Reason.DELIVERY_LIMIT)
    return state.backlog.requeue(batch, positions, marked=marked)


def postpone(state: QueueState, batch: Batch, position: int, reason: str) -> tuple[int, int]:
    """Requeue a message after a delay over which a consumer failed; after too many failures it becomes a dead letter.

    Without a dead-letter sink it goes on coming back, unless its queue has a delivery limit.

    Args:
        state: The queue's.
        batch: The batch that holds it.
        position: Where in it.
        reason: What the consumer failed of, for the log.

    Returns:
        How many messages and how many bytes are outstanding with the consumer no longer.
    """
    content, number = batch.contents[position], batch.ids[position]
    if content is None:
        return 0, 0
    failures = batch.attempts + 1
    fields = {"queue": state.name, "message": number, "attempt": failures, "reason": reason}
    fields |= _after(state, batch, position, failures)
    _log.error("a consumer failed over a message", extra={"fields": fields})
    return 1, len(content)


def _after(state: QueueState, batch: Batch, position: int, failures: int) -> dict[str, object]:
    """Do what the last failure of a message calls for; return log fields that name it."""
    content, limit = batch.contents[position], state.options.delivery_limit
    assert content is not None
    if limit is not None and failures > limit:
        give_up(state, batch, (position,), Reason.DELIVERY_LIMIT)
        return {"then": "given up", "delivery_limit": limit}
    here = (position,)
    if failures >= MOST_FAILURES and (
        copies := dead_letter(state, batch.stretch(here), Reason.DELIVERY_LIMIT, (batch.ids[position],))[1]
    ):
        state.dead_lettered += copies
        if (on_removed := state.directory.on_removed) is not None:
            on_removed(state, batch.stretch(here), Reason.DELIVERY_LIMIT, (batch.ids[position],))
        state.backlog.accept(batch, here)
        return {"then": "dead letter", "sink": state.options.dead_letter_sink}
    if state.postponed is None:
        state.postponed = Postponed()
    delay = delay_after(failures)
    state.postponed.push(state.backlog.set_aside(batch, position), state.directory.clock.now() + delay)
    return {"then": "again", "seconds": delay}


def forget_postponed(state: QueueState) -> int:
    """Remove the messages over which a consumer failed; return how many they were."""
    found = state.postponed.take_all() if state.postponed is not None else []
    return sum(state.backlog.accept(batch)[0] for batch in found if state.backlog.holds(batch))
