"""A queue in its domain beside a model, through everything that can happen to it, crashes included.

The machine is synchronous, so the system lives in a thread; every rule is one turn of it. What the model does not
predict, such as which feed gets which message, it checks against the rules that must hold for any choice.
"""

import logging
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import ClassVar, TypeVar

import pytest
import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from triomq.core import (
    Batch,
    CloseFeed,
    Enlist,
    Feed,
    Get,
    Head,
    OpenFeed,
    Outcome,
    Overflow,
    Publish,
    Purge,
    QueueOptions,
    Receipt,
    Settle,
    Window,
)

from .cast import HEAD, OTHER_HEAD, Consumer, House, open_house

T = TypeVar("T")

# Runs of up to two heads; sizes beside each other, so that byte limits matter.
HEADS = st.sampled_from([HEAD, OTHER_HEAD, Head(body_start=1, body_trailer=1)])
SIZES = st.lists(st.integers(2, 12), min_size=1, max_size=8)
LIMITS = st.sampled_from([0, 0, 1, 2, 3, 5])
BYTE_LIMITS = st.sampled_from([0, 0, 0, 10, 30])
LARGEST = 12


@pytest.fixture(autouse=True)
def _crashes_on_purpose_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "triomq.actors")


class HouseInAThread:
    """A house whose doors can be used from another thread."""

    def __init__(self) -> None:
        self._opened: queue.SimpleQueue[House | BaseException] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        opened = self._opened.get()
        if isinstance(opened, BaseException):
            raise opened
        self.house = opened

    def _run(self) -> None:
        try:
            trio.run(self._live)
        except BaseException as error:
            self._opened.put(error)
        else:
            self._opened.put(RuntimeError("closed"))

    async def _live(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._closed = trio.Event()
        async with open_house() as house:
            self._opened.put(house)
            await self._closed.wait()

    def turn(self, function: Callable[[], T]) -> T:
        answer: T = trio.from_thread.run_sync(self.house.turn, function, trio_token=self._token)
        return answer

    def run(self, function: Callable[[], Awaitable[T]]) -> T:
        return trio.from_thread.run(function, trio_token=self._token)

    def close(self) -> None:
        trio.from_thread.run_sync(self._closed.set, trio_token=self._token)
        self._thread.join()
        ended = self._opened.get()
        if str(ended) != "closed":
            raise ended  # type: ignore[misc]


class Count:
    """The model's own count of what is outstanding in one window."""

    def __init__(self, messages: int = 0, byte_limit: int = 0) -> None:
        self.window = Window(messages, bytes=byte_limit)
        self.sizes: dict[int, int] = {}  # by message id

    def admits(self, size: int) -> bool:
        limit, byte_limit, used = self.window.limit, self.window.byte_limit, sum(self.sizes.values())
        return not (limit and len(self.sizes) >= limit) and not (byte_limit and used and used + size > byte_limit)

    def surely_admits(self) -> bool:
        """Whether any message may go; a smaller one than the feed waits for might, but need not."""
        return self.admits(LARGEST)


class Taking:
    """The model of one open feed and its consumer."""

    def __init__(self, feed: Feed, consumer: Consumer, own: Count, others: list[Count], gate: Window) -> None:
        self.feed = feed
        self.consumer = consumer
        self.own = own
        self.counts = [own, *others]
        self.gate = gate


class Sent:
    """The model of one message that is out."""

    def __init__(self, batch: Batch, position: int, head: Head, content: bytes, counts: list[Count]) -> None:
        self.batch = batch
        self.position = position
        self.head = head
        self.content = content
        self.counts = counts


class QueueMachine(RuleBasedStateMachine):
    """A queue without limits."""

    options: ClassVar[QueueOptions] = QueueOptions()

    def __init__(self) -> None:
        super().__init__()
        self.thread = HouseInAThread()
        self.house = self.thread.house
        self.store = self.thread.turn(lambda: self.house.queue("q", self.options))
        self.deliveries: list[Batch] = []  # of all consumers, in the order in which they went
        self.channels = [Count(), Count()]  # windows that feeds share
        self.feeds: dict[Feed, Taking] = {}
        self.closed: list[tuple[Consumer, int]] = []  # how often each consumer must have been told FeedClosed
        self.ready: dict[int, tuple[Head, bytes]] = {}
        self.seen: set[int] = set()  # ids that must be flagged the next time
        self.out: dict[int, Sent] = {}
        self.next_id = 1
        self.published = self.dropped = 0
        self.dead: list[Batch] = []  # batches of incarnations that have crashed
        self.told: list[tuple[Publish, Receipt]] = []  # in this turn

    def teardown(self) -> None:
        self.thread.close()

    # what the queue did in a turn

    def turn(self, function: Callable[[], T]) -> T:
        answer = self.thread.turn(function)
        self.after()
        return answer

    def after(self) -> None:
        """Follow what was placed in the last turn, what was delivered, and what gave way."""
        told, self.told = self.told, []
        first = self.next_id
        refused = [content for publish, receipt in told for content in self.place(publish, receipt)]
        deliveries, self.deliveries[:] = list(self.deliveries), []
        dealt = sorted(number for batch in deliveries for number in batch.ids)
        assert dealt == sorted(self.ready)[: len(dealt)], "what went is not the oldest"
        for batch in deliveries:
            assert batch.feed is not None
            self.follow(batch, self.feeds[batch.feed])
        self.check_limits(refused, self.next_id - 1 if self.next_id > first else 0)
        if self.ready:
            for taking in self.feeds.values():
                blocked = taking.gate.held or not all(count.surely_admits() for count in taking.counts)
                assert blocked, "a feed has room, and messages are ready"

    def place(self, publish: Publish, receipt: Receipt) -> list[bytes]:
        """Number what is placed; give the bodies of what is refused, which is the end of the run."""
        assert not receipt.missing, "a publish is neither placed nor refused"
        refusals = receipt.refusals or set()
        placed = len(publish.contents) - len(refusals)
        assert refusals == set(range(receipt.first + placed, receipt.first + len(publish.contents)))
        for content in publish.contents[:placed]:
            self.ready[self.next_id] = (publish.head, content)
            self.next_id += 1
        self.dropped += len(refusals)
        return [content[publish.head.overhead :] for content in publish.contents[placed:]]

    def check_limits(self, refused: list[bytes], last: int) -> None:
        """Let the oldest give way as the queue must; without reject-publish nothing is refused.

        Args:
            refused: The bodies of what was refused in this turn.
            last: The number of what was placed last in this turn; 0 for nothing.
        """
        assert not refused
        most, most_bytes = self.options.max_length, self.options.max_bytes
        while (most is not None and len(self.ready) > most) or (
            most_bytes is not None and self.body_bytes() > most_bytes
        ):
            oldest = min(self.ready)
            del self.ready[oldest]
            self.seen.discard(oldest)
            self.dropped += 1

    def body_bytes(self) -> int:
        return sum(len(content) - head.overhead for head, content in self.ready.values())

    def follow(self, batch: Batch, taking: Taking) -> None:
        assert not taking.gate.held
        assert list(batch.ids) == sorted(batch.ids)
        for position, number in enumerate(batch.ids):
            head, content = self.ready.pop(number)
            assert (batch.head, batch.contents[position]) == (head, content)
            assert batch.redelivered is (number in self.seen)
            for count in taking.counts:
                assert count.admits(len(content)), "a window is exceeded"
                count.sizes[number] = len(content)
            self.out[number] = Sent(batch, position, head, content, taking.counts)

    # rules

    @rule(runs=st.lists(st.tuples(HEADS, SIZES), min_size=1, max_size=3))
    def publish(self, runs: list[tuple[Head, list[int]]]) -> None:
        """Publish runs in one turn; the consumers of the queue get them at its end."""
        self.turn(lambda: self.tell_runs(runs))

    def tell_runs(self, runs: list[tuple[Head, list[int]]]) -> None:
        for head, sizes in runs:
            contents = [bytes([(self.published + number) % 256]) * size for number, size in enumerate(sizes)]
            receipt = Receipt(self.published + 1, len(contents), len(contents), lambda: None)
            publish = Publish(head, contents, sum(sizes), receipt)
            self.published += len(contents)
            self.told.append((publish, receipt))
            self.store.ref.tell_nowait(publish)

    @initialize(
        channels=st.lists(st.tuples(LIMITS, BYTE_LIMITS), min_size=2, max_size=2),
        feeds=st.lists(st.tuples(LIMITS, BYTE_LIMITS, st.integers(0, 2)), max_size=4),
    )
    def begin_with_feeds(self, channels: list[tuple[int, int]], feeds: list[tuple[int, int, int]]) -> None:
        for number, (limit, byte_limit) in enumerate(channels):
            self.resize_shared_window(number, limit, byte_limit)
        for limit, byte_limit, channel in feeds:
            self.open_feed(limit, byte_limit, channel, held=False)

    @precondition(lambda self: len(self.feeds) < 4)
    @rule(limit=LIMITS, byte_limit=BYTE_LIMITS, channel=st.integers(0, 2), held=st.booleans())
    def open_feed(self, limit: int, byte_limit: int, channel: int, held: bool) -> None:
        own, shared, gate = Count(limit, byte_limit), self.channels[channel : channel + 1], Window()
        if held:
            gate.hold()

        def opening() -> Taking:
            consumer = self.house.consumer(self.deliveries)
            windows = tuple(count.window for count in shared)
            feed = Feed(self.store.ref, consumer.ref, window=own.window, shared=windows, gate=gate)
            self.store.ref.ask_nowait(OpenFeed(feed))
            self.feeds[feed] = taking = Taking(feed, consumer, own, shared, gate)
            return taking

        self.turn(opening)

    def some_feed(self, data: st.DataObject) -> Taking:
        return data.draw(st.sampled_from(list(self.feeds.values())))

    @precondition(lambda self: self.feeds)
    @rule(data=st.data())
    def close_feed(self, data: st.DataObject) -> None:
        """Close a feed; what is out with it stays out."""
        taking = self.some_feed(data)
        del self.feeds[taking.feed]
        self.closed.append((taking.consumer, 0))
        self.turn(lambda: self.store.ref.tell_nowait(CloseFeed(taking.feed)))

    @precondition(lambda self: self.feeds)
    @rule(data=st.data())
    def cancel_and_requeue(self, data: st.DataObject) -> None:
        """Close a feed and put back what is out with it, as a connection that ends does."""
        taking = self.some_feed(data)
        del self.feeds[taking.feed]
        self.closed.append((taking.consumer, 0))
        numbers = [number for number, sent in self.out.items() if sent.batch.feed is taking.feed]

        def ending() -> None:
            self.store.ref.tell_nowait(CloseFeed(taking.feed))
            self.tell_settled(numbers, Outcome.REQUEUE)

        self.turn(ending)

    @precondition(lambda self: self.feeds)
    @rule(data=st.data(), limit=LIMITS, byte_limit=BYTE_LIMITS)
    def resize_own_window(self, data: st.DataObject, limit: int, byte_limit: int) -> None:
        taking = self.some_feed(data)
        self.turn(lambda: taking.feed.resize(limit, bytes=byte_limit))

    @rule(channel=st.integers(0, 1), limit=LIMITS, byte_limit=BYTE_LIMITS)
    def resize_shared_window(self, channel: int, limit: int, byte_limit: int) -> None:
        self.turn(lambda: self.channels[channel].window.resize(limit, bytes=byte_limit))

    @precondition(lambda self: self.feeds)
    @rule(data=st.data())
    def turn_gate(self, data: st.DataObject) -> None:
        gate = self.some_feed(data).gate
        self.turn(gate.release if gate.held else gate.hold)

    def tell_settled(self, numbers: list[int], outcome: Outcome) -> None:
        """Settle messages in one turn, batch by batch, in the queue and in the model."""
        batches: dict[Batch, list[int]] = {}
        for number in numbers:
            sent = self.out.pop(number)
            batches.setdefault(sent.batch, []).append(sent.position)
            for count in sent.counts:
                del count.sizes[number]
            if outcome in (Outcome.REQUEUE, Outcome.RETURN):
                self.ready[number] = (sent.head, sent.content)
                if outcome is Outcome.REQUEUE:
                    self.seen.add(number)
            else:
                self.seen.discard(number)
        for batch, positions in batches.items():
            whole = len(positions) == batch.left
            self.store.ref.tell_nowait(Settle(batch, outcome, None if whole else positions))

    @precondition(lambda self: self.out)
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def settle_some(self, data: st.DataObject, outcome: Outcome) -> None:
        numbers = data.draw(st.lists(st.sampled_from(sorted(self.out)), min_size=1, unique=True))
        self.turn(lambda: self.tell_settled(numbers, outcome))

    @precondition(lambda self: self.out)
    @rule(outcome=st.sampled_from(Outcome))
    def settle_all(self, outcome: Outcome) -> None:
        self.turn(lambda: self.tell_settled(list(self.out), outcome))

    @precondition(lambda self: self.out)
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def settle_up_to(self, data: st.DataObject, outcome: Outcome) -> None:
        last = data.draw(st.sampled_from(list(self.out)))
        order = list(self.out)
        self.turn(lambda: self.tell_settled(order[: order.index(last) + 1], outcome))

    @precondition(lambda self: self.out)
    @rule(runs=st.lists(st.tuples(HEADS, SIZES), min_size=1, max_size=2), data=st.data())
    def settle_and_publish_in_one_turn(self, runs: list[tuple[Head, list[int]]], data: st.DataObject) -> None:
        numbers = data.draw(st.lists(st.sampled_from(sorted(self.out)), min_size=1, unique=True))

        def both() -> None:
            self.tell_settled(numbers, Outcome.ACCEPT)
            self.tell_runs(runs)

        self.turn(both)

    @rule()
    def get(self) -> None:
        batch = self.turn(lambda: self.store.ref.ask_nowait(Get()))
        if batch is None:
            assert not self.ready
            return
        [number] = batch.ids
        assert number == min(self.ready)
        head, content = self.ready.pop(number)
        assert (batch.head, batch.contents, batch.feed) == (head, [content], None)
        assert batch.redelivered is (number in self.seen)
        self.out[number] = Sent(batch, 0, head, content, [])

    @rule()
    def purge(self) -> None:
        assert self.turn(lambda: self.store.ref.ask_nowait(Purge())) == len(self.ready)
        self.seen.difference_update(self.ready)
        self.ready.clear()

    def put_all_back(self) -> None:
        for number, sent in self.out.items():
            self.ready[number] = (sent.head, sent.content)
            self.seen.add(number)
            self.dead.append(sent.batch)
            for count in sent.counts:
                count.sizes.clear()
        self.out.clear()
        self.closed += [(taking.consumer, 1) for taking in self.feeds.values()]
        self.feeds.clear()

    @rule(runs=st.lists(st.tuples(HEADS, SIZES), max_size=2))
    def crash(self, runs: list[tuple[Head, list[int]]]) -> None:
        """Crash the incarnation, and publish before the next one runs."""

        def crashing() -> None:
            self.house.crash_nowait(self.store)
            self.put_all_back()
            self.tell_runs(runs)

        self.thread.turn(crashing)
        self.thread.run(self.store.ref.wait_running)
        self.after()

    @precondition(lambda self: self.dead)
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def settle_what_a_dead_incarnation_handed_out(self, data: st.DataObject, outcome: Outcome) -> None:
        batch = data.draw(st.sampled_from(self.dead))
        self.turn(lambda: self.store.ref.tell_nowait(Settle(batch, outcome)))

    # what always holds

    @invariant()
    def the_index_holds_what_the_model_holds(self) -> None:
        found = [(entry.id, entry.message.head, entry.message.content) for entry in self.store.index.entries()]
        assert found == [(number, *self.ready[number]) for number in sorted(self.ready)]
        assert {number for batch in self.store.index.outstanding() for number in self.left(batch)} == set(self.out)

    def left(self, batch: Batch) -> list[int]:
        return [batch.ids[position] for position in batch.unsettled()]

    @invariant()
    def the_statistics_are_right(self) -> None:
        statistics = self.thread.turn(lambda: self.store.ref.ask_nowait(Enlist()))
        assert not self.deliveries, "counting made the queue deliver"
        assert statistics.ready == len(self.ready)
        assert statistics.ready_bytes == self.body_bytes()
        assert statistics.unsettled == len(self.out)
        assert statistics.feeds == len(self.feeds)
        assert statistics.dropped == self.dropped
        assert statistics.published == self.next_id - 1

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


class DropHeadMachine(QueueMachine):
    """A queue that lets the oldest give way when it has too many."""

    options = QueueOptions(max_length=5)


class DropHeadBytesMachine(QueueMachine):
    """A queue that lets the oldest give way when it has too many octets."""

    options = QueueOptions(max_bytes=30)


class RejectPublishMachine(QueueMachine):
    """A queue that refuses what it has no room for; nothing gives way, not even for what comes back."""

    options = QueueOptions(max_length=5, max_bytes=40, overflow=Overflow.REJECT_PUBLISH)

    def check_limits(self, refused: list[bytes], last: int) -> None:
        assert self.options.max_length is not None
        assert self.options.max_bytes is not None
        for body in refused[:1]:  # with those before it there, there was no room for the first
            full = len(self.ready) >= self.options.max_length
            assert full or self.body_bytes() + len(body) > self.options.max_bytes, "refused, though there is room"
        if last in self.ready:
            assert len(self.ready) <= self.options.max_length
            assert self.body_bytes() <= self.options.max_bytes


TestQueueMachine = QueueMachine.TestCase
TestDropHeadMachine = DropHeadMachine.TestCase
TestDropHeadBytesMachine = DropHeadBytesMachine.TestCase
TestRejectPublishMachine = RejectPublishMachine.TestCase
for case in (TestQueueMachine, TestDropHeadMachine, TestDropHeadBytesMachine, TestRejectPublishMachine):
    case.settings = settings(stateful_step_count=40)
del case  # pytest would run it
