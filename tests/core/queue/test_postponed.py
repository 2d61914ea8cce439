"""Messages over which a consumer failed."""

import trio
from trio.testing import MockClock

from core.durable import PERSISTENT, get, open_durable_harness
from core.harness import Consumer, Harness, publish, ready, settle
from triomq.core import Batch, Enlist, QueueOptions, QueueState, Window, postpone
from triomq.core.queue.delay import Postponed, delay_after


def test_delay_doubles_from_one_second_to_a_minute() -> None:
    assert [delay_after(failures) for failures in (1, 2, 3, 6, 7, 10_000)] == [1, 2, 4, 32, 60, 60]


def test_postponed_messages_go_by_time_and_equals_as_they_came() -> None:
    postponed = Postponed()
    first, second, third = (Batch(PERSISTENT, [b"x"], (number,), True, 1, 1) for number in range(3))
    for batch, due in ((third, 2.0), (first, 1.0), (second, 1.0)):
        postponed.push(batch, due)
    assert (len(postponed), postponed.next_due) == (3, 1.0)
    assert postponed.take_due(0.5) is None
    assert postponed.take_due(1.0) is first
    assert postponed.take_due(1.0) is second
    assert postponed.take_all() == [third]
    assert postponed.next_due == float("inf")


def fed(harness: Harness, state: QueueState, *, messages: int = 0) -> Consumer:
    consumer = harness.consumer()
    harness.feed(state, consumer, messages=messages)
    return consumer


async def test_room_is_given_back_at_once_and_the_place_stays(harness: Harness, autojump_clock: MockClock) -> None:
    state = harness.queue()
    consumer = fed(harness, state, messages=2)
    publish(state, b"1", b"2", b"3", b"4")
    (batch,) = consumer.batches
    consumer.take()
    harness.turn(lambda: postpone(batch, 1, "no reason"))
    assert consumer.take() == [b"3"]
    statistics = state.ref.ask_nowait(Enlist())
    assert (statistics.ready, statistics.unsettled, statistics.delayed) == (1, 2, 1)
    await trio.sleep(1.5)
    assert ready(state) == [b"2", b"4"]


async def test_batch_of_an_earlier_incarnation_is_ignored(harness: Harness, autojump_clock: MockClock) -> None:
    state = harness.queue()
    consumer = fed(harness, state)
    publish(state, b"1")
    (batch,) = consumer.batches
    await harness.crash(state)
    harness.turn(lambda: postpone(batch, 0, "no reason"))
    assert ready(state) == [b"1"]
    assert state.ref.ask_nowait(Enlist()).delayed == 0


async def test_kill_while_it_waits_loses_neither_the_message_nor_the_count(autojump_clock: MockClock) -> None:
    async with open_durable_harness() as durable:
        queue = durable.harness.queue(options=QueueOptions())
        consumer = fed(durable.harness, queue)
        publish(queue, b"1", b"2", head=PERSISTENT)
        for seconds in (2, 3, 0):
            durable.harness.turn(lambda: postpone(consumer.batches[-1], 0, "no reason"))
            durable.disk.work()
            await trio.sleep(seconds)
    async with open_durable_harness(durable.disk.store) as again:
        queue = again.harness.directory.queues["q"]
        assert get(queue, again.disk) == (b"1", True)
        (batch,) = queue.backlog.outstanding()
        assert batch.attempts == 3


async def test_feed_that_waits_in_a_line_does_not_lose_its_place_when_its_message_is_postponed(
    harness: Harness,
) -> None:
    window, deliveries = Window(1), list[Batch]()
    queues = [harness.queue(name) for name in ("first", "second", "third")]
    for queue in queues:
        harness.feed(queue, harness.consumer(deliveries), shared=(window,))
    for number in (0, 1, 0, 2):  # the first one's first message is delivered, the others wait in this order
        publish(queues[number], b"x")
    harness.turn(lambda: postpone(deliveries[0], 0, "crash"))
    settle(deliveries[1])
    settle(deliveries[2])
    assert [batch.queue for batch in deliveries] == [queues[number].ref for number in (0, 1, 0, 2)]
