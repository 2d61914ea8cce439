"""The broker's side of its store: operations are collected, numbered as batches, and held until they are on disk.

    turns ── append, settle, … ──▶ open batch (number N) ── all that was appended is settled: nothing is written
                                     │ take(): at most two are under way, so a slow disk gets fewer and larger ones
                                     ▼
                                   unanswered N-2, N-1 ──▶ the store's process: one transaction, one sync
                                     │
    when_committed(N, f) ◀───────────┘ answered(N): f is called

    owe(queue, ids, receipt) ──▶ settle(ids, consumed=True) while N is open ──▶ receipt.consumed: no need to wait for N

- A batch is what the turns since the last batch have added. Turns do not wait: they add operations, and remember the
  number of the open batch if a client is to be answered only when it is on disk.
- ``committed`` is the number of the last batch on disk; it only grows. Callbacks run in the order in which they were
  given, so confirms need no sorting.
- A publisher waits for the batch that has its messages, unless consumers have them while it is still open (``owe``,
  ``consumed``). Then they are not written at all, and what a crash of the broker takes is settled already. What is
  settled in exchange for something else in the batch, a dead letter or the rest of a transaction, pays no debt.
- A batch in which nothing is left to do is not sent, and the next one gets its number, since the store waits for
  numbers without gaps. If anybody waits for that number (``require_commit``, a debt) it is sent, empty as it is.
- Group commit needs no timer: while one batch is written the next one fills. With one batch under way the disk would
  idle for a round trip between syncs; with more than two the batches would be smaller and the syncs more.
- A batch is *held* if nobody waits for it, or only for messages that consumers have been sent: what they settle within
  a moment need not be written. One timer for all batches looks now and then (``tick``) whether a debt is older than
  its last look. If one is, the next batches are not held, twice as many each time, so that slow consumers cost
  publishers nothing. A message that no consumer was sent is never held up: its batch goes at once.
- The journal outlives the session that sends its batches, because unanswered batches must: when the store's process
  dies they are sent again to the next one, which skips those that it finds committed.
- A failed write (full disk) changes nothing here but ``fault``: batches stay unanswered and are sent again. Only
  batches that settle and do nothing else may be written ahead of them, for they make room (``early_settlements``).

Tried and dropped: sending each batch at once (the disk then syncs all the time, and the message that is on its way when
one sync ends is written with its settlement behind it: a third of the rate with one confirm outstanding); a timer for
each batch (30 µs for each message).
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from triomq.errors import StoreError
from triomq.store.batch_builder import BatchBuilder, OpenOperation
from triomq.store.body import BodyRun, gaps_of, gather_body
from triomq.store.debts import Debt
from triomq.store.frames import Fetching, Read, ReadChunks, ReadDelayed, ReadRecord, SendChunks
from triomq.store.operations import (
    ChunksMerged,
    MessagesSettled,
    MessagesSpilled,
    Operation,
    OperationBatch,
    RecordPut,
)
from triomq.store.reading import ChunksRead, ChunksSent, Reading
from triomq.store.recovered import Recovered
from triomq.store.unwritten import count_unwritten

_log = logging.getLogger("triomq.store")

_UNDER_WAY = 2
"""Batches that may be unanswered before the next is sent: one that is being synced, one that waits behind it."""

_MERGES = 256
"""Ranges of chunks to merge that are asked for again when the store's process has died: it is seconds behind."""

_MOST_FAILURES = 64
"""Batches that are sent at once, at most, after one that was held for nothing."""


class Fetch(msgspec.Struct, frozen=True):
    """A request to read bodies; created by the journal, ends when it is answered.

    Args:
        request: The frame for the store.
        done: Called with what was read, or with the error.
    """

    request: Fetching | SendChunks
    done: Callable[..., None]


def _do_nothing() -> None:
    """Wake no session: there is none, and the next one begins by sending."""


