"""Settling what no consumer will have: it becomes dead letters, or goes back to its places."""

import logging
from collections.abc import Sequence

from triomq.core.batch import Batch
from triomq.core.queue.deadletter import Reason, dead_letter
from triomq.core.queue.delay import MOST_FAILURES, Postponed, delay_after
from triomq.core.queue.queue_state import QueueState

_log = logging.getLogger("triomq.core")


def give_up(state: QueueState, batch: Batch, positions: Sequence[int] | None, reason: Reason) -> tuple[int, int]:
    """Let messages that are out become dead letters, if their queue has a sink for them.

    Args:
        state: The queue's.
        batch: The batch that holds them.
        positions: Where in it they are; None for all that are left.
        reason: Why.

    Returns:
        How many messages and how many octets are outstanding no longer.
    """
    if state.options.dead_letter_sink is not None:
        going = batch.unsettled() if positions is None else dict.fromkeys(positions)
        found = [batch.contents[position] for position in going]
        contents = [content for content in found if content is not None]
        state.dead_lettered += dead_letter(state, batch.head, contents, reason)
    count, size = state.backlog.accept(batch, positions)
    if reason is Reason.DELIVERY_LIMIT:
        state.exhausted += count
    else:
        state.rejected += count
    return count, size


def put_back(state: QueueState, batch: Batch, positions: Sequence[int] | None, *, marked: bool) -> tuple[int, int]:
    """Put messages back in their places, except those that have come back too often, which are given up.

    Args:
        state: The queue's.
        batch: The batch that holds them.
        positions: Where in it they are; None for all that are left.
        marked: Whether a consumer may have seen them.

    Returns:
        How many messages and how many octets are outstanding no longer.
    """
    limit = state.options.delivery_limit
    if marked and limit is not None and batch.attempts >= limit:
        return give_up(state, batch, positions, Reason.DELIVERY_LIMIT)
    return state.backlog.requeue(batch, positions, marked=marked)


def postpone(state: QueueState, batch: Batch, position: int, reason: str) -> tuple[int, int]:
    """Put a message back after a while over which a consumer failed; after too many failures it becomes a dead letter.

    Without a place for dead letters it goes on coming back, unless its queue has a delivery limit.

    Args:
        state: The queue's.
        batch: The batch that holds it.
        position: Where in it.
        reason: What the consumer failed of, for the log.

    Returns:
        How many messages and how many octets are outstanding with the consumer no longer.
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
    """Do with a message what its last failure calls for, and say what that is."""
    content, limit = batch.contents[position], state.options.delivery_limit
    assert content is not None
    if limit is not None and failures > limit:
        give_up(state, batch, (position,), Reason.DELIVERY_LIMIT)
        return {"then": "given up", "delivery_limit": limit}
    if failures >= MOST_FAILURES and (copies := dead_letter(state, batch.head, [content], Reason.DELIVERY_LIMIT)):
        state.dead_lettered += copies
        state.backlog.accept(batch, (position,))
        return {"then": "dead letter", "sink": state.options.dead_letter_sink}
    if state.postponed is None:
        state.postponed = Postponed()
    delay = delay_after(failures)
    state.postponed.push(state.backlog.set_aside(batch, position), state.directory.clock.now() + delay)
    return {"then": "again", "seconds": delay}


def forget_postponed(state: QueueState) -> int:
    """Forget the messages over which a consumer failed, and tell how many they were."""
    found = state.postponed.take_all() if state.postponed is not None else []
    return sum(state.backlog.accept(batch)[0] for batch in found if state.backlog.holds(batch))
