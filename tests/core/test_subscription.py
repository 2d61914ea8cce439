"""The way out of a queue: who may consume, what comes, and how it ends."""

from collections.abc import AsyncIterator

import pytest

from triomq.core import EVERYTHING, Forbidden, InExclusiveUse, QueueStore, Subscription, Window

from .cast import Consumer, House, open_house, publish
from .test_publishing import NotQ


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with open_house() as house:
        yield house


class NothingToRead(NotQ):
    def may_read(self, name: str, /) -> bool:
        return False


def subscribe(house: House, queue: QueueStore, consumer: Consumer, *, exclusive: bool = False) -> Subscription:
    found = Subscription(house.session, EVERYTHING, queue, consumer.ref, window=Window(10), exclusive=exclusive)
    found.begin()
    return found


async def test_user_who_may_not_read_gets_no_subscription(house: House) -> None:
    with pytest.raises(Forbidden) as refused:
        Subscription(house.session, NothingToRead(), house.queue("q"), house.consumer().ref)
    assert (refused.value.kind, refused.value.name) == ("queue", "q")


async def test_subscription_is_the_key_of_what_comes_until_it_is_closed(house: House) -> None:
    queue, consumer = house.queue("q"), house.consumer()
    subscription = subscribe(house, queue, consumer)
    publish(queue, b"1")
    (batch,) = consumer.batches
    assert batch.feed is not None
    assert batch.feed.key is subscription
    subscription.close()
    subscription.close()
    publish(queue, b"2")
    assert consumer.take() == [b"1"]
    assert not subscription.open


async def test_subscription_may_want_to_be_the_only_one(house: House) -> None:
    queue = house.queue("q")
    first = subscribe(house, queue, house.consumer(), exclusive=True)
    with pytest.raises(InExclusiveUse):
        subscribe(house, queue, house.consumer())
    first.close()
    subscribe(house, queue, house.consumer())


async def test_deleted_queue_ends_its_subscriptions(house: House) -> None:
    queue, consumer = house.queue("q"), house.consumer()
    subscription = subscribe(house, queue, consumer)
    feed = subscription.feed
    house.delete("q")
    assert len(consumer.closed) == 1
    subscription.lost(feed)
    assert not subscription.open
    assert house.session.feeds_to(consumer.ref) == []
