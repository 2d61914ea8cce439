"""Queues that go by themselves: when nobody has used them for long, or when their last feed closes."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from triomq.core import Browse, CloseFeed, Feed, Get, Outcome, Purge, QueueOptions, QueueState

from .harness import Consumer, publish, settle
from .machine.still_harness import StillHarness

pytestmark = pytest.mark.usefixtures("quiet_crashes")

EXPIRES = 2.5  # time passes in whole seconds: whether a queue is over is never in doubt


class UnusedMachine(RuleBasedStateMachine):
    """One queue that may go, and comes again with the next declare."""

    queue: QueueState

    def __init__(self) -> None:
        super().__init__()
        self.still = StillHarness()
        self.harness = self.still.harness
        self.options = QueueOptions()
        self.is_there = False
        self.used = 0.0
        self.ready = 0
        self.feeds: dict[Feed, Consumer] = {}

    def teardown(self) -> None:
        self.still.close()

    @initialize(expires=st.sampled_from([EXPIRES, EXPIRES, None]), auto_delete=st.booleans())
    def begin(self, expires: float | None, auto_delete: bool) -> None:
        self.options = QueueOptions(expires=expires, auto_delete=auto_delete)
        self.declare()

    def use(self) -> None:
        self.used = self.still.now

    def go(self) -> None:
        self.is_there = False
        self.ready = 0

    # what counts as use

    @rule()
    def declare(self) -> None:
        self.queue = self.still.turn(lambda: self.harness.queue("q", self.options))
        self.is_there = True
        self.use()

    @precondition(lambda self: self.is_there)
    @rule()
    def get(self) -> None:
        batch = self.still.turn(lambda: self.queue.ref.ask_nowait(Get()))
        self.use()
        if batch is None:
            assert self.feeds or not self.ready
        else:
            self.still.turn(lambda: settle(batch, Outcome.REQUEUE))

    @precondition(lambda self: self.is_there and len(self.feeds) < 3)
    @rule()
    def open_feed(self) -> None:
        def opening() -> None:
            consumer = self.harness.consumer()
            self.feeds[self.harness.feed(self.queue, consumer, messages=1)] = consumer

        self.still.turn(opening)

    @precondition(lambda self: self.feeds)
    @rule(data=st.data())
    def close_feed(self, data: st.DataObject) -> None:
        """Close a feed; what it has goes back to its place."""
        feed, consumer = data.draw(st.sampled_from(list(self.feeds.items())))
        del self.feeds[feed]

        def closing() -> None:
            feed.queue.tell_nowait(CloseFeed(feed))
            for batch in consumer.batches:
                settle(batch, Outcome.REQUEUE)

        self.still.turn(closing)
        if not self.feeds:
            self.use()
            if self.options.auto_delete:
                self.go()

    @precondition(lambda self: self.is_there)
    @rule()
    def crash(self) -> None:
        """Crash the queue: the next incarnation begins as if somebody had used it just now."""
        self.still.turn(lambda: self.harness.crash_nowait(self.queue))
        self.still.rest()
        self.has_crashed()

    @rule()
    def crash_domain(self) -> None:
        self.still.crash_domain()
        self.has_crashed()

    def has_crashed(self) -> None:
        assert all(len(consumer.closed) == 1 for consumer in self.feeds.values())
        self.feeds.clear()
        self.use()

    # what does not

    @precondition(lambda self: self.is_there)
    @rule(what=st.sampled_from(["publish", "browse", "purge"]))
    def do_what_is_no_use(self, what: str) -> None:
        ref = self.queue.ref
        if what == "publish":
            self.still.turn(lambda: publish(self.queue, b"1"))
            self.ready += 1
        elif what == "browse":
            assert len(self.still.turn(lambda: ref.ask_nowait(Browse(0, 1000)))) == self.queue.backlog.ready
        else:
            self.ready -= self.still.turn(lambda: ref.ask_nowait(Purge()))

    @rule(seconds=st.sampled_from([1, 2, 3]))
    def pass_time(self, seconds: int) -> None:
        self.still.pass_time(seconds)
        expires = self.options.expires
        if self.is_there and expires is not None and not self.feeds and self.used + expires <= self.still.now:
            self.go()

    @invariant()
    def the_queue_is_there_or_not(self) -> None:
        assert ("q" in self.harness.directory.queues) is self.is_there
        assert self.queue.ref.state == ("running" if self.is_there else "stopped")
        if self.is_there:
            assert self.queue.backlog.ready + self.queue.backlog.unsettled == self.ready


TestUnusedMachine = UnusedMachine.TestCase
TestUnusedMachine.settings = settings(stateful_step_count=40)
