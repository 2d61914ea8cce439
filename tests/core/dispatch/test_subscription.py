"""The way out of a queue: who may consume, what comes, and how it ends."""

import pytest

from core.harness import Consumer, Harness, publish
from core.publishing.test_publishing import NotQ
from triomq.core import EVERYTHING, Forbidden, InExclusiveUse, QueueState, Subscription, Window


class NothingToRead(NotQ):
    def may_read(self, name: str, /) -> bool:
        return False


def subscribe(harness: Harness, queue: QueueState, consumer: Consumer, *, exclusive: bool = False) -> Subscription:
    found = Subscription(harness.session, EVERYTHING, queue, consumer.ref, window=Window(10), exclusive=exclusive)
    found.begin()
    return found


async def test_user_who_may_not_read_gets_no_subscription(harness: Harness) -> None:
    with pytest.raises(Forbidden) as refused:
        Subscription(harness.session, NothingToRead(), harness.queue("q"), harness.consumer().ref)
    assert (refused.value.kind, refused.value.name) == ("queue", "q")


async def test_subscription_is_the_key_of_what_comes_until_it_is_closed(harness: Harness) -> None:
    queue, consumer = harness.queue("q"), harness.consumer()
    subscription = subscribe(harness, queue, consumer)
    publish(queue, b"1")
    (batch,) = consumer.batches
    assert batch.feed is not None
    assert batch.feed.key is subscription
    subscription.close()
    subscription.close()
    publish(queue, b"2")
    assert consumer.take() == [b"1"]
    assert not subscription.open


async def test_subscription_may_want_to_be_the_only_one(harness: Harness) -> None:
    queue = harness.queue("q")
    first = subscribe(harness, queue, harness.consumer(), exclusive=True)
    with pytest.raises(InExclusiveUse):
        subscribe(harness, queue, harness.consumer())
    first.close()
    subscribe(harness, queue, harness.consumer())


async def test_deleted_queue_ends_its_subscriptions(harness: Harness) -> None:
    queue, consumer = harness.queue("q"), harness.consumer()
    subscription = subscribe(harness, queue, consumer)
    feed = subscription.feed
    harness.delete("q")
    assert len(consumer.closed) == 1
    subscription.lost(feed)
    assert not subscription.open
    assert harness.session.feeds_to(consumer.ref) == []
