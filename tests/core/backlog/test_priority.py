from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from triomq.core import Batch, Head, Outcome, Properties, Publish, QueueOptions, encode_core
from triomq.core.backlog import PriorityBacklog
from triomq.core.dispatch.feed import UNLIMITED

from ..harness import open_harness, settle

HIGHEST = 3
HEADS = st.sampled_from([Head(), Head(routing_key="other")])


class PriorityMachine(RuleBasedStateMachine):
    """A priority backlog beside a plain table of messages."""

    def __init__(self) -> None:
        super().__init__()
        self.backlog = PriorityBacklog(HIGHEST)
        self.ready: dict[int, tuple[int, bytes]] = {}  # id → level, content
        self.out: dict[int, tuple[Batch, int]] = {}
        self.levels: dict[int, int] = {}
        self.contents: dict[int, bytes] = {}
        self.attempts: dict[int, int] = {}
        self.next_id = 1

    def order(self) -> list[int]:
        return sorted(self.ready, key=lambda number: (-self.ready[number][0], number))

    @rule(head=HEADS, sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4), level=st.integers(0, HIGHEST + 2))
    def push(self, head: Head, sizes: list[int], level: int) -> None:
        contents = [bytes([65 + size]) * size for size in sizes]
        self.backlog.push(head, contents, sum(sizes), inf, level)
        for content in contents:
            self.levels[self.next_id] = min(level, HIGHEST)
            self.contents[self.next_id] = content
            self.ready[self.next_id] = (self.levels[self.next_id], content)
            self.next_id += 1

    def follow(self, batch: Batch) -> None:
        for position, number in enumerate(batch.ids):
            level, content = self.ready.pop(number)
            assert (batch.level, batch.contents[position]) == (level, content)
            assert batch.redelivered is (number in self.attempts)
            self.out[number] = (batch, position)

    @precondition(lambda self: self.ready)
    @rule(most=st.integers(1, 5))
    def take(self, most: int) -> None:
        expected = self.order()
        batch = self.backlog.take(most, UNLIMITED)
        assert list(batch.ids) == expected[: len(batch.ids)]
        self.follow(batch)

    @precondition(lambda self: self.ready)
    @rule(feeds=st.integers(1, 3), rounds=st.integers(1, 3))
    def take_turns(self, feeds: int, rounds: int) -> None:
        if not self.backlog.run_length:
            return
        expected = self.order()
        batches = self.backlog.take_turns(feeds, rounds)
        dealt = sorted((number for batch in batches for number in batch.ids), key=expected.index)
        assert dealt == expected[: len(dealt)]
        for batch in batches:
            self.follow(batch)

    @precondition(lambda self: self.out)
    @rule(data=st.data(), accepts=st.booleans())
    def settle(self, data: st.DataObject, accepts: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.out)))
        batch, position = self.out.pop(number)
        assert self.backlog.holds(batch)
        if accepts:
            assert self.backlog.accept(batch, [position]) == (1, len(self.contents[number]))
            self.attempts.pop(number, None)
        else:
            self.backlog.requeue(batch, [position])
            self.ready[number] = (self.levels[number], self.contents[number])
            self.attempts[number] = self.attempts.get(number, 0) + 1

    @precondition(lambda self: self.ready)
    @rule()
    def let_the_lowest_give_way(self) -> None:
        level = self.backlog.lowest_level
        assert level == min(level for level, _ in self.ready.values())
        _, (content,) = self.backlog.first(1, level)
        number = min(number for number, (its, _) in self.ready.items() if its == level)
        assert content == self.ready.pop(number)[1]
        self.backlog.drop(1, level)
        self.attempts.pop(number, None)

    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        up_to = data.draw(st.integers(0, self.next_id))
        going = [number for number in self.ready if number <= up_to]
        assert self.backlog.discard(up_to) == len(going)
        for number in going:
            del self.ready[number]
            self.attempts.pop(number, None)

    @rule()
    def purge(self) -> None:
        assert self.backlog.purge([]) == len(self.ready)
        for number in self.ready:
            self.attempts.pop(number, None)
        self.ready.clear()

    @invariant()
    def the_index_holds_what_the_table_holds(self) -> None:
        backlog = self.backlog
        assert (backlog.ready, backlog.unsettled) == (len(self.ready), len(self.out))
        assert backlog.ready_bytes == sum(len(content) for _, content in self.ready.values())
        assert [entry.id for entry in backlog.entries()] == self.order()
        assert {id(batch) for batch in backlog.outstanding()} == {id(batch) for batch, _ in self.out.values()}
        for entry in backlog.entries():
            assert entry.attempts == self.attempts.get(entry.id, 0)
        if self.ready:
            assert backlog.next_level == self.ready[self.order()[0]][0]


