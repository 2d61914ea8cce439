from math import inf

import trio
from trio.testing import MockClock

from core.harness import HEAD, Harness, publish, ready
from triomq.core import Browse, Enlist, Head, Publish, Purge, QueueOptions, QueueState
from triomq.core.queue.delay import Delayed, DelayedRun
from triomq.store import DelayedFound


def delayed(state: QueueState, *contents: bytes, delay: float) -> None:
    state.ref.tell_nowait(Publish(HEAD, list(contents), sum(map(len, contents)), None, 0, delay))


def test_runs_become_due_by_time_and_then_by_arrival() -> None:
    waiting = Delayed()
    runs = [DelayedRun(Head(), [b"x"], 1) for _ in range(3)]
    for run, due in zip(runs, [2.0, 1.0, 2.0], strict=True):
        waiting.push(run, due)
    assert (waiting.count, waiting.next_due) == (3, 1.0)
    assert waiting.take_due(0.5) is None
    assert [waiting.take_due(2.0) for _ in range(4)] == [runs[1], runs[0], runs[2], None]
    assert (waiting.count, waiting.next_due) == (0, inf)


def test_delayed_messages_still_to_be_read_count_until_they_come_or_are_purged() -> None:
    waiting = Delayed()
    for number in (3, 5):
        waiting.expect(DelayedFound(1, number, 9.0, 2, 20))
    assert (waiting.count, waiting.size, waiting.last_number, waiting.next_due) == (4, 0, 5, inf)
    assert waiting.numbers() == [3, 5]
    assert waiting.arrive(3)
    assert not waiting.arrive(3)
    assert waiting.count == 2
    waiting.push(DelayedRun(Head(), [b"x", b"y"], 2, 3), 1.0)
    assert waiting.numbers() == [5, 3]
    assert waiting.purge() == 4
    assert not waiting.arrive(5)
    assert (waiting.count, waiting.numbers()) == (0, [])


async def test_delayed_message_is_delivered_when_its_time_has_come(harness: Harness, autojump_clock: MockClock) -> None:
    state, consumer = harness.queue(), harness.consumer()
    harness.feed(state, consumer)
    delayed(state, b"later", b"with it", delay=60)
    publish(state, b"now")
    assert consumer.take() == [b"now"]
    assert state.ref.ask_nowait(Enlist()).delayed == 2
    await trio.sleep(59)
    assert consumer.take() == []
    await trio.sleep(2)
    assert consumer.take() == [b"later", b"with it"]
    assert state.ref.ask_nowait(Enlist()).delayed == 0


async def test_delayed_message_stands_behind_what_is_ready_by_then(harness: Harness, autojump_clock: MockClock) -> None:
    state = harness.queue()
    delayed(state, b"second", delay=1)
    delayed(state, b"first", delay=0.5)
    publish(state, b"there already")
    await trio.sleep(2)
    assert ready(state) == [b"there already", b"first", b"second"]
    assert [entry.id for entry in state.ref.ask_nowait(Browse())] == [1, 2, 3]


async def test_delayed_message_outlives_a_crash_of_its_queue(harness: Harness, autojump_clock: MockClock) -> None:
    state = harness.queue()
    delayed(state, b"later", delay=1)
    await harness.crash(state)
    await trio.sleep(2)
    assert ready(state) == [b"later"]


async def test_purge_forgets_delayed_messages_too(harness: Harness, autojump_clock: MockClock) -> None:
    state = harness.queue()
    delayed(state, b"later", delay=1)
    publish(state, b"now")
    assert state.ref.ask_nowait(Purge()) == 2
    await trio.sleep(2)
    assert ready(state) == []


async def test_time_to_live_begins_when_a_delayed_message_becomes_ready(
    harness: Harness, autojump_clock: MockClock
) -> None:
    state = harness.queue(options=QueueOptions(message_ttl=1.0))
    delayed(state, b"later", delay=5)
    await trio.sleep(5.5)
    assert ready(state) == [b"later"]
    await trio.sleep(1)
    assert ready(state) == []
