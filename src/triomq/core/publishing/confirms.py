"""Confirms: telling a publisher what has been placed, though queues and the disk may take their time.

    Publisher.publish ─▶ Confirms.expect ─▶ Receipt(missing = messages x queues)
    each queue ────────▶ Receipt.placed or .refused, and .wait_for: the batch of the store that has the messages
    journal ───────────▶ Receipt.consumed: consumers have them, and the batch is still open
    endpoint ──────────▶ Confirms.take: what may be confirmed now

                               ┌── accepted, the batch is open ──▶ never written ──┐
    copy in each durable queue ┤                                                   ├─▶ safe
                               └── the batch is sent ──▶ on disk ──────────────────┘
    all copies placed, all copies safe ──▶ confirmed

Rules:

- A publish is *placed* when the handler of every queue that it was routed to has run. Usually that is the case before
  the publisher's turn ends; while a queue is being restarted it is not.
- A receipt is complete when nothing is missing, and may be confirmed when its batch is on disk as well. A transient
  message has no batch (number 0), so it is confirmed as soon as it is placed.
- A copy that a consumer has accepted, or that was sent to one that need not, is as safe as one on disk: nobody will ask
  for it again. If that happens before the batch is sent, it is taken off ``unsafe``; with the last one the number is 0.
  Each queue's copy counts, so it is a count of copies: one accepted copy says nothing of another queue's.
- Only accepting counts. What is rejected, expires, has to give way or came back too often may become a dead letter, and
  the publisher waits for the batch that has the letter. What a transaction accepts is undone with it by a crash, so it
  counts when the transaction is on disk. What comes back to its queue is as unsafe as before.
- Receipts are confirmed from the front as one "up to here", as far as they go. Behind one that is not placed they are
  confirmed singly, so that one queue that is being restarted holds up no other. Behind one that waits for the disk they
  wait as well, those too that are safe by now: it takes some milliseconds, and one "up to here" for all of them costs
  less than one confirm for each. While the disk fails, what does not wait for it is confirmed singly.
- One callback at most waits for the disk: the front's number is the lowest. If it is called for a number that nobody
  waits for any more, a look at the front sets the next one.
- A message that a queue refused is refused (nack), singly, and never confirmed.

A receipt for each run, not for each message, and plain counting instead of sets of queues: a run of a thousand messages
to three queues costs one object and three calls.
"""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from triomq.core.persistence.persistence import Persistence


class Receipt:
    """Counts what is missing until a run of publishes is placed.

    Created by the publisher with the number of copies that queues will place; queues call ``placed`` and ``refused``.

    ``number`` is the batch of the store that has to be on disk before the run is confirmed; 0 if there is none, or none
    any more. ``unsafe`` counts the copies because of which there is one.

    Args:
        first: The publisher's own number of the run's first message.
        count: How many messages the run has.
        copies: How many placements will be reported: for each message as many as it goes to queues.
        done: Called when the last placement has been reported; and again, later, when consumers have all copies that
            the disk did not have.
    """

    __slots__ = ("_done", "count", "first", "missing", "number", "refusals", "unsafe")

    def __init__(self, first: int, count: int, copies: int, done: Callable[[], None]) -> None:
        self.first = first
        self.count = count
        self.missing = copies
        self.number = 0
        self.unsafe = 0
        self.refusals: set[int] | None = None
        self._done = done

    def wait_for(self, number: int, count: int) -> None:
        """Wait for a batch of the store, the open one, because of so many copies."""
        self.number = number
        self.unsafe += count

    def consumed(self, count: int) -> None:
        """Report that consumers have so many of the copies that were waited for, before they were sent to the disk."""
        self.unsafe -= count
        if not self.unsafe:
            self.number = 0
            if not self.missing:
                self._complete()

    def placed(self, count: int) -> None:
        """Report that a queue has so many of the messages."""
        self.missing -= count
        if not self.missing:
            self._complete()

    def _complete(self) -> None:
        self._done()

    def refused(self, positions: Sequence[int]) -> None:
        """Report that a queue will not have the messages at some positions of the run."""
        if self.refusals is None:
            self.refusals = set()
        self.refusals.update([self.first + position for position in positions])
        self.placed(len(positions))


