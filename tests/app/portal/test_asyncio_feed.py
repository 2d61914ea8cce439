"""``async for delivery in feed`` in asyncio."""

import asyncio

import pytest

from app.portal.conftest import PATIENCE, with_asyncio
from triomq.app.portal import AsyncioBroker, AsyncioQueue, open_asyncio_broker
from triomq.core import InExclusiveUse, NoSuchQueue
from triomq.errors import ActorStopped


async def fill(broker: AsyncioBroker, *bodies: bytes) -> AsyncioQueue:
    queue = await broker.declare_queue("q")
    for body in bodies:
        await broker.publish("", "q", body)
    return queue


async def bodies(queue: AsyncioQueue, count: int) -> list[tuple[bytes, bool]]:
    """Take so many messages, and tell which are marked as redelivered."""
    found = []
    async with queue.open_feed() as feed:
        for _ in range(count):
            with await anext(feed) as delivery:
                found.append((delivery.body, delivery.redelivered))
    return found


@with_asyncio
async def test_a_feed_gives_what_is_there_and_what_comes(broker: AsyncioBroker) -> None:
    queue = await fill(broker, b"1", b"2")
    found: list[bytes] = []
    async with queue.open_feed() as feed:
        async for delivery in feed:
            with delivery:
                found.append(delivery.body)
            if len(found) == 2:
                asyncio.get_running_loop().call_soon(asyncio.ensure_future, fill(broker, b"3"))
            if len(found) == 3:
                break
    assert found == [b"1", b"2", b"3"]
    statistics = await queue.statistics()
    assert (statistics.ready, statistics.unsettled, statistics.feeds) == (0, 0, 0)


@with_asyncio
async def test_a_long_backlog_goes_through_a_small_window_and_others_may_run(broker: AsyncioBroker) -> None:
    queue = await broker.declare_queue("q")
    await asyncio.gather(*[broker.publish("", "q", b"x") for _ in range(500)])
    others = 0

    async def count() -> None:
        nonlocal others
        while True:
            await asyncio.sleep(0)
            others += 1

    counting = asyncio.create_task(count())
    async with queue.open_feed(prefetch=0) as feed:
        await anext(feed)
        before = others
        for _ in range(499):
            (await anext(feed)).accept()
    counting.cancel()
    assert others - before >= 4


@with_asyncio
async def test_cancelling_the_consumer_puts_back_what_is_unsettled_and_marks_only_what_was_seen(
    broker: AsyncioBroker,
) -> None:
    queue = await fill(broker, b"1", b"2", b"3")
    seen = asyncio.Event()

    async def consume() -> None:
        async with queue.open_feed(prefetch=2) as feed:
            async for delivery in feed:
                with delivery:
                    seen.set()
                    await asyncio.Event().wait()

    task = asyncio.create_task(consume())
    await seen.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await bodies(queue, 3) == [(b"1", True), (b"2", False), (b"3", False)]


@with_asyncio
async def test_cancelling_the_wait_for_a_delivery_leaves_the_feed_as_it_was(broker: AsyncioBroker) -> None:
    queue = await fill(broker)
    async with queue.open_feed() as feed:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await anext(feed)
        await fill(broker, b"1")
        assert (await anext(feed)).body == b"1"
    assert await bodies(queue, 1) == [(b"1", True)]


@with_asyncio
async def test_cancelling_a_get_puts_back_what_it_got(broker: AsyncioBroker) -> None:
    queue = await fill(broker, b"1")
    for _ in range(20):
        task = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await bodies(queue, 1) == [(b"1", False)]


@with_asyncio
async def test_cancelling_the_opening_of_a_feed_opens_none(broker: AsyncioBroker) -> None:
    queue = await fill(broker, b"1")

    async def open_one() -> None:
        async with queue.open_feed():
            raise AssertionError

    task = asyncio.create_task(open_one())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await queue.statistics()).feeds == 0
    assert await bodies(queue, 1) == [(b"1", False)]


@with_asyncio
async def test_a_feed_ends_when_its_queue_is_deleted(broker: AsyncioBroker) -> None:
    queue = await fill(broker)
    async with queue.open_feed() as feed:
        await queue.delete()
        assert [delivery async for delivery in feed] == []


@with_asyncio
async def test_a_feed_that_was_closed_ends_the_iteration(broker: AsyncioBroker) -> None:
    queue = await fill(broker)
    async with queue.open_feed() as feed:
        pass
    assert [delivery async for delivery in feed] == []


@with_asyncio
async def test_a_feed_that_cannot_be_opened_says_why(broker: AsyncioBroker) -> None:
    queue = await fill(broker)
    async with queue.open_feed(exclusive=True):
        with pytest.raises(InExclusiveUse):
            async with queue.open_feed():
                raise AssertionError
    await queue.delete(if_unused=True, if_empty=True)
    with pytest.raises(NoSuchQueue):
        async with queue.open_feed():
            raise AssertionError


def test_who_waits_when_the_block_is_left_is_told() -> None:
    async def consume(queue: AsyncioQueue, waits: asyncio.Event) -> None:
        async with queue.open_feed() as feed:
            waits.set()
            await anext(feed)

    async def main() -> None:
        async with open_asyncio_broker() as broker:
            waits = asyncio.Event()
            task = asyncio.create_task(consume(await broker.declare_queue("q"), waits))
            await waits.wait()
        with pytest.raises(ActorStopped):
            await asyncio.wait_for(task, PATIENCE)

    asyncio.run(main())
