import trio.testing

from core.harness import Harness
from triomq.core import Batch, Deliver, FeedClosed

from .harness import Consumer, close, publish, ready


class Clumsy(Consumer):
    """Crashes over every delivery."""

    def deliver(self, message: Deliver) -> None:
        raise RuntimeError("clumsy")


async def test_batch_on_its_way_to_a_stopped_consumer_goes_back_unmarked(harness: Harness) -> None:
    queue, gone, other = harness.queue("q"), harness.consumer(), harness.consumer()
    harness.feed(queue, gone)
    gone.ref.parent.actor.stop_child_nowait(gone.ref)  # type: ignore[union-attr]
    publish(queue, b"a", b"b")
    assert queue.statistics().feeds == 0
    assert ready(queue) == [b"a", b"b"]
    harness.feed(queue, other)
    [batch] = other.batches
    assert not batch.redelivered


async def test_batch_that_crashes_its_consumer_goes_back_marked_and_the_feed_is_closed(harness: Harness) -> None:
    queue, clumsy, other = harness.queue("q"), Clumsy(), harness.consumer()
    harness.start(clumsy)
    harness.feed(queue, clumsy)
    publish(queue, b"a")
    await trio.testing.wait_all_tasks_blocked()
    assert queue.statistics().feeds == 0
    harness.feed(queue, other)
    [batch] = other.batches
    assert batch.redelivered
    assert queue.ref.state == "running"


async def test_feed_that_is_closed_by_its_consumer_is_not_told_so(harness: Harness) -> None:
    queue, consumer = harness.queue("q"), harness.consumer()
    feed = harness.feed(queue, consumer)
    close(feed)
    assert consumer.closed == []
    assert FeedClosed(feed, "why").reason == "why"


async def test_delivery_names_its_feed_and_its_batch_its_queue(harness: Harness) -> None:
    log: list[Batch] = []
    queue, consumer = harness.queue("q"), harness.consumer(log)
    feed = harness.feed(queue, consumer)
    publish(queue, b"a")
    assert (log[0].feed, log[0].queue) == (feed, queue.ref)