class Journal:
    """The operations of one broker for its store; created with the broker, ends with it.

    ``committed`` is the number of the last batch that is on disk; ``fault`` is the error while batches cannot be
    written, else None; ``is_open`` is whether the store has been opened, and ``recovered`` is what it had then.
    """

    def __init__(self) -> None:
        self.committed = 0
        self.fault: StoreError | None = None
        self.recovered: Recovered | None = None
        self.is_open = False
        self.identity = b""
        """The store's, once it is open."""
        self.wake: Callable[[], None] = _do_nothing
        self._builder = BatchBuilder()
        self._is_required = False  # whether somebody waits for the number of the open batch
        self.is_held = False  # whether the last ``take`` has left the open batch open, though it could be sent
        self._is_ripe = False  # whether the open batch was held when ``tick`` was called
        self._is_overdue = False  # whether consumers took too long
        self._failures = 0
        self._hurries = 0  # batches that are not held, since consumers were too slow for those before them
        self._last = 0  # number of the last batch that was taken
        self._unanswered: deque[tuple[OperationBatch, int]] = deque()
        self._unanswered_bytes = 0
        self._fetches: dict[int, Fetch] = {}
        self._descriptors: dict[int, int] = {}  # that were lent and not sent yet, by the numbers of their requests
        self._fetched = 0
        self._sent_fetches = 0
        self._merges: deque[ChunksMerged] = deque(maxlen=_MERGES)
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._on_fault: list[Callable[[StoreError | None], None]] = []

    # Called by the core, within turns

    @property
    def open_batch(self) -> int:
        """The number of the open batch. What is added now is on disk when ``committed`` has reached it."""
        return self._last + 1

    def require_commit(self) -> int:
        """Return the number that ``committed`` must reach until all that was added so far is on disk.

        If that is the open batch, it is sent with this number whatever is left of it.
        """
        if not self._builder:
            return self._last
        self._is_required = True
        return self.open_batch

    @property
    def pending_bytes(self) -> int:
        """About how many bytes are in the open batch or not answered yet."""
        return self._unanswered_bytes + self._builder.size

    def append(self, queue: int, first: int, head: bytes, contents: Sequence[bytes], size: int) -> None:
        """Append messages with ids in a row, above all that the queue has had.

        Args:
            queue: The queue's number.
            first: The first one's id.
            head: What they share, encoded by the core.
            contents: One for each message; the sequence must not change any more.
            size: What the core counts for them, in bytes; ``pending_bytes`` counts their contents.
        """
        self._builder.append(queue, first, head, contents, size)
        self.wake()

    def cut(self, queue: int) -> None:
        """Start another segment with the next messages that are appended to a queue.

        Segments must not overlap. So when messages are spilled, or will be, whose ids lie between those of two appends,
        this is called before the second of them.
        """
        self._builder.cut(queue)

    def spill(self, queue: int, first: int, runs: Sequence[BodyRun], count: int) -> None:
        """Page out transient messages, for ``fetch`` to read back while this broker lives.

        Args:
            queue: The queue's number.
            first: The first one's id; no segment of the queue has ids between this and the last one's.
            runs: The messages, with offsets from the first one; ids that no run has count as settled.
            count: How many ids they span.
        """
        settled = gaps_of(runs, first, count)
        self.add(MessagesSpilled(queue=queue, first=first, count=count, body=gather_body(runs), settled=settled))

    def owe(self, queue: int, first: int, count: int, debt: Debt) -> None:
        """Let a publisher wait for messages that are appended now, until they are on disk, or consumers have them.

        ``debt.consumed`` is called for what consumers have before the open batch is sent. What was sent is on disk when
        ``committed`` has reached the number that ``debt.wait_for`` is given here.

        Args:
            queue: The queue's number.
            first: The first one's id, above all that were owed before.
            count: How many there are.
            debt: What is owed to their publisher.
        """
        debt.wait_for(self.open_batch, count)
        self._builder.owe(queue, first, count, debt)

    def settle(self, queue: int, first: int, count: int = 1, *, consumed: bool = False) -> None:
        """Settle messages with ids in a row, durable or spilled.

        Args:
            queue: The queue's number.
            first: The first one's id.
            count: How many there are.
            consumed: Whether consumers have them, whatever becomes of the open batch. It is not so for what is settled
                because something else in the batch replaces it: a dead letter, or what else a transaction does.
        """
        self._builder.settle(queue, first, count)
        if consumed:
            self._builder.consumed(queue, first, count)
        self.wake()

    def delivered(self, queue: int, level: int, after: int, up_to: int) -> None:
        """Mark messages of a level as delivered.

        Args:
            queue: The queue's number.
            level: The level.
            after: Up to this id they were marked before.
            up_to: Up to this id they are marked now.
        """
        self._builder.delivered(queue, level, after, up_to)
        self.wake()

    def add(self, operation: Operation) -> None:
        """Add any other operation."""
        self._builder.add(operation)
        self.wake()

    def add_open(self, source: OpenOperation) -> None:
        """Add an operation that may still grow, until the open batch is taken; then it is finished, behind all others.

        It is dropped if its queue is deleted in the same batch.
        """
        self._builder.add_open(source)
        self.wake()

    def grow(self, size: int) -> None:
        """Count bytes that an open operation has grown by, in ``pending_bytes``."""
        self._builder.size += size

    def merge_chunks(self, queue: int, first: int, stop: int) -> None:
        """Have small chunks of a range of offsets merged, when the store has a moment; see ``ChunksMerged``."""
        operation = ChunksMerged(queue, first, stop)
        self._merges.append(operation)
        self.add(operation)

    def add_new(self, record: RecordPut) -> None:
        """Add a record whose key the store does not have: if it is removed in the same batch, nothing is written."""
        self._builder.add_new(record)
        self.wake()

    def fetch(
        self, queue: int, first: int, stop: int, max_bytes: int, done: Callable[[Reading | StoreError], None]
    ) -> Fetch:
        """Read the segments that hold ids of a range, durable or spilled.

        All of the range must be committed, or settled: what is still on its way to the store counts as not there. The
        result may have messages that have been settled since.

        Args:
            queue: The queue's number.
            first: The first id of the range.
            stop: The id behind its last one.
            max_bytes: About how many bytes of bodies to read at once; at least one segment is read if there is any.
            done: Called later, outside of any turn, with what was read or with the error.
        """
        self._fetched += 1
        return self._send_request(Read(self._fetched, queue, first, stop, max_bytes), done)

    def fetch_chunks(
        self,
        queue: int,
        first: int,
        stop: int,
        max_bytes: int,
        done: Callable[[ChunksRead | StoreError], None],
        *,
        since: int = 0,
    ) -> Fetch:
        """Read whole chunks of a stream; all of the range must be committed.

        Args:
            queue: The stream's number.
            first: The first offset of the range.
            stop: The offset behind its last one.
            max_bytes: About how many bytes to read at once; at least one chunk is read if there is any.
            done: Called later, outside of any turn, with what was read or with the error.
            since: Leave chunks out whose records were all appended before this time, in microseconds since 1970.
        """
        self._fetched += 1
        return self._send_request(ReadChunks(self._fetched, queue, first, stop, max_bytes, since), done)

    def send_chunks(
        self,
        descriptor: int,
        head: bytes,
        queue: int,
        first: int,
        stop: int,
        max_bytes: int,
        done: Callable[[ChunksSent | StoreError], None],
        reader: str = "",
        room: int = 0,
    ) -> Fetch:
        """Have the store's process write whole chunks of a stream to a socket; nothing else may be written meanwhile.

        They are those from the first offset on up to what is damaged. An error means that nothing was written.

        Args:
            descriptor: Of the socket, and owned by the journal from now on.
            head: The beginning of a message; its length goes before it, and its last field, the chunks, behind it.
            queue: The stream's number.
            first: The first offset of the range.
            stop: The offset behind its last one.
            max_bytes: About how many bytes to write; at least one chunk is written if there is any.
            done: Called later, outside of any turn, when it is written or cannot be.
            reader: Who gets them.
            room: Bytes that all answers may leave unread, of which one reader may have half; 0 is no bound.
        """
        self._fetched += 1
        self._descriptors[self._fetched] = descriptor
        return self._send_request(SendChunks(self._fetched, queue, first, stop, max_bytes, head, reader, room), done)

    def fetch_delayed(
        self, queue: int, numbers: Sequence[int], done: Callable[[list[bytes | None] | StoreError], None]
    ) -> Fetch:
        """Read the bodies of delayed messages, all at once; the caller asks for no more than there is room for.

        Args:
            queue: The queue's number.
            numbers: Theirs, as of ``DelayedFound``.
            done: Called later, outside of any turn, with the bodies, None for those that are not there; or with the
                error.
        """
        self._fetched += 1
        return self._send_request(ReadDelayed(self._fetched, queue, numbers), done)

    def fetch_record(self, kind: int, key: bytes, done: Callable[[bytes | StoreError | None], None]) -> Fetch:
        """Read the value of a record; what is still on its way to the store counts as not there.

        Args:
            kind: Its kind.
            key: Its key.
            done: Called later, outside of any turn, with the value, None if there is none; or with the error.
        """
        self._fetched += 1
        return self._send_request(ReadRecord(self._fetched, kind, key), done)

    def _send_request(self, request: Fetching | SendChunks, done: Callable[..., None]) -> Fetch:
        fetch = self._fetches[request.number] = Fetch(request, done)
        self.wake()
        return fetch

    def cancel_fetch(self, fetch: Fetch) -> None:
        """Cancel a request, if it has not been answered yet."""
        number = fetch.request.number
        self._fetches.pop(number, None)
        if number in self._descriptors:
            os.close(self._descriptors.pop(number))

    def take_descriptor(self, number: int) -> int | None:
        """Return the descriptor to send with a request, to be closed then; None if it was cancelled."""
        return self._descriptors.pop(number, None)

    def when_committed(self, number: int, callback: Callable[[], None]) -> None:
        """Call a function once when ``committed`` has reached a number, outside of any turn.

        Args:
            number: What ``require_commit`` has returned, or ``open_batch`` when something was added that stays in it.
            callback: Called soon, if the number has been reached already. Callbacks are called in the order in which
                they were given, so one with a lower number waits for those before it. It must be cheap, and safe to
                call after its client has gone.
        """
        self._waiting.append((number, callback))
        if number <= self.committed:
            self.wake()

    def on_fault(self, callback: Callable[[StoreError | None], None]) -> None:
        """Call a function, outside of any turn, when batches cannot be written; and with None when they can again.

        It is called again when they cannot be written for a reason of another class.
        """
        self._on_fault.append(callback)

    # Called by the store's supervisor and its session

    def opened(self, committed: int, recovered: Recovered, identity: bytes = b"") -> None:
        """Continue the numbers of a store that has just been opened, when a broker starts.

        Operations that were added before belong to the first batch after those of the store.
        """
        self.is_open = True
        self.identity = identity
        self.committed = self._last = committed
        self.recovered = recovered

    def take(self, *, patient: bool = False) -> OperationBatch | None:
        """Return the next batch to send; None if nothing is left to do, or enough batches are under way.

        Args:
            patient: Whether to leave the open batch open, if that may save all of it: then ``is_held`` is true, and
                ``tick`` is to be called soon.
        """
        self._call_committed()  # callbacks that were given after their number had been reached
        self.is_held = False
        if not self._builder or len(self._unanswered) >= _UNDER_WAY or self.fault is not None:
            return None
        self.is_held = patient and self._may_wait()
        if self.is_held:
            return None
        self._is_ripe = self._is_overdue = False
        builder, self._builder = self._builder, BatchBuilder()
        size, batch = builder.size, builder.batch(self.open_batch)
        if not batch.operations and not self._is_required and not builder.owes:
            return None  # the next batch gets the number
        self._last += 1
        self._is_required = False
        self._unanswered.append((batch, size))
        self._unanswered_bytes += size
        return batch

    def _may_wait(self) -> bool:
        """Return whether nobody waits for the open batch, or only for what consumers may be settling right now."""
        builder = self._builder
        if self._is_required or self._is_overdue or builder.does_more:
            return False
        if not builder.unpaid:
            return not self._is_ripe
        if self._hurries:
            self._hurries -= 1
            return False
        return builder.is_with_consumers

    def tick(self) -> bool:
        """Return whether the open batch need not be held any longer; called once in a while as long as it is held."""
        if self._builder.drop_paid():
            self._failures = min(_MOST_FAILURES, 2 * self._failures + 1)
            self._hurries = self._failures
            self._is_overdue = True
            return True
        if self._builder.paid:
            self._builder.paid = self._failures = 0
        due = self._is_ripe and not self._builder.unpaid
        self._is_ripe = True
        return due

    @property
    def unanswered(self) -> list[OperationBatch]:
        """The batches that were taken and may not be on disk, in order."""
        return [batch for batch, _ in self._unanswered]

    def answered(self, number: int) -> None:
        """Drop all batches up to this number, which are on disk, and call what waited for them."""
        while self._unanswered and self._unanswered[0][0].number <= number:
            self._unanswered_bytes -= self._unanswered.popleft()[1]
        self._set_fault(None)
        if number > self.committed:
            self.committed = number
            self._call_committed()

    def _call_committed(self) -> None:
        waiting = self._waiting
        for _ in range(len(waiting)):  # no further: a callback may add one that is due at once
            if waiting[0][0] > self.committed:
                break
            waiting.popleft()[1]()

    def early_settlements(self) -> list[MessagesSettled]:
        """Return what may be settled ahead of the batches that cannot be written, since it makes room.

        Only of batches that do nothing else: a batch that moves a message or commits a transaction is written whole or
        not at all. The same settlements are sent again with their batch, which changes nothing.
        """
        alone = [
            batch
            for batch, _ in self._unanswered
            if all(isinstance(each, MessagesSettled) for each in batch.operations)
        ]
        found = [each for batch in alone for each in batch.operations if isinstance(each, MessagesSettled)]
        return found + self._builder.settles()

    def failed(self, fault: StoreError) -> None:
        """Set the error because of which batches cannot be written; they stay unanswered."""
        self._set_fault(fault)

    def _set_fault(self, fault: StoreError | None) -> None:
        before, self.fault = self.fault, fault
        if type(before) is type(fault):
            return
        if fault is not None:
            _log.error("the store cannot be written", extra={"fields": {"fault": str(fault)}})
        else:
            _log.warning("the store can be written again")
        for callback in self._on_fault:
            callback(fault)

    def count_unwritten(self) -> dict[str, int]:
        """Count what is not on disk, by what it is; called when nothing is added any more, and nothing written."""
        return count_unwritten([*self.unanswered, self._builder.batch(self.open_batch)])

    def merge_again(self) -> None:
        """Ask a new process for what its predecessor may not have merged; what is merged already costs it a look.

        Once: if it is the merging that ends the process it is not to end each one.
        """
        for operation in self._merges:
            self.add(operation)
        self._merges.clear()

    def take_fetches(self, *, again: bool = False) -> list[Fetch]:
        """Return the requests that were not sent yet; all that have no answer if ``again``, for a new session.

        But what has been begun on a socket cannot be begun again.
        """
        if again:
            for number, fetch in list(self._fetches.items()):
                if isinstance(fetch.request, SendChunks) and number not in self._descriptors:
                    self.fetched(number, ChunksSent(-1, is_whole=False))
        since, self._sent_fetches = 0 if again else self._sent_fetches, self._fetched
        return [fetch for number, fetch in self._fetches.items() if number > since]

    def fetched(
        self, number: int, found: Reading | ChunksRead | ChunksSent | list[bytes | None] | bytes | StoreError | None
    ) -> None:
        """Pass on what was read for a request, unless it was cancelled."""
        fetch = self._fetches.pop(number, None)
        if fetch is not None:
            fetch.done(found)
