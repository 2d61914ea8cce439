import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.harness import Harness, close, publish, settle
from triomq.core import Batch, Feed, Window
from triomq.core.dispatch.feed import UNLIMITED


async def feeds_of(harness: Harness, count: int) -> list[Feed]:
    """Feeds of a queue without messages, which only stand in lines."""
    queue = harness.queue("idle")
    return [harness.feed(queue, harness.consumer()) for _ in range(count)]


async def test_without_limits_everything_goes(harness: Harness) -> None:
    [feed] = await feeds_of(harness, 1)
    window = Window()
    window.take(1_000_000, 1 << 40)
    assert window.admits(feed, 1 << 40)
    assert window.room() == window.byte_room() == UNLIMITED
    assert window.rounds(7, 1 << 40) == UNLIMITED


async def test_full_window_admits_nothing(harness: Harness) -> None:
    [feed] = await feeds_of(harness, 1)
    window = Window(2)
    window.take(2, 10)
    assert not window.admits(feed, 1)
    assert window.room() == 0
    window.give(1, 5)
    assert window.admits(feed, 1)
    assert window.room() == 1


async def test_single_message_may_always_go_when_nothing_is_outstanding(harness: Harness) -> None:
    [feed] = await feeds_of(harness, 1)
    window = Window(bytes=10)
    assert window.admits(feed, 1_000)
    window.take(1, 1_000)
    assert window.byte_room() == 0
    assert not window.admits(feed, 1)


async def test_held_window_admits_nothing_until_it_is_released(harness: Harness) -> None:
    [feed] = await feeds_of(harness, 1)
    window = Window()
    window.hold()
    assert not window.admits(feed, 1)
    window.release()
    assert window.admits(feed, 1)


async def test_smaller_limit_takes_nothing_back(harness: Harness) -> None:
    [feed] = await feeds_of(harness, 1)
    window = Window(10)
    window.take(10, 10)
    window.resize(3)
    assert (window.room(), window.used) == (0, 10)
    window.give(7, 7)
    assert not window.admits(feed, 1)
    window.give(1, 1)
    assert window.admits(feed, 1)


@given(limit=st.integers(0, 50), byte_limit=st.integers(0, 500), feeds=st.integers(1, 9), size=st.integers(0, 40))
def test_so_many_rounds_fit_and_one_more_does_not(limit: int, byte_limit: int, feeds: int, size: int) -> None:
    window = Window(limit, bytes=byte_limit)
    rounds = window.rounds(feeds, size)
    if rounds == UNLIMITED:
        assert not limit
        assert not (byte_limit and size)
        return
    assert not limit or rounds * feeds <= limit
    assert not byte_limit or rounds * feeds * size <= byte_limit
    more = (rounds + 1) * feeds
    assert (limit and more > limit) or (byte_limit and more * size > byte_limit)


async def test_line_is_passed_by_no_feed(harness: Harness) -> None:
    first, second = await feeds_of(harness, 2)
    window = Window(bytes=10)
    window.take(1, 5)
    window.wait(first, 8)
    assert not window.admits(second, 1)
    assert window.admits(first, 5)


async def test_room_calls_the_first_in_line_and_its_turn_calls_the_next(harness: Harness) -> None:
    line = await feeds_of(harness, 3)
    window = Window(1)
    window.take(1, 1)
    for feed in line:
        window.wait(feed, 1)
        assert feed.waiting
    window.give(1, 1)  # their queue has nothing, so that each has had its turn at once
    assert window.waiting == 0
    assert not any(feed.waiting for feed in line)


async def test_without_room_the_line_stays(harness: Harness) -> None:
    line = await feeds_of(harness, 2)
    window = Window(2)
    window.take(3, 3)
    for feed in line:
        window.wait(feed, 1)
    window.give(1, 1)
    assert window.waiting == 2


async def test_feed_that_waits_again_goes_to_the_end_of_the_line(harness: Harness) -> None:
    first, second = await feeds_of(harness, 2)
    window = Window(1)
    for feed in (first, second, first):
        window.wait(feed, 1)
    assert window.waiting == 2
    assert window.admits(second, 1)


