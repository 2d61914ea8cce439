"""Examples; what holds in general is in ``test_queue_machine.py``."""

import pytest
import trio
import trio.testing

from core.harness import HEAD, Harness, close, open_harness, publish, ready, settle
from triomq.core import (
    Enlist,
    Feed,
    Get,
    InExclusiveUse,
    MoveFeed,
    Outcome,
    Publish,
    Purge,
    QueueOptions,
    Receipt,
    Window,
)


def nothing() -> None:
    """Nobody waits for this receipt."""


async def test_several_runs_of_a_turn_are_dispatched_once(harness: Harness) -> None:
    state, consumer = harness.queue(), harness.consumer()
    harness.feed(state, consumer)

    def runs() -> None:
        publish(state, b"1")
        publish(state, b"2")
        assert not consumer.batches

    harness.turn(runs)
    [batch] = consumer.batches
    assert batch.contents == [b"1", b"2"]


async def test_backlog_of_a_million_leaves_batch_by_batch_as_the_outlet_has_room(harness: Harness) -> None:
    state, consumer, socket_window = harness.queue(), harness.consumer(), Window(bytes=1_000)
    content = b"x" * 10
    for _ in range(1_000):
        publish(state, *[content] * 1_000)
    feed = harness.feed(state, consumer, socket_window=socket_window, settles=False)
    delivered = 0
    for _ in range(50):
        batches, consumer.batches = consumer.batches, []
        assert sum(batch.left for batch in batches) == 100  # never more than the socket_window holds
        delivered += sum(batch.left for batch in batches)
        for batch in batches:
            count, size = batch.left, batch.size
            settle(batch)
            socket_window.give(count, size)
    assert delivered == 5_000
    close(feed)
    assert state.statistics().ready == 1_000_000 - delivered - 100


async def test_queue_that_is_deleted_gives_the_room_of_what_is_out_to_others(harness: Harness) -> None:
    channel = Window(1)
    first, second = harness.queue("q1"), harness.queue("q2")
    one, two = harness.consumer(), harness.consumer()
    harness.feed(first, one, shared=(channel,))
    harness.feed(second, two, shared=(channel,))
    publish(first, b"1")
    publish(second, b"2")
    harness.delete("q1")
    assert one.closed == ["the queue is deleted"]
    assert two.take() == [b"2"]
    settle(one.batches[0])  # too late, and nobody minds
    assert channel.used == 1


async def test_queue_that_crashes_gives_the_room_of_what_is_out_to_others(harness: Harness) -> None:
    channel = Window(1)
    first, second = harness.queue("q1"), harness.queue("q2")
    one, two = harness.consumer(), harness.consumer()
    harness.feed(first, one, shared=(channel,))
    harness.feed(second, two, shared=(channel,))
    publish(first, b"1")
    publish(second, b"2")
    await harness.crash(first)
    assert one.closed == ["the queue has crashed"]
    assert two.take() == [b"2"]
    assert ready(first) == [b"1"]


async def test_message_that_gives_way_was_offered_to_every_feed_first(harness: Harness) -> None:
    channel, gate = Window(1), Window()
    state = harness.queue(options=QueueOptions(max_length=1))
    held, free = harness.consumer(), harness.consumer()
    harness.feed(state, held, shared=(channel,), gate=gate)
    harness.feed(state, free, shared=(channel,))
    publish(state, b"1")
    publish(state, b"2")
    [batch] = held.batches + free.batches
    gate.hold()

    def settle_and_publish() -> None:
        settle(batch)
        publish(state, b"3")

    held.batches, free.batches = [], []
    harness.turn(settle_and_publish)
    assert free.take() == [b"2"]
    assert ready(state) == [b"3"]


async def test_get_takes_the_first_message_alone_after_the_feeds(harness: Harness) -> None:
    state, consumer = harness.queue(), harness.consumer()
    assert state.ref.ask_nowait(Get()) is None
    harness.feed(state, consumer, messages=1)

    def publish_and_get() -> None:
        publish(state, b"1", b"2", b"3")
        batch = state.ref.ask_nowait(Get())
        assert batch is not None
        assert (batch.contents, batch.feed, batch.queue) == ([b"2"], None, state.ref)

    harness.turn(publish_and_get)
    assert consumer.take() == [b"1"]
    assert state.statistics().unsettled == 2


async def test_gets_from_two_queues_in_one_turn_answer_in_order(harness: Harness) -> None:
    first, second = harness.queue("q1"), harness.queue("q2")
    publish(first, b"1")
    publish(second, b"2")
    answers = harness.turn(lambda: [state.ref.ask_nowait(Get()) for state in (first, second, first)])
    assert [answer and answer.contents for answer in answers] == [[b"1"], [b"2"], None]


