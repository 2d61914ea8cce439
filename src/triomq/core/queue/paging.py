"""Paging: how a queue gets messages back into memory, in a broker with a store.

The backlog knows what is paged, and asks the store; the queue decides when: at the end of a turn, if few messages are
resident, and when a request needs one. What has to be read comes later, as ``Arrived`` or ``PageRead``; what is still
in memory, on its way to the disk, is resident at once, and may be delivered in the same turn.
"""

from collections.abc import Callable

from triomq.core.backlog import PagedBacklog
from triomq.core.queue.queue_state import Arrived, QueueState
from triomq.core.queue.timekeeper import Timekeeper
from triomq.core.refusals import NotResident
from triomq.errors import QueueUnreadable, Refused


class Paging:
    """Pages the messages of one incarnation of a queue in; created by the queue, idle in a broker without a store.

    Args:
        state: The queue's.
        time: The queue's.
    """

    __slots__ = ("_state", "_time")

    def __init__(self, state: QueueState, time: Timekeeper) -> None:
        self._state = state
        self._time = time

    def look_for_more(self, deliver: Callable[[], object]) -> None:
        """Page more messages in, if few are resident; those that need not be read are delivered at once.

        Args:
            deliver: Hands out what feeds have room for; not held, since it would make a cycle with the queue.
        """
        while self.page_in():
            deliver()

    def page_in(self) -> bool:
        """Page more messages in, if few are resident; return whether some need not be read first."""
        state, backlog = self._state, self._state.backlog
        assert isinstance(backlog, PagedBacklog)
        found = backlog.fetch(lambda reading: state.ref.tell_nowait(Arrived(reading)))
        self.expect_expiring(backlog)
        return found

    def expect_expiring(self, backlog: PagedBacklog) -> None:
        """Set a deadline if messages were paged in that may expire."""
        if backlog.expiring_paged_in:
            backlog.expiring_paged_in = False
            self._time.expect_expiry()

    def require_resident(self, deliver: Callable[[], object]) -> None:
        """Page the first message in; the argument is that of ``look_for_more``.

        Raises:
            NotResident: It has to be read first.
            QueueUnreadable: It cannot be read.
        """
        self.look_for_more(deliver)
        if not self._state.backlog.resident:
            raise self.not_resident()

    def not_resident(self, done: int = 0) -> Refused:
        """Return why the messages that a request needs are not in memory.

        Args:
            done: How many messages the request has removed already.
        """
        state = self._state
        return QueueUnreadable(state.name) if state.backlog.is_unreadable else NotResident(state, done)
