"""A durable stream beside a model: readers at any offset, retention, groups, crashes, restarts, a slow disk.

The model is a list of what was appended. What a reader gets must be what the model has at that offset, also after a
restart that has lost what was not on disk: offsets that somebody has read never change.
"""

from collections.abc import Callable
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from core.durable import PERSISTENT, TRANSIENT, open_durable_directory
from core.harness import Consumer, settle
from core.machine.stepped_harness import SteppedHarness
from memory_store import MemoryStore
from triomq.chunks import Columns
from triomq.core import (
    AskBounds,
    Batch,
    CloseFeed,
    Directory,
    Feed,
    FromOffset,
    Head,
    OpenFeed,
    Outcome,
    Place,
    Publish,
    QueueOptions,
    QueueState,
    ReadRange,
    SetPosition,
    Since,
    Start,
    StreamOptions,
    Window,
)

OTHER = Head(exchange="x", routing_key="k", properties_stop=2, body_start=2, traits=PERSISTENT.traits)
HEADS = st.sampled_from([PERSISTENT, TRANSIENT, OTHER])
OPTIONS = st.sampled_from(
    [
        QueueOptions(stream=StreamOptions()),
        QueueOptions(max_bytes=600, stream=StreamOptions()),
        QueueOptions(max_length=8, stream=StreamOptions()),
        QueueOptions(stream=StreamOptions(max_age=20.0)),
    ]
)
T = TypeVar("T")

_MEMORY = 400
"""Bytes of a stream in memory: the older records have to be read."""

GROUPS = st.sampled_from(["g", "h"])


class _Opened:
    """A feed of the test, and the offset from which on it has to get everything."""

    def __init__(self, feed: Feed, consumer: Consumer, offset: int) -> None:
        self.feed = feed
        self.consumer = consumer
        self.next = offset


