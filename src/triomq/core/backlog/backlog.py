"""What a queue asks of its backlog, whatever holds the messages.

A backlog has the messages of one queue that are *ready* (no consumer has them) and knows those that are *out*
(unsettled, in a ``Batch`` with a consumer). Every message has an id: one integer per queue, growing, never reused; ids
are the order of arrival. A backlog never waits and tells no actor anything.

Ready messages are *resident* (in memory, and may be handed out at once) or *paged* (in the store, or on the way there;
they have to be paged in first). Three kinds exist, and a word means the same in all of them:

==================== ================ ================= =====================
kind                 broker           resident          paged
==================== ================ ================= =====================
``MemoryBacklog``    without a store  all that is ready nothing
``PriorityBacklog``  without a store  all that is ready nothing
``PagedBacklog``     with a store     the first ones    everything behind them
==================== ================ ================= =====================
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from math import inf

import msgspec

from triomq.core.batch import Batch
from triomq.core.message import Head, QueueMessage, Stretch
from triomq.errors import StoreError
from triomq.store import Reading

BROWSE_BYTES = 2 * 1024 * 1024
"""Bytes of contents that one browse returns, one message excepted: some milliseconds of copying for the browser."""

ReadDone = Callable[[Reading | StoreError], None]
"""Called with what was read from the store, outside of any turn."""

Remains = Sequence[bytes]
"""Contents of removed messages."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A ready message as one looks at it in its place.

    Args:
        id: Its id, which stays the same as long as it is in the queue.
        attempts: How often it was delivered and came back.
        deadline: When it expires, in seconds of the domain's clock; infinity if never.
        message: Head and bytes.
    """

    id: int
    attempts: int
    deadline: float
    message: QueueMessage


class Backlog:
    """The base of all backlogs; made with its queue, outlives the queue's incarnations.

    ``resident`` counts the ready messages in memory, ``resident_bytes`` the bytes of their bodies; ``paged`` and
    ``paged_bytes`` count the ready messages that are not. ``unsettled`` counts the unsettled messages, and
    ``next_id`` is the id of the next message that comes.
    """

    __slots__ = ("next_id", "resident", "resident_bytes", "unsettled")

    paged: int = 0
    paged_bytes: int = 0
    queue: int = 0
    """The queue's number in the store; 0 if it has none."""

    def __init__(self) -> None:
        self.next_id = 1
        self.resident = 0
        self.resident_bytes = 0
        self.unsettled = 0

    @property
    def ready(self) -> int:
        """How many messages no consumer has, wherever they are."""
        return self.resident + self.paged

    @property
    def ready_bytes(self) -> int:
        """Bytes of the bodies of the ready messages."""
        return self.resident_bytes + self.paged_bytes

    @property
    def delivered_before(self) -> int:
        """The highest id that was perhaps delivered before the broker was restarted; 0 if none was."""
        return 0

    @property
    def buffered_bytes(self) -> int:
        """Bytes of paged messages that are in memory nevertheless: not written yet, or read for a browser."""
        return 0

    @property
    def has_spilled(self) -> bool:
        """Whether the store has any messages only to have them out of memory."""
        return False

    @property
    def is_unreadable(self) -> bool:
        """Whether the store could not give back paged messages."""
        return False

    @property
    def is_reading(self) -> bool:
        """Whether messages are being read from the store."""
        return False

    # Coming

    def push(
        self,
        head: Head,
        contents: Sequence[bytes],
        size: int,
        deadline: float = inf,
        level: int = 0,
        heads: Sequence[Head] | None = None,
    ) -> None:
        """Append the messages of a run.

        Args:
            head: The first one's, and that of all if ``heads`` is None.
            contents: Their bytes.
            size: Total of the bytes.
            deadline: When they expire, in seconds of the domain's clock; infinity if never.
            level: Their priority.
            heads: The head of each, all with the same traits; None if they have the same head.
        """
        raise NotImplementedError

    def restore(self, number: int, head: Head, content: bytes, deadline: float, level: int, attempts: int) -> None:
        """Put a message in its place that was delivered so many times before the broker was restarted."""
        raise NotImplementedError

    # Going out

    def take(self, most: int, most_bytes: int) -> Batch:
        """Hand out the first resident messages of one run: at most so many, and so many bytes; at least one.

        The batch counts as unsettled until it is settled, requeued or returned.

        Raises:
            IndexError: Nothing is resident.
        """
        raise NotImplementedError

    def take_turns(self, feeds: int, rounds: int) -> list[Batch]:
        """Hand out messages in turns: message by message, one batch for each feed.

        Takes from the first run alone (see ``run_length``), so there must be no returned messages before it; hands out
        fewer rounds than asked for when the run is short, and less than one when there are fewer messages than feeds.

        Raises:
            IndexError: Nothing is resident.
        """
        raise NotImplementedError

    def accept(
        self, batch: Batch, positions: Sequence[int] | None = None, *, consumed: bool = False
    ) -> tuple[int, int]:
        """Settle messages for good: all of a batch that are left, or those at some positions.

        Args:
            batch: The batch.
            positions: Where in it they are; None for all that are left.
            consumed: Whether a consumer has them, whatever happens: their publisher need not wait for the disk then.

        Returns:
            How many messages and how many bytes are unsettled no longer.
        """
        raise NotImplementedError

    def requeue(self, batch: Batch, positions: Sequence[int] | None = None, *, marked: bool = True) -> tuple[int, int]:
        """Put messages back in their old places, marked as delivered before or, if never sent, as they were.

        Returns:
            How many messages and how many bytes are unsettled no longer.
        """
        raise NotImplementedError

    def set_aside(self, batch: Batch, position: int) -> Batch:
        """Part an unsettled message from its batch, delivered once more; it stays unsettled, and belongs to no feed.

        Returns:
            A batch that holds it alone, for ``requeue`` to put back unmarked.
        """
        raise NotImplementedError

    def holds(self, batch: Batch) -> bool:
        """Return whether a batch is unsettled: not wholly settled, and not put back after a crash."""
        raise NotImplementedError

    def outstanding(self) -> list[Batch]:
        """Return the unsettled batches."""
        raise NotImplementedError

    # Looking at what goes next

    @property
    def run_length(self) -> int:
        """How many messages ``take_turns`` can hand out: those of the first run, none while returned ones go first."""
        raise NotImplementedError

    @property
    def next_level(self) -> int:
        """The level whose first message goes next."""
        raise NotImplementedError

    @property
    def lowest_level(self) -> int:
        """The level whose first message gives way when there are too many."""
        raise NotImplementedError

    def longest(self, count: int) -> int:
        """Return the bytes of the largest of the first ``count`` messages of the first run."""
        raise NotImplementedError

    def next_size(self) -> int:
        """Return the bytes of the first resident message.

        Raises:
            IndexError: Nothing is resident.
        """
        raise NotImplementedError

    def next_head(self) -> Head:
        """Return the head of the first resident message.

        Raises:
            IndexError: Nothing is resident.
        """
        raise NotImplementedError

    def next_deadline(self) -> float:
        """Return when the first resident message expires; infinity if never, or when nothing is resident."""
        raise NotImplementedError

    def expired_level(self, now: float) -> int | None:
        """Return a level whose first resident message has expired, if there is one."""
        raise NotImplementedError

    def first(self, most: int, level: int = 0) -> Stretch:
        """Return the first resident messages of a level, which share traits and a deadline: at most so many.

        Raises:
            IndexError: Nothing is resident.
        """
        raise NotImplementedError

    def first_ids(self, count: int, level: int = 0) -> Sequence[int]:
        """Return the ids of so many of the messages that ``first`` returns."""
        raise NotImplementedError

    # Going for good

    def drop(self, count: int, level: int = 0) -> Sequence[int]:
        """Remove so many of the messages that ``first`` returns; return their ids, which are in a row."""
        raise NotImplementedError

    def resident_ids(self, up_to: int) -> Iterator[tuple[int, int]]:
        """Yield the ids up to this of resident messages: the first of some in a row, and how many."""
        raise NotImplementedError

    def discard(self, up_to: int) -> int:
        """Remove the resident messages with an id up to this; return how many they were.

        If ``has_paged(up_to)`` then, the others have to be paged in first.
        """
        raise NotImplementedError

    def has_paged(self, up_to: int) -> bool:
        """Return whether messages with an id up to this may be paged."""
        return False

    def purge(self, remains: list[Remains]) -> int:
        """Remove all ready messages, paged or not; return how many they were.

        Args:
            remains: Gets what was in memory: to free millions of messages takes long, and is done bit by bit.
        """
        raise NotImplementedError

    def release(self, remains: list[Remains]) -> None:
        """Hand over the ready messages that are in memory, since the queue is deleted; the store is not told."""
        raise NotImplementedError

    # Browsing

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Yield the resident messages with ids above ``after``; the backlog must not change meanwhile."""
        raise NotImplementedError

    def browse(self, after: int, limit: int, done: ReadDone) -> list[Entry] | None:
        """Return ready messages by their ids.

        Args:
            after: Only messages with an id above this one.
            limit: At most so many; fewer when their bytes come to ``BROWSE_BYTES``.
            done: Called when messages were read that ``browse`` asked the store for; it is for ``page_read``.

        Returns:
            The messages; an empty list only if there are no more. None if they have to be read first.
        """
        return page_of(islice(self.entries(after), limit))


def page_of(entries: Iterator[Entry]) -> list[Entry]:
    """Return the entries that one browse shows: until their bytes come to ``BROWSE_BYTES``."""
    page: list[Entry] = []
    room = BROWSE_BYTES
    for entry in entries:
        room -= len(entry.message.content)
        if room < 0 and page:
            break
        page.append(entry)
    return page
