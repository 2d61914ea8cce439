"""One message as a consumer in this process gets it, to be settled; and one as it is browsed."""

from threading import get_ident
from types import TracebackType
from typing import NoReturn, Self

from triomq.app.consumers import Consumers
from triomq.core import Batch, Codecs, Entry, Outcome, Properties, postpone, settle

_OTHER_WORDS = {
    "ack": "accept(), or `with delivery:`, which accepts when the block ends",
    "acknowledge": "accept(), or `with delivery:`, which accepts when the block ends",
    "nack": "requeue() to put it back, or reject() to give it up",
    "message": "body, and properties for its type, headers and the like",
    "headers": "properties.headers",
    "routing_key": "key",
    "exchange": "sink",
}
"""Names that other libraries use, and their names here."""

_TOO_LATE = (
    "a delivery was settled after its feed was closed, or after its queue was restarted or deleted; if the queue is "
    "there, the message comes again: settle inside the block of the feed"
)


class Delivery:
    """One message on one feed.

    ``with delivery:`` accepts it when the block ends, and puts it back when the block is cancelled. When the block
    fails, the message goes back after 1 s, with each further failure after twice the time, up to 60 s; after five
    failures it becomes a dead letter, if its queue has a sink for those. Settling never waits, so it is synchronous; a
    second settling does nothing.
    """

    __slots__ = ("_batch", "_consumers", "_position", "_settled", "body")

    def __init__(self, batch: Batch, position: int, consumers: Consumers) -> None:
        self._batch = batch
        self._position = position
        self._consumers = consumers
        self._settled = False
        self.body = batch.message(position).body

    def __repr__(self) -> str:
        return f"<Delivery {self.sink!r} {self.key!r} {len(self.body)} bytes>"

    @property
    def sink(self) -> str:
        """The sink that it was published into; empty for the default sink."""
        return self._batch.head_at(self._position).exchange

    @property
    def key(self) -> str:
        """The key that it was published with."""
        return self._batch.head_at(self._position).routing_key

    @property
    def redelivered(self) -> bool:
        """Whether a consumer may have had it before."""
        return self._batch.redelivered

    @property
    def properties(self) -> Properties:
        """Its type, headers, priority and the like; available until it is settled."""
        return self._consumers.codecs.decode(self._batch.message(self._position))

    def accept(self) -> None:
        """Accept it: its work is done, and the queue removes it."""
        self._settle(Outcome.ACCEPT)

    def reject(self) -> None:
        """Reject it: it becomes a dead letter if its queue has a sink for those, or is dropped."""
        self._settle(Outcome.REJECT)

    def requeue(self) -> None:
        """Put it back in its old place, for the next consumer."""
        self._settle(Outcome.REQUEUE)

    def _settle(self, outcome: Outcome, failure: str = "") -> None:
        if self._settled:
            return
        if get_ident() != self._consumers.thread:
            self._consumers.check_thread()
        self._settled = True
        contents = self._batch.contents
        if not contents or contents[self._position] is None:
            self._came_too_late(outcome)
        elif failure:
            postpone(self._batch, self._position, failure)
        else:
            settle(self._batch, outcome, (self._position,))

    def _came_too_late(self, outcome: Outcome) -> None:
        """Warn that the settling changes nothing: the queue has the message again, or is gone."""
        if outcome is Outcome.ACCEPT or outcome is Outcome.REJECT:
            queue = self._batch.queue.name.removeprefix("queue.") if self._batch.queue is not None else ""
            self._consumers.warn(_TOO_LATE, lambda: {"queue": queue, "outcome": outcome.value})

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse a name that other libraries use, with the name that it has here."""
        word = _OTHER_WORDS.get(name)
        hint = f"use {word}" if word else "settle it with accept(), reject() or requeue()"
        raise AttributeError(f"a delivery has no {name!r}; {hint}")

    def __enter__(self) -> Self:
        """Return this delivery; leaving the block settles it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Accept it, or put it back: at once if the block was cancelled, after a delay if it failed."""
        if error is None:
            self.accept()
        elif isinstance(error, Exception):
            self._settle(Outcome.REQUEUE, repr(error))
        else:
            self.requeue()


class Browsed:
    """One message in a queue, as ``QueueHandle.browse`` returns it: a copy, which later changes do not touch."""

    __slots__ = ("_codecs", "_entry", "body")

    def __init__(self, entry: Entry, codecs: Codecs) -> None:
        self._entry = entry
        self._codecs = codecs
        self.body = entry.message.body

    def __repr__(self) -> str:
        return f"<Browsed {self.id} {self.sink!r} {self.key!r} {len(self.body)} bytes>"

    @property
    def id(self) -> int:
        """Its id, which stays the same as long as it is in the queue."""
        return self._entry.id

    @property
    def sink(self) -> str:
        """The sink that it was published into; empty for the default sink."""
        return self._entry.message.head.exchange

    @property
    def key(self) -> str:
        """The key that it was published with."""
        return self._entry.message.head.routing_key

    @property
    def attempts(self) -> int:
        """How often it was delivered and put back."""
        return self._entry.attempts

    @property
    def properties(self) -> Properties:
        """Its type, headers, priority and the like."""
        return self._codecs.decode(self._entry.message)
