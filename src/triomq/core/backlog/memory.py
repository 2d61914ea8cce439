"""The backlog of a queue: which messages are ready, in which order, and which are out with a consumer.

Every message has an id: one integer per queue, growing, never reused; order is id. New messages arrive as runs and
wait in ``_runs``, each of which has ids in a row. What comes back (requeued, or put back after a crash) waits in
``_returned``, which there is only while something is in it, and goes first: an id that was handed out is always lower
than any that was not. So a message that comes back stands in its old place without a search.

The backlog belongs to the domain, not to the queue's incarnation: when a queue crashes, the next incarnation finds its
messages here.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from math import inf
from typing import cast

from triomq.core.backlog.entry import Entry
from triomq.core.backlog.returned import Returned, ReturnedMessage
from triomq.core.backlog.run import RUN_LENGTH, Run
from triomq.core.batch import Batch
from triomq.core.message import Head, Message


class MemoryBacklog:
    """Ready and outstanding messages of one queue, or of one level of a priority queue; no waiting, no telling.

    Created by the domain with the queue, ends with it. Idle it holds no container at all. It has one level, 0, so
    that a queue can ask it what it asks a ``PriorityBacklog``. ``ready`` counts messages
    that no consumer has, ``ready_bytes`` the octets of their bodies, ``unsettled`` the messages that are out.
    """

    __slots__ = (
        "_attempts",
        "_outstanding",
        "_returned",
        "_runs",
        "next_id",
        "ready",
        "ready_bytes",
        "unsettled",
    )

    paged = 0
    paged_bytes = 0
    unwritten_bytes = 0
    is_unreadable = False
    """What a backlog of a broker with a store has of ready messages that are not at hand; here all are."""

    def __init__(self) -> None:
        """Start empty, with id 1."""
        self.next_id = 1
        self._runs: deque[Run] | None = None
        self._returned: Returned | None = None
        self._attempts: dict[int, int] | None = None
        self._outstanding: dict[Batch, None] | None = None
        self.ready = 0
        self.ready_bytes = 0
        self.unsettled = 0

    def push(self, head: Head, contents: Sequence[bytes], size: int, deadline: float = inf, level: int = 0) -> None:
        """Append messages of a run; ``size`` is the total of their octets, ``deadline`` when they expire."""
        count = len(contents)
        if not count:
            return
        first = self.next_id
        self.next_id = first + count
        self.ready += count
        self.ready_bytes += size - count * (head.body_start + head.body_trailer)
        runs = self._runs
        if runs:
            last = runs[-1]
            length = len(last.contents)
            if (
                last.head is head
                and length + count <= RUN_LENGTH
                and last.deadline == deadline
                and last.first + length == first
            ):
                last.contents += contents
                last.size += size
                return
        elif runs is None:
            runs = self._runs = deque()
        runs.append(Run(head, list(contents), first, size, deadline))

    def take(self, most: int, most_bytes: int) -> Batch:
        """Hand out the first ready messages that share a head: at most so many, at most so many octets, at least one.

        The batch counts as outstanding until it is settled, requeued or returned.

        Raises:
            IndexError: Nothing is ready.
        """
        batch = self._take_ready(most, most_bytes) if self._returned is None else self._take_returned(most, most_bytes)
        self._hand_out(batch)
        return batch

    def take_turns(self, feeds: int, rounds: int) -> list[Batch]:
        """Hand out messages in turns, as one deals cards: message by message, one batch for each feed.

        Takes from the first run alone (see ``run_length``), so there must be no returned messages before it; deals
        fewer rounds than asked for when it is short, and less than one when there are fewer messages than feeds.

        Raises:
            IndexError: Nothing is ready.
        """
        run = self._front()
        available = len(run.contents)
        count = available if available < feeds else feeds * min(rounds, available // feeds)
        step = min(feeds, count)
        dealt, first, head, deadline = run.contents[:count], run.first, run.head, run.deadline
        self._cut(run, count)
        batches = []
        for seat in range(step):
            share = dealt[seat::step]
            ids = range(first + seat, first + count, step)
            batch = Batch(head, [*share], ids, False, sum(map(len, share)), len(share), deadline=deadline)
            self._hand_out(batch)
            batches.append(batch)
        return batches

    @property
    def run_length(self) -> int:
        """How many messages ``take_turns`` can deal: those of the first run, none while returned ones go first."""
        return 0 if self._returned is not None or not self._runs else len(self._runs[0].contents)

    def longest(self, count: int) -> int:
        """Tell the octets of the largest of the first ``count`` messages of the first run."""
        return max(map(len, self._front().contents[:count]))

    def next_size(self) -> int:
        """Tell the octets of the first ready message.

        Raises:
            IndexError: Nothing is ready.
        """
        if self._returned is None and self._runs:
            return len(self._runs[0].contents[0])
        return len(self._returned.first.content if self._returned is not None else self._front().contents[0])

    def next_head(self) -> Head:
        """Give the head of the first ready message.

        Raises:
            IndexError: Nothing is ready.
        """
        if self._returned is not None:
            return self._returned.first.head
        return self._front().head

    def next_deadline(self) -> float:
        """Tell when the first ready message expires; infinity if never, or when nothing is ready."""
        if self._returned is not None:
            return self._returned.first.deadline
        return self._runs[0].deadline if self._runs else inf

    def expired_level(self, now: float) -> int | None:
        """Name a level whose first message has expired, if there is one."""
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
            raise IndexError("nothing is ready; look at MemoryBacklog.ready first")
        return self._runs[0]

    def _take_ready(self, most: int, most_bytes: int) -> Batch:
        run = self._runs[0] if self._runs else self._front()
        first, head, contents = run.first, run.head, run.contents
        count = available = len(contents)
        if most < count:
            count = most
        if run.size > most_bytes:
            count = run.fitting(count, most_bytes)
        if count < available:
            contents = contents[:count]
        size = self._cut(run, count)
        given = cast("list[bytes | None]", contents)  # of a run that goes whole the very list: nobody else has it
        return Batch(head, given, range(first, first + count), False, size, count, None, None, run.deadline)

    def _cut(self, run: Run, count: int) -> int:
        """Take the first messages off the front run and give their size in octets."""
        assert self._runs is not None
        if count == len(run.contents):
            size = run.size
            self._runs.popleft()
        else:
            size = sum(map(len, run.contents[:count]))
            del run.contents[:count]
            run.first += count
            run.size -= size
        self.ready -= count
        self.ready_bytes -= size - count * (run.head.body_start + run.head.body_trailer)
        return size

    def _take_returned(self, most: int, most_bytes: int) -> Batch:
        assert self._returned is not None
        batch = self._returned.take(most, most_bytes, self._attempts or {})
        self._forget_returned(batch.head, batch.left, batch.size)
        return batch

    def _forget_returned(self, head: Head, count: int, size: int) -> None:
        """Count messages as ready no longer that had come back; ``size`` is the total of their octets."""
        self.ready -= count
        self.ready_bytes -= size - count * head.overhead
        if not self._returned:
            self._returned = None

    def _hand_out(self, batch: Batch) -> None:
        if self._outstanding is None:
            self._outstanding = {}
        self._outstanding[batch] = None
        self.unsettled += batch.left

    def holds(self, batch: Batch) -> bool:
        """Tell whether a batch is outstanding here: not wholly settled, and not put back after a crash."""
        return self._outstanding is not None and batch in self._outstanding

    def outstanding(self) -> list[Batch]:
        """List the batches that are out, in the order in which they went."""
        return list(self._outstanding or ())

    def accept(self, batch: Batch, positions: Sequence[int] | None = None) -> tuple[int, int]:
        """Settle messages for good: all of a batch that are left, or those at some positions.

        Returns:
            How many messages and how many octets are outstanding no longer.
        """
        if batch.redelivered and self._attempts:
            self._forget_attempts(batch, positions)
        contents = batch.contents
        if positions is None and batch.left == len(contents):
            return self._let_go(batch, batch.left, batch.size)
        count, size = 0, 0
        for position in batch.unsettled() if positions is None else positions:
            content = contents[position]
            if content is not None:
                contents[position] = None
                count += 1
                size += len(content)
        return self._let_go(batch, count, size)

    def requeue(self, batch: Batch, positions: Sequence[int] | None = None, *, marked: bool = True) -> tuple[int, int]:
        """Put messages back in their old places, marked as delivered before or, if never sent, as they were.

        Returns:
            How many messages and how many octets are outstanding no longer.
        """
        count, size = 0, 0
        for position in batch.unsettled() if positions is None else positions:
            content = batch.contents[position]
            if content is not None:
                batch.contents[position] = None
                self._put_back(batch.ids[position], ReturnedMessage(batch.head, content, batch.deadline), marked=marked)
                count += 1
                size += len(content)
        return self._let_go(batch, count, size)

    def set_aside(self, batch: Batch, position: int) -> Batch:
        """Part a message that is not settled from its batch, delivered once more; it stays out, and is nobody's."""
        content = batch.contents[position]
        assert content is not None
        number, size = batch.ids[position], len(content)
        alone = Batch(batch.head, [content], (number,), True, size, 1, None, batch.queue, batch.deadline, batch.level)
        batch.contents[position] = None
        self._hand_out(alone)
        self._let_go(batch, 1, size)
        self._count_attempt(number)
        return alone

    def _put_back(self, number: int, message: ReturnedMessage, *, marked: bool) -> None:
        if self._returned is None:
            self._returned = Returned()
        self._returned.put(number, message)
        self.ready += 1
        self.ready_bytes += len(message.content) - message.head.overhead
        if marked:
            self._count_attempt(number)

    def _count_attempt(self, number: int) -> None:
        if self._attempts is None:
            self._attempts = {}
        self._attempts[number] = self._attempts.get(number, 0) + 1

    def _let_go(self, batch: Batch, count: int, size: int) -> tuple[int, int]:
        """Count messages of a batch as outstanding no longer, and forget the batch with the last."""
        assert self._outstanding is not None
        self.unsettled -= count
        batch.left -= count
        if not batch.left:
            batch.contents.clear()
            del self._outstanding[batch]
        return count, size

    def attempts(self, number: int) -> int:
        """Tell how often the message with this id was delivered and came back."""
        return self._attempts.get(number, 0) if self._attempts else 0

    def _forget_attempts(self, batch: Batch, positions: Sequence[int] | None) -> None:
        """Forget how often messages came back, but not those of this batch that have come back since."""
        assert self._attempts is not None
        for position in batch.unsettled() if positions is None else positions:
            if batch.contents[position] is not None:
                self._attempts.pop(batch.ids[position], None)

    def first(self, most: int, level: int = 0) -> tuple[Head, list[bytes]]:
        """Look at the first ready messages of a level, which share a head and a deadline: at most so many.

        Raises:
            IndexError: Nothing is ready.
        """
        if self._returned is not None:
            message = self._returned.first
            return message.head, [message.content]
        run = self._front()
        return run.head, run.contents[:most]

    def restore(self, number: int, head: Head, content: bytes, deadline: float, level: int, attempts: int) -> None:
        """Put a message in its place that was delivered in an earlier life of the broker, so many times."""
        self._put_back(number, ReturnedMessage(head, content, deadline), marked=True)
        assert self._attempts is not None
        self._attempts[number] = attempts

    def drop(self, count: int, level: int = 0) -> Sequence[int]:
        """Take so many of the messages that ``first`` shows out for good; give their ids, which are in a row."""
        if self._returned is None:
            run = self._front()
            first = run.first
            self._cut(run, count)
            return range(first, first + count)
        number, message = self._returned.pop()
        if self._attempts:
            self._attempts.pop(number, None)
        self._forget_returned(message.head, 1, len(message.content))
        return (number,)

    def ready_ids(self, up_to: int) -> Iterator[tuple[int, int]]:
        """Give the ids up to this of ready messages: the first of some in a row, and how many."""
        for number, _ in self._returned.after(0) if self._returned is not None else ():
            if number <= up_to:
                yield number, 1
        for run in self._runs or ():
            if run.first <= up_to:
                yield run.first, min(len(run.contents), up_to - run.first + 1)

    def discard(self, up_to: int) -> int:
        """Take all ready messages with an id up to this out for good, and tell how many they were."""
        before = self.ready
        while self._returned is not None and self._returned.first_id <= up_to:
            self.drop(1)
        while self._returned is None and self._runs and self._runs[0].first <= up_to:
            run = self._runs[0]
            self._cut(run, min(up_to - run.first + 1, len(run.contents)))
        return before - self.ready

    def purge(self) -> int:
        """Take all ready messages out for good and tell how many they were; what is outstanding stays so."""
        count = self.ready
        for number, _ in self._returned.after(0) if self._returned is not None else ():
            if self._attempts:
                self._attempts.pop(number, None)
        self._runs = self._returned = None
        self.ready = self.ready_bytes = 0
        return count

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Go through the ready messages with ids above ``after``, in order; the backlog must not change meanwhile."""
        for number, back in self._returned.after(after) if self._returned is not None else ():
            yield Entry(number, self.attempts(number), back.deadline, Message(back.head, back.content))
        for run in self._runs or ():
            for offset in range(max(0, after + 1 - run.first), len(run.contents)):
                yield Entry(run.first + offset, 0, run.deadline, Message(run.head, run.contents[offset]))
