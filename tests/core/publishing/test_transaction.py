import pytest
from trio.testing import MockClock

from core.harness import HEAD, Harness, open_harness, publish, ready
from triomq.core import (
    Enlist,
    Outcome,
    Overflow,
    Publish,
    QueueFull,
    QueueOptions,
    QueueState,
    QueueStopped,
    Restarting,
    Transaction,
)


def run_of(*contents: bytes) -> Publish:
    return Publish(HEAD, list(contents), sum(map(len, contents)))


REJECTING = QueueOptions(max_length=2, overflow=Overflow.REJECT_PUBLISH)


async def test_transaction_does_nothing_before_the_commit_and_everything_with_it(harness: Harness) -> None:
    a, b, consumer = harness.queue("a"), harness.queue("b"), harness.consumer()
    feed = harness.feed(a, consumer, messages=1)
    publish(a, b"old")
    transaction = Transaction(harness.directory)
    transaction.publish([a.ref, b.ref], run_of(b"1", b"2"))
    transaction.publish([b.ref], run_of(b"3"))
    transaction.settle(consumer.batches[0], Outcome.ACCEPT)
    assert not transaction.is_empty
    assert (ready(a), ready(b), feed.window.used) == ([], [], 1)
    assert harness.turn(transaction.commit) == 5
    assert transaction.is_empty
    assert ready(b) == [b"1", b"2", b"3"]
    assert consumer.take() == [b"1"]
    assert ready(a) == [b"2"]


async def test_full_queue_refuses_the_whole_transaction(harness: Harness) -> None:
    full, free, consumer = harness.queue("full", REJECTING), harness.queue("free"), harness.consumer()
    harness.feed(free, consumer, messages=1)
    publish(free, b"old")
    transaction = Transaction(harness.directory)
    transaction.publish([free.ref], run_of(b"1"))
    for _ in range(3):
        transaction.publish([full.ref], run_of(b"x"))
    transaction.settle(consumer.batches[0], Outcome.ACCEPT)
    with pytest.raises(QueueFull) as refused:
        harness.turn(transaction.commit)
    assert refused.value.name == "full"
    assert (ready(full), ready(free)) == ([], [])
    assert free.ref.ask_nowait(Enlist()).unsettled == 1
    assert not transaction.is_empty


async def test_rollback_forgets_everything(harness: Harness) -> None:
    queue, consumer = harness.queue(), harness.consumer()
    harness.feed(queue, consumer)
    publish(queue, b"old")
    transaction = Transaction(harness.directory)
    transaction.publish([queue.ref], run_of(b"1"))
    transaction.settle(consumer.batches[0], Outcome.REJECT)
    transaction.rollback()
    assert transaction.is_empty
    assert harness.turn(transaction.commit) == 0
    assert queue.ref.ask_nowait(Enlist()).unsettled == 1


async def test_queue_that_is_being_restarted_puts_the_commit_off(harness: Harness) -> None:
    down, up = harness.queue("down"), harness.queue("up")
    transaction = Transaction(harness.directory)
    transaction.publish([up.ref, down.ref], run_of(b"1"))

    def crash_and_commit() -> None:
        harness.crash_nowait(down)
        with pytest.raises(Restarting) as refused:
            transaction.commit()
        assert refused.value.ref is down.ref

    harness.turn(crash_and_commit)
    assert ready(up) == []
    await down.ref.wait_running()
    harness.turn(transaction.commit)
    assert (ready(up), ready(down)) == ([b"1"], [b"1"])


async def test_queue_that_was_stopped_refuses() -> None:
    async with open_harness(max_restarts=1) as harness:
        broken, whole = harness.queue("broken"), harness.queue("whole")
        await harness.crash_for_good(broken)
        transaction = Transaction(harness.directory)
        transaction.publish([whole.ref, broken.ref], run_of(b"1"))
        with pytest.raises(QueueStopped, match="'broken'"):
            harness.turn(transaction.commit)
        assert ready(whole) == []


async def test_queue_that_was_deleted_meanwhile_is_left_out(harness: Harness) -> None:
    gone, there = harness.queue("gone"), harness.queue("there")
    transaction = Transaction(harness.directory)
    transaction.publish([gone.ref, there.ref], run_of(b"1"))
    harness.delete("gone")
    harness.queue("gone")
    assert harness.turn(transaction.commit) == 1
    assert ready(there) == [b"1"]
    assert ready(harness.directory.queues["gone"]) == []


@pytest.mark.parametrize("options", [QueueOptions(max_length=2), QueueOptions(max_bytes=2)])
async def test_queue_that_lets_the_oldest_give_way_refuses_nothing(harness: Harness, options: QueueOptions) -> None:
    queue: QueueState = harness.queue(options=options)
    transaction = Transaction(harness.directory)
    transaction.publish([queue.ref], run_of(b"1", b"2", b"3"))
    harness.turn(transaction.commit)
    assert ready(queue) == [b"2", b"3"]


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
