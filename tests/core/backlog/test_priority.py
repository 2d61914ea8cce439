from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.harness import Harness
from triomq.core import Head, Outcome, Properties, Publish, QueueOptions, encode_core
from triomq.core.backlog import PriorityBacklog

from ..harness import settle


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


async def test_queue_delivers_the_most_urgent_first_and_equals_in_order(harness: Harness) -> None:
    queue, consumer = harness.queue(options=QueueOptions(max_priority=5)), harness.consumer()
    for priority, body in [(None, b"a"), (5, b"b"), (1, b"c"), (200, b"d"), (0, b"e"), (1, b"f")]:
        queue.ref.tell_nowait(prioritised(priority, body))
    harness.feed(queue, consumer)
    bodies = [batch.message(place).body for batch in consumer.batches for place in range(len(batch.contents))]
    assert bodies == [b"b", b"d", b"c", b"f", b"a", b"e"]


async def test_requeued_message_stands_in_its_old_place_in_its_level(harness: Harness) -> None:
    queue, consumer = harness.queue(options=QueueOptions(max_priority=5)), harness.consumer()
    feed = harness.feed(queue, consumer, messages=1)
    for priority, body in [(1, b"first"), (1, b"second"), (2, b"urgent")]:
        queue.ref.tell_nowait(prioritised(priority, body))
    (batch,) = consumer.batches
    settle(batch, Outcome.REQUEUE)
    assert [entry.message.body for entry in queue.backlog.entries()] == [b"first", b"second"]
    assert feed.window.used == 1


async def test_in_a_full_queue_the_least_urgent_give_way(harness: Harness) -> None:
    queue = harness.queue(options=QueueOptions(max_priority=5, max_length=2))
    for priority, body in [(5, b"a"), (1, b"b"), (3, b"c"), (4, b"d")]:
        queue.ref.tell_nowait(prioritised(priority, body))
    assert [entry.message.body for entry in queue.backlog.entries()] == [b"a", b"d"]


@given(st.integers(0, 255), st.integers(1, 255))
def test_priority_above_the_highest_level_counts_as_that_level(priority: int, highest: int) -> None:
    backlog = PriorityBacklog(highest)
    backlog.push(Head(), [b"x"], 1, inf, priority)
    assert backlog.next_level == min(priority, highest)
