# ruff: noqa: PT012, SIM117 (what leaves a block, and where it ends, is the point)
"""Consumers: iterating, settling, ending from either side."""

import pytest
import trio

from triomq.clients import AMQPChannel, AMQPConnection, Deliveries
from triomq.clients.amqp import deliveries as module
from triomq.errors import AccessRefused, ConsumerCancelled, LimitExceeded, NotFound


async def fill(channel: AMQPChannel, queue: str, count: int) -> None:
    async with channel.open_pipeline() as pipeline:
        for number in range(count):
            await pipeline.publish("", queue, b"%d" % number)


async def ready(connection: AMQPConnection, queue: str) -> int:
    """Count what another channel finds in a queue."""
    async with connection.open_channel() as channel:
        return (await channel.declare_queue(queue, passive=True)).message_count


async def take(deliveries: Deliveries, count: int) -> list[bytes]:
    """Take and accept so many."""
    found = []
    async for delivery in deliveries:
        with delivery:
            found.append(delivery.body)
        if len(found) == count:
            return found
    raise AssertionError


@pytest.mark.parametrize("prefetch", [1, 7, 300, 0])
async def test_messages_come_in_order_and_are_settled(
    connection: AMQPConnection, channel: AMQPChannel, queue: str, prefetch: int
) -> None:
    await fill(channel, queue, 1000)
    async with channel.consume(queue, prefetch=prefetch) as deliveries:
        assert await take(deliveries, 1000) == [b"%d" % number for number in range(1000)]
    assert await ready(connection, queue) == 0


async def test_deliveries_that_are_not_settled_go_back_when_the_block_ends(
    connection: AMQPConnection, channel: AMQPChannel, queue: str
) -> None:
    await fill(channel, queue, 10)
    async with channel.consume(queue) as deliveries:
        first, second, third = [await anext(deliveries) for _ in range(3)]
        second.accept()
        third.reject()
    assert await ready(connection, queue) == 8
    first.accept()  # too late
    again = await channel.get(queue)
    assert again is not None
    assert (again.body, again.redelivered) == (b"0", True)


async def test_failing_block_puts_its_message_back(channel: AMQPChannel, queue: str) -> None:
    await fill(channel, queue, 1)
    async with channel.consume(queue) as deliveries:
        with pytest.raises(KeyError):
            with await anext(deliveries):
                raise KeyError
        again = await anext(deliveries)
        assert again.redelivered
        again.accept()


async def test_settling_in_any_order_settles_each_once(
    connection: AMQPConnection, channel: AMQPChannel, queue: str
) -> None:
    await fill(channel, queue, 100)
    async with channel.consume(queue, prefetch=100) as deliveries:
        taken = [await anext(deliveries) for _ in range(100)]
        for delivery in taken[::-2]:
            delivery.accept()
            delivery.accept()
            await trio.lowlevel.checkpoint()
        for delivery in taken[::2]:
            delivery.requeue()
            delivery.accept()
    assert await ready(connection, queue) == 50


async def test_accept_multiple_settles_all_that_came_before(
    connection: AMQPConnection, channel: AMQPChannel, queue: str
) -> None:
    await fill(channel, queue, 10)
    async with channel.consume(queue) as deliveries:
        taken = [await anext(deliveries) for _ in range(10)]
        taken[0].requeue()
        taken[2].accept(multiple=True)
        taken[1].requeue()  # settled already
        taken[5].reject(multiple=True)
        taken[8].requeue(multiple=True)
        taken[7].accept()
        taken[9].accept()
        assert channel.statistics().unsettled == 0
    assert await ready(connection, queue) == 4


async def test_two_consumers_of_a_channel_do_not_settle_each_other_s(
    connection: AMQPConnection, channel: AMQPChannel, queue: str
) -> None:
    other = await channel.declare_queue(exclusive=True)
    await fill(channel, queue, 20)
    await fill(channel, other.name, 20)
    async with channel.consume(queue) as one, channel.consume(other) as two:
        taken = [await anext(two) for _ in range(5)]
        assert len(await take(one, 20)) == 20
        assert await ready(connection, queue) == 0
        taken[0].accept()
    assert await ready(connection, queue) == 0
    assert await ready(connection, other.name) == 19


async def test_several_tasks_may_share_a_consumer(channel: AMQPChannel, queue: str) -> None:
    await fill(channel, queue, 200)
    found: list[bytes] = []
    async with channel.consume(queue, prefetch=10) as deliveries, trio.open_nursery() as nursery:

        async def work() -> None:
            async for delivery in deliveries:
                with delivery:
                    found.append(delivery.body)
                    await trio.lowlevel.checkpoint()
                if len(found) == 200:
                    nursery.cancel_scope.cancel()

        for _ in range(4):
            nursery.start_soon(work)
    assert sorted(map(int, found)) == list(range(200))


