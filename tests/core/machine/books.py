"""The books that a machine keeps of a queue: what must be in it, and what it may have done in a turn.

What the books do not predict, such as which feed gets which message, they check against the rules that must hold for
any choice.
"""

from collections.abc import Callable
from math import inf
from typing import ClassVar, TypeVar

from hypothesis.stateful import RuleBasedStateMachine, invariant

from triomq.core import Batch, Enlist, Feed, Overflow, Publish, QueueOptions, QueueState, Receipt

from ..harness import Consumer
from .model import PLAIN, Count, Kind, Runs, Sent, Taking, Waiting
from .still_harness import StillHarness

T = TypeVar("T")


class Told:
    """A publish of this turn."""

    def __init__(self, kind: Kind, publish: Publish, receipt: Receipt) -> None:
        self.kind = kind
        self.publish = publish
        self.receipt = receipt


class Books(RuleBasedStateMachine):
    """A queue in a house, and the books of it; subclasses say what happens, and with which options it may be made."""

    choice: ClassVar[tuple[QueueOptions, ...]] = (QueueOptions(),)
    kinds: ClassVar[list[Kind]] = PLAIN
    options: QueueOptions
    queue: QueueState

    def __init__(self) -> None:
        super().__init__()
        self.still = StillHarness()
        self.harness = self.still.harness
        self.deliveries: list[Batch] = []  # of all consumers, in the order in which they went
        self.channels = [Count(), Count()]  # windows that feeds share
        self.feeds: dict[Feed, Taking] = {}
        self.closed: list[tuple[Consumer, int]] = []  # how often each consumer must have been told FeedClosed
        self.ready: dict[int, Waiting] = {}
        self.attempts: dict[int, int] = {}
        self.out: dict[int, Sent] = {}
        self.dead: list[Batch] = []  # batches of incarnations that have crashed
        self.told: list[Told] = []  # in this turn
        self.next_id = self.first = 1  # the first of this turn
        self.serial = self.placed = self.delivered = self.dropped = self.expired = self.delayed = self.lettered = 0

    def begin(self, options: QueueOptions) -> None:
        """Make the queue."""
        self.options = options
        self.queue = self.still.turn(lambda: self.harness.queue("q", options))

    def teardown(self) -> None:
        self.still.close()

    # what the queue did in a turn

    def turn(self, function: Callable[[], T]) -> T:
        answer = self.still.turn(function)
        self.after()
        return answer

    def after(self) -> None:
        """Follow what was placed in the last turn, what was delivered, and what went otherwise."""
        first = self.first
        told, self.told = self.told, []
        refused = [content for one in told for content in self.place_told(one)]
        self.follow_all()
        self.let_go(spare=self.still.now if self.expiring_paged_in() else None)
        self.check_limits(refused, self.next_id - 1 if self.next_id > first else 0)
        self.let_go()
        self.check_that_nobody_waits_in_vain()
        self.first = self.next_id

    def expiring_paged_in(self) -> bool:
        """Tell whether messages came in this turn that can expire: what is over just then may go until its end.

        A queue that refuses looks at what is over for each run that comes.
        """
        went = [(number, sent.message) for number, sent in self.out.items()]
        return not self.rejects and any(
            number >= self.first and message.deadline < inf for number, message in [*self.ready.items(), *went]
        )

    def place_told(self, told: Told) -> list[bytes]:
        """Number what is placed; give what is refused, which is the end of the run."""
        contents, receipt = told.publish.contents, told.receipt
        assert not receipt.missing, "a publish is neither placed nor refused"
        placed = len(contents) - len(receipt.refusals or ())
        assert (receipt.refusals or set()) == set(range(receipt.first + placed, receipt.first + len(contents)))
        for content in contents[:placed]:
            self.place(told.kind, content)
        self.placed += placed
        for content in contents[placed:]:
            self.lose(Waiting(told.kind, content, inf), "refused")
        return [content[told.kind.head.overhead :] for content in contents[placed:]]

    def place(self, kind: Kind, content: bytes) -> int:
        """Enter one message."""
        times = [seconds for seconds in (self.options.message_ttl, kind.expiration) if seconds is not None]
        deadline = self.still.now + min(times) if times else inf
        number, self.next_id = self.next_id, self.next_id + 1
        self.ready[number] = Waiting(kind, content, deadline)
        return number

    def order(self) -> list[int]:
        """In which order messages go: the most urgent first, equals by id."""
        return sorted(self.ready, key=lambda number: (-self.level(number), number))

    def level(self, number: int) -> int:
        return min(self.ready[number].kind.level, self.options.max_priority)

    def follow_all(self) -> None:
        """Follow deliveries; those that stood before one that went are gone."""
        deliveries, self.deliveries[:] = list(self.deliveries), []
        first, dealt = self.first, {number for batch in deliveries for number in batch.ids}
        for number in self.order():
            if not dealt:
                break
            if number in dealt:
                dealt.discard(number)
                late = number < first and self.ready[number].deadline < self.still.now
                assert not late, "what has expired was delivered"
            else:
                if all(self.may_overtake(other, number) for other in dealt):
                    continue
                reason = self.why_gone(number)
                assert reason, "what went is not the first"
                assert number < first or reason != "expired", "what came just now has expired before its turn"
                self.lose(self.take_out(number), reason)
        for batch in deliveries:
            assert batch.feed is not None
            self.follow(batch, self.feeds[batch.feed])

    def may_overtake(self, number: int, other: int) -> bool:
        """Tell whether a message may go before another that is more urgent."""
        return self.rejects and number < other >= self.first  # for each run that comes, the queue tries to make room

    @property
    def rejects(self) -> bool:
        """Whether the queue refuses what does not fit."""
        bounded = self.options.max_length is not None or self.options.max_bytes is not None
        return bounded and self.options.overflow is not Overflow.DROP_HEAD

    def follow(self, batch: Batch, taking: Taking) -> None:
        assert not taking.gate.held
        assert list(batch.ids) == sorted(batch.ids)
        for position, number in enumerate(batch.ids):
            self.send(number, batch, position, taking.counts)

    def send(self, number: int, batch: Batch, position: int, counts: list[Count]) -> None:
        """Enter that a message is out."""
        waiting = self.ready.pop(number)
        assert (batch.head, batch.contents[position]) == (waiting.kind.head, waiting.content)
        assert batch.redelivered is (self.attempts.get(number, 0) > 0)
        for count in counts:
            assert count.admits(len(waiting.content)), "a window is exceeded"
            count.sizes[number] = len(waiting.content)
        self.out[number] = Sent(batch, position, waiting, counts)
        self.delivered += 1

    def take_out(self, number: int) -> Waiting:
        """Enter that a ready message is gone."""
        self.attempts.pop(number, None)
        return self.ready.pop(number)

    def why_gone(self, number: int) -> str | None:
        """Say why a message that stands first is dropped; None if it is not."""
        return "expired" if self.ready[number].deadline <= self.still.now else None

    def lose(self, waiting: Waiting, reason: str) -> None:
        """Count a message that left without a consumer's having accepted it."""
        if reason == "expired":
            self.expired += 1
        elif reason in ("shed", "refused", "unwanted"):
            self.dropped += 1

    def fronts(self) -> list[int]:
        """The first of each level."""
        levels: dict[int, int] = {}
        for number in sorted(self.ready, reverse=True):
            levels[self.level(number)] = number
        return list(levels.values())

    def let_go(self, *, spare: float | None = None) -> None:
        """Take out what is dropped when it stands first, as long as something does.

        Args:
            spare: A deadline that still counts as to come.
        """
        while going := {
            number: reason
            for number in self.fronts()
            if self.ready[number].deadline != spare and (reason := self.why_gone(number))
        }:
            for number, reason in going.items():
                self.lose(self.take_out(number), reason)

    def check_limits(self, refused: list[bytes], last: int) -> None:
        """See that no more was refused than must be, or let the oldest of the least urgent give way as the queue must.

        Args:
            refused: The bodies of what was refused in this turn.
            last: The number of what was placed last in this turn; 0 for nothing.
        """
        if self.rejects:
            for body in refused[:1]:  # with those before it there, there was no room for the first
                assert self.has_too_many(1, len(body)), "refused, though it fits"
            assert last not in self.ready or not self.has_too_many()
            return
        assert not refused
        while self.has_too_many():
            oldest = min(self.ready, key=lambda number: (self.level(number), number))
            self.lose(self.take_out(oldest), "shed")

    def has_too_many(self, more: int = 0, more_bytes: int = 0) -> bool:
        """Tell whether the limits are exceeded, or would be with so many messages and so many octets more."""
        most, most_bytes = self.options.max_length, self.options.max_bytes
        return (most is not None and len(self.ready) + more > most) or (
            most_bytes is not None and self.body_bytes() + more_bytes > most_bytes
        )

    def body_bytes(self) -> int:
        return sum(waiting.body_size for waiting in self.ready.values())

    def check_that_nobody_waits_in_vain(self) -> None:
        if self.ready:
            for taking in self.feeds.values():
                assert not taking.has_room, "a feed has room, and messages are ready"

    # what always holds

    @invariant()
    def the_index_holds_what_the_books_say(self) -> None:
        entries = self.queue.backlog.entries()
        found = [(entry.id, entry.message.head, entry.message.content, entry.attempts) for entry in entries]
        assert found == [
            (number, self.ready[number].kind.head, self.ready[number].content, self.attempts.get(number, 0))
            for number in self.order()
        ]
        assert {number for batch in self.queue.backlog.outstanding() for number in _left(batch)} == set(self.out)

    @invariant()
    def the_statistics_are_right(self) -> None:
        statistics = self.still.turn(lambda: self.queue.ref.ask_nowait(Enlist()))
        assert not self.deliveries, "counting made the queue deliver"
        assert statistics.ready == len(self.ready)
        assert statistics.ready_bytes == self.body_bytes()
        assert statistics.unsettled == len(self.out)
        assert statistics.feeds == len(self.feeds)
        assert statistics.published == self.placed
        assert statistics.delivered == self.delivered
        assert (statistics.dropped, statistics.expired) == (self.dropped, self.expired)
        assert (statistics.delayed, statistics.dead_lettered) == (self.delayed, self.lettered)

    @invariant()
    def windows_count_what_is_out(self) -> None:
        for count in [*self.channels, *(taking.own for taking in self.feeds.values())]:
            assert count.window.used == len(count.sizes)
            assert count.window.used_bytes == sum(count.sizes.values())

    @invariant()
    def consumers_were_told_that_their_feed_is_closed_once_if_at_all(self) -> None:
        for consumer, times in self.closed:
            assert len(consumer.closed) == times
        for taking in self.feeds.values():
            assert not taking.consumer.closed

    # what machines tell the queue

    def tell_runs(self, runs: Runs, *, delay: float = 0.0) -> list[Told]:
        """Publish runs, with receipts; what waits for its time is not entered yet."""
        told = []
        for kind, sizes in runs:
            contents = [kind.content(self.serial + number, size) for number, size in enumerate(sizes)]
            receipt = Receipt(self.serial + 1, len(contents), len(contents), lambda: None)
            size = sum(map(len, contents))
            told.append(Told(kind, Publish(kind.head, contents, size, receipt, delay=delay), receipt))
            self.serial += len(contents)
            self.queue.ref.tell_nowait(told[-1].publish)
        if not delay:
            self.told += told
        return told


def _left(batch: Batch) -> list[int]:
    return [batch.ids[position] for position in batch.unsettled()]
