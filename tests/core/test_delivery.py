import trio.testing

from triomq.core import Batch, Deliver, FeedClosed

from .harness import Consumer, close, open_harness, publish, ready


class Clumsy(Consumer):
    """Crashes over every delivery."""

    def deliver(self, message: Deliver) -> None:
        raise RuntimeError("clumsy")


async def test_what_is_on_its_way_to_a_consumer_that_is_gone_goes_back_unmarked() -> None:
    async with open_harness() as harness:
        store, gone, other = harness.queue("q"), harness.consumer(), harness.consumer()
        harness.feed(store, gone)
        gone.ref.parent.actor.stop_child_nowait(gone.ref)  # type: ignore[union-attr]
        publish(store, b"a", b"b")
        assert store.statistics().feeds == 0
        assert ready(store) == [b"a", b"b"]
        harness.feed(store, other)
        [batch] = other.batches
        assert not batch.redelivered


async def test_what_crashes_its_consumer_goes_back_marked_and_the_feed_is_closed() -> None:
    async with open_harness() as harness:
        store, clumsy, other = harness.queue("q"), Clumsy(), harness.consumer()
        harness.start(clumsy)
        harness.feed(store, clumsy)
        publish(store, b"a")
        await trio.testing.wait_all_tasks_blocked()
        assert store.statistics().feeds == 0
        harness.feed(store, other)
        [batch] = other.batches
        assert batch.redelivered
        assert store.ref.state == "running"


async def test_a_feed_that_is_closed_by_its_consumer_is_not_told_so() -> None:
    async with open_harness() as harness:
        store, consumer = harness.queue("q"), harness.consumer()
        feed = harness.feed(store, consumer)
        close(feed)
        assert consumer.closed == []
        assert FeedClosed(feed, "why").reason == "why"


async def test_a_delivery_names_its_feed_and_its_batch_its_queue() -> None:
    async with open_harness() as harness:
        log: list[Batch] = []
        store, consumer = harness.queue("q"), harness.consumer(log)
        feed = harness.feed(store, consumer)
        publish(store, b"a")
        assert (log[0].feed, log[0].queue) == (feed, store.ref)
