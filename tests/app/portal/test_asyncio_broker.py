"""What holds for asyncio alone: several loops, cancellation, fairness."""

import asyncio
import threading

import pytest

from app.portal.conftest import PATIENCE, fill, take, with_asyncio
from triomq.app.portal import AsyncioBroker, BlockingBroker, open_asyncio_broker, open_blocking_broker
from triomq.errors import ActorStopped


def test_block_that_is_cancelled_ends_the_broker_at_once() -> None:
    async def main() -> None:
        opened: asyncio.Queue[AsyncioBroker] = asyncio.Queue()

        async def use() -> None:
            async with open_asyncio_broker() as broker:
                opened.put_nowait(broker)
                await asyncio.Event().wait()

        using = asyncio.create_task(use())
        broker = await opened.get()
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using
        with pytest.raises(ActorStopped, match="was left"):
            await broker.declare_queue("q")

    asyncio.run(main())


def test_loops_in_several_threads_have_brokers_of_their_own() -> None:
    found: list[bytes] = []

    async def main() -> None:
        async with open_asyncio_broker() as broker:
            queue = await broker.declare_queue("q")
            for _ in range(50):
                await broker.publish("", "q", threading.current_thread().name.encode())
            async with queue.open_feed() as feed:
                for _ in range(50):
                    delivery = await anext(feed)
                    delivery.accept()
                    found.append(delivery.body)

    threads = [threading.Thread(target=lambda: asyncio.run(main()), name=name) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(found) == [b"a"] * 50 + [b"b"] * 50


def test_broker_is_reached_from_threads_and_from_several_loops() -> None:
    with open_blocking_broker() as broker:
        queue = broker.declare_queue("q")

        async def main() -> None:
            await AsyncioBroker(broker.portal).publish("", "q", b"from asyncio")

        asyncio.run(main())
        asyncio.run(main())
        assert queue.statistics().ready == 2

    async def other() -> None:
        async with open_asyncio_broker() as broker:
            blocking = BlockingBroker(broker.portal)
            await asyncio.to_thread(blocking.declare_queue, "q")
            assert (await broker.queue("q").statistics()).ready == 0

    asyncio.run(other())


def test_call_in_another_loop_is_refused() -> None:
    async def use(broker: AsyncioBroker) -> None:
        with pytest.raises(RuntimeError, match=r"AsyncioBroker\(broker\.portal\)"):
            await broker.declare_queue("q")

    async def main() -> None:
        async with open_asyncio_broker() as broker:
            await asyncio.to_thread(lambda: asyncio.run(use(broker)))

    asyncio.run(main())


def test_loop_that_is_dropped_does_not_disturb_the_broker() -> None:
    with open_blocking_broker() as broker:
        queue = broker.declare_queue("q")
        loop = asyncio.new_event_loop()

        async def make() -> AsyncioBroker:
            return AsyncioBroker(broker.portal)

        inner = loop.run_until_complete(make())
        loop.close()
        inner._caller.callbacks.call_soon(lambda: None)
        assert queue.get() is None


@with_asyncio
async def test_feed_with_a_long_backlog_lets_other_tasks_run(broker: AsyncioBroker) -> None:
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
async def test_consumer_that_is_cancelled_puts_back_what_is_unsettled_and_marks_what_was_seen(
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
    assert await take(queue, 3) == [(b"1", True), (b"2", False), (b"3", False)]


@with_asyncio
async def test_wait_for_a_delivery_that_is_cancelled_leaves_the_feed_as_it_was(broker: AsyncioBroker) -> None:
    queue = await fill(broker)
    async with queue.open_feed() as feed:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await anext(feed)
        await fill(broker, b"1")
        assert (await anext(feed)).body == b"1"
    assert await take(queue, 1) == [(b"1", True)]


@with_asyncio
async def test_get_that_is_cancelled_puts_back_its_message(broker: AsyncioBroker) -> None:
    queue = await fill(broker, b"1")
    for _ in range(20):
        task = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await take(queue, 1) == [(b"1", False)]


@with_asyncio
async def test_opening_of_a_feed_that_is_cancelled_opens_none(broker: AsyncioBroker) -> None:
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
    assert await take(queue, 1) == [(b"1", False)]
