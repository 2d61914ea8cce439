"""Settling what no consumer will have: it becomes dead letters, or goes back to its places."""

from collections.abc import Sequence

from triomq.core.batch import Batch
from triomq.core.deadletter import Reason, bury
from triomq.core.queue_store import QueueStore

__all__ = ["give_up", "put_back"]


def give_up(store: QueueStore, batch: Batch, positions: Sequence[int] | None, reason: Reason) -> tuple[int, int]:
    """Let messages that are out become dead letters, if their queue has a sink for them.

    Args:
        store: The queue's.
        batch: The batch that holds them.
        positions: Where in it they are; None for all that are left.
        reason: Why.

    Returns:
        How many messages and how many octets are outstanding no longer.
    """
    if store.options.dead_letter_sink is not None:
        going = batch.unsettled() if positions is None else dict.fromkeys(positions)
        found = [batch.contents[position] for position in going]
        contents = [content for content in found if content is not None]
        store.dead_lettered += bury(store, batch.head, contents, reason)
    count, size = store.backlog.accept(batch, positions)
    if reason is Reason.DELIVERY_LIMIT:
        store.exhausted += count
    else:
        store.rejected += count
    return count, size


def put_back(store: QueueStore, batch: Batch, positions: Sequence[int] | None, *, marked: bool) -> tuple[int, int]:
    """Put messages back in their places, except those that have come back too often, which are given up.

    Args:
        store: The queue's.
        batch: The batch that holds them.
        positions: Where in it they are; None for all that are left.
        marked: Whether a consumer may have seen them.

    Returns:
        How many messages and how many octets are outstanding no longer.
    """
    limit = store.options.delivery_limit
    if marked and limit is not None and batch.attempts >= limit:
        return give_up(store, batch, positions, Reason.DELIVERY_LIMIT)
    return store.backlog.requeue(batch, positions, marked=marked)
