"""Consuming over direct connections, against a served broker."""

import pytest
import trio

from triomq.clients import (
    AMQPChannel,
    BasicProperties,
    DMPFeed,
    DMPMessage,
    open_amqp,
    open_dmp_feed,
    open_dmp_sink,
)
from triomq.errors import AccessRefused, ConsumerCancelled, Disconnected
from triomq.protocols.amqp import DirectLost, Received

from .conftest import PATIENCE


async def take(feed: DMPFeed, count: int) -> list[DMPMessage]:
    with trio.fail_after(PATIENCE):
        return [await anext(feed) for _ in range(count)]


async def test_messages_go_directly_from_end_to_end(channel: AMQPChannel, queue: str) -> None:
    properties = BasicProperties(content_type="text/plain", headers={"a": 1}, delivery_mode=1)
    async with open_dmp_feed(channel, queue) as feed, open_dmp_sink(channel, "") as sink:
        for number in range(5000):
            await sink.publish(queue, b"%d" % number, properties)
        found = await take(feed, 5000)
    assert [message.body for message in found] == [b"%d" % number for number in range(5000)]
    assert found[0].properties == properties
    assert (found[0].exchange, found[0].routing_key) == ("", queue)


async def test_the_backlog_comes_first(channel: AMQPChannel, queue: str) -> None:
    await channel.publish("", queue, b"1")
    async with open_dmp_feed(channel, queue) as feed:
        await channel.publish("", queue, b"2")
        assert [message.body for message in await take(feed, 2)] == [b"1", b"2"]


async def test_slow_feed_has_messages_wait_in_the_broker_and_misses_nothing(channel: AMQPChannel, queue: str) -> None:
    body = bytes(100_000)
    async with open_dmp_feed(channel, queue) as feed, open_dmp_sink(channel, "") as sink:
        for number in range(200):
            await sink.publish(queue, b"%03d" % number + body)
        found = await take(feed, 200)
    assert [message.body[:3] for message in found] == [b"%03d" % number for number in range(200)]


async def test_feed_can_be_opened_again(channel: AMQPChannel, queue: str) -> None:
    for number in range(3):
        async with open_dmp_feed(channel, queue) as feed:
            await channel.publish("", queue, b"%d" % number)
            (message,) = await take(feed, 1)
            assert message.body == b"%d" % number


async def test_no_local_leaves_out_what_this_connection_publishes(
    channel: AMQPChannel, queue: str, broker: str
) -> None:
    await channel.bind(queue, "amq.fanout", "")
    async with (
        open_amqp(broker) as other,
        other.open_channel() as others,
        open_dmp_feed(channel, queue, no_local=True) as feed,
    ):
        async with open_dmp_sink(channel, "amq.fanout") as sink:
            await sink.publish("", b"own")
        await others.publish("amq.fanout", "", b"foreign")
        (message,) = await take(feed, 1)
        assert message.body == b"foreign"


async def test_feed_whose_null_messages_stop_is_given_up_after_three_intervals(
    channel: AMQPChannel, queue: str
) -> None:
    # The broker sends one in five seconds; a tenth of a second is what this client waits for one, three times.
    async with open_dmp_feed(channel, queue, heartbeat=0.1) as feed:
        with trio.fail_after(PATIENCE), pytest.raises(Disconnected, match="has fallen silent"):
            await anext(feed)


async def test_queue_that_is_not_ones_own_is_refused(channel: AMQPChannel) -> None:
    shared = await channel.declare_queue("direct.shared", durable=False, auto_delete=True)
    with pytest.raises(AccessRefused, match="not exclusive to this connection"):
        async with open_dmp_feed(channel, shared):
            pass


async def test_queue_that_is_deleted_ends_its_feed(channel: AMQPChannel, queue: str) -> None:
    async with open_dmp_feed(channel, queue) as feed:
        await channel.delete_queue(queue)
        with trio.fail_after(PATIENCE), pytest.raises((ConsumerCancelled, Disconnected)):
            await anext(feed)


async def test_feed_goes_on_when_its_principal_connection_ends(broker: str) -> None:
    async with open_amqp(broker) as other, other.open_channel() as others:
        with trio.fail_after(PATIENCE):
            async with open_amqp(broker) as connection, connection.open_channel() as channel:
                await channel.declare_queue("direct.lasting", exclusive=True)
                async with open_dmp_feed(channel, "direct.lasting") as feed:
                    await connection.close()
                    await others.publish("", "direct.lasting", b"still")
                    assert (await anext(feed)).body == b"still"


async def test_error_in_the_block_leaves_it_bare(channel: AMQPChannel, queue: str) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_dmp_feed(channel, queue):
            1 / 0  # noqa: B018


async def test_the_iteration_ends_with_the_block(channel: AMQPChannel, queue: str) -> None:
    async with open_dmp_feed(channel, queue) as feed:
        pass
    assert [message async for message in feed] == []


async def test_feed_counts_what_the_broker_says_that_it_has_lost(channel: AMQPChannel, queue: str) -> None:
    async with open_dmp_feed(channel, queue) as feed:
        assert channel.line is not None
        for name, messages in ((queue, 3), (queue, 4), ("another", 5)):
            channel.line.handle(Received(channel.line.number, DirectLost(name, messages)))
        assert feed.lost == 7
