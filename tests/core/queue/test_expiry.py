from math import inf

import pytest
import trio
from trio.testing import MockClock

from core.harness import Harness, close, publish, ready, settle
from triomq.core import (
    DeclareQueue,
    Enlist,
    Get,
    Head,
    NoSuchQueue,
    Outcome,
    Properties,
    Publish,
    QueueOptions,
    QueueState,
    encode_core,
)
from triomq.core.queue.expiry import next_deadline


def publish_expiring(state: QueueState, body: bytes, seconds: float) -> None:
    """Publish a message that says itself when it is worthless."""
    encoded = encode_core(Properties(expiration=seconds))
    start = len(encoded)
    head = Head(routing_key="q", properties_stop=start, body_start=start, has_expiration=True)
    state.ref.tell_nowait(Publish(head, [encoded + body], start + len(body)))


def bodies(state: QueueState) -> list[bytes]:
    return [entry.message.body for entry in state.backlog.entries()]


async def test_messages_expire_when_the_queue_says_so(harness: Harness, autojump_clock: MockClock) -> None:
    state = harness.queue(options=QueueOptions(message_ttl=10.0))
    publish(state, b"1", b"2")
    await trio.sleep(5)
    publish(state, b"3")
    await trio.sleep(5.5)
    assert ready(state) == [b"3"]
    await trio.sleep(5)
    assert state.ref.ask_nowait(Enlist()).expired == 3
    assert next_deadline(state) == inf


async def test_messages_expire_when_they_say_so_themselves(harness: Harness, autojump_clock: MockClock) -> None:
    state = harness.queue()
    publish_expiring(state, b"short", 1)
    publish_expiring(state, b"long", 5)
    publish(state, b"for ever")
    await trio.sleep(2)
    assert bodies(state) == [b"long", b"for ever"]
    await trio.sleep(4)
    assert bodies(state) == [b"for ever"]


async def test_shorter_of_both_times_to_live_counts(harness: Harness, autojump_clock: MockClock) -> None:
    short = harness.queue("short", QueueOptions(message_ttl=1))
    long = harness.queue("long", QueueOptions(message_ttl=100))
    for state in short, long:
        publish_expiring(state, b"x", 10)
    await trio.sleep(2)
    assert (bodies(short), bodies(long)) == ([], [b"x"])
    await trio.sleep(9)
    assert bodies(long) == []


async def test_message_behind_one_that_lives_longer_goes_when_it_comes_first(
    harness: Harness, autojump_clock: MockClock
) -> None:
    state = harness.queue()
    publish_expiring(state, b"long", 10)
    publish_expiring(state, b"short", 1)
    await trio.sleep(5)
    assert bodies(state) == [b"long", b"short"]
    batch = state.ref.ask_nowait(Get())
    assert batch is not None
    assert batch.message(0).body == b"long"
    await trio.testing.wait_all_tasks_blocked()
    assert bodies(state) == []


async def test_message_with_a_ttl_of_zero_expires_unless_a_feed_takes_it_at_once(
    harness: Harness, autojump_clock: MockClock
) -> None:
    state, consumer = harness.queue(options=QueueOptions(message_ttl=0)), harness.consumer()
    publish(state, b"nobody is here")
    assert ready(state) == []
    feed = harness.feed(state, consumer, messages=1)
    publish(state, b"taken", b"no room")
    assert consumer.take() == [b"taken"]
    assert ready(state) == []
    close(feed)
    assert state.ref.ask_nowait(Get()) is None
    assert state.ref.ask_nowait(Enlist()).expired == 2


async def test_message_that_is_out_does_not_expire_but_may_when_it_comes_back(
    harness: Harness, autojump_clock: MockClock
) -> None:
    state, consumer = harness.queue(options=QueueOptions(message_ttl=1)), harness.consumer()
    feed = harness.feed(state, consumer)
    publish(state, b"x")
    await trio.sleep(5)
    assert state.ref.ask_nowait(Enlist()).unsettled == 1
    close(feed)
    settle(consumer.batches[0], Outcome.REQUEUE)
    assert ready(state) == []
    assert state.ref.ask_nowait(Enlist()).expired == 1


async def test_expired_messages_are_never_handed_out(harness: Harness, autojump_clock: MockClock) -> None:
    state, consumer = harness.queue(options=QueueOptions(message_ttl=1)), harness.consumer()
    publish(state, b"old")
    autojump_clock.jump(1.5)  # nobody has had the time to look at the clock
    publish(state, b"new")
    harness.feed(state, consumer)
    assert consumer.take() == [b"new"]


async def test_million_messages_expire_turn_by_turn_when_they_become_dead_letters(
    harness: Harness, autojump_clock: MockClock
) -> None:
    dead = harness.queue("dead")
    state = harness.queue(options=QueueOptions(message_ttl=1, dead_letter_sink="", dead_letter_key="dead"))
    publish(state, *[b"x"] * 5_000)
    autojump_clock.jump(2)
    assert state.ref.ask_nowait(Get()) is None
    assert 0 < state.backlog.ready < 5_000
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert (state.backlog.ready, dead.backlog.ready) == (0, 5_000)


async def test_messages_expire_in_a_queue_that_has_crashed_meanwhile(
    harness: Harness, autojump_clock: MockClock
) -> None:
    state = harness.queue(options=QueueOptions(message_ttl=1))
    publish(state, b"x")
    await harness.crash(state)
    await trio.sleep(2)
    assert ready(state) == []


async def test_queue_that_nobody_uses_is_deleted(harness: Harness, autojump_clock: MockClock) -> None:
    harness.queue(options=QueueOptions(expires=10))
    await trio.sleep(9)
    assert "q" in harness.directory.queues
    await trio.sleep(2)
    with pytest.raises(NoSuchQueue):
        harness.directory.queue("q", harness.session)
    assert len(harness.directory.clock) == 0


@pytest.mark.parametrize("use", ["feed", "get", "declare"])
async def test_queue_that_is_used_lives_on(harness: Harness, use: str, autojump_clock: MockClock) -> None:
    options = QueueOptions(expires=10)
    state, consumer = harness.queue(options=options), harness.consumer()
    await trio.sleep(6)
    match use:
        case "feed":
            feed = harness.feed(state, consumer)
            await trio.sleep(100)
            close(feed)
        case "get":
            state.ref.ask_nowait(Get())
        case "declare":
            harness.domain.ask_nowait(DeclareQueue("q", options, harness.session))
    await trio.sleep(6)
    assert "q" in harness.directory.queues
    publish(state, b"to publish is not to use")
    await trio.sleep(6)
    assert "q" not in harness.directory.queues
