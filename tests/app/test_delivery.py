"""One message, to be settled."""

from datetime import UTC, datetime

import pytest

from app.conftest import bodies, fill, got
from triomq.app import Broker, QueueHandle
from triomq.core import Properties

PROPERTIES = Properties(
    content_type="text/plain",
    headers={"n": 1, "deep": {"list": [True, None, b"\xff", datetime(2024, 5, 17, tzinfo=UTC)]}},
    persistent=False,
    priority=3,
    expiration=1.5,
    timestamp=datetime(2024, 5, 17, 12, tzinfo=UTC),
)


async def test_delivery_has_the_properties_of_its_message(broker: Broker, queue: QueueHandle) -> None:
    shop = await broker.declare_sink("shop", "topic")
    await shop.bind(queue, "#")
    await broker.publish("shop", "order.new", b"42", PROPERTIES)
    delivery = await got(queue)
    assert (delivery.body, delivery.sink, delivery.key) == (b"42", "shop", "order.new")
    assert delivery.properties == PROPERTIES
    assert not delivery.redelivered
    assert repr(delivery) == "<Delivery 'shop' 'order.new' 2 bytes>"


async def test_block_that_ends_accepts(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"x")
    delivery = await got(queue)
    with delivery as same:
        assert same is delivery
        assert (await queue.statistics()).unsettled == 1
    statistics = await queue.statistics()
    assert (statistics.ready, statistics.unsettled) == (0, 0)


async def test_delivery_is_settled_once(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"x")
    delivery = await got(queue)
    with delivery:
        delivery.requeue()
        delivery.accept()
    assert await bodies(queue, 1) == [(b"x", True)]
    delivery.requeue()
    assert await queue.get() is None


async def test_rejected_message_is_dropped(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"x")
    delivery = await got(queue)
    delivery.reject()
    assert await queue.get() is None
    assert (await queue.statistics()).unsettled == 0


async def test_body_stays_after_settling_and_properties_do_not(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"x")
    delivery = await got(queue)
    with delivery:
        pass
    assert delivery.body == b"x"
    with pytest.raises(LookupError):
        _ = delivery.properties


async def test_settling_after_the_queue_is_gone_does_nothing(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"x")
    delivery = await got(queue)
    await queue.delete()
    delivery.accept()


async def test_browsed_message_has_the_properties_of_its_message(broker: Broker, queue: QueueHandle) -> None:
    shop = await broker.declare_sink("shop", "topic")
    await shop.bind(queue, "#")
    await broker.publish("shop", "order.new", b"42", PROPERTIES)
    delivery = await got(queue)
    delivery.requeue()
    (seen,) = await queue.browse()
    assert (seen.body, seen.sink, seen.key, seen.attempts) == (b"42", "shop", "order.new", 1)
    assert seen.properties == PROPERTIES
    assert repr(seen) == f"<Browsed {seen.id} 'shop' 'order.new' 2 bytes>"