async def test_purge_and_a_count_come_after_what_feeds_can_take(harness: Harness) -> None:
    state, consumer = harness.queue(), harness.consumer()
    harness.feed(state, consumer, messages=1)

    def publish_and_count() -> tuple[int, int]:
        publish(state, b"1", b"2", b"3")
        return state.ref.ask_nowait(Enlist()).ready, state.ref.ask_nowait(Purge())

    assert harness.turn(publish_and_count) == (2, 2)
    assert consumer.take() == [b"1"]
    assert state.statistics().ready == 0


@pytest.mark.parametrize("exclusive", [(True, False), (False, True), (True, True)])
async def test_exclusive_feed_is_the_only_one(harness: Harness, exclusive: tuple[bool, bool]) -> None:
    state = harness.queue()
    first = harness.feed(state, harness.consumer(), exclusive=exclusive[0])
    with pytest.raises(InExclusiveUse):
        harness.feed(state, harness.consumer(), exclusive=exclusive[1])
    close(first)
    harness.feed(state, harness.consumer(), exclusive=exclusive[1])


async def test_delivery_that_is_settled_twice_counts_once(harness: Harness) -> None:
    state, consumer = harness.queue(), harness.consumer()
    feed = harness.feed(state, consumer, messages=5)
    publish(state, b"1", b"2")
    [batch] = consumer.batches
    for _ in range(2):
        settle(batch, positions=[0])
    assert (state.statistics().unsettled, feed.window.used) == (1, 1)
    for _ in range(2):
        settle(batch)
    assert (state.statistics().unsettled, feed.window.used) == (0, 0)


def test_run_is_tried_again_message_by_message_with_one_receipt() -> None:
    receipt = Receipt(10, 4, 3, nothing)
    parts = Publish(HEAD, [b"1", b"22", b"333"], 6, receipt, (1, 2, 3)).split()
    assert [(part.contents, part.size, part.positions) for part in parts] == [
        ([b"1"], 1, (1,)),
        ([b"22"], 2, (2,)),
        ([b"333"], 3, (3,)),
    ]
    parts[1].abandoned(RuntimeError("poison"))
    assert (receipt.missing, receipt.refusals) == (2, {12})


async def test_queue_that_crashes_too_often_is_stopped_and_refuses() -> None:
    async with open_harness(max_restarts=1) as harness:
        state, consumer, receipt = harness.queue(), harness.consumer(), Receipt(1, 1, 1, nothing)
        publish(state, b"kept")
        harness.feed(state, consumer)
        harness.crash_nowait(state)
        await trio.testing.wait_all_tasks_blocked()
        assert state.ref.state == "stopped"
        assert consumer.closed == ["the queue has crashed"]
        publish(state, b"1", receipt=receipt)
        assert (receipt.missing, receipt.refusals) == (0, {1})
        assert ready(state) == [b"kept"]


async def test_feed_moves_while_its_queue_is_never_without_one(harness: Harness) -> None:
    state = harness.queue("q", QueueOptions(auto_delete=True))
    old, new = harness.consumer(), harness.consumer()
    feed = harness.feed(state, old, messages=2, exclusive=True)
    publish(state, b"1", b"2", b"3")
    successor = Feed(state.ref, new.ref, settles=False, exclusive=True)
    state.ref.tell_nowait(MoveFeed(feed, successor))
    assert "q" in harness.directory.queues
    assert (old.take(), new.take()) == ([b"1", b"2"], [b"3"])
    assert old.closed == []
    assert list(state.feeds or ()) == [successor]


async def test_unsettled_messages_of_a_feed_that_moved_go_back_and_on_to_its_successor(harness: Harness) -> None:
    state, old, new = harness.queue(), harness.consumer(), harness.consumer()
    feed = harness.feed(state, old, messages=1)
    publish(state, b"1", b"2")
    state.ref.tell_nowait(MoveFeed(feed, Feed(state.ref, new.ref, settles=False)))
    settle(old.batches[0], Outcome.REQUEUE)
    assert new.take() == [b"2", b"1"]


async def test_feed_that_has_closed_does_not_move(harness: Harness) -> None:
    state, consumer = harness.queue(), harness.consumer()
    feed = harness.feed(state, consumer)
    close(feed)
    state.ref.tell_nowait(MoveFeed(feed, Feed(state.ref, consumer.ref)))
    assert not state.feeds


async def test_feed_that_waits_for_room_moves_out_of_the_line(harness: Harness) -> None:
    state, old, new, socket_window = harness.queue(), harness.consumer(), harness.consumer(), Window(bytes=1)
    feed = harness.feed(state, old, socket_window=socket_window, settles=False)
    publish(state, b"1")
    publish(state, b"2")
    assert socket_window.waiting == 1
    state.ref.tell_nowait(MoveFeed(feed, Feed(state.ref, new.ref, settles=False)))
    assert socket_window.waiting == 0
    assert new.take() == [b"2"]
