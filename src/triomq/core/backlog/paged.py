"""The backlog of a queue in a broker with a store: changes are written to the journal, and its tail is paged out.

    id ──▶   1 2 3 4      │ 5 6 7 8 9 … 4711 │ 4712 4713
             resident     │ written          │ pending: on the way to the disk
             (any backlog)│        the ``PagedTail``

Rules:

- The first messages are resident, in memory as in any other backlog: this is one, with the store as its second half.
  The rest is the ``PagedTail``. A new message is resident only if nothing is paged and memory has room, so order is
  never in question.
- The queue pages in when few messages are resident (``fetch``, below half of ``memory``), so a consumer waits for the
  disk only if it is faster than that.
- What happens to the persistent messages of a durable queue goes to the journal in the very turn: messages that came,
  that are settled, how far they were delivered, and how often they came back. Of other messages, and of queues that are
  not durable, the store gets only what must not stay in memory.
- Delivered is one mark for each level, the highest id: after a restart everything up to it may have been seen. A mark
  for each message would cost a write for each.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from math import inf

from triomq.core.backlog.backlog import Backlog, Entry, ReadDone, Remains, page_of
from triomq.core.backlog.memory import MemoryBacklog
from triomq.core.backlog.priority import PriorityBacklog
from triomq.core.backlog.tail import PagedRun, PagedTail
from triomq.core.batch import Batch
from triomq.core.message import Head, overhead_of
from triomq.core.persistence.persistence import Persistence
from triomq.errors import StoreError
from triomq.store import AttemptsCounted, Reading

_OVERHEAD = 128
"""Bytes that a message takes beside its body."""


class PagedBacklog(Backlog):
    """The half of a backlog that knows the store; a queue has one of its two subclasses.

    ``queue`` is the queue's number in the store. ``expiring_paged_in`` is whether messages that can expire were paged
    in since it was last set to false.
    """

    # No slots: two bases that both have some cannot be joined.

    def _begin(
        self, persistence: Persistence, queue: int, memory: float, *, name: str, durable: bool, now: Callable[[], float]
    ) -> None:
        self.queue = queue
        self.expiring_paged_in = False
        self.paged = 0
        self.paged_bytes = 0
        self._persistence = persistence
        self._journal = persistence.journal
        self._durable = durable
        self._now = now
        self._memory = memory  # bytes of messages that may be resident
        self._tail = PagedTail(persistence, queue, name, now)
        self._last_head: Head | None = None  # of the run that was encoded last
        self._last_level = 0
        self._last_encoded = b""
        self._delivered_before: Mapping[int, int] = {}  # up to which ids, by level, before the restart
        self._attempts_before: dict[int, int] = {}  # how often messages came back before the restart, above once
        self._marked: dict[int, int] = {}  # up to which ids, by level, messages are marked as delivered in the store

    def recover(
        self, next_id: int, count: int, size: int, delivered: Mapping[int, int], attempts: Mapping[int, int]
    ) -> None:
        """Start with the messages that the store has from before a restart of the broker; all of them are paged.

        Args:
            next_id: The id of the next message that comes.
            count: How many messages there are.
            size: Bytes of their bodies, about.
            delivered: Up to which ids they were delivered, by level.
            attempts: How often messages came back, above once, by id.
        """
        # What was settled before it could be written has left its marks, but no id.
        self.next_id = max([next_id - 1, *delivered.values(), *attempts]) + 1
        self._delivered_before = delivered
        self._attempts_before = dict(attempts)
        self._marked = dict(delivered)
        if count:
            self._tail.recover(1, count, size)
        self._count_paged()

    def _count_paged(self) -> None:
        self.paged = self._tail.count
        self.paged_bytes = self._tail.size

    @property
    def delivered_before(self) -> int:
        """The highest id that was perhaps delivered before the broker was restarted; 0 if none was."""
        return max(self._delivered_before.values(), default=0)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of paged messages that are in memory nevertheless."""
        return self._tail.held + self._tail.peeked_bytes

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
        """Whether the store could not give back paged messages."""
        return self._tail.broken

    @property
    def is_reading(self) -> bool:
        """Whether messages are being read from the store."""
        return self._tail.is_reading

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
        """Append the messages of a run: to the resident ones if there is room and nothing is paged."""
        count = len(contents)
        if not count:
            return
        durable = self._durable and head.traits.persistent
        paged = self.paged or self.resident_bytes + self.resident * _OVERHEAD > self._memory
        if durable or paged:
            encoded = self._encode(head, heads, level, deadline)
            bodies = size - overhead_of(head, heads, count)
        if durable:
            if self._tail.loose:
                self._tail.spill()
            self._journal.append(self.queue, self.next_id, encoded, contents, bodies)
        if paged:
            run = PagedRun(head, contents, self.next_id, size, deadline, level, heads)
            self.next_id += count
            self._tail.put(run, encoded, bodies, self._journal.open_batch if durable else 0)
            self._count_paged()
        else:
            super().push(head, contents, size, deadline, level, heads)

    def _encode(self, head: Head, heads: Sequence[Head] | None, level: int, deadline: float) -> bytes:
        """Encode what a run shares, and remember it if that is a head without a deadline: it mostly comes again."""
        if heads is None and head is self._last_head and level == self._last_level and deadline == inf:
            return self._last_encoded  # no look-up by its fields
        encoded = self._persistence.heads.encode_run(head, heads, level, deadline, self._now())
        if heads is None and deadline == inf:
            self._last_encoded, self._last_head, self._last_level = encoded, head, level
        return encoded

    def fetch(self, done: ReadDone) -> bool:
        """Page messages in if few are resident; return whether more are resident at once.

        Args:
            done: Called if messages had to be read; it is for ``arrived``.
        """
        before = self.resident
        while self._tail.count and (self.resident_bytes + self.resident * _OVERHEAD) * 2 <= self._memory:
            found = self._tail.get(self.next_id, done)
            self._page_in(found)
            if not found:
                break
        self._count_paged()
        return self.resident > before

    def forget_reading(self) -> None:
        """Drop what is being read: its reader has ended."""
        self._tail.forget_reading()

    def arrived(self, reading: Reading | StoreError) -> None:
        """Page in what was read."""
        self._page_in(self._tail.read(reading))
        self._count_paged()

    def _page_in(self, found: Sequence[PagedRun]) -> None:
        """Append messages to the resident ones; those that were delivered before the restart are marked."""
        next_id = self.next_id
        for run in found:
            self.expiring_paged_in = self.expiring_paged_in or run.deadline < inf
            delivered = min(max(0, self._delivered_before.get(run.level, 0) + 1 - run.first), len(run.contents))
            for number, message in enumerate(islice(run.messages(), delivered), run.first):
                attempts = self._attempts_before.pop(number, 1)
                self.restore(number, message.head, message.content, run.deadline, run.level, attempts)
            if delivered < len(run.contents):
                rest = run.part(delivered) if delivered else run
                self.next_id = rest.first
                super().push(rest.head, rest.contents, rest.size, rest.deadline, rest.level, rest.heads)
        self.next_id = next_id

    # Going out

    def take(self, most: int, most_bytes: int) -> Batch:
        """Hand out the first resident messages, and mark them as delivered in the store."""
        batch = super().take(most, most_bytes)
        if self._durable:
            self._mark_delivered(batch)
        return batch

    def take_turns(self, feeds: int, rounds: int) -> list[Batch]:
        """Hand out messages in turns, and mark them as delivered in the store."""
        batches = super().take_turns(feeds, rounds)
        if self._durable:
            for batch in batches:
                self._mark_delivered(batch)
        return batches

    def _mark_delivered(self, batch: Batch) -> None:
        last = batch.ids[-1]
        before = self._marked.get(batch.level, 0)
        if batch.head.traits.persistent and last > before:  # what comes back is marked already
            self._marked[batch.level] = last
            self._journal.delivered(self.queue, batch.level, before, last)

    def accept(
        self, batch: Batch, positions: Sequence[int] | None = None, *, consumed: bool = False
    ) -> tuple[int, int]:
        """Settle messages for good, in the store as well."""
        if self._durable and batch.head.traits.persistent:
            self._settle_positions(batch, positions, consumed=consumed)
        return super().accept(batch, positions, consumed=consumed)

    def _settle_positions(self, batch: Batch, positions: Sequence[int] | None, *, consumed: bool) -> None:
        ids, contents = batch.ids, batch.contents
        if positions is None and batch.left == len(contents) and isinstance(ids, range) and ids.step == 1:
            self._journal.settle(self.queue, ids.start, len(ids), consumed=consumed)
            return
        first = stop = 0  # of the ids in a row that are settled next
        for position in batch.unsettled() if positions is None else dict.fromkeys(positions):
            if contents[position] is None:
                continue
            number = ids[position]
            if number != stop:
                if stop > first:
                    self._journal.settle(self.queue, first, stop - first, consumed=consumed)
                first = number
            stop = number + 1
        if stop > first:
            self._journal.settle(self.queue, first, stop - first, consumed=consumed)

    def requeue(self, batch: Batch, positions: Sequence[int] | None = None, *, marked: bool = True) -> tuple[int, int]:
        """Put messages back in their old places, and record how often that was."""
        # That messages were delivered at all is known from the mark.
        if not (marked and batch.attempts and self._durable and batch.head.traits.persistent):
            return super().requeue(batch, positions, marked=marked)
        back = batch.unsettled() if positions is None else positions
        numbers = [batch.ids[position] for position in back if batch.contents[position] is not None]
        for number in numbers:
            self._journal.add(AttemptsCounted(self.queue, number, batch.attempts + 1))
        return super().requeue(batch, positions, marked=True)

    def set_aside(self, batch: Batch, position: int) -> Batch:
        """Part a message from its batch, and record how often it came back; see ``MemoryBacklog.set_aside``."""
        if batch.attempts and self._durable and batch.head.traits.persistent:
            self._journal.add(AttemptsCounted(self.queue, batch.ids[position], batch.attempts + 1))
        return super().set_aside(batch, position)

    # Going for good

    def drop(self, count: int, level: int = 0) -> Sequence[int]:
        """Remove messages that ``first`` returns, from the store as well; return their ids."""
        ids = super().drop(count, level)
        if self._durable:
            self._journal.settle(self.queue, ids[0], len(ids))
        return ids

    def discard(self, up_to: int) -> int:
        """Remove the resident messages with an id up to this, from the store as well; return how many they were."""
        self._settle_resident(up_to)
        return super().discard(up_to)

    def has_paged(self, up_to: int) -> bool:
        """Return whether messages with an id up to this may be paged."""
        return self.paged > 0 and self._tail.first <= up_to

    def purge(self, remains: list[Remains]) -> int:
        """Remove all ready messages, from the store as well; return how many they were."""
        count, stop = self.ready, self.next_id
        self._settle_resident(stop)
        if self._tail.count and self._durable:
            self._journal.settle(self.queue, self._tail.first, stop - self._tail.first)
        super().purge(remains)
        remains += self._tail.contents()
        self._tail.purge(stop)
        self._count_paged()
        return count

    def release(self, remains: list[Remains]) -> None:
        """Hand over the ready messages that are in memory."""
        super().release(remains)
        remains += self._tail.contents()

    def _settle_resident(self, up_to: int) -> None:
        if self._durable:
            for first, count in self.resident_ids(up_to):
                self._journal.settle(self.queue, first, count)

    # Browsing

    def browse(self, after: int, limit: int, done: ReadDone) -> list[Entry] | None:
        """Return ready messages by their ids; behind the resident ones those of the tail, as far as they were read."""
        resident = page_of(islice(self.entries(after), limit))
        if resident or not self.paged:
            return resident
        runs = self._tail.peek(after + 1, self.next_id, done)
        return None if runs is None else page_of(islice(self._paged_entries(runs), limit))

    def page_read(self, reading: Reading | StoreError) -> None:
        """Hold what was read for ``browse``."""
        self._tail.peeked(reading)

    def _paged_entries(self, runs: Iterator[PagedRun]) -> Iterator[Entry]:
        for run in runs:
            delivered = self._delivered_before.get(run.level, 0)
            for number, message in enumerate(run.messages(), run.first):
                attempts = self._attempts_before.get(number, 1) if number <= delivered else 0
                yield Entry(number, attempts, run.deadline, message)


