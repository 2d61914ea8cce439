"""The oracle of one queue in memory: a model of its contents, and the rules for what it may do in a turn.

What the model does not predict, such as which feed gets which message, is checked against rules that hold for any
choice.
"""

from collections.abc import Callable
from math import inf
from typing import ClassVar, TypeVar

from hypothesis.stateful import RuleBasedStateMachine, invariant

from triomq.core import Batch, Enlist, Feed, Overflow, Publish, QueueOptions, QueueState, Receipt

from ..harness import Consumer
from .model import PLAIN, MessageKind, OpenedFeed, ReadyMessage, Runs, UnsettledMessage, WindowModel, mixed
from .stepped_harness import SteppedHarness

T = TypeVar("T")


class Publication:
    """A publish of this turn."""

    def __init__(self, kinds: list[MessageKind], publish: Publish, receipt: Receipt) -> None:
        self.kinds = kinds
        self.publish = publish
        self.receipt = receipt


class QueueOracle(RuleBasedStateMachine):
    """A queue in a harness, and a model of it; subclasses have the steps, and the options that it may be made with."""

    choice: ClassVar[tuple[QueueOptions, ...]] = (QueueOptions(),)
    kinds: ClassVar[list[MessageKind]] = PLAIN
    options: QueueOptions
    queue: QueueState

    def __init__(self) -> None:
        super().__init__()
        self.stepped = SteppedHarness()
        self.harness = self.stepped.harness
        self.closed: list[tuple[Consumer, int]] = []  # how often each consumer must have been told FeedClosed
        self.dead: list[Batch] = []  # batches of incarnations that have crashed
        self.serial = 0
        self.clear()

    def clear(self) -> None:
        """Begin the model of a new queue."""
        self.deliveries: list[Batch] = []  # of all consumers, in the order in which they went
        self.channels = [WindowModel(), WindowModel()]  # windows that feeds share
        self.feeds: dict[Feed, OpenedFeed] = {}
        self.ready: dict[int, ReadyMessage] = {}
        self.attempts: dict[int, int] = {}
        self.out: dict[int, UnsettledMessage] = {}
        self.publications: list[Publication] = []  # in this turn
        self.next_id = self.first = 1  # the first of this turn
        self.placed = self.delivered = self.dropped = self.expired = self.delayed = self.lettered = 0

    def begin(self, options: QueueOptions) -> None:
        """Declare the queue."""
        self.options = options
        self.queue = self.stepped.turn(lambda: self.harness.queue("q", options))

    def teardown(self) -> None:
        self.stepped.close()

    # What the queue did in a turn

    def turn(self, function: Callable[[], T]) -> T:
        answer = self.stepped.turn(function)
        self.after()
        return answer

    def after(self) -> None:
        """Follow a turn: messages that were placed, delivered, and dropped."""
        first = self.first
        publications, self.publications = self.publications, []
        refused = [content for each in publications for content in self.place_published(each)]
        self.follow_deliveries()
        self.drop_fronts(spare=self.stepped.now if self.expiring_paged_in() else None)
        self.check_limits(refused, self.next_id - 1 if self.next_id > first else 0)
        self.drop_fronts()
        self.check_that_no_feed_with_room_waits()
        self.first = self.next_id

    def expiring_paged_in(self) -> bool:
        """Return whether messages came in this turn that can expire: one whose time is over then may go until its end.

        A queue that refuses drops expired messages before each run that comes.
        """
        went = [(number, sent.message) for number, sent in self.out.items()]
        return not self.rejects and any(
            number >= self.first and message.deadline < inf for number, message in [*self.ready.items(), *went]
        )

    def place_published(self, published: Publication) -> list[bytes]:
        """Number placed messages; return the refused ones, which are the end of the run."""
        contents, receipt = published.publish.contents, published.receipt
        assert not receipt.missing, "a publish is neither placed nor refused"
        placed = len(contents) - len(receipt.refusals or ())
        assert (receipt.refusals or set()) == set(range(receipt.first + placed, receipt.first + len(contents)))
        for kind, content in zip(published.kinds[:placed], contents, strict=False):
            self.place(kind, content)
        self.placed += placed
        refused = list(zip(published.kinds[placed:], contents[placed:], strict=True))
        for kind, content in refused:
            self.lose(ReadyMessage(kind, content, inf), "refused")
        return [content[kind.head.overhead :] for kind, content in refused]

    def place(self, kind: MessageKind, content: bytes) -> int:
        """Add a message."""
        times = [seconds for seconds in (self.options.message_ttl, kind.expiration) if seconds is not None]
        deadline = self.stepped.now + min(times) if times else inf
        number, self.next_id = self.next_id, self.next_id + 1
        self.ready[number] = ReadyMessage(kind, content, deadline)
        return number

    def order(self) -> list[int]:
        """Return the ids in the order in which messages go: the most urgent first, equals by id."""
        return sorted(self.ready, key=lambda number: (-self.level(number), number))

    def level(self, number: int) -> int:
        return min(self.ready[number].kind.level, self.options.max_priority)

    def follow_deliveries(self) -> None:
        """Follow deliveries; messages before a delivered one are dropped."""
        deliveries, self.deliveries[:] = list(self.deliveries), []
        first, dealt = self.first, {number for batch in deliveries for number in batch.ids}
        for number in self.order():
            if not dealt:
                break
            if number in dealt:
                dealt.discard(number)
                late = number < first and self.ready[number].deadline < self.stepped.now
                assert not late, "an expired message was delivered"
            else:
                if all(self.may_overtake(other, number) for other in dealt):
                    continue
                reason = self.drop_reason(number)
                assert reason, "a delivered message was not the first"
                assert number < first or reason != "expired", "a message expired before its turn"
                self.lose(self.remove(number), reason)
        for batch in deliveries:
            assert batch.feed is not None
            self.follow(batch, self.feeds[batch.feed])

    def may_overtake(self, number: int, other: int) -> bool:
        """Return whether a message may go before another that is more urgent."""
        return self.rejects and number < other >= self.first  # for each run that comes, the queue tries to make room

    @property
    def rejects(self) -> bool:
        """Whether the queue refuses what does not fit."""
        bounded = self.options.max_length is not None or self.options.max_bytes is not None
        return bounded and self.options.overflow is not Overflow.DROP_HEAD

    def follow(self, batch: Batch, opened: OpenedFeed) -> None:
        assert not opened.gate.held
        assert list(batch.ids) == sorted(batch.ids)
        for position, number in enumerate(batch.ids):
            self.send(number, batch, position, opened.counts)

    def send(self, number: int, batch: Batch, position: int, counts: list[WindowModel]) -> None:
        """Follow a delivery."""
        message = self.ready.pop(number)
        assert (batch.head_at(position), batch.contents[position]) == (message.kind.head, message.content)
        assert batch.redelivered is (self.attempts.get(number, 0) > 0)
        for count in counts:
            assert count.admits(len(message.content)), "a window is exceeded"
            count.sizes[number] = len(message.content)
        self.out[number] = UnsettledMessage(batch, position, message, counts)
        self.delivered += 1

    def remove(self, number: int) -> ReadyMessage:
        """Remove a ready message."""
        self.attempts.pop(number, None)
        return self.ready.pop(number)

    def drop_reason(self, number: int) -> str | None:
        """Return why the queue drops a message that is first; None if it does not."""
        return "expired" if self.ready[number].deadline <= self.stepped.now else None

    def lose(self, message: ReadyMessage, reason: str) -> None:
        """Count a message that left without a consumer's having accepted it."""
        if reason == "expired":
            self.expired += 1
        elif reason in ("shed", "refused", "unwanted"):
            self.dropped += 1

    def fronts(self) -> list[int]:
        """Return the first id of each level."""
        levels: dict[int, int] = {}
        for number in sorted(self.ready, reverse=True):
            levels[self.level(number)] = number
        return list(levels.values())

    def drop_fronts(self, *, spare: float | None = None) -> None:
        """Remove messages that are dropped as soon as they are first.

        Args:
            spare: A deadline that still counts as to come.
        """
        while going := {
            number: reason
            for number in self.fronts()
            if self.ready[number].deadline != spare and (reason := self.drop_reason(number))
        }:
            for number, reason in going.items():
                self.lose(self.remove(number), reason)

    def check_limits(self, refused: list[bytes], last: int) -> None:
        """Check that no more was refused than must be, or drop the oldest of the least urgent as the queue must.

        Args:
            refused: The bodies of messages that were refused in this turn.
            last: The id of the last message that was placed in this turn; 0 for none.
        """
        if self.rejects:
            for body in refused[:1]:  # with those before it there, there was no room for the first
                assert self.has_too_many(1, len(body)), "refused, though it fits"
            assert last not in self.ready or not self.has_too_many()
            return
        assert not refused
        while self.has_too_many():
            oldest = min(self.ready, key=lambda number: (self.level(number), number))
            self.lose(self.remove(oldest), "shed")

    def has_too_many(self, more: int = 0, more_bytes: int = 0) -> bool:
        """Return whether the limits are exceeded, or would be with more messages and bytes."""
        most, most_bytes = self.options.max_length, self.options.max_bytes
        return (most is not None and len(self.ready) + more > most) or (
            most_bytes is not None and self.body_bytes() + more_bytes > most_bytes
        )

    def body_bytes(self) -> int:
        return sum(message.body_size for message in self.ready.values())

    def check_that_no_feed_with_room_waits(self) -> None:
        if self.ready:
            for opened in self.feeds.values():
                assert not opened.has_room, "a feed has room, and messages are ready"

    # What always holds

    @invariant()
    def backlog_matches_the_model(self) -> None:
        entries = self.queue.backlog.entries()
        found = [(entry.id, entry.message.head, entry.message.content, entry.attempts) for entry in entries]
        assert found == [
            (number, self.ready[number].kind.head, self.ready[number].content, self.attempts.get(number, 0))
            for number in self.order()
        ]
        assert {number for batch in self.queue.backlog.outstanding() for number in _left(batch)} == set(self.out)

    @invariant()
    def statistics_match_the_model(self) -> None:
        statistics = self.stepped.turn(lambda: self.queue.ref.ask_nowait(Enlist()))
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
    def windows_match_the_model(self) -> None:
        for count in [*self.channels, *(opened.own for opened in self.feeds.values())]:
            assert count.window.used == len(count.sizes)
            assert count.window.used_bytes == sum(count.sizes.values())

    @invariant()
    def feeds_are_closed_once_at_most(self) -> None:
        for consumer, times in self.closed:
            assert len(consumer.closed) == times
        for opened in self.feeds.values():
            assert not opened.consumer.closed

    # Publishing

    def publish_runs(self, runs: Runs, *, delay: float = 0.0) -> list[Publication]:
        """Publish runs, with receipts; delayed messages are not in the model yet."""
        published = []
        for together in mixed(runs, self.serial):
            count = len(together.contents)
            receipt = Receipt(self.serial + 1, count, count, lambda: None)
            published.append(Publication(together.kinds, together.publish(receipt, delay), receipt))
            self.serial += count
            self.queue.ref.tell_nowait(published[-1].publish)
        if not delay:
            self.publications += published
        return published


def _left(batch: Batch) -> list[int]:
    return [batch.ids[position] for position in batch.unsettled()]
