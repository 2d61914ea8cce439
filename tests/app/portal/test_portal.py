"""The way into a Trio program that opened the broker itself, and the queue of callbacks that it is made of."""

import asyncio
import threading
from functools import partial

import pytest
import trio
import trio.testing

from app.portal.conftest import PATIENCE
from triomq.app import open_broker
from triomq.app.portal import AsyncioBroker, BlockingBroker, Portal, open_portal
from triomq.errors import ActorStopped
from triomq.portal import Callback, CallbackQueue


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


async def test_feed_that_waits_when_the_portal_is_left_raises_and_puts_back() -> None:
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


async def test_calls_and_settlings_after_the_portal_was_left_do_no_harm() -> None:
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


async def test_callback_that_fails_raises_out_of_the_block() -> None:
    def fail() -> None:
        raise ArithmeticError("a bug")

    async def use() -> None:
        async with open_broker() as broker, open_portal(broker) as portal:
            threading.Thread(target=portal.callbacks.call_soon, args=(fail,)).start()
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await use()
    assert caught.group_contains(ArithmeticError)


async def test_error_of_the_block_comes_out_bare() -> None:
    async with open_broker() as broker:
        with pytest.raises(KeyError):
            async with open_portal(broker):
                raise KeyError


def test_callbacks_run_in_order_after_one_wake_up() -> None:
    woken: list[Callback] = []
    done: list[int] = []
    callbacks = CallbackQueue(woken.append)
    for number in range(3):
        callbacks.call_soon(partial(done.append, number))
    assert len(woken) == 1
    assert done == []
    woken[0]()
    assert done == [0, 1, 2]


def test_callback_sent_by_a_callback_runs_after_the_next_wake_up() -> None:
    woken: list[Callback] = []
    done: list[str] = []
    callbacks = CallbackQueue(woken.append)
    callbacks.call_soon(lambda: callbacks.call_soon(lambda: done.append("second")))
    woken.pop()()
    assert done == []
    woken.pop()()
    assert done == ["second"]


def test_callbacks_of_many_threads_all_run() -> None:
    ready = threading.Semaphore(0)
    woken: list[Callback] = []
    done: list[tuple[int, int]] = []

    def wake(run_all: Callback) -> None:
        woken.append(run_all)
        ready.release()

    callbacks = CallbackQueue(wake)

    def send(thread: int) -> None:
        for number in range(500):
            callbacks.call_soon(lambda: done.append((thread, number)))  # noqa: B023
            threading.Event().wait(0) if number % 50 == 0 else None

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or woken:
        if ready.acquire(timeout=0.1):
            woken.pop()()
    for thread in threads:
        thread.join()
    assert len(done) == 2000
