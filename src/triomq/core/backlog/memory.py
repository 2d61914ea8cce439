"""The backlog of a queue in memory: which messages are ready, in which order, and which are unsettled.

Every message has an id: one integer per queue, growing, never reused; order is id. New messages arrive as runs and wait
in ``_runs``, each of which has ids in a row. What comes back (requeued, or put back after a crash) waits in
``_returned``, which exists only while something is in it, and goes first: an id that was handed out is always lower
than any that was not. So a message that comes back stands in its old place without a search.

    _returned   2  5              handed out once, came back
    _runs       [7 8 9] [10 11]   never handed out
    _outstanding  {batch 1 3 4, batch 6}

Messages are one run as long as traits and deadline are the same, which is all that queues and strategies look at; so a
run, or a batch of it, goes one way. Where heads differ, ``heads`` is a list beside ``contents``, made with the first
message that has another head than those before it. All that changes ``contents`` changes ``heads``: here, in ``Run``,
in ``ReturnedRun``, and nowhere else.

The backlog belongs to the domain, not to the queue's incarnation: when a queue crashes, the next incarnation finds its
messages here.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from math import inf
from typing import cast

from triomq.core.backlog.backlog import Backlog, Entry, Remains
from triomq.core.backlog.returned import ReturnedMessages, ReturnedRun
from triomq.core.backlog.run import RUN_LENGTH, Run, add_heads
from triomq.core.batch import Batch
from triomq.core.message import Head, QueueMessage, Stretch, overhead_of


class MemoryBacklog(Backlog):
    """Ready and outstanding messages of one queue, or of one level of a priority queue; no waiting, no telling.

    Created by the domain with the queue, ends with it. Idle it holds no container at all. It has one level, 0, so
    that a queue can ask it what it asks a ``PriorityBacklog``.
    """

    __slots__ = (
        "_outstanding",
        "_returned",
        "_runs",
    )

    def __init__(self) -> None:
        super().__init__()
        self._runs: deque[Run] | None = None
        self._returned: ReturnedMessages | None = None
        self._outstanding: dict[Batch, None] | None = None

    def push(
        self,
        head: Head,
        contents: Sequence[bytes],
        size: int,
        deadline: float = inf,
        level: int = 0,
        heads: Sequence[Head] | None = None,
    ) -> None:
        """Append messages of a run; see ``Backlog.push``."""
        count = len(contents)
        if not count:
            return
        first = self.next_id
        self.next_id = first + count
        overhead = count * (head.body_start + head.body_trailer) if heads is None else overhead_of(head, heads, count)
        self.resident += count
        self.resident_bytes += size - overhead
        runs = self._runs
        if runs:
            last = runs[-1]
            length = len(last.contents)
            if (
                last.head.traits is head.traits
                and length + count <= RUN_LENGTH
                and last.deadline == deadline
                and last.first + length == first
            ):
                if last.heads is not None or heads is not None or last.head is not head:
                    add_heads(last, head, heads, count)
                last.contents += contents
                last.size += size
                last.overhead += overhead
                return
        elif runs is None:
            runs = self._runs = deque()
        runs.append(Run(head, list(contents), first, size, overhead, deadline, None if heads is None else [*heads]))

    def take(self, most: int, most_bytes: int) -> Batch:
        """Hand out the first ready messages of one run: at most so many, at most so many bytes, at least one.

        The batch counts as outstanding until it is settled, requeued or returned.

        Raises:
            IndexError: Nothing is ready.
        """
        batch = self._take_ready(most, most_bytes) if self._returned is None else self._take_returned(most, most_bytes)
        self._hand_out(batch)
        return batch

    def take_turns(self, feeds: int, rounds: int) -> list[Batch]:
        """Hand out messages in turns: message by message, one batch for each feed.

        Takes from the first run alone (see ``run_length``), so there must be no returned messages before it; hands out
        fewer rounds than asked for when the run is short, and less than one when there are fewer messages than feeds.

        Raises:
            IndexError: Nothing is ready.
        """
        run = self._front()
        available = len(run.contents)
        count = available if available < feeds else feeds * min(rounds, available // feeds)
        step = min(feeds, count)
        contents, heads, first, deadline = run.contents[:count], run.heads, run.first, run.deadline
        head = run.head
        if heads is not None:
            heads = heads[:count]
        self._cut(run, count)
        batches = []
        for place in range(step):
            share = contents[place::step]
            ids = range(first + place, first + count, step)
            size, left, theirs = sum(map(len, share)), len(share), None
            if heads is not None:
                head = heads[place]
                theirs = heads[place::step] if left > 1 else None
            repeated = head.traits.repeated
            batch = Batch(head, [*share], ids, repeated, size, left, deadline=deadline, heads=theirs)
            self._hand_out(batch)
            batches.append(batch)
        return batches

    @property
    def run_length(self) -> int:
        """How many messages ``take_turns`` can hand out: those of the first run, none while returned ones go first."""
        return 0 if self._returned is not None or not self._runs else len(self._runs[0].contents)

    def longest(self, count: int) -> int:
        """Return the bytes of the largest of the first ``count`` messages of the first run."""
        return max(map(len, self._front().contents[:count]))

    def next_size(self) -> int:
        """Return the bytes of the first ready message.

        Raises:
            IndexError: Nothing is ready.
        """
        if self._returned is None and self._runs:
            return len(self._runs[0].contents[0])
        return len(self._returned.first.contents[0] if self._returned is not None else self._front().contents[0])

    def next_head(self) -> Head:
        """Return the head of the first ready message.

        Raises:
            IndexError: Nothing is ready.
        """
        if self._returned is not None:
            return self._returned.first.head
        return self._front().head

    def next_deadline(self) -> float:
        """Return when the first ready message expires; infinity if never, or when nothing is ready."""
        if self._returned is not None:
            return self._returned.first.deadline
        return self._runs[0].deadline if self._runs else inf

    def expired_level(self, now: float) -> int | None:
        """Return a level whose first message has expired, if there is one."""
        return 0 if self.next_deadline() <= now else None

    @property
    def next_level(self) -> int:
        """The level whose first message goes next."""
        return 0

    @property
    def lowest_level(self) -> int:
        """The level whose first message gives way when there are too many."""
        return 0

    def _front(self) -> Run:
        if not self._runs:
            raise IndexError("nothing is ready; look at Backlog.resident first")
        return self._runs[0]

    def _take_ready(self, most: int, most_bytes: int) -> Batch:
        run = self._runs[0] if self._runs else self._front()
        first, head, contents, heads = run.first, run.head, run.contents, run.heads
        count = available = len(contents)
        if most < count:
            count = most
        if run.size > most_bytes:
            count = run.fitting(count, most_bytes)
        if count < available:
            contents = contents[:count]
        if heads is not None:
            if count == 1:
                heads = None  # it is ``head``
            elif count < available:
                heads = heads[:count]
        size = self._cut(run, count)
        # A run that goes whole gives its very lists away: nothing else refers to them.
        given = cast("list[bytes | None]", contents)
        repeated = head.traits.repeated
        ids = range(first, first + count)
        return Batch(head, given, ids, repeated, size, count, None, None, run.deadline, 0, 0, heads)

    def _cut(self, run: Run, count: int) -> int:
        """Cut the first messages off the front run; return their size in bytes."""
        assert self._runs is not None
        if count == len(run.contents):
            size, overhead = run.size, run.overhead
            self._runs.popleft()
        else:
            size, overhead = run.cut(count)
        self.resident -= count
        self.resident_bytes -= size - overhead
        return size

    def _take_returned(self, most: int, most_bytes: int) -> Batch:
        assert self._returned is not None
        batch = self._returned.take(most, most_bytes)
        self._forget_returned(batch.size, overhead_of(batch.head, batch.heads, batch.left), batch.left)
        return batch

    def _forget_returned(self, size: int, overhead: int, count: int) -> None:
        """Count messages as resident no longer that had come back."""
        self.resident -= count
        self.resident_bytes -= size - overhead
        if not self._returned:
            self._returned = None

    def _hand_out(self, batch: Batch) -> None:
        if self._outstanding is None:
            self._outstanding = {}
        self._outstanding[batch] = None
        self.unsettled += batch.left

    def holds(self, batch: Batch) -> bool:
        """Return whether a batch is outstanding here: not wholly settled, and not put back after a crash."""
        return self._outstanding is not None and batch in self._outstanding

    def outstanding(self) -> list[Batch]:
        """Return the unsettled batches, in the order in which they were handed out."""
        return list(self._outstanding or ())

    def accept(
        self, batch: Batch, positions: Sequence[int] | None = None, *, consumed: bool = False
    ) -> tuple[int, int]:
        """Settle messages for good: all of a batch that are left, or those at some positions.

        Returns:
            How many messages and how many bytes are outstanding no longer.
        """
        contents = batch.contents
        if positions is None and batch.left == len(contents):
            return self._reduce_unsettled(batch, batch.left, batch.size)
        count, size = 0, 0
        for position in batch.unsettled() if positions is None else positions:
            content = contents[position]
            if content is not None:
                contents[position] = None
                count += 1
                size += len(content)
        return self._reduce_unsettled(batch, count, size)

    def requeue(self, batch: Batch, positions: Sequence[int] | None = None, *, marked: bool = True) -> tuple[int, int]:
        """Put messages back in their old places, marked as delivered before or, if never sent, as they were.

        Returns:
            How many messages and how many bytes are outstanding no longer.
        """
        attempts = batch.attempts + marked
        if positions is None and batch.left == len(batch.contents):
            whole = cast("list[bytes]", batch.contents)  # none is settled
            batch.contents = []
            back = ReturnedRun(batch.head, whole, batch.ids, batch.size, batch.deadline, attempts)
            if batch.heads is not None:
                back.heads = [*batch.heads]
            self._put_back(back)
            return self._reduce_unsettled(batch, batch.left, batch.size)
        ids: list[int] = []
        contents: list[bytes] = []
        heads: list[Head] = []
        for position in batch.unsettled() if positions is None else sorted(positions):
            content = batch.contents[position]
            if content is not None:
                batch.contents[position] = None
                ids.append(batch.ids[position])
                contents.append(content)
                heads.append(batch.head_at(position))
        size = sum(map(len, contents))
        if ids:
            in_a_row = ids[-1] - ids[0] == len(ids) - 1
            some = range(ids[0], ids[-1] + 1) if in_a_row else ids
            back = ReturnedRun(
                heads[0], contents, some, size, batch.deadline, attempts, None if batch.heads is None else heads
            )
            self._put_back(back)
        return self._reduce_unsettled(batch, len(ids), size)

    def _put_back(self, run: ReturnedRun) -> None:
        if self._returned is None:
            self._returned = ReturnedMessages()
        count = len(run.contents)
        self.resident += count
        self.resident_bytes += run.size - overhead_of(run.head, run.heads, count)
        self._returned.put(run)

    def set_aside(self, batch: Batch, position: int) -> Batch:
        """Part an unsettled message from its batch, delivered once more; it stays unsettled, and belongs to no feed."""
        content = batch.contents[position]
        assert content is not None
        number, size = batch.ids[position], len(content)
        alone = Batch(
            batch.head_at(position),
            [content],
            (number,),
            True,
            size,
            1,
            None,
            batch.queue,
            batch.deadline,
            batch.level,
            batch.attempts + 1,
        )
        batch.contents[position] = None
        self._hand_out(alone)
        self._reduce_unsettled(batch, 1, size)
        return alone

    def _reduce_unsettled(self, batch: Batch, count: int, size: int) -> tuple[int, int]:
        """Count messages of a batch as outstanding no longer, and forget the batch with the last."""
        assert self._outstanding is not None
        self.unsettled -= count
        batch.left -= count
        if not batch.left:
            batch.contents.clear()
            del self._outstanding[batch]
        return count, size

    def first(self, most: int, level: int = 0) -> Stretch:
        """Return the first ready messages of a level, which share traits and a deadline: at most so many.

        Raises:
            IndexError: Nothing is ready.
        """
        run: Run | ReturnedRun
        if self._returned is not None:
            run = self._returned.first
            most = min(most, self._returned.in_a_row())
        else:
            run = self._front()
        return Stretch(run.head, run.contents[:most], None if run.heads is None else run.heads[:most])

    def first_ids(self, count: int, level: int = 0) -> Sequence[int]:
        """Return the ids of so many of the messages that ``first`` returns."""
        if self._returned is not None:
            return self._returned.first.ids[:count]
        first = self._front().first
        return range(first, first + count)

    def restore(self, number: int, head: Head, content: bytes, deadline: float, level: int, attempts: int) -> None:
        """Put a message in its place that was delivered so many times before the broker was restarted."""
        self._put_back(ReturnedRun(head, [content], range(number, number + 1), len(content), deadline, attempts))

    def drop(self, count: int, level: int = 0) -> Sequence[int]:
        """Remove so many of the messages that ``first`` returns; return their ids, which are in a row."""
        if self._returned is None:
            run = self._runs[0] if self._runs else self._front()
            first = run.first
            self._cut(run, count)
            return range(first, first + count)
        gone = self._returned.cut(count)
        self._forget_returned(gone.size, overhead_of(gone.head, gone.heads, count), count)
        return gone.ids

    def resident_ids(self, up_to: int) -> Iterator[tuple[int, int]]:
        """Yield the ids up to this of resident messages: the first of some in a row, and how many."""
        for back in self._returned.runs() if self._returned is not None else ():
            if isinstance(back.ids, range) and back.ids.step == 1:
                if back.ids.start <= up_to:
                    yield back.ids.start, min(len(back.ids), up_to - back.ids.start + 1)
            else:
                yield from ((number, 1) for number in back.ids if number <= up_to)
        for run in self._runs or ():
            if run.first <= up_to:
                yield run.first, min(len(run.contents), up_to - run.first + 1)

    def discard(self, up_to: int) -> int:
        """Remove all ready messages with an id up to this, and return how many they were."""
        before = self.resident
        while self._returned is not None and (first := self._returned.first_id) <= up_to:
            MemoryBacklog.drop(self, min(self._returned.in_a_row(), up_to - first + 1))
        while self._returned is None and self._runs and self._runs[0].first <= up_to:
            run = self._runs[0]
            self._cut(run, min(up_to - run.first + 1, len(run.contents)))
        return before - self.resident

    def purge(self, remains: list[Remains]) -> int:
        """Remove all ready messages and return how many they were; what is outstanding stays so."""
        count = self.resident
        MemoryBacklog.release(self, remains)
        return count

    def release(self, remains: list[Remains]) -> None:
        """Hand over all ready messages."""
        remains += [run.contents for run in self._runs or ()]
        remains += [run.contents for run in self._returned.runs()] if self._returned is not None else ()
        self._runs = self._returned = None
        self.resident = self.resident_bytes = 0

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Go through the ready messages with ids above ``after``, in order; the backlog must not change meanwhile."""
        for number, message, back in self._returned.after(after) if self._returned is not None else ():
            yield Entry(number, back.attempts, back.deadline, message)
        for run in self._runs or ():
            if run.first + len(run.contents) <= after:
                continue
            for offset in range(max(0, after + 1 - run.first), len(run.contents)):
                head = run.head if run.heads is None else run.heads[offset]
                yield Entry(run.first + offset, 0, run.deadline, QueueMessage(head, run.contents[offset]))
