import trio
from trio.testing import MockClock

from core.harness import Harness, publish
from triomq.core import (
    Get,
    Head,
    Properties,
    Publish,
    QueueOptions,
    QueueState,
    encode_core,
    traits_of,
)


def publish_expiring(state: QueueState, body: bytes, seconds: float) -> None:
    """Publish a message that says itself when it is worthless."""
    encoded = encode_core(Properties(expiration=seconds))
    start = len(encoded)
    head = Head(routing_key="q", properties_stop=start, body_start=start, traits=traits_of(has_expiration=True))
    state.ref.tell_nowait(Publish(head, [encoded + body], start + len(body)))


def bodies(state: QueueState) -> list[bytes]:
    return [entry.message.body for entry in state.backlog.entries()]


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
