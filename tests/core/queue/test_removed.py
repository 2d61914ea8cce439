"""``Directory.on_removed``: messages that leave a queue though no consumer has taken them."""

from collections.abc import Sequence

import pytest

from core.harness import Harness, publish
from triomq.core import (
    Discard,
    Get,
    Outcome,
    Overflow,
    Purge,
    QueueOptions,
    QueueState,
    Reason,
    Stretch,
    settle,
)

Removed = list[tuple[str, list[bytes] | None, Reason | None]]


@pytest.fixture
def removed(harness: Harness) -> Removed:
    heard: Removed = []

    def on_removed(queue: QueueState, messages: Stretch | None, reason: Reason | None, ids: Sequence[int]) -> None:
        bodies = None if messages is None else [message.body for message in messages.messages()]
        heard.append((queue.name, bodies, reason))

    harness.directory.on_removed = on_removed
    return heard


async def test_purge_and_deletion_are_heard_as_all_that_nobody_has(harness: Harness, removed: Removed) -> None:
    state = harness.queue()
    publish(state, b"1", b"2")
    state.ref.ask_nowait(Purge())
    publish(state, b"3")
    harness.delete("q")
    assert removed == [("q", None, None)] * 2


async def test_what_was_discarded_is_heard(harness: Harness, removed: Removed) -> None:
    state = harness.queue()
    publish(state, b"1", b"2", b"3")
    state.ref.ask_nowait(Discard(2))
    assert removed == [("q", [b"1", b"2"], None)]


async def test_oldest_that_give_way_are_heard(harness: Harness, removed: Removed) -> None:
    state = harness.queue(options=QueueOptions(max_length=2, overflow=Overflow.DROP_HEAD))
    publish(state, b"1", b"2", b"3")
    assert removed == [("q", [b"1"], Reason.MAX_LENGTH)]


async def test_what_has_expired_is_heard(harness: Harness, removed: Removed, autojump_clock: object) -> None:
    state = harness.queue(options=QueueOptions(message_ttl=0))
    publish(state, b"1")
    assert removed == [("q", [b"1"], Reason.EXPIRED)]


async def test_what_is_rejected_or_comes_back_too_often_is_heard_and_what_is_accepted_is_not(
    harness: Harness, removed: Removed
) -> None:
    state = harness.queue(options=QueueOptions(delivery_limit=0))
    publish(state, b"1", b"2", b"3")
    for outcome in (Outcome.ACCEPT, Outcome.REJECT, Outcome.REQUEUE):
        batch = state.ref.ask_nowait(Get())
        assert batch is not None
        settle(batch, outcome, (0,))
    assert removed == [("q", [b"2"], Reason.REJECTED), ("q", [b"3"], Reason.DELIVERY_LIMIT)]
