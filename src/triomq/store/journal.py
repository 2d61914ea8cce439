"""The core's side of a store: operations gather here, are numbered as batches, and are kept until they are on disk.

A batch is what the turns since the last batch have written. Turns do not wait: they add operations, and remember the
number of the open batch if a client must not be told before it is on disk. ``committed`` is the number of the last
batch that is; it only grows.

    turns ── append, settle, … ──▶ open batch (number N)
                                     │ take(): at most two are under way, so a slow disk gets fewer and larger ones
                                     ▼
                                   unanswered N-2, N-1 ──▶ the store's process: one transaction, one sync
                                     │
    when_committed(N, f) ◀───────────┘ answered(N): f is called

So group commit needs no timer: while one batch is written the next one gathers.

The journal outlives the actor that sends its batches, because unanswered batches must: when the store's process dies
they are sent again to the next one, which leaves out those that it finds committed.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence

from triomq.errors import StoreError
from triomq.store.batch_builder import BatchBuilder
from triomq.store.body import BodyRun, encode_body, gaps_of
from triomq.store.frames import Read, ReadDelayed
from triomq.store.operations import MessagesSettled, MessagesSpilled, Operation, OperationBatch
from triomq.store.reading import Reading
from triomq.store.recovered import Recovered

_log = logging.getLogger("triomq.store")

_UNDER_WAY = 2
"""Batches that may be unanswered before the next is sent: one that is synced, one that waits for it there already."""


class Fetch:
    """A wish to read bodies; made by the journal, ends when it is answered.

    Args:
        request: What is sent to the store.
        done: Called with what was read, or with what went wrong.
    """

    __slots__ = ("done", "request")

    def __init__(self, request: Read | ReadDelayed, done: Callable[..., None]) -> None:
        self.request = request
        self.done = done


def _do_nothing() -> None:
    """Wake nobody up: the batch is sent when somebody is there to send it."""


class Journal:
    """What a broker tells its store; made by whoever opens the broker, lives as long.

    ``committed`` is the number of the last batch that is on disk; ``fault`` says what is in the way while batches
    cannot be written, and is None otherwise; ``recovered`` is what was found when the store was opened, and ``is_open``
    whether it was.
    """

    def __init__(self) -> None:
        self.committed = 0
        self.fault: StoreError | None = None
        self.recovered: Recovered | None = None
        self.is_open = False
        self.wake: Callable[[], None] = _do_nothing
        self._builder = BatchBuilder()
        self._last = 0  # number of the last batch that was taken
        self._unanswered: deque[tuple[OperationBatch, int]] = deque()
        self._unanswered_octets = 0
        self._fetches: dict[int, Fetch] = {}
        self._fetched = 0
        self._sent_fetches = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._on_fault: list[Callable[[StoreError | None], None]] = []

    # What the core calls, within turns

    @property
    def open_batch(self) -> int:
        """The number of the batch that gathers. What is added now is on disk when ``committed`` has reached it."""
        return self._last + 1

    @property
    def last_batch(self) -> int:
        """The number that ``committed`` must reach until all that was added so far is on disk."""
        return self.open_batch if self._builder else self._last

    @property
    def octets(self) -> int:
        """About how many octets are gathered or on their way."""
        return self._unanswered_octets + self._builder.octets

    def append(self, queue: int, first: int, head: bytes, contents: Sequence[bytes], size: int) -> None:
        """Keep messages with ids in a row, above all that the queue has had.

        Args:
            queue: The queue's number.
            first: The first one's id.
            head: What they share, and what the core wants to know of them.
            contents: Their octets; the sequence must not change any more.
            size: What the core counts for them, in octets; what they take here is counted besides.
        """
        self._builder.append(queue, first, head, contents, size)
        self.wake()

    def cut(self, queue: int) -> None:
        """Let messages that are appended to a queue from now on begin another segment.

        Segments must not overlap. So when messages are spilled, or will be, whose ids lie between those of two appends,
        this comes before the second of them.
        """
        self._builder.cut(queue)

    def spill(self, queue: int, first: int, runs: Sequence[BodyRun], count: int) -> None:
        """Put messages out of memory that are not to be kept, for ``fetch`` to give back while this broker lives.

        Args:
            queue: The queue's number.
            first: The first one's id; no segment of the queue has ids between this and the last one's.
            runs: The messages, with offsets from the first one; ids that no run has count as settled.
            count: How many ids they span.
        """
        settled = gaps_of(runs, first, count)
        self.add(MessagesSpilled(queue=queue, first=first, count=count, body=encode_body(runs), settled=settled))

    def settle(self, queue: int, first: int, count: int = 1) -> None:
        """Forget messages with ids in a row, kept or not."""
        self._builder.settle(queue, first, count)
        self.wake()

    def delivered(self, queue: int, level: int, up_to: int) -> None:
        """Mark messages of a level up to an id as delivered."""
        self._builder.delivered(queue, level, up_to)
        self.wake()

    def add(self, operation: Operation) -> None:
        """Have anything else done."""
        self._builder.add(operation)
        self.wake()

    def fetch(
        self, queue: int, first: int, stop: int, octets: int, done: Callable[[Reading | StoreError], None]
    ) -> Fetch:
        """Have the segments read that hold ids of a range, kept or spilled.

        All of the range must be committed, or settled: what still is on its way to the store counts as not there. What
        was read may have messages that have been settled since.

        Args:
            queue: The queue's number.
            first: The first id of the range.
            stop: The id behind its last one.
            octets: About how many octets of bodies to read at once; at least one segment is read if there is any.
            done: Called later, outside of any turn, with what was read or with what went wrong.
        """
        self._fetched += 1
        return self._send_request(Read(self._fetched, queue, first, stop, octets), done)

    def fetch_delayed(
        self, queue: int, numbers: Sequence[int], done: Callable[[list[bytes | None] | StoreError], None]
    ) -> Fetch:
        """Have the bodies of delayed messages read; all at once, so ask for no more than there is room for.

        Args:
            queue: The queue's number.
            numbers: Theirs, as of ``DelayedFound``.
            done: Called later, outside of any turn, with the bodies, None for what is not there; or with what went
                wrong.
        """
        self._fetched += 1
        return self._send_request(ReadDelayed(self._fetched, queue, numbers), done)

    def _send_request(self, request: Read | ReadDelayed, done: Callable[..., None]) -> Fetch:
        fetch = self._fetches[request.number] = Fetch(request, done)
        self.wake()
        return fetch

    def forget_fetch(self, fetch: Fetch) -> None:
        """Read them no more, should they not have been read yet."""
        self._fetches.pop(fetch.request.number, None)

    def when_committed(self, number: int, callback: Callable[[], None]) -> None:
        """Have something called once when ``committed`` has reached a number, outside of any turn.

        Args:
            number: What ``open_batch`` was when something was added, or ``last_batch``.
            callback: Called in the order in which they were given, so that one with a lower number waits for those
                before it; soon, if the number has been reached already. It must be cheap, and right also if who wanted
                it has gone in the meantime.
        """
        self._waiting.append((number, callback))
        if number <= self.committed:
            self.wake()

    def on_fault(self, callback: Callable[[StoreError | None], None]) -> None:
        """Have something called, outside of any turn, when batches cannot be written, and with None when they can."""
        self._on_fault.append(callback)

    # What the store's actor calls

    def opened(self, committed: int, recovered: Recovered) -> None:
        """Go on behind what is there; at the start of a broker.

        What was added before that counts as said after it.
        """
        self.is_open = True
        self.committed = self._last = committed
        self.recovered = recovered

    def take(self) -> OperationBatch | None:
        """Give the next batch to send, None as long as there is none or enough are on their way."""
        self._call_committed()  # those who came after what they wait for
        if not self._builder or len(self._unanswered) >= _UNDER_WAY or self.fault is not None:
            return None
        self._last += 1
        octets = self._builder.octets
        batch = self._builder.batch(self._last)
        self._builder = BatchBuilder()
        self._unanswered.append((batch, octets))
        self._unanswered_octets += octets
        return batch

    @property
    def unanswered(self) -> list[OperationBatch]:
        """The batches that were taken and may not be on disk, in order."""
        return [batch for batch, _ in self._unanswered]

    def answered(self, number: int) -> None:
        """Hear that all batches up to this one are on disk."""
        while self._unanswered and self._unanswered[0][0].number <= number:
            self._unanswered_octets -= self._unanswered.popleft()[1]
        self._set_fault(None)
        if number > self.committed:
            self.committed = number
            self._call_committed()

    def _call_committed(self) -> None:
        waiting = self._waiting
        for _ in range(len(waiting)):  # who waits again for what is committed is told the next time
            if waiting[0][0] > self.committed:
                break
            waiting.popleft()[1]()

    def early_settlements(self) -> list[MessagesSettled]:
        """Give what could be settled before the batches that cannot be written: it makes room.

        Only of batches that do nothing else: where a message moves, or a transaction is, all is done at once or not at
        all. It is said again with its batch, which does no harm.
        """
        alone = [
            batch
            for batch, _ in self._unanswered
            if all(isinstance(each, MessagesSettled) for each in batch.operations)
        ]
        found = [each for batch in alone for each in batch.operations if isinstance(each, MessagesSettled)]
        return found + self._builder.settles()

    def failed(self, fault: StoreError) -> None:
        """Hear that batches cannot be written just now; they stay unanswered."""
        self._set_fault(fault)

    def _set_fault(self, fault: StoreError | None) -> None:
        before, self.fault = self.fault, fault
        if (before is None) == (fault is None):
            return
        if fault is not None:
            _log.error("the store cannot be written", extra={"fields": {"fault": str(fault)}})
        else:
            _log.warning("the store can be written again")
        for callback in self._on_fault:
            callback(fault)

    def take_fetches(self, *, again: bool = False) -> list[Fetch]:
        """Give the wishes that were not sent yet, or all that have no answer: whoever had them is gone."""
        since, self._sent_fetches = 0 if again else self._sent_fetches, self._fetched
        return [fetch for number, fetch in self._fetches.items() if number > since]

    def fetched(self, number: int, found: Reading | list[bytes | None] | StoreError) -> None:
        """Hear what was read."""
        fetch = self._fetches.pop(number, None)
        if fetch is not None:
            fetch.done(found)
