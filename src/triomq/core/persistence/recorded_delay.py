"""Delayed messages in a store: they have no ids yet, so they stand apart, by numbers of their own.

When their time has come they are stored again, as what they are then, and forgotten here, in one batch.
"""

import logging
from collections.abc import Sequence
from functools import partial
from math import inf
from time import time

import msgspec

from triomq.actors import Message
from triomq.core.persistence.records import HeadCodec
from triomq.core.queue.delay import DelayedRun
from triomq.core.queue.queue_state import QueueState
from triomq.errors import StoreError
from triomq.store import BodyRun, DelayedDropped, DelayedFound, MessagesDelayed, decode_body, gather_body

_log = logging.getLogger("triomq.core")

_AT_ONCE = 500
"""Records that are read at once."""


def record_delayed(queue: QueueState, run: DelayedRun, due: float) -> None:
    """Record messages that become ready at a time, in seconds since 1970."""
    persistence, backlog = queue.directory.persistence, queue.backlog
    assert persistence is not None
    encoded = persistence.heads.encode_run(run.head, run.heads, 0, inf, 0.0)
    persistence.journal.add(
        MessagesDelayed(
            queue=backlog.queue,
            number=run.number,
            due=due,
            count=len(run.contents),
            size=run.size,
            body=gather_body([BodyRun(0, encoded, run.contents)]),
        )
    )


def forget_delayed(queue: QueueState, numbers: Sequence[int]) -> None:
    """Remove delayed messages from the store, by their numbers; those of number 0 were never recorded."""
    recorded = [number for number in numbers if number]
    if recorded and queue.directory.persistence is not None:
        queue.directory.persistence.journal.add(DelayedDropped(queue.backlog.queue, recorded))


class DelayedRead(Message, frozen=True):
    """To a queue: delayed messages from before a restart of the broker.

    Args:
        found: What there is, by its numbers.
        bodies: The messages; or why they cannot be read.
        epoch: The time of the domain's clock when 1970 began, the same for all, so that their order stays.
    """

    found: Sequence[DelayedFound]
    bodies: Sequence[bytes | None] | StoreError
    epoch: float


def read_delayed(queue: QueueState) -> None:
    """Read the messages that were delayed before a restart of the broker; the queue is told ``DelayedRead``."""
    persistence = queue.directory.persistence
    if persistence is None or queue.delayed is None:
        return
    found = list(queue.delayed.expected.values())
    epoch = queue.directory.clock.now() - time()
    for start in range(0, len(found), _AT_ONCE):
        some = found[start : start + _AT_ONCE]
        persistence.journal.fetch_delayed(
            queue.backlog.queue, [each.number for each in some], partial(_tell, queue, some, epoch)
        )


def _tell(
    queue: QueueState, found: Sequence[DelayedFound], epoch: float, bodies: Sequence[bytes | None] | StoreError
) -> None:
    queue.ref.tell_nowait(DelayedRead(found, bodies, epoch))


def put_back_delayed(queue: QueueState, message: DelayedRead) -> None:
    """Delay messages again, for as long as is left; those that cannot be read stay in the store."""
    if isinstance(message.bodies, StoreError):
        fields = {"queue": queue.name, "reason": str(message.bodies)}
        _log.error("delayed messages cannot be read", extra={"fields": fields})
        return
    persistence, delayed, now = queue.directory.persistence, queue.delayed, queue.directory.clock.now()
    assert persistence is not None
    assert delayed is not None
    for found, body in zip(message.found, message.bodies, strict=True):
        if not delayed.arrive(found.number):
            continue
        try:
            run = _decoded(body or b"", found.number, persistence.heads, now)
        except msgspec.DecodeError:
            _log.error(
                "delayed messages are damaged and set aside; see `triomq store salvage`",
                extra={"fields": {"queue": queue.name, "messages": found.count}},
            )
            continue
        delayed.push(run, message.epoch + found.due)


def _decoded(body: bytes, number: int, codec: HeadCodec, now: float) -> DelayedRun:
    """Return the messages of one record; they have the same traits."""
    parts = decode_body(body)
    if len(parts) != 1:
        raise msgspec.DecodeError(f"{len(parts)} runs in the record of one")
    contents = parts[0].contents
    head, heads, _, _ = codec.decode_run(parts[0].head, len(contents), now)
    return DelayedRun(head, contents, sum(map(len, contents)), number, heads)
