"""Messages that leave a queue for good without a consumer: the asker has them somewhere else in the same turn.

    take ─▶ Batch ─▶ Stretch, for the asker
              └────▶ accepted here, and in the store's open batch, as is what the asker does with them

So that after a crash each of them is in one place. The queue reports of them what it reports of all that are delivered.
"""

from collections.abc import Callable, Sequence
from typing import Final

from triomq.actors import Request
from triomq.core.batch import Batch
from triomq.core.delivery import Outcome
from triomq.core.dispatch.dispatch import ReadyMessages
from triomq.core.message import Stretch
from triomq.core.queue.moved import MovedMessages, where_from
from triomq.core.queue.paging import Paging
from triomq.core.queue.queue_state import QueueState
from triomq.core.queue.timekeeper import Timekeeper
from triomq.errors import InExclusiveUse

_PIECE: Final = 64 * 1024
"""Bytes that leave together: a chunk of a stream has that many, and a piece is in one chunk."""


class TakeOver(Request[Sequence[MovedMessages]], frozen=True):
    """To a queue: give up the first ready messages for good, to an asker that has them somewhere else in this turn.

    Feeds that have room are served first. The answer is in pieces of some tens of KiB.

    Args:
        most: Messages.
        most_bytes: Bytes, one message excepted.

    Raises (in the asker):
        InExclusiveUse: A consumer has the queue for itself.
        NotResident: They are being read from the store; ask again.
        QueueUnreadable: The store cannot give them back.
    """

    most: int
    most_bytes: int


class HandBack(Request[None], frozen=True):
    """To a queue: messages that were taken over come back, behind all that it has, whatever its limits are.

    Args:
        messages: The messages; their heads should have the trait ``repeated``.
    """

    messages: Sequence[MovedMessages]


def take_over(
    state: QueueState, message: TakeOver, time: Timekeeper, paging: Paging, deliver: Callable[[], bool]
) -> Sequence[MovedMessages]:
    """Take the first messages of a queue that have not expired, after feeds have taken what they can.

    Args:
        state: The queue's.
        message: How much is wanted.
        time: The queue's.
        paging: The queue's.
        deliver: Serves its feeds; false if too much has expired for one turn.

    Raises:
        InExclusiveUse: A consumer has the queue for itself.
        NotResident: The first message has to be read from the store.
        QueueUnreadable: It cannot be read.
    """
    if state.feeds and next(iter(state.feeds)).exclusive:
        raise InExclusiveUse(state.name)
    time.use()
    takeover, backlog = _Takeover(state, message), state.backlog
    if not deliver():
        return ()
    if not backlog.resident and backlog.paged:
        paging.require_resident(deliver)
    while True:
        if time.has_expiring:
            time.dispatch_unexpired(takeover.take)
        else:
            takeover.take(backlog)
        if takeover.is_full or not backlog.paged or not paging.page_in():
            return takeover.messages


class _Takeover:
    """What one ``TakeOver`` takes; ``messages`` are those so far."""

    __slots__ = ("_most", "_most_bytes", "_state", "messages")

    def __init__(self, state: QueueState, message: TakeOver) -> None:
        self._state = state
        self._most = message.most
        self._most_bytes = message.most_bytes
        self.messages: list[MovedMessages] = []

    @property
    def is_full(self) -> bool:
        """Whether no more are wanted."""
        return self._most <= 0 or self._most_bytes <= 0

    def take(self, ready: ReadyMessages) -> list[Batch]:
        """Take messages; returns no batches, since none is outstanding."""
        while ready.resident and not self.is_full:
            if self.messages and ready.next_size() > self._most_bytes:
                self._most = 0
                break
            batch = ready.take(self._most, min(self._most_bytes, _PIECE))
            self._most -= batch.left
            self._most_bytes -= batch.size
            self._settle(batch)
        return []

    def _settle(self, batch: Batch) -> None:
        state, observers = self._state, self._state.directory.message_observers
        batch.queue = state.ref
        state.delivered += batch.left
        moved_from = where_from(state, batch.ids)
        if observers is not None:
            observers.handed_out(state, batch)
            observers.settled(state, batch, None, Outcome.ACCEPT)
        contents: list[bytes] = [*batch.contents]  # type: ignore[list-item]  # none of them is settled yet
        self.messages.append(MovedMessages(Stretch(batch.head, contents, batch.heads), moved_from))
        state.backlog.accept(batch)