class StreamMachine(RuleBasedStateMachine):
    """The stream's life, one rule after the other; each is a step of a virtual loop."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.records: list[tuple[str, bytes]] = []  # key and body of all that was appended, or is on disk after a crash
        self.read: dict[int, tuple[str, bytes]] = {}  # what anybody has read
        self.feeds: list[_Opened] = []
        self.positions: dict[str, int] = {}
        self.synced_positions: dict[str, int] = {}
        self.serial = 0
        self.time = 1_000.0
        self.identity = 0
        self.options: QueueOptions | None = None
        self.start()

    def start(self) -> None:
        def directory() -> Directory:
            self.disk, found = open_durable_directory(self.store, _MEMORY)
            return found

        self.stepped = SteppedHarness(directory)

    @property
    def state(self) -> QueueState:
        state = self.stepped.harness.directory.queues["s"]
        state.backlog.wall = lambda: self.time  # type: ignore[attr-defined]
        return state

    def step(self, function: Callable[[], T]) -> T:
        """Do something in a turn, and let all tasks run."""
        found = self.stepped.turn(function)
        self.stepped.rest()
        return found

    @precondition(lambda self: self.options is None)
    @rule(options=OPTIONS)
    def declare(self, options: QueueOptions) -> None:
        def make() -> None:
            self.stepped.harness.queue("s", options)
            self.disk.work()
            self.identity = self.state.ref.ask_nowait(AskBounds()).identity

        self.options = options
        self.step(make)

    @precondition(lambda self: self.options is not None)
    @rule(head=HEADS, sizes=st.lists(st.sampled_from([3, 30, 120]), min_size=1, max_size=4), passed=st.floats(-2, 5))
    def append(self, head: Head, sizes: list[int], passed: float) -> None:
        self.time += passed
        contents = []
        for size in sizes:
            self.serial += 1
            body = b"%d:" % self.serial + bytes(size)
            self.records.append((head.routing_key, body))
            contents.append(b"pp"[: head.body_start] + body)
        self.step(lambda: self.state.ref.tell_nowait(Publish(head, contents, sum(map(len, contents)))))

    @precondition(lambda self: self.options is not None and len(self.feeds) < 3)
    @rule(data=st.data(), limit=st.sampled_from([0, 1, 3]))
    def open_feed(self, data: st.DataObject, limit: int) -> None:
        places: list[Place] = [*Start, *(FromOffset(n) for n in (0, 3, 30)), Since(self.time - 3)]
        place = data.draw(st.sampled_from(places))

        def opening() -> None:
            consumer, state = self.stepped.harness.consumer(), self.state
            feed = Feed(state.ref, consumer.ref, window=Window(limit))
            state.ref.ask_nowait(OpenFeed(feed, place))
            self.feeds.append(_Opened(feed, consumer, -1))

        self.step(opening)

    @precondition(lambda self: self.feeds)
    @rule(data=st.data(), outcome=st.sampled_from([Outcome.ACCEPT, Outcome.REQUEUE, Outcome.REJECT]))
    def settle_some(self, data: st.DataObject, outcome: Outcome) -> None:
        opened = data.draw(st.sampled_from(self.feeds))
        self.step(lambda: [settle(batch, outcome) for batch in self.take(opened)])

    @precondition(lambda self: self.feeds)
    @rule(data=st.data())
    def close_feed(self, data: st.DataObject) -> None:
        opened = self.feeds.pop(data.draw(st.integers(0, len(self.feeds) - 1)))

        def closing() -> None:
            batches = self.take(opened)
            opened.feed.queue.tell_nowait(CloseFeed(opened.feed))
            for batch in batches:
                settle(batch, Outcome.RETURN)

        self.step(closing)

    @precondition(lambda self: self.options is not None)
    @rule(group=GROUPS, offset=st.integers(0, 40))
    def set_position(self, group: str, offset: int) -> None:
        self.positions[group] = offset
        self.step(lambda: self.state.ref.ask_nowait(SetPosition(group, offset)))

    @precondition(lambda self: self.options is not None)
    @rule(offset=st.integers(0, 40))
    def read_range(self, offset: int) -> None:
        def reading() -> None:
            bounds = self.state.ref.ask_nowait(AskBounds())
            if bounds.first <= offset:
                found = self.state.ref.ask_nowait(ReadRange(offset, 10, 100))
                for chunk in found.chunks if found is not None else ():
                    for record in Columns(chunk).records():
                        self.see(record.offset, record.key.decode(), bytes(record.value))

        self.step(reading)

    @rule()
    def take_batch(self) -> None:
        self.step(self.disk.take)

    @rule()
    def write(self) -> None:
        self.step(self.disk.write)

    @rule()
    def work(self) -> None:
        self.step(self.disk.work)
        self.synced_positions = dict(self.positions)

    @precondition(lambda self: self.options is not None)
    @rule()
    def crash(self) -> None:
        for opened in self.feeds:
            self.take(opened)
        self.feeds.clear()
        self.stepped.harness.crash_nowait(self.state)
        self.stepped.rest()
        self.stepped.rest()
        assert self.state.ref.state == "running"

    @precondition(lambda self: self.options is not None)
    @rule()
    def restart(self) -> None:
        """Kill the broker: what is not written is lost."""
        for opened in self.feeds:
            self.take(opened)
        self.feeds.clear()
        self.stepped.close()
        self.start()
        bounds = self.step(lambda: self.state.ref.ask_nowait(AskBounds()))
        assert bounds.identity == self.identity
        assert bounds.stop <= len(self.records)
        assert not self.read or max(self.read) < bounds.stop  # what was read is there
        del self.records[bounds.stop :]
        found = dict(self.state.backlog.positions)  # type: ignore[attr-defined]
        assert set(self.synced_positions) <= set(found) <= set(self.positions)
        self.positions, self.synced_positions = found, dict(found)

    def take(self, opened: _Opened) -> list[Batch]:
        """Look at what a feed got; return the batches."""
        batches, opened.consumer.batches = opened.consumer.batches, []
        for batch in batches:
            for place, offset in enumerate(batch.ids):
                message = batch.message(place)
                assert offset >= opened.next  # in order, nothing twice
                opened.next = offset + 1
                self.see(offset, message.head.routing_key, message.body)
        return batches

    def see(self, offset: int, key: str, body: bytes) -> None:
        assert self.records[offset] == (key, body)
        assert self.read.setdefault(offset, (key, body)) == (key, body)

    @precondition(lambda self: self.options is not None)
    @invariant()
    def bounds_are_kept(self) -> None:
        state = self.state
        statistics = state.statistics()
        stream = statistics.stream
        assert stream is not None
        assert 0 <= stream.bounds.first <= stream.bounds.stop <= len(self.records)
        assert statistics.unsettled == 0
        assert stream.lags.keys() == self.positions.keys()

    @precondition(lambda self: self.options is not None)
    @rule()
    def read_all(self) -> None:
        """Let the disk work: a reader without a window gets all that is there, in order."""
        self.work()

        def reading() -> tuple[Consumer, Feed]:
            consumer, state = self.stepped.harness.consumer(), self.state
            feed = Feed(state.ref, consumer.ref)
            state.ref.ask_nowait(OpenFeed(feed, Start.FIRST))
            return consumer, feed

        consumer, feed = self.step(reading)
        for _ in range(40):
            self.step(self.disk.work)
        bounds = self.step(lambda: self.state.ref.ask_nowait(AskBounds()))
        assert bounds.stop == len(self.records)
        assert [offset for batch in consumer.batches for offset in batch.ids] == list(range(bounds.first, bounds.stop))
        self.take(_Opened(feed, consumer, 0))
        self.step(lambda: feed.queue.tell_nowait(CloseFeed(feed)))

    def teardown(self) -> None:
        self.stepped.close()


StreamMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=40)
TestStreams = StreamMachine.TestCase
