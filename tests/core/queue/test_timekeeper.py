import pytest
import trio
from trio.testing import MockClock

from core.durable import ONE, open_durable_harness
from core.harness import Harness, publish, settle
from core.queue.test_expiry import bodies, publish_expiring
from triomq.core import Enlist, Get, Outcome, QueueOptions


async def test_queue_without_deadlines_never_looks_at_the_clock(harness: Harness) -> None:
    state, consumer = harness.queue(), harness.consumer()
    harness.feed(state, consumer)
    publish(state, b"x")
    looked: list[None] = []
    harness.directory.clock.now = lambda: looked.append(None) or 0.0  # type: ignore[func-returns-value]
    publish(state, b"y")
    settle(consumer.batches[0])
    assert not looked


async def test_message_behind_one_that_lives_for_ever_expires_when_it_comes_first(
    harness: Harness, autojump_clock: MockClock
) -> None:
    state = harness.queue()
    publish(state, b"for ever")
    publish_expiring(state, b"short", 1)
    assert state.ref.ask_nowait(Get()) is not None
    await trio.sleep(5)
    assert bodies(state) == []


@pytest.mark.parametrize("highest", [0, 3])
async def test_no_feed_gets_what_has_expired_behind_another(
    harness: Harness, highest: int, autojump_clock: MockClock
) -> None:
    state, consumer = harness.queue(options=QueueOptions(max_priority=highest)), harness.consumer()
    for body, seconds in [(b"1", None), (b"2", 1), (b"3", 1), (b"4", None), (b"5", 1), (b"6", 100)]:
        if seconds is None:
            publish(state, body)
        else:
            publish_expiring(state, body, seconds)
    await trio.sleep(5)
    harness.feed(state, consumer)
    assert [batch.message(0).body for batch in consumer.batches] == [b"1", b"4", b"6"]
    assert state.ref.ask_nowait(Enlist()).expired == 3


async def test_message_that_comes_back_too_late_is_not_delivered_again(
    harness: Harness, autojump_clock: MockClock
) -> None:
    state, consumer = harness.queue(options=QueueOptions(max_priority=3)), harness.consumer()
    harness.feed(state, consumer, messages=2)
    publish_expiring(state, b"short", 1)
    publish(state, b"for ever")
    batch = consumer.batches.pop(0)
    publish(state, b"now")
    await trio.sleep(5)
    settle(batch, Outcome.REQUEUE)
    assert [batch.message(0).body for batch in consumer.batches] == [b"for ever", b"now"]


async def test_restarted_queue_still_looks_at_what_expires_behind_another(
    harness: Harness, autojump_clock: MockClock
) -> None:
    state = harness.queue()
    publish(state, b"for ever")
    publish_expiring(state, b"short", 1)
    await harness.crash(state)
    await trio.sleep(5)
    assert state.ref.ask_nowait(Get()) is not None
    assert bodies(state) == []


async def test_get_never_gives_what_has_expired_when_too_much_has_for_one_turn(
    harness: Harness, autojump_clock: MockClock
) -> None:
    harness.queue("dead")
    state = harness.queue(options=QueueOptions(dead_letter_sink="", dead_letter_key="dead"))
    for _ in range(7_000):
        publish_expiring(state, b"x", 1)
    publish_expiring(state, b"long", 100)
    autojump_clock.jump(2)
    while (batch := state.ref.ask_nowait(Get())) is None:
        await trio.testing.wait_all_tasks_blocked()
    assert batch.message(0).body == b"long"


async def test_expiring_messages_are_looked_at_when_they_are_paged_in(autojump_clock: MockClock) -> None:
    async with open_durable_harness(queue_memory=ONE) as durable:
        state, consumer = durable.harness.queue(), durable.harness.consumer()
        publish(state, b"first")
        for _ in range(2):
            publish_expiring(state, b"short", 1)
        publish(state, b"last")
        assert state.backlog.paged == 3
        batch = state.ref.ask_nowait(Get())
        assert batch is not None
        assert state.backlog.paged == 0
        await trio.sleep(5)
        assert bodies(state) == [b"last"]
        durable.harness.feed(state, consumer)
        assert consumer.take() == [b"last"]
        assert state.ref.ask_nowait(Enlist()).expired == 2
