"""aio-pika against a served broker; each test runs an asyncio loop of its own."""

import asyncio
from collections.abc import Awaitable, Callable

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aio_pika.exceptions import ChannelPreconditionFailed, DeliveryError, PublishError

DEADLINE = 100.0
Scenario = Callable[[AbstractChannel], Awaitable[None]]


def run(url: str, scenario: Scenario, **channel_options: object) -> None:
    """Open a connection and a channel, and run a scenario on it under a deadline."""

    async def main() -> None:
        async with asyncio.timeout(DEADLINE), await aio_pika.connect(url) as connection:
            await scenario(await connection.channel(**channel_options))

    asyncio.run(main())


def message(body: bytes, **properties: object) -> aio_pika.Message:
    return aio_pika.Message(body, **properties)


def test_message_is_published_and_iterated(broker_url: str) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        queue = await channel.declare_queue(exclusive=True)
        for number in range(20):
            await channel.default_exchange.publish(message(str(number).encode()), queue.name)
        bodies = []
        async with queue.iterator() as messages:
            async for received in messages:
                async with received.process():
                    bodies.append(received.body)
                if len(bodies) == 20:
                    break
        assert bodies == [str(number).encode() for number in range(20)]

    run(broker_url, scenario)


def test_hundred_publishes_are_confirmed_at_once(broker_url: str) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        queue = await channel.declare_queue(exclusive=True)
        publishes = [channel.default_exchange.publish(message(b"x"), queue.name) for _ in range(100)]
        await asyncio.gather(*publishes)
        declared = await channel.declare_queue(queue.name, passive=True, exclusive=True)
        assert declared.declaration_result.message_count == 100

    run(broker_url, scenario)


def test_unroutable_publish_is_returned(broker_url: str) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        with pytest.raises(PublishError):
            await channel.default_exchange.publish(message(b"lost"), "no queue")
        await channel.default_exchange.publish(message(b"lost"), "no queue", mandatory=False)

    run(broker_url, scenario, on_return_raises=True)


def test_full_queue_that_rejects_raises_at_the_publisher(broker_url: str) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
        queue = await channel.declare_queue(exclusive=True, arguments=arguments)
        await channel.default_exchange.publish(message(b"1"), queue.name)
        with pytest.raises(DeliveryError):
            await channel.default_exchange.publish(message(b"2"), queue.name)

    run(broker_url, scenario)


def test_message_that_is_requeued_comes_again(broker_url: str) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(message(b"1"), queue.name)
        first = await queue.get()
        await first.reject(requeue=True)
        second = await queue.get()
        await second.ack()
        assert (first.redelivered, second.redelivered) == (False, True)
        assert await queue.get(fail=False) is None

    run(broker_url, scenario)


def test_block_that_fails_requeues_its_message(broker_url: str) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(message(b"1"), queue.name)
        received = await queue.get()
        with pytest.raises(RuntimeError, match="failed on purpose"):
            async with received.process(requeue=True):
                raise RuntimeError("failed on purpose")
        assert (await queue.get(no_ack=True)).redelivered

    run(broker_url, scenario)


def test_prefetch_limit_of_one_delivers_one_by_one(broker_url: str) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        await channel.set_qos(prefetch_count=1)
        queue = await channel.declare_queue(exclusive=True)
        finished, unsettled, most = asyncio.Event(), 0, 0
        bodies: list[bytes] = []

        async def take(received: AbstractIncomingMessage) -> None:
            nonlocal unsettled, most
            unsettled += 1
            most = max(most, unsettled)
            bodies.append(received.body)
            await asyncio.sleep(0)  # another delivery would run here
            unsettled -= 1
            await received.ack()
            if len(bodies) == 50:
                finished.set()

        await queue.consume(take)
        for number in range(50):
            await channel.default_exchange.publish(message(str(number).encode()), queue.name)
        await finished.wait()
        assert most == 1
        assert bodies == [str(number).encode() for number in range(50)]

    run(broker_url, scenario)


def test_exchanges_are_declared_bound_and_deleted(broker_url: str, name: str) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        outer = await channel.declare_exchange(f"{name}.outer", aio_pika.ExchangeType.TOPIC, auto_delete=True)
        inner = await channel.declare_exchange(f"{name}.inner", aio_pika.ExchangeType.FANOUT, auto_delete=True)
        queue = await channel.declare_queue(exclusive=True)
        await inner.bind(outer, "a.#")
        await queue.bind(inner)
        await outer.publish(message(b"x", headers={"a": [1, {"b": None}]}), "a.b.c")
        received = await queue.get(no_ack=True)
        assert (received.body, received.headers) == (b"x", {"a": [1, {"b": None}]})
        await queue.unbind(inner)
        await outer.delete()

    run(broker_url, scenario)


def test_failed_channel_leaves_the_connection_in_use(broker_url: str, name: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(DEADLINE), await aio_pika.connect(broker_url) as connection:
            failing, other = await connection.channel(), await connection.channel()
            queue = await other.declare_queue(name, exclusive=True)
            with pytest.raises(ChannelPreconditionFailed):
                await failing.declare_queue(name, exclusive=True, arguments={"x-max-length": 1})
            await other.default_exchange.publish(message(b"on"), queue.name)
            assert (await queue.get(no_ack=True)).body == b"on"

    asyncio.run(main())


def test_robust_connection_consumes_over_several_channels(broker_url: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(DEADLINE), await aio_pika.connect_robust(broker_url) as connection:
            consuming, publishing = await connection.channel(), await connection.channel()
            queue = await consuming.declare_queue(exclusive=True)
            await asyncio.gather(*(publishing.default_exchange.publish(message(b"x"), queue.name) for _ in range(200)))
            received = 0
            async with queue.iterator(no_ack=True) as messages:
                async for _ in messages:
                    received += 1
                    if received == 200:
                        break

    asyncio.run(main())


def test_transaction_is_committed_or_rolled_back(broker_url: str) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        queue = await channel.declare_queue(exclusive=True)
        transaction = channel.transaction()
        await transaction.select()
        await channel.default_exchange.publish(message(b"1"), queue.name)
        await transaction.rollback()
        await channel.default_exchange.publish(message(b"2"), queue.name)
        await transaction.commit()
        received = await queue.get()
        assert received.body == b"2"
        await received.ack()
        await transaction.rollback()
        await received.channel.basic_nack(received.delivery_tag)
        await transaction.commit()
        again = await queue.get()
        assert (again.body, again.redelivered) == (b"2", True)

    run(broker_url, scenario, publisher_confirms=False)


def test_message_that_is_not_wanted_becomes_a_dead_letter(broker_url: str) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        dead = await channel.declare_queue(exclusive=True)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name}
        queue = await channel.declare_queue(exclusive=True, arguments=arguments)
        await channel.default_exchange.publish(message(b"x", headers={"mine": 1}), queue.name)
        await (await queue.get()).reject(requeue=False)
        async with dead.iterator(no_ack=True) as letters:
            letter = await anext(letters)
        assert (letter.body, letter.headers["mine"]) == (b"x", 1)
        assert letter.headers["x-death"][0]["reason"] == "rejected"

    run(broker_url, scenario)


def test_message_of_higher_priority_goes_first(broker_url: str) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        queue = await channel.declare_queue(exclusive=True, arguments={"x-max-priority": 9})
        for priority in (1, 9, 5):
            await channel.default_exchange.publish(message(b"x", priority=priority), queue.name)
        assert [(await queue.get(no_ack=True)).priority for _ in range(3)] == [9, 5, 1]

    run(broker_url, scenario)