TestPriorityMachine = PriorityMachine.TestCase
TestPriorityMachine.settings = settings(stateful_step_count=40)


def test_empty_index_has_nothing_to_give() -> None:
    backlog = PriorityBacklog(5)
    assert (backlog.ready, backlog.run_length, backlog.next_deadline(), backlog.expired_level(9.0)) == (0, 0, inf, None)
    with pytest.raises(IndexError, match=r"look at Backlog\.resident first"):
        backlog.take(1, 1)


def test_each_level_has_a_front_that_may_have_expired() -> None:
    backlog = PriorityBacklog(5)
    backlog.push(Head(), [b"high"], 4, 5.0, 5)
    backlog.push(Head(), [b"low"], 3, 2.0, 1)
    assert backlog.next_deadline() == 2.0
    assert (backlog.expired_level(1.0), backlog.expired_level(3.0), backlog.next_level) == (None, 1, 5)


def prioritised(priority: int | None, body: bytes) -> Publish:
    encoded = encode_core(Properties(priority=priority))
    start = len(encoded)
    head = Head(routing_key="q", properties_stop=start, body_start=start, has_priority=priority is not None)
    return Publish(head, [encoded + body], start + len(body))


async def test_queue_delivers_the_most_urgent_first_and_equals_in_order() -> None:
    async with open_harness() as harness:
        queue, consumer = harness.queue(options=QueueOptions(max_priority=5)), harness.consumer()
        for priority, body in [(None, b"a"), (5, b"b"), (1, b"c"), (200, b"d"), (0, b"e"), (1, b"f")]:
            queue.ref.tell_nowait(prioritised(priority, body))
        harness.feed(queue, consumer)
        bodies = [batch.message(place).body for batch in consumer.batches for place in range(len(batch.contents))]
        assert bodies == [b"b", b"d", b"c", b"f", b"a", b"e"]


async def test_requeued_message_stands_in_its_old_place_in_its_level() -> None:
    async with open_harness() as harness:
        queue, consumer = harness.queue(options=QueueOptions(max_priority=5)), harness.consumer()
        feed = harness.feed(queue, consumer, messages=1)
        for priority, body in [(1, b"first"), (1, b"second"), (2, b"urgent")]:
            queue.ref.tell_nowait(prioritised(priority, body))
        (batch,) = consumer.batches
        settle(batch, Outcome.REQUEUE)
        assert [entry.message.body for entry in queue.backlog.entries()] == [b"first", b"second"]
        assert feed.window.used == 1


async def test_in_a_full_queue_the_least_urgent_give_way() -> None:
    async with open_harness() as harness:
        queue = harness.queue(options=QueueOptions(max_priority=5, max_length=2))
        for priority, body in [(5, b"a"), (1, b"b"), (3, b"c"), (4, b"d")]:
            queue.ref.tell_nowait(prioritised(priority, body))
        assert [entry.message.body for entry in queue.backlog.entries()] == [b"a", b"d"]


@given(st.integers(0, 255), st.integers(1, 255))
def test_priority_above_the_highest_level_counts_as_that_level(priority: int, highest: int) -> None:
    backlog = PriorityBacklog(highest)
    backlog.push(Head(), [b"x"], 1, inf, priority)
    assert backlog.next_level == min(priority, highest)
