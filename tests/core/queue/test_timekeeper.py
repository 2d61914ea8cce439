import trio
from trio.testing import MockClock

from core.durable import ONE, open_durable_harness
from core.harness import Harness, publish, settle
from core.queue.test_expiry import bodies, publish_expiring
from triomq.core import Enlist, Get, QueueOptions


async def test_queue_without_deadlines_never_looks_at_the_clock(harness: Harness) -> None:
    state, consumer = harness.queue(), harness.consumer()
    harness.feed(state, consumer)
    publish(state, b"x")
    looked: list[None] = []
    harness.directory.clock.now = lambda: looked.append(None) or 0.0  # type: ignore[func-returns-value]
    publish(state, b"y")
    settle(consumer.batches[0])
    assert not looked


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
