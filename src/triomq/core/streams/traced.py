"""A stream that calls its domain's tracer with what it stores, as ``TracedQueue`` does."""

from collections.abc import Sequence
from functools import partial

from triomq.core.message import Head, Stretch
from triomq.core.publishing.publish import PublishChunk
from triomq.core.queue.moved import MovedFrom, MovedMessages, PublishMoved
from triomq.core.queue.queue_state import QueueState
from triomq.core.queue.traced import TracedArrivals
from triomq.core.streams.stream import Stream


class TracedStream(Stream):
    """The actor of a stream in a domain that is traced."""

    __slots__ = ("_arrivals", "_tracer")

    def __init__(self, state: QueueState) -> None:
        super().__init__(state)
        self._arrivals = TracedArrivals(state)
        self._tracer = self._arrivals.tracer

    def publish_moved(self, message: PublishMoved) -> None:
        """Append messages that were in a queue."""
        self._arrivals.store(MovedMessages(message.stretch, message.moved_from), partial(self.publish, message))

    def _push(self, head: Head, contents: Sequence[bytes], size: int, heads: Sequence[Head] | None = None) -> None:
        coming = MovedMessages(Stretch(head, contents, heads), MovedFrom(self._state.name))  # whose delay is over
        self._arrivals.store(coming, partial(super()._push, head, contents, size, heads))

    def _append(self, head: Head, contents: Sequence[bytes], size: int, heads: Sequence[Head] | None) -> int:
        first = self._log.next_id
        batch = super()._append(head, contents, size, heads)
        placed = self._log.next_id - first
        if placed:
            if placed < len(contents):  # what a publisher has sent again comes first, and is left out
                contents, heads = contents[-placed:], None if heads is None else heads[-placed:]
            head = head if heads is None else heads[0]
            self._tracer.queued(self._state, first, head, contents, heads, self._arrivals.where_from(contents))
        return batch

    def publish_chunk(self, message: PublishChunk) -> None:
        first = self._log.next_id
        super().publish_chunk(message)
        self._tracer.appended(self._state, first, self._log.next_id - first)

    def on_stop(self) -> None:
        if self._state.gone:
            for batch in self._log.outstanding():
                self._tracer.removed(self._state, batch.unsettled_ids(None), None)
        super().on_stop()
        if self._state.gone:
            self._tracer.ended(self._state)
