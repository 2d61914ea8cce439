"""Where messages were before, for the tracer: which of a queue's have become those of another queue, and why.

    a queue ── where_from, None without a tracer ─▶ PublishMoved, MovedMessages ─▶ the other queue ─▶ Tracer.queued

Which of them are traced is asked while they are still in their queue, which forgets it with them. Nothing is added to
the messages themselves.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from triomq.core.message import Head, Stretch
from triomq.core.publishing.publish import Publish

if TYPE_CHECKING:
    from triomq.core.queue.queue_state import QueueState


class MovedFrom(msgspec.Struct, frozen=True, gc=False):
    """Where the messages of a run come from.

    Args:
        queue: The queue's name.
        ids: Their ids in it, in their order; none if they had none there, since they were delayed.
        traced: Those of them that are traced.
        reason: Why they are dead letters; empty if they are none.
    """

    queue: str
    ids: Sequence[int] = ()
    traced: Sequence[int] = ()
    reason: str = ""


class PublishMoved(Publish, frozen=True):
    """To a queue: store messages that were in another one; only where there is a tracer."""

    moved_from: MovedFrom = MovedFrom("")


class MovedMessages(NamedTuple):
    """Messages that go from a queue to a ledger, or back.

    Args:
        stretch: The messages.
        origin: Where they were; None without a tracer.
    """

    stretch: Stretch
    moved_from: MovedFrom | None = None

    def where_from(self, contents: Sequence[bytes]) -> MovedFrom | None:
        """Return where contents were if they are these: others may become ready while these are stored."""
        return self.moved_from if contents[0] is self.stretch.contents[0] else None


def publish_of(head: Head, content: bytes, moved_from: MovedFrom | None) -> Publish:
    """Return what a queue is told that is to store a message which was in another one, as far as that is known."""
    if moved_from is None:
        return Publish(head, [content], len(content))
    return PublishMoved(head, [content], len(content), moved_from=moved_from)


def where_from(state: "QueueState", ids: Sequence[int], reason: str = "") -> MovedFrom | None:
    """Return what is to be known of messages that leave a queue for another one; None without a tracer."""
    tracer = state.directory.tracer
    return None if tracer is None else MovedFrom(state.name, ids, tracer.traces(state, ids), reason)