class SingleReceipt(Receipt):
    """The receipt of one message, created by its publisher, without ``Confirms``.

    Args:
        done: Called once, when the message would be confirmed or has been refused: in a handler of a queue, or outside
            of any turn.
        persistence: The broker's, if it has a store.
    """

    __slots__ = ("_called", "_persistence")

    def __init__(self, done: Callable[[], None], persistence: Persistence | None) -> None:
        super().__init__(1, 1, 0, done)
        self._persistence = persistence
        self._called = False

    @property
    def is_safe(self) -> bool:
        """Whether nothing is waited for any more, or a queue has refused the message."""
        if self.missing:
            return False
        on_disk = 0 if self._persistence is None else self._persistence.journal.committed
        return self.refusals is not None or self.number <= on_disk

    def _complete(self) -> None:
        if self._called:
            return
        if self.is_safe:
            self._called = True
            self._done()
        elif self._persistence is not None:
            self._persistence.journal.when_committed(self.number, self._complete)

    def expect(self, count: int, copies: int) -> Receipt:
        """Follow the fate of the message from now on."""
        self.missing = copies
        return self


class Confirmed(msgspec.Struct, frozen=True):
    """What a channel can confirm to its publisher now.

    Args:
        refused: Numbers to be refused, each singly, before any is confirmed.
        single: Numbers to be confirmed one by one.
        up_to: Everything up to this number is confirmed, which is more than one; 0 if nothing is.
    """

    refused: list[int]
    single: list[int]
    up_to: int


class Confirms:
    """The publish numbers of one channel in confirm mode; created by its endpoint, ends with the channel.

    Args:
        wake: Called when a receipt that was missing something is complete, so that ``take`` is called soon.
        persistence: The broker's, if it has a store.
        committed: Called, outside of any turn, when something is on disk that ``take`` had to hold back.
    """

    __slots__ = ("_committed", "_confirmed", "_next", "_persistence", "_receipts", "_waits", "_wake")

    def __init__(
        self,
        wake: Callable[[], None],
        persistence: Persistence | None = None,
        committed: Callable[[], None] = lambda: None,
    ) -> None:
        self._next = 1
        self._receipts: deque[Receipt] = deque()
        self._confirmed: set[int] = set()  # first numbers of receipts that were confirmed out of order
        self._wake = wake
        self._persistence = persistence
        self._committed = committed
        self._waits = False  # whether a callback is set for a commit

    def expect(self, count: int, copies: int) -> Receipt:
        """Number the next run of publishes, of which queues will place so many copies, and follow its fate."""
        receipt = Receipt(self._next, count, copies, self._wake)
        self._next += count
        self._receipts.append(receipt)
        if not copies:
            self._wake()
        return receipt

    def take(self) -> Confirmed:
        """Collect what can be confirmed or refused now; each number is returned once."""
        refused: list[int] = []
        on_disk = 0 if self._persistence is None else self._persistence.journal.committed
        count, up_to = self._take_front(refused, on_disk)
        single = self._take_rest(refused, on_disk) if self._receipts else []
        # RabbitMQ uses "up to here" only for more than one, and some clients rely on it.
        return Confirmed(refused, [up_to, *single], 0) if count == 1 else Confirmed(refused, single, up_to)

    def _take_front(self, refused: list[int], on_disk: int) -> tuple[int, int]:
        """Confirm whole receipts from the front, as far as nothing is missing, on disk neither; count what that is."""
        count = up_to = 0
        receipts = self._receipts
        while receipts and not (receipt := receipts[0]).missing:
            if receipt.number > on_disk:
                self._wait_for(receipt.number)
                break
            receipts.popleft()
            if self._confirmed and receipt.first in self._confirmed:
                self._confirmed.discard(receipt.first)
                continue
            if receipt.refusals is None:
                count += receipt.count
                up_to = receipt.first + receipt.count - 1
                continue
            last = receipt.first + receipt.count - 1
            refused += sorted(receipt.refusals)
            while last in receipt.refusals:
                last -= 1  # a number that was refused is not confirmed as well
            count += receipt.count - len(receipt.refusals)
            up_to = last if last >= receipt.first else up_to
        return count, up_to

    def _wait_for(self, number: int) -> None:
        """Ask for a callback when a batch is on disk; one at a time, since batches are committed in order."""
        assert self._persistence is not None
        if not self._waits:
            self._waits = True
            self._persistence.journal.when_committed(number, self._on_disk)

    def _on_disk(self) -> None:
        self._waits = False
        self._committed()

    def _take_rest(self, refused: list[int], on_disk: int) -> list[int]:
        """Confirm receipts behind one that is not placed, or waits for a disk that fails, message by message."""
        single: list[int] = []
        if not self._receipts[0].missing and (self._persistence is None or self._persistence.journal.fault is None):
            return single  # it waits for the disk, and so do those behind it, which come with it
        for receipt in self._receipts:
            if receipt.missing or receipt.first in self._confirmed:
                continue
            if receipt.number > on_disk:
                self._wait_for(receipt.number)
                continue
            self._confirmed.add(receipt.first)
            refusals = receipt.refusals or ()
            refused += sorted(refusals)
            numbers = range(receipt.first, receipt.first + receipt.count)
            single += [number for number in numbers if number not in refusals]
        return single
