import pytest

from core.harness import HEAD, Harness, open_harness, publish
from triomq.core import Enlist, Fits, Offer, Overflow, Publish, QueueOptions


def run_of(*contents: bytes) -> Publish:
    return Publish(HEAD, list(contents), sum(map(len, contents)))


async def test_offer_that_a_feed_takes_at_once_is_accepted(harness: Harness) -> None:
    queue, consumer = harness.queue(), harness.consumer()
    harness.feed(queue, consumer, messages=2)

    def offer_three() -> list[bool]:
        return [queue.ref.ask_nowait(Offer(HEAD, body)) for body in (b"1", b"2", b"3")]

    assert harness.turn(offer_three) == [True, True, False]
    assert consumer.take() == [b"1", b"2"]
    assert queue.ref.ask_nowait(Enlist()).published == 2


async def test_offer_to_a_queue_that_keeps_nothing_still_reaches_a_feed(harness: Harness) -> None:
    queue, consumer = harness.queue(options=QueueOptions(max_length=0)), harness.consumer()
    assert not queue.ref.ask_nowait(Offer(HEAD, b"1"))
    harness.feed(queue, consumer)
    assert queue.ref.ask_nowait(Offer(HEAD, b"2"))


@pytest.mark.parametrize(
    ("options", "runs", "fits"),
    [
        (QueueOptions(), [b"1", b"2", b"3"], True),
        (QueueOptions(max_length=2), [b"1", b"2", b"3"], True),
        (QueueOptions(max_length=2, overflow=Overflow.REJECT_PUBLISH), [b"1", b"2"], True),
        (QueueOptions(max_length=2, overflow=Overflow.REJECT_PUBLISH), [b"1", b"2", b"3"], False),
        (QueueOptions(max_length=2, overflow=Overflow.WAIT), [b"1", b"2", b"3"], False),
        (QueueOptions(max_bytes=3, overflow=Overflow.REJECT_PUBLISH_DLX), [b"1", b"23"], True),
        (QueueOptions(max_bytes=3, overflow=Overflow.REJECT_PUBLISH_DLX), [b"12", b"34"], False),
    ],
)
async def test_queue_tells_whether_it_would_refuse(
    harness: Harness, options: QueueOptions, runs: list[bytes], fits: bool
) -> None:
    queue = harness.queue(options=options)
    assert queue.ref.ask_nowait(Fits([run_of(body) for body in runs])) is fits


async def test_waiter_for_room_in_a_queue_that_is_deleted_is_called(harness: Harness) -> None:
    queue = harness.queue(options=QueueOptions(max_length=1, overflow=Overflow.WAIT))
    told: list[str] = []
    publish(queue, b"1")
    queue.when_room(lambda: told.append("gone"))
    harness.delete("q")
    assert told == ["gone"]


async def test_waiter_for_room_in_a_queue_that_is_stopped_is_called() -> None:
    async with open_harness(max_restarts=1) as harness:
        queue = harness.queue(options=QueueOptions(max_length=1, overflow=Overflow.WAIT))
        told: list[str] = []
        publish(queue, b"1")
        queue.when_room(lambda: told.append("given up"))
        await harness.crash_for_good(queue)
        assert told == ["given up"]
