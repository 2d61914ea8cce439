# ruff: noqa: PT012 (what leaves a block, and where it ends, is the point)
"""Transactions: all of it, or nothing."""

from collections.abc import AsyncIterator

import pytest
import trio

from clients.amqp.proxy import Proxy
from triomq.clients import AMQPChannel, AMQPConnection, Reconnect, open_amqp
from triomq.errors import Disconnected, LocalProtocolError, NotFound


@pytest.fixture
async def channel(connection: AMQPConnection) -> AsyncIterator[AMQPChannel]:
    async with connection.open_channel(confirms=False) as channel:
        yield channel


async def count(channel: AMQPChannel, queue: str) -> int:
    return (await channel.declare_queue(queue, passive=True)).message_count


async def test_publishes_take_effect_with_the_commit(channel: AMQPChannel, queue: str) -> None:
    for _ in range(2):
        async with channel.transaction():
            await channel.publish("", queue, b"x")
            await channel.publish("", queue, b"x")
    assert await count(channel, queue) == 4


async def test_error_rolls_the_transaction_back(channel: AMQPChannel, queue: str) -> None:
    with pytest.raises(KeyError):
        async with channel.transaction():
            await channel.publish("", queue, b"x")
            raise KeyError
    assert await count(channel, queue) == 0
    async with channel.transaction():
        await channel.publish("", queue, b"x")
    assert await count(channel, queue) == 1


async def test_settling_is_part_of_it(connection: AMQPConnection, channel: AMQPChannel, queue: str) -> None:
    async with connection.open_channel() as other:
        for body in (b"a", b"b"):
            await other.publish("", queue, body)
    fetched = await channel.get(queue)
    assert fetched is not None
    with pytest.raises(KeyError):
        async with channel.transaction():
            fetched.accept()
            await trio.testing.wait_all_tasks_blocked()
            raise KeyError
    assert not fetched.settled
    assert channel.statistics().unsettled == 1
    async with channel.transaction():
        fetched.accept()
    async with connection.open_channel() as other:
        last = await other.get(queue)
        assert last is not None
        assert (last.body, last.remaining) == (b"b", 0)


async def test_publishing_outside_of_it_is_refused(channel: AMQPChannel, queue: str) -> None:
    async with channel.transaction():
        pass
    with pytest.raises(LocalProtocolError, match="publish inside"):
        await channel.publish("", queue, b"x")


async def test_channel_has_one_transaction_at_a_time(channel: AMQPChannel) -> None:
    async with channel.transaction():
        with pytest.raises(LocalProtocolError, match="already"):
            async with channel.transaction():
                pass


async def test_confirms_exclude_it(connection: AMQPConnection) -> None:
    async with connection.open_channel() as channel:
        with pytest.raises(LocalProtocolError, match="confirms=False"):
            async with channel.transaction():
                pass


async def test_refusal_comes_out_of_the_commit(connection: AMQPConnection) -> None:
    async with connection.open_channel(confirms=False) as channel:
        with pytest.raises(NotFound):
            async with channel.transaction():
                await channel.publish("nowhere", "", b"x")


async def test_lost_connection_rolls_the_transaction_back(proxy: Proxy, queue: str, name: str) -> None:
    shared = f"{name}.shared"
    async with (
        open_amqp(proxy.url, reconnect=Reconnect(delay=0.01)) as connection,
        connection.open_channel(confirms=False) as channel,
    ):
        await channel.declare_queue(shared)
        with pytest.raises(Disconnected, match="rolls it back"):
            async with channel.transaction():
                await channel.publish("", shared, b"x")
                proxy.cut()
                with trio.fail_after(60):
                    while not connection.statistics().reconnects:  # noqa: ASYNC110 (no event to wait for)
                        await trio.sleep(0.01)
                await channel.publish("", shared, b"y")
        assert await count(channel, shared) == 0
        async with channel.transaction():
            await channel.publish("", shared, b"z")
        assert await count(channel, shared) == 1
        await channel.delete_queue(shared)