async def test_deleted_queue_ends_its_consumers(connection: AMQPConnection, channel: AMQPChannel, name: str) -> None:
    await channel.declare_queue(name)
    await fill(channel, name, 1)
    async with channel.consume(name, prefetch=1) as deliveries:
        with await anext(deliveries):
            pass
        async with connection.open_channel() as other:
            await other.delete_queue(name)
        with pytest.raises(ConsumerCancelled, match=f"consumer of '{name}'.*declare the queue again"):
            await anext(deliveries)
        with pytest.raises(ConsumerCancelled):
            await anext(deliveries)
    await channel.declare_queue(exclusive=True)


async def test_consumer_that_is_refused_says_why(connection: AMQPConnection, queue: str, name: str) -> None:
    async with connection.open_channel() as channel:
        with pytest.raises(NotFound, match=name):
            async with channel.consume(f"{name}.nowhere"):
                pass
    async with connection.open_channel() as one, one.consume(queue, exclusive=True):
        async with connection.open_channel() as other:
            with pytest.raises(AccessRefused):
                async with other.consume(queue):
                    pass


async def test_error_of_the_channel_ends_its_consumers(connection: AMQPConnection, queue: str) -> None:
    async with connection.open_channel() as channel, channel.consume(queue) as deliveries:
        with pytest.raises(NotFound):
            await channel.purge("nowhere")
        with pytest.raises(NotFound):
            await anext(deliveries)


async def test_iterating_ends_with_the_block(channel: AMQPChannel, queue: str) -> None:
    async with channel.consume(queue, consumer_tag="mine") as deliveries:
        assert deliveries.consumer_tag == "mine"
    assert [delivery async for delivery in deliveries] == []


async def test_task_that_waits_hears_that_the_block_has_ended(channel: AMQPChannel, queue: str) -> None:
    found: list[object] = []

    async def listen(deliveries: Deliveries) -> None:
        found.append([delivery async for delivery in deliveries])

    async with trio.open_nursery() as nursery:
        async with channel.consume(queue) as deliveries:
            nursery.start_soon(listen, deliveries)
            await trio.testing.wait_all_tasks_blocked()
    assert found == [[]]


async def test_without_acks_nothing_is_settled_and_all_comes(channel: AMQPChannel, queue: str) -> None:
    await fill(channel, queue, 500)
    async with channel.consume(queue, no_ack=True) as deliveries:
        assert len(await take(deliveries, 500)) == 500
        assert channel.statistics().unsettled == 0


async def test_reader_that_does_not_read_stops_the_broker(
    connection: AMQPConnection, channel: AMQPChannel, queue: str
) -> None:
    body = bytes(100_000)
    async with channel.open_pipeline() as pipeline:
        for _ in range(300):
            await pipeline.publish("", queue, body)
    async with connection.open_channel() as other, other.consume(queue, no_ack=True) as deliveries:
        await anext(deliveries)
        await trio.sleep(0.5)
        assert connection.statistics().buffered < 8 * 1024 * 1024
        # Requests are answered all the same, and the rest comes when it is read.
        await other.declare_queue(queue, passive=True)
        assert len(await take(deliveries, 299)) == 299
        assert connection.statistics().buffered == 0


async def test_consumer_that_falls_too_far_behind_is_ended(
    connection: AMQPConnection, channel: AMQPChannel, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEHIND_MOST", 1_000_000)
    async with channel.open_pipeline() as pipeline:
        for _ in range(20):
            await pipeline.publish("", queue, bytes(100_000))
    async with connection.open_channel() as other, other.consume(queue, no_ack=True) as deliveries:
        with pytest.raises(LimitExceeded, match=r"1000000 bytes unread.*consume with a prefetch"):
            async for _ in deliveries:
                await trio.sleep(0.2)
    assert connection.statistics().buffered == 0


async def test_large_messages_arrive_whole(channel: AMQPChannel, queue: str) -> None:
    body = bytes(range(256)) * 4096
    async with channel.consume(queue, prefetch=2) as deliveries:
        for _ in range(3):
            await channel.publish("", queue, body)
            delivery = await anext(deliveries)
            with delivery:
                assert delivery.body == body
            assert repr(delivery) == f"<AMQPDelivery '' '{queue}' 1048576 bytes>"
