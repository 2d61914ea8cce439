"""Consuming in the same process: ``async for delivery in feed``."""

import pytest
import trio
import trio.testing

from app.conftest import bodies, crash, fill, knock_out, queue_ref
from triomq.app import Broker, QueueHandle
from triomq.core import NoSuchQueue, QueueStopped


async def test_feed_yields_messages_that_are_there_and_that_come(
    broker: Broker, queue: QueueHandle, nursery: trio.Nursery
) -> None:
    await fill(broker, b"1", b"2")
    found: list[bytes] = []
    async with queue.open_feed() as feed:
        async for delivery in feed:
            with delivery:
                found.append(delivery.body)
            if len(found) == 2:
                nursery.start_soon(fill, broker, b"3")
            if len(found) == 3:
                break
    assert found == [b"1", b"2", b"3"]
    statistics = await queue.statistics()
    assert (statistics.ready, statistics.unsettled, statistics.feeds) == (0, 0, 0)


async def test_window_limits_unsettled_deliveries(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, *[b"x"] * 5)
    async with queue.open_feed(prefetch=2) as feed:
        first = await anext(feed)
        second = await anext(feed)
        assert (await queue.statistics()).ready == 3
        with trio.move_on_after(1) as late:
            await anext(feed)
        assert late.cancelled_caught
        second.accept()
        third = await anext(feed)
        first.accept()
        third.accept()
        await anext(feed)
        await anext(feed)


async def test_feed_without_a_window_gets_everything_at_once(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, *[b"x"] * 1000)
    async with queue.open_feed(prefetch=0) as feed:
        deliveries = [await anext(feed) for _ in range(1000)]
        for delivery in reversed(deliveries):
            delivery.accept()
    assert (await queue.statistics()).ready == 0


async def test_feed_that_is_left_requeues_unsettled_messages_and_marks_those_that_were_seen(
    broker: Broker, queue: QueueHandle
) -> None:
    await fill(broker, b"1", b"2", b"3", b"4")
    async with queue.open_feed() as feed:
        await anext(feed)
        (await anext(feed)).accept()
        await anext(feed)
    assert await bodies(queue, 3) == [(b"1", True), (b"3", True), (b"4", False)]


async def test_batches_that_were_never_looked_at_come_back_unmarked(broker: Broker, queue: QueueHandle) -> None:
    async with queue.open_feed():
        for body in (b"1", b"2", b"3"):
            await fill(broker, body)  # each in a turn of its own, so in a batch of its own
        assert (await queue.statistics()).unsettled == 3
    assert await bodies(queue, 3) == [(b"1", False), (b"2", False), (b"3", False)]


async def test_error_in_the_block_comes_out_bare(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"x")
    with pytest.raises(KeyError):  # noqa: PT012  no group around it
        async with queue.open_feed() as feed:
            async for _ in feed:
                raise KeyError
    assert await bodies(queue, 1) == [(b"x", True)]


async def test_feed_of_no_queue_is_refused(queue: QueueHandle) -> None:
    await queue.delete()
    with pytest.raises(NoSuchQueue):
        async with queue.open_feed():
            raise AssertionError


async def test_iteration_ends_when_the_queue_is_deleted(
    broker: Broker, queue: QueueHandle, nursery: trio.Nursery
) -> None:
    await fill(broker, b"1")
    async with queue.open_feed() as feed:
        async for delivery in feed:
            delivery.accept()
            nursery.start_soon(queue.delete)
    assert "q" not in broker.directory.queues


async def test_feed_goes_on_when_its_queue_crashes(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"1", b"2")
    async with queue.open_feed() as feed:
        first = await anext(feed)
        crash(broker, "q")
        await fill(broker, b"3")
        first.accept()  # of the crashed incarnation: it comes again
        again = [await anext(feed) for _ in range(3)]
        assert [(one.body, one.redelivered) for one in again] == [(b"1", True), (b"2", True), (b"3", False)]
        for delivery in again:
            delivery.accept()
    assert (await queue.statistics()).ready == 0


async def test_feed_waits_for_a_queue_that_is_being_restarted(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"1")
    await knock_out(broker, "q")
    before = trio.current_time()
    async with queue.open_feed() as feed:
        assert (await anext(feed)).body == b"1"
    assert trio.current_time() - before >= 0.08


async def test_queue_may_crash_at_the_moment_at_which_a_feed_is_opened(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"1")
    await knock_out(broker, "q")
    crash(broker, "q")  # the next incarnation answers a request, and crashes in the same turn
    with trio.fail_after(60):
        async with queue.open_feed() as feed:
            assert (await anext(feed)).body == b"1"


async def test_queue_may_crash_at_the_moment_at_which_its_feed_goes_on(broker: Broker, queue: QueueHandle) -> None:
    async with queue.open_feed() as feed:
        await knock_out(broker, "q")
        crash(broker, "q")
        await trio.testing.wait_all_tasks_blocked()
        await fill(broker, b"1")
        with trio.fail_after(60):
            assert (await anext(feed)).body == b"1"


async def test_iteration_cancelled_during_a_restart_may_go_on(broker: Broker, queue: QueueHandle) -> None:
    async with queue.open_feed() as feed:
        await knock_out(broker, "q")
        with trio.move_on_after(0.01) as early:
            await anext(feed)
        assert early.cancelled_caught
        await fill(broker, b"1")
        with trio.fail_after(60):
            assert (await anext(feed)).body == b"1"


async def test_queue_that_is_given_up_ends_its_feed_with_its_name(broker: Broker, queue: QueueHandle) -> None:
    async with queue.open_feed() as feed:
        for _ in range(4):
            await queue_ref(broker, "q").wait_running()
            crash(broker, "q")
        with pytest.raises(QueueStopped, match="'q'"):
            await anext(feed)
    with pytest.raises(QueueStopped):
        async with queue.open_feed():
            raise AssertionError


async def test_queue_that_is_given_up_while_one_waits_for_it_is_refused_by_name(
    broker: Broker, queue: QueueHandle, nursery: trio.Nursery
) -> None:
    await knock_out(broker, "q")

    async def go_on_crashing() -> None:
        for _ in range(2):
            crash(broker, "q")
            await trio.sleep(0.15)

    nursery.start_soon(go_on_crashing)
    with pytest.raises(QueueStopped):
        async with queue.open_feed() as feed:
            await anext(feed)


async def test_feed_of_a_domain_that_crashed_says_so(broker: Broker, queue: QueueHandle) -> None:
    async with queue.open_feed() as feed:
        await fill(broker, b"1")
        broker.domain_ref.crash(None, ValueError("the whole domain"))
        with pytest.raises(trio.BrokenResourceError, match="open the feed again"), trio.fail_after(60):
            async for _ in feed:
                pass
    assert await bodies(queue, 1) == [(b"1", True)]