class PagedPlainBacklog(PagedBacklog, MemoryBacklog):
    """The backlog of a queue without priorities, in a broker with a store.

    Args:
        persistence: The broker's.
        queue: The queue's number in the store.
        name: The queue's name, for the log.
        durable: Whether its persistent messages are there again after a restart.
        now: Returns the time of the domain's clock, in seconds.
    """

    def __init__(
        self, persistence: Persistence, queue: int, *, name: str, durable: bool, now: Callable[[], float]
    ) -> None:
        super().__init__()
        self._begin(persistence, queue, persistence.queue_memory, name=name, durable=durable, now=now)


class PagedPriorityBacklog(PagedBacklog, PriorityBacklog):
    """The backlog of a queue with priorities, in a broker with a store.

    Which message goes first is only known if all are in memory. So nothing is ever paged out but what a restart left in
    the store, and none of that is resident before all of it has been read.

    Args:
        levels: The highest level.
        persistence: The broker's.
        queue: The queue's number in the store.
        name: The queue's name, for the log.
        durable: Whether its persistent messages are there again after a restart.
        now: Returns the time of the domain's clock, in seconds.
    """

    def __init__(
        self, levels: int, persistence: Persistence, queue: int, *, name: str, durable: bool, now: Callable[[], float]
    ) -> None:
        super().__init__(levels)
        self._begin(persistence, queue, inf, name=name, durable=durable, now=now)
        self._arrived: list[PagedRun] = []  # read, and waiting for the others

    def _count_paged(self) -> None:
        super()._count_paged()
        if self._arrived:
            self.paged += sum(len(run.contents) for run in self._arrived)
            self.paged_bytes += sum(run.bodies for run in self._arrived)

    def _page_in(self, found: Sequence[PagedRun]) -> None:
        """Page everything in at once, when nothing is left to read."""
        self._arrived += found
        if not self._tail.count:
            arrived, self._arrived = self._arrived, []
            super()._page_in(arrived)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of paged messages that are in memory nevertheless."""
        return super().buffered_bytes + sum(run.size for run in self._arrived)

    def has_paged(self, up_to: int) -> bool:
        """Return whether any message is paged: until all are read, their order is unknown."""
        return self.paged > 0

    def purge(self, remains: list[Remains]) -> int:
        """Remove all ready messages, from the store as well; return how many they were."""
        if self._durable:
            for run in self._arrived:
                self._journal.settle(self.queue, run.first, len(run.contents))
        count = self.ready
        self._arrived.clear()
        super().purge(remains)
        return count

    def browse(self, after: int, limit: int, done: ReadDone) -> list[Entry] | None:
        """Return ready messages by their ids, once all of them are resident."""
        return None if self.paged else PriorityBacklog.browse(self, after, limit, done)
