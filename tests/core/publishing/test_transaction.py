import pytest
from trio.testing import MockClock

from core.harness import HEAD, Harness, open_harness, publish, ready
from triomq.core import (
    Overflow,
    Publish,
    QueueFull,
    QueueOptions,
    QueueStopped,
    Transaction,
)


def run_of(*contents: bytes) -> Publish:
    return Publish(HEAD, list(contents), sum(map(len, contents)))


REJECTING = QueueOptions(max_length=2, overflow=Overflow.REJECT_PUBLISH)


async def test_queue_that_was_stopped_refuses() -> None:
    async with open_harness(max_restarts=1) as harness:
        broken, whole = harness.queue("broken"), harness.queue("whole")
        await harness.crash_for_good(broken)
        transaction = Transaction(harness.directory)
        transaction.publish([whole.ref, broken.ref], run_of(b"1"))
        with pytest.raises(QueueStopped, match="'broken'"):
            harness.turn(transaction.commit)
        assert ready(whole) == []


async def test_message_that_expires_at_the_commit_does_not_take_promised_room(
    harness: Harness, autojump_clock: MockClock
) -> None:
    full = harness.queue("full", REJECTING)
    letters = QueueOptions(
        max_length=2, overflow=Overflow.REJECT_PUBLISH, message_ttl=1, dead_letter_sink="", dead_letter_key="full"
    )
    dying = harness.queue("dying", letters)
    publish(dying, b"old")
    autojump_clock.jump(2)  # nobody has had the time to look at the clock
    transaction = Transaction(harness.directory)
    transaction.publish([full.ref, dying.ref], run_of(b"1", b"2"))
    with pytest.raises(QueueFull):
        harness.turn(transaction.commit)
    assert (full.backlog.ready, dying.backlog.ready) == (1, 0)
