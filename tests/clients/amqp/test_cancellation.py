"""Whatever is cancelled, wherever it waits, leaves the channel and the connection as usable as they were.

Each operation is cancelled at its first checkpoint, at its second and so on, until it gets through; after each of them
the channel is used, and everything must be in its place.
"""

from collections.abc import Awaitable, Callable

import pytest
import trio

from triomq.clients import AMQPChannel, AMQPConnection, open_amqp

Operation = Callable[[AMQPChannel, str], Awaitable[object]]


async def cancelled_at(checkpoint: int, operation: Callable[[], Awaitable[object]]) -> bool:
    """Run it in a scope that is cancelled when it has waited so many times; tell whether it got through."""
    waits = 0
    task: trio.lowlevel.Task | None = None
    scope = trio.CancelScope()

    class Counting(trio.abc.Instrument):
        def after_task_step(self, stepped: trio.lowlevel.Task) -> None:
            nonlocal waits
            if stepped is task:
                waits += 1
                if waits == checkpoint:
                    scope.cancel()

    counting = Counting()
    trio.lowlevel.add_instrument(counting)
    try:
        with scope:
            task = trio.lowlevel.current_task()
            await operation()
    finally:
        task = None
        trio.lowlevel.remove_instrument(counting)
    return not scope.cancelled_caught


async def consume(channel: AMQPChannel, queue: str) -> None:
    async with channel.consume(queue, prefetch=2) as deliveries:
        for _ in range(3):
            with await anext(deliveries):
                await trio.lowlevel.checkpoint()


async def consume_without_acks(channel: AMQPChannel, queue: str) -> None:
    other = await channel.declare_queue(exclusive=True)
    async with channel.consume(other, no_ack=True) as deliveries:
        await channel.publish("", other.name, b"x")
        await anext(deliveries)


async def pipeline(channel: AMQPChannel, queue: str) -> None:
    async with channel.open_pipeline(limit=3) as pipeline:
        for _ in range(10):
            await pipeline.publish("", "nowhere", b"x")


async def get(channel: AMQPChannel, queue: str) -> None:
    fetched = await channel.get(queue)
    assert fetched is not None
    with fetched:
        await trio.lowlevel.checkpoint()


async def declare(channel: AMQPChannel, queue: str) -> None:
    await channel.declare_exchange(f"{queue}.e", "fanout", auto_delete=True)
    await channel.bind(queue, f"{queue}.e")
    await channel.unbind(queue, f"{queue}.e")
    await channel.delete_exchange(f"{queue}.e")


async def publish(channel: AMQPChannel, queue: str) -> None:
    await channel.publish("", "nowhere", b"x")
    await channel.publish("", "nowhere", b"x")


async def recover(channel: AMQPChannel, queue: str) -> None:
    await channel.get(queue)
    await channel.recover()


OPERATIONS: list[Operation] = [
    consume,
    consume_without_acks,
    pipeline,
    get,
    declare,
    publish,
    recover,
    lambda channel, queue: channel.qos(0, shared=True),
]
NAMES = ["consume", "consume_without_acks", "pipeline", "get", "declare", "publish", "recover", "qos"]


@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
async def test_cancelled_operation_leaves_its_channel_in_order(
    channel: AMQPChannel, queue: str, operation: Operation
) -> None:
    for checkpoint in range(1, 60):
        await channel.purge(queue)
        for number in range(5):
            await channel.publish("", queue, b"%d" % number)
        done = await cancelled_at(checkpoint, lambda: operation(channel, queue))
        # What was not accepted is there again, and everything answers as it should.
        await channel.publish("", queue, b"last", mandatory=True)
        await channel.recover()
        found = []
        while (fetched := await channel.get(queue)) is not None:
            found.append(fetched.body)
            fetched.accept()
        assert found[-1] == b"last"
        assert found[:-1] == sorted(found[:-1])
        assert {b"3", b"4"} <= set(found)
        assert channel.statistics().unconfirmed == channel.statistics().unsettled == 0
        assert channel.statistics().consumers == 0
        if done:
            return
    raise AssertionError("it never got through")


async def test_cancelled_channel_leaves_its_connection_in_order(connection: AMQPConnection, queue: str) -> None:
    async def work() -> None:
        async with connection.open_channel() as channel, channel.consume(queue) as deliveries:
            await channel.publish("", queue, b"x")
            with await anext(deliveries):
                pass

    for checkpoint in range(1, 60):
        done = await cancelled_at(checkpoint, work)
        async with connection.open_channel() as channel:
            await channel.publish("", queue, b"y")
        assert connection.statistics().channels == 0
        if done:
            return
    raise AssertionError("it never got through")


async def test_cancelled_transaction_leaves_its_channel_in_order(connection: AMQPConnection, queue: str) -> None:
    async with connection.open_channel(confirms=False) as channel:

        async def transact() -> None:
            async with channel.transaction():
                await channel.publish("", queue, b"x")
                await trio.lowlevel.checkpoint()

        for checkpoint in range(1, 60):
            done = await cancelled_at(checkpoint, transact)
            async with channel.transaction():
                await channel.publish("", queue, b"y")
            assert await channel.purge(queue) >= 1
            if done:
                return
    raise AssertionError("it never got through")


async def test_cancelled_connection_is_gone(broker: str) -> None:
    async def work() -> None:
        async with open_amqp(broker) as connection, connection.open_channel() as channel:
            await channel.publish("", "nowhere", b"x")

    for checkpoint in range(1, 60):
        if await cancelled_at(checkpoint, work):
            return
    raise AssertionError("it never got through")


async def test_deadline_holds_while_a_broker_says_nothing(connection: AMQPConnection, queue: str) -> None:
    async with connection.open_channel() as channel, channel.consume(queue) as deliveries:
        with trio.move_on_after(0.05) as scope:
            await anext(deliveries)
        assert scope.cancelled_caught
        await channel.publish("", queue, b"x")
        with await anext(deliveries) as delivery:
            assert delivery.body == b"x"
