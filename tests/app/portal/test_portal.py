"""The way into a Trio program that opened the broker itself."""

import asyncio
import threading

import pytest
import trio
import trio.testing

from app.portal.conftest import PATIENCE
from triomq.app import open_broker
from triomq.app.portal import AsyncioBroker, BlockingBroker, Portal, open_portal
from triomq.errors import ActorStopped


async def test_threads_and_asyncio_reach_the_broker_of_a_trio_program() -> None:
    async def publish(portal: Portal) -> None:
        await AsyncioBroker(portal).publish("", "q", b"from asyncio")

    with trio.fail_after(PATIENCE):
        async with open_broker() as broker, open_portal(broker) as portal:
            queue = await broker.declare_queue("q")
            blocking = BlockingBroker(portal)
            await trio.to_thread.run_sync(blocking.publish, "", "q", b"from a thread")
            await trio.to_thread.run_sync(lambda: asyncio.run(publish(portal)))
            async with queue.open_feed() as feed:
                assert [(await anext(feed)).body for _ in range(2)] == [b"from a thread", b"from asyncio"]


async def test_who_waits_when_its_block_is_left_is_told_and_puts_back() -> None:
    def consume(portal: Portal) -> None:
        with BlockingBroker(portal).queue("q").open_feed() as feed:
            feed.take()
            trio.from_thread.run_sync(taken.set)
            feed.take()

    with trio.fail_after(PATIENCE):
        async with open_broker() as broker:
            queue = await broker.declare_queue("q")
            await broker.publish("", "q", b"1")
            taken = trio.Event()
            async with trio.open_nursery() as nursery, open_portal(broker) as portal:

                async def run() -> None:
                    with pytest.raises(ActorStopped, match="open_portal was left"):
                        await trio.to_thread.run_sync(consume, portal)

                nursery.start_soon(run)
                await taken.wait()
            again = await queue.get()
            assert again is not None
            assert (again.body, again.redelivered) == (b"1", True)


async def test_after_its_block_calls_and_settlings_do_no_harm() -> None:
    async with open_broker() as broker:
        queue = await broker.declare_queue("q")
        await broker.publish("", "q", b"1")
        async with open_portal(broker) as portal:
            delivery = await trio.to_thread.run_sync(BlockingBroker(portal).queue("q").get)
        assert delivery is not None
        delivery.accept()
        await trio.testing.wait_all_tasks_blocked()
        assert (await queue.statistics()).unsettled == 0
        with pytest.raises(ActorStopped):
            BlockingBroker(portal).queue("q")


async def test_an_errand_that_fails_comes_out_of_the_block() -> None:
    def fail() -> None:
        raise ArithmeticError("a bug")

    async def use() -> None:
        async with open_broker() as broker, open_portal(broker) as portal:
            threading.Thread(target=portal.lane.send, args=(fail,)).start()
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await use()
    assert caught.group_contains(ArithmeticError)


async def test_an_error_in_its_block_comes_out_bare() -> None:
    async with open_broker() as broker:
        with pytest.raises(KeyError):
            async with open_portal(broker):
                raise KeyError
