"""Waiting until nothing happens by itself any more."""

from typing import cast

import pytest
import trio
import trio.testing

from app.conftest import crash, fill, knock_out
from triomq.app import Broker, QueueHandle, open_broker
from triomq.errors import ActorStopped


async def waits(broker: Broker) -> bool:
    """Tell whether the broker is busy, by waiting a virtual second."""
    with trio.move_on_after(1) as late:
        await broker.wait_idle()
    return late.cancelled_caught


async def test_broker_in_which_nothing_happens_is_idle(broker: Broker, queue: QueueHandle) -> None:
    await broker.wait_idle()
    await fill(broker, b"nobody takes it")
    await broker.wait_idle()
    assert broker.describe_busy() == ""


async def test_wait_idle_waits_until_consumers_have_settled_all_messages(
    broker: Broker, queue: QueueHandle, nursery: trio.Nursery
) -> None:
    done: list[bytes] = []

    async def consume() -> None:
        async with queue.open_feed(prefetch=1) as feed:
            async for delivery in feed:
                with delivery:
                    await trio.sleep(10)
                    done.append(delivery.body)
                    if len(done) == 2:
                        await fill(broker, b"one more")

    nursery.start_soon(consume)
    await trio.testing.wait_all_tasks_blocked()
    await fill(broker, b"1", b"2")
    assert broker.describe_busy() == ("queue 'q' has 1 unsettled, 0 delayed and 1 ready messages for 1 feeds")
    await broker.wait_idle()
    assert done == [b"1", b"2", b"one more"]


async def test_feed_with_no_room_leaves_the_broker_busy(broker: Broker, queue: QueueHandle) -> None:
    async with queue.open_feed(prefetch=1):
        await fill(broker, b"1", b"2")
        assert await waits(broker)
    assert not await waits(broker)


async def test_wait_idle_waits_for_all_domains(virtual_time: None, nursery: trio.Nursery) -> None:
    async with open_broker(domains=["a", "b"]) as broker:
        deliveries = []
        for name in broker.domains:
            queue = await broker.domain(name).declare_queue("q")
            await broker.domain(name).publish("", "q", b"x")
            deliveries.append(await queue.get())
        nursery.start_soon(broker.wait_idle)
        for delivery in deliveries:
            assert await waits(broker)
            assert delivery is not None
            delivery.accept()
        assert not await waits(broker)


async def test_queue_that_is_being_restarted_is_waited_for(broker: Broker, queue: QueueHandle) -> None:
    async with queue.open_feed() as feed:
        await knock_out(broker, "q")
        broker.consumers.turn(lambda: None)
        with trio.move_on_after(0.01):
            await anext(feed)
        with trio.CancelScope() as scope:
            scope.deadline = trio.current_time() + 0.01
            await fill(broker, b"1")
        assert scope.cancelled_caught
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.wait_idle)
            delivery = await anext(feed)
            assert len(nursery.child_tasks) == 1
            delivery.accept()


async def test_wait_idle_goes_on_after_a_crash(broker: Broker, queue: QueueHandle, nursery: trio.Nursery) -> None:
    await fill(broker, b"1")
    async with queue.open_feed() as feed:
        await anext(feed)
        async with trio.open_nursery() as inner:
            inner.start_soon(broker.wait_idle)
            await trio.testing.wait_all_tasks_blocked()
            crash(broker, "q")
            again = await anext(feed)
            assert again.redelivered
            assert len(inner.child_tasks) == 1
            again.accept()


async def test_end_of_the_broker_ends_the_wait(virtual_time: None) -> None:
    waiting: list[BaseException] = []

    async def wait(broker: Broker) -> None:
        with pytest.raises(ActorStopped) as caught:
            await broker.wait_idle()
        waiting.append(caught.value)

    async with trio.open_nursery() as nursery, open_broker() as broker:
        queue = await broker.declare_queue("q")
        await broker.publish("", "q", b"")
        await queue.get()
        nursery.start_soon(wait, broker)
        await trio.testing.wait_all_tasks_blocked()
    assert len(waiting) == 1
    with pytest.raises(ActorStopped):
        await cast("Broker", broker).wait_idle()