async def test_feed_that_leaves_the_line_lets_the_next_go(harness: Harness) -> None:
    first, second = await feeds_of(harness, 2)
    window = Window(bytes=10)
    window.take(1, 5)
    window.wait(first, 8)
    window.wait(second, 2)
    window.forget(first)
    assert window.waiting == 0


async def test_call_to_a_queue_that_stops_is_passed_on(harness: Harness) -> None:
    window = Window(1)
    queues = [harness.queue(name) for name in ("held", "a", "b")]
    holder, gone, last = consumers = [harness.consumer() for _ in queues]
    for queue, consumer in zip(queues, consumers, strict=True):
        harness.feed(queue, consumer, shared=(window,))
        publish(queue, b"x")
    assert window.waiting == 2

    def settle_and_stop() -> None:
        settle(holder.batches[0])
        queues[1].ref.parent.actor.stop_child_nowait(queues[1].ref)  # type: ignore[union-attr]

    harness.turn(settle_and_stop)
    assert gone.closed == ["the queue is deleted"]
    assert last.take() == [b"x"]


async def test_two_queues_under_a_window_of_one_make_progress_alternately(harness: Harness) -> None:
    window = Window(1)
    log: list[Batch] = []
    queues = [harness.queue(name) for name in ("a", "b")]
    for queue in queues:
        harness.feed(queue, harness.consumer(log), shared=(window,))
    for queue in queues:
        publish(queue, *[queue.name.encode()] * 5)
    for number in range(10):
        assert len(log) == number + 1
        settle(log[-1])
    names = [batch.queue.name for batch in log if batch.queue]
    assert names == ["queue.a"] + ["queue.a", "queue.b"] * 4 + ["queue.b"]


async def test_queue_that_settles_and_publishes_in_one_turn_does_not_starve_its_neighbour(harness: Harness) -> None:
    window = Window(1)
    busy, waiting = harness.queue("busy"), harness.queue("waiting")
    first, second = harness.consumer(), harness.consumer()
    harness.feed(busy, first, shared=(window,))
    harness.feed(waiting, second, shared=(window,))
    publish(busy, b"1")
    publish(waiting, b"2")
    batch = first.batches.pop()

    def again() -> None:
        publish(busy, b"3")
        settle(batch)

    harness.turn(again)
    assert (first.take(), second.take()) == ([], [b"2"])


async def test_large_message_is_not_starved_by_small_ones(harness: Harness) -> None:
    window = Window(bytes=10)
    small, large = harness.queue("small"), harness.queue("large")
    log: list[Batch] = []
    sink = harness.consumer()
    harness.feed(small, harness.consumer(log), shared=(window,))
    harness.feed(large, sink, shared=(window,))
    publish(small, b"1234", b"1234")
    publish(large, b"0123456789")
    for number in range(3):
        publish(small, b"1234")
        harness.turn(lambda number=number: settle(log[0], positions=[number]))  # type: ignore[misc]
        if sink.batches:
            break
    assert sink.take() == [b"0123456789"]


async def test_closing_a_called_feed_lets_the_next_go(harness: Harness) -> None:
    window = Window(1)
    queues = [harness.queue(name) for name in ("held", "a", "b")]
    consumers = [harness.consumer() for _ in queues]
    feeds = [harness.feed(queue, consumer, shared=(window,)) for queue, consumer in zip(queues, consumers, strict=True)]
    for queue in queues:
        publish(queue, b"x")

    def settle_and_close() -> None:
        settle(consumers[0].batches[0])
        close(feeds[1])

    harness.turn(settle_and_close)
    assert consumers[1].take() == []
    assert consumers[2].take() == [b"x"]


@pytest.mark.parametrize("limits", [{"messages": -1}, {"bytes": -1}])
def test_limit_below_zero_is_refused_and_never_taken_for_none_or_for_no_room(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="limits are 0 for none, or more"):
        Window(**limits)
    window = Window(1)
    with pytest.raises(ValueError, match="limits are 0 for none, or more"):
        window.resize(limits.get("messages", 0), bytes=limits.get("bytes", 0))
    assert window.room() == 1
