"""A queue that calls its domain's tracer with what it stores; only where there is one, so that others cost nothing."""

from collections.abc import Callable, Sequence
from functools import partial

from triomq.core.message import Head, Stretch
from triomq.core.publishing.confirms import Receipt
from triomq.core.publishing.publish import Offer
from triomq.core.queue.moved import MovedFrom, MovedMessages, PublishMoved
from triomq.core.queue.queue import Queue
from triomq.core.queue.queue_state import QueueState


class TracedArrivals:
    """Where messages were before that are being stored; made by the actor of each traced queue and stream."""

    __slots__ = ("_coming", "tracer")

    def __init__(self, state: QueueState) -> None:
        tracer = state.directory.tracer
        assert tracer is not None, "without one a plain queue does"
        self.tracer = tracer
        self._coming: MovedMessages | None = None

    def store(self, messages: MovedMessages, store: Callable[[], object]) -> None:
        """Store messages that were elsewhere, perhaps in the middle of storing others."""
        before, self._coming = self._coming, messages
        try:
            store()
        finally:
            self._coming = before

    def where_from(self, contents: Sequence[bytes]) -> MovedFrom | None:
        """Return where contents were that are being stored; None if they are new."""
        return None if self._coming is None else self._coming.where_from(contents)


class TracedQueue(Queue):
    """The actor of a queue in a domain that is traced."""

    __slots__ = ("_arrivals", "_tracer")

    def __init__(self, state: QueueState) -> None:
        super().__init__(state)
        self._arrivals = TracedArrivals(state)
        self._tracer = self._arrivals.tracer

    def publish_moved(self, message: PublishMoved) -> None:
        """Store messages that were in another queue."""
        self._arrivals.store(MovedMessages(message.stretch, message.moved_from), partial(self.publish, message))

    def _take_back(self, messages: MovedMessages) -> None:
        self._arrivals.store(messages, partial(super()._take_back, messages))

    def _push_due(self, head: Head, contents: Sequence[bytes], size: int, heads: Sequence[Head] | None) -> None:
        coming = MovedMessages(Stretch(head, contents, heads), MovedFrom(self._state.name))
        self._arrivals.store(coming, partial(super()._push_due, head, contents, size, heads))

    def _push(
        self,
        head: Head,
        contents: Sequence[bytes],
        size: int,
        heads: Sequence[Head] | None = None,
        receipt: Receipt | None = None,
    ) -> None:
        first = self._backlog.next_id
        super()._push(head, contents, size, heads, receipt)
        self._tracer.queued(self._state, first, head, contents, heads, self._arrivals.where_from(contents))

    def offer(self, message: Offer) -> bool:
        number = self._backlog.next_id
        taken = super().offer(message)
        if not taken and number < self._backlog.next_id:
            self._tracer.removed(self._state, (number,), None)
        return taken

    def _drop_unwanted(self) -> None:
        ids = self._backlog.first_ids(1, self._backlog.next_level)
        super()._drop_unwanted()
        self._tracer.removed(self._state, ids, None)

    def on_stop(self) -> None:
        if self._state.gone:
            # What consumers have goes with it; nothing that they settle now is heard of.
            for batch in self._backlog.outstanding():
                self._tracer.removed(self._state, batch.unsettled_ids(None), None)
        super().on_stop()
        if self._state.gone:
            self._tracer.ended(self._state)
