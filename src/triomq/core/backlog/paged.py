"""The backlog of a queue in a broker with a store: changes are written to the journal, and its tail is paged out.

It has another backlog inside for the messages that are resident: in memory, from the first message on. The rest is the
``PagedTail``. The queue asks for more when the resident ones get few (``fetch``), so a consumer never waits for a disk
unless it is faster than that.

What a durable queue keeps is told to the store in the very turn: messages that came, that are settled, how far they
were delivered, and how often they came back. Messages that are not persistent, and queues that are not durable, tell
nothing but what has to be out of memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf

from triomq.core.backlog.entry import Entry
from triomq.core.backlog.memory import MemoryBacklog
from triomq.core.backlog.priority import PriorityBacklog
from triomq.core.backlog.tail import PagedRun, PagedTail
from triomq.core.batch import Batch
from triomq.core.keeping import Keeping
from triomq.core.message import Head
from triomq.errors import StoreError
from triomq.store import Attempts, Reading

_OVERHEAD = 128
"""Octets that a message takes beside its body."""


class PagedBacklog:
    """Ready and outstanding messages of one queue, kept as far as they are to be.

    ``expiring_paged_in`` says whether messages that can expire have come to be at hand since somebody has last asked.

    Args:
        inner: The backlog of what is at hand.
        keeping: The broker's.
        queue: The queue's number in the store.
        name: The queue's name, for the log.
        durable: Whether its persistent messages are there again after a restart.
        now: Gives the time of the domain's clock, in seconds.
    """

    __slots__ = (
        "_attempts",
        "_delivered",
        "_durable",
        "_inner",
        "_journal",
        "_keeping",
        "_marked",
        "_memory",
        "_now",
        "_tail",
        "_whole",
        "expiring_paged_in",
        "queue",
    )

    def __init__(
        self,
        inner: MemoryBacklog | PriorityBacklog,
        keeping: Keeping,
        queue: int,
        *,
        name: str,
        durable: bool,
        now: Callable[[], float],
    ) -> None:
        """Start empty."""
        self.queue = queue
        self._inner = inner
        self._keeping = keeping
        self._journal = keeping.journal
        self._durable = durable
        self._now = now
        # Which message of a queue with priorities goes first is only known if all are at hand.
        self._whole = isinstance(inner, PriorityBacklog)
        self._memory = inf if self._whole else keeping.queue_memory
        self._tail = PagedTail(keeping, queue, name, now)
        self._delivered: Mapping[int, int] = {}  # up to which ids, by level, an earlier life of the broker delivered
        self._marked: dict[int, int] = {}  # up to which ids the store was told that they are delivered
        self.expiring_paged_in = False
        self._attempts: dict[int, int] = {}  # how often messages came back then, above once

    def recover(
        self, next_id: int, count: int, size: int, delivered: Mapping[int, int], attempts: Mapping[int, int]
    ) -> None:
        """Begin with what the store has from an earlier life of the broker; all of it is paged out.

        Args:
            next_id: The id of the next message that comes.
            count: How many messages there are.
            size: Octets of their bodies, about.
            delivered: Up to which ids they were delivered, by level.
            attempts: How often messages came back, above once, by id.
        """
        # What was settled before it could be written has left its marks, but no id.
        self._inner.next_id = max([next_id - 1, *delivered.values(), *attempts]) + 1
        self._delivered = delivered
        self._marked = dict(delivered)
        self._attempts = dict(attempts)
        if count:
            self._tail.recover(1, count, size)

    # What there is

    @property
    def ready(self) -> int:
        """How many messages are at hand that no consumer has."""
        return 0 if self._whole and self._tail.count else self._inner.ready

    @property
    def ready_bytes(self) -> int:
        """Octets of their bodies."""
        return self._inner.ready_bytes

    @property
    def unsettled(self) -> int:
        """How many messages are out."""
        return self._inner.unsettled

    @property
    def next_id(self) -> int:
        """The id of the next message that comes."""
        return self._inner.next_id

    @property
    def paged(self) -> int:
        """How many ready messages are not at hand."""
        return self._tail.count + (self._inner.ready - self.ready)

    @property
    def paged_bytes(self) -> int:
        """Octets of the bodies that are not at hand."""
        return self._tail.size

    @property
    def unwritten_bytes(self) -> int:
        """Octets of messages that count as paged out and are in memory until they are written."""
        return self._tail.held

    @property
    def has_spilled(self) -> bool:
        """Whether messages were put into the store only to have them out of memory."""
        return self._tail.spilled

    @property
    def damaged(self) -> int:
        """How many messages the disk has changed; they stay in the store and count nowhere else."""
        return self._tail.damaged

    @property
    def is_unreadable(self) -> bool:
        """Whether the store could not give back what it has."""
        return self._tail.broken

    # Coming

    def push(self, head: Head, contents: Sequence[bytes], size: int, deadline: float = inf, level: int = 0) -> None:
        """Append messages of a run; ``size`` is the total of their octets, ``deadline`` when they expire."""
        count = len(contents)
        if not count:
            return
        inner, tail = self._inner, self._tail
        first = inner.next_id
        kept = self._durable and head.persistent
        apart = tail.count or inner.ready_bytes + inner.ready * _OVERHEAD > self._memory
        if kept or apart:
            encoded = self._keeping.heads.encode(head, level, deadline, self._now() if deadline < inf else 0.0)
            bodies = size - count * (head.body_start + head.body_trailer)
        if kept:
            tail.spill()
            self._journal.append(self.queue, first, encoded, contents, bodies)
        if apart:
            inner.next_id = first + count
            number = self._journal.number if kept else 0
            tail.put(PagedRun(head, contents, first, size, deadline, level), encoded, bodies, number)
        else:
            inner.push(head, contents, size, deadline, level)

    def fetch(self, done: Callable[[Reading | StoreError], None]) -> bool:
        """Have more at hand if it gets short, and tell whether there is more at once.

        Args:
            done: Called with what was read from disk, outside of any turn; it is for ``arrived``.
        """
        inner = self._inner
        before = inner.ready
        while self._tail.count and (inner.ready_bytes + inner.ready * _OVERHEAD) * 2 <= self._memory:
            found = self._tail.get(inner.next_id, done)
            if not found:
                break
            self._put_in(found)
        return inner.ready > before

    def ask_again(self) -> None:
        """Wait no longer for what is being read: whoever would be told is gone."""
        self._tail.ask_again()

    def arrived(self, reading: Reading | StoreError) -> None:
        """Have at hand what was read."""
        self._put_in(self._tail.read(reading))

    def _put_in(self, found: Sequence[PagedRun]) -> None:
        """Put messages behind those that are at hand; those that were delivered before the restart go marked."""
        inner, next_id = self._inner, self._inner.next_id
        for run in found:
            self.expiring_paged_in = self.expiring_paged_in or run.deadline < inf
            delivered = min(max(0, self._delivered.get(run.level, 0) + 1 - run.first), len(run.contents))
            for number, content in enumerate(run.contents[:delivered], run.first):
                attempts = self._attempts.pop(number, 1)
                inner.restore(number, run.head, content, run.deadline, run.level, attempts)
            contents = run.contents[delivered:] if delivered else run.contents
            if contents:
                inner.next_id = run.first + delivered
                size = sum(map(len, contents)) if delivered else run.size
                inner.push(run.head, contents, size, run.deadline, run.level)
        inner.next_id = next_id

    # Going out

    def take(self, most: int, most_bytes: int) -> Batch:
        """Hand out the first ready messages; see ``MemoryBacklog.take``."""
        batch = self._inner.take(most, most_bytes)
        if self._durable:
            self._note_delivered(batch)
        return batch

    def take_turns(self, feeds: int, rounds: int) -> list[Batch]:
        """Hand out messages in turns; see ``MemoryBacklog.take_turns``."""
        batches = self._inner.take_turns(feeds, rounds)
        if self._durable:
            for batch in batches:
                self._note_delivered(batch)
        return batches

    def _note_delivered(self, batch: Batch) -> None:
        last = batch.ids[-1]
        if batch.head.persistent and last > self._marked.get(batch.level, 0):  # what comes back is marked already
            self._marked[batch.level] = last
            self._journal.delivered(self.queue, batch.level, last)

    def accept(self, batch: Batch, positions: Sequence[int] | None = None) -> tuple[int, int]:
        """Settle messages for good; see ``MemoryBacklog.accept``."""
        if self._durable and batch.head.persistent:
            self._forget_positions(batch, positions)
        return self._inner.accept(batch, positions)

    def _forget_positions(self, batch: Batch, positions: Sequence[int] | None) -> None:
        ids, contents = batch.ids, batch.contents
        if positions is None and batch.left == len(contents) and isinstance(ids, range) and ids.step == 1:
            self._journal.settle(self.queue, ids.start, len(ids))
            return
        for position in batch.unsettled() if positions is None else positions:
            if contents[position] is not None:
                self._journal.settle(self.queue, ids[position])

    def requeue(self, batch: Batch, positions: Sequence[int] | None = None, *, marked: bool = True) -> tuple[int, int]:
        """Put messages back in their old places; see ``MemoryBacklog.requeue``."""
        if not (marked and self._durable and batch.head.persistent):
            return self._inner.requeue(batch, positions, marked=marked)
        back = batch.unsettled() if positions is None else positions
        numbers = [batch.ids[position] for position in back if batch.contents[position] is not None]
        result = self._inner.requeue(batch, positions, marked=True)
        for number in numbers:
            self._note_attempts(number)
        return result

    def set_aside(self, batch: Batch, position: int) -> Batch:
        """Part a message from its batch; see ``MemoryBacklog.set_aside``."""
        alone = self._inner.set_aside(batch, position)
        if self._durable and batch.head.persistent:
            self._note_attempts(alone.ids[0])
        return alone

    def _note_attempts(self, number: int) -> None:
        attempts = self._inner.attempts(number)
        if attempts > 1:  # that it was delivered at all is known from the mark
            self._journal.add(Attempts(self.queue, number, attempts))

    # Going for good

    def drop(self, count: int, level: int = 0) -> Sequence[int]:
        """Take so many of the messages that ``first`` shows out for good; give their ids."""
        ids = self._inner.drop(count, level)
        if self._durable:
            self._journal.settle(self.queue, ids[0], len(ids))
        return ids

    def discard(self, up_to: int) -> int:
        """Take all messages that are at hand, with an id up to this, out for good, and tell how many they were."""
        return self._inner.discard(self._forget_ready(up_to))

    def purge(self) -> int:
        """Take all ready messages out for good and tell how many they were."""
        stop = self._inner.next_id
        self._forget_ready(stop)
        if self._tail.count and self._durable:
            self._journal.settle(self.queue, self._tail.first, stop - self._tail.first)
        return self._inner.purge() + self._tail.purge(stop)

    def _forget_ready(self, up_to: int) -> int:
        if self._durable:
            for first, count in self._inner.ready_ids(up_to):
                self._journal.settle(self.queue, first, count)
        return up_to

    # Looking

    @property
    def run_length(self) -> int:
        """How many messages ``take_turns`` can deal."""
        return self._inner.run_length

    @property
    def next_level(self) -> int:
        """The level whose first message goes next."""
        return self._inner.next_level

    @property
    def lowest_level(self) -> int:
        """The level whose first message gives way when there are too many."""
        return self._inner.lowest_level

    def longest(self, count: int) -> int:
        """Tell the octets of the largest of the messages that would be dealt first."""
        return self._inner.longest(count)

    def next_size(self) -> int:
        """Tell the octets of the message that goes next."""
        return self._inner.next_size()

    def next_head(self) -> Head:
        """Give the head of the message that goes next."""
        return self._inner.next_head()

    def next_deadline(self) -> float:
        """Tell when the first message that is at hand expires."""
        return self._inner.next_deadline()

    def expired_level(self, now: float) -> int | None:
        """Name a level whose first message has expired, if there is one."""
        return self._inner.expired_level(now)

    def first(self, most: int, level: int = 0) -> tuple[Head, list[bytes]]:
        """Look at the first ready messages of a level; see ``MemoryBacklog.first``."""
        return self._inner.first(most, level)

    def holds(self, batch: Batch) -> bool:
        """Tell whether a batch is outstanding here."""
        return self._inner.holds(batch)

    def outstanding(self) -> list[Batch]:
        """List the batches that are out."""
        return self._inner.outstanding()

    def attempts(self, number: int) -> int:
        """Tell how often the message with this id was delivered and came back."""
        return self._inner.attempts(number)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Go through the messages that are at hand, with ids above ``after``."""
        return self._inner.entries(after)


Backlog = MemoryBacklog | PriorityBacklog | PagedBacklog
"""What a queue's messages stand in."""
