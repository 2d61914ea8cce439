"""How often a message came back, which queues of the type quorum tell consumers (the header ``x-delivery-count``)."""

from collections.abc import Sequence

from triomq.core import Batch, Directory
from triomq.endpoints.amqp.queue_types import is_quorum
from triomq.endpoints.content import amend_amqp


def delivery_counts(batch: Batch, directory: Directory) -> Sequence[int] | None:
    """Tell how often each message of a batch has come back; None if its queue does not tell, or is gone."""
    assert batch.queue is not None
    queue = directory.queues.get(directory.name_of(batch.queue))
    if queue is None or not is_quorum(queue.options):
        return None
    return [batch.attempts] * len(batch.ids)


def with_count(properties: bytes, count: int) -> bytes:
    """Add the header to encoded properties."""
    return amend_amqp(properties, {"x-delivery-count": count}, drop_expiration=False)[0]
