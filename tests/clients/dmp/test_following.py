"""Direct connections where the broker asks for them and AMQP promises no more: nothing else may differ."""

from collections.abc import AsyncIterator

import pytest
import trio
import trio.lowlevel

from clients.amqp.proxy import Proxy
from triomq.app import Broker, Permission, User, UserLimits, open_broker
from triomq.clients import (
    AMQPChannel,
    AMQPConnection,
    BasicProperties,
    Deliveries,
    Reconnect,
    open_amqp,
    open_dmp_feed,
    parse_amqp_url,
)
from triomq.clients.transport_link import BUFFERED_MOST
from triomq.endpoints import AMQP
from triomq.errors import Disconnected, NotFound, TriomqError

from .conftest import PATIENCE


@pytest.fixture
async def asking() -> AsyncIterator[Broker]:
    """A broker that asks for direct connections."""
    async with open_broker(AMQP(port=0, direct=1)) as broker:
        yield broker


@pytest.fixture
async def connection(asking: Broker) -> AsyncIterator[AMQPConnection]:
    async with open_amqp(url_of(asking)) as connection:
        yield connection


@pytest.fixture
async def channel(connection: AMQPConnection) -> AsyncIterator[AMQPChannel]:
    async with connection.open_channel(confirms=False) as channel:
        yield channel


def url_of(broker: Broker) -> str:
    (ref,) = broker.endpoints.children.values()
    host, port = ref.actor.addresses[0]  # type: ignore[union-attr, attr-defined]
    return f"amqp://guest:guest@{host if ':' not in host else '[' + host + ']'}:{port}"


def directs(broker: Broker) -> int:
    """How many direct connections there are."""
    (ref,) = broker.endpoints.children.values()
    return sum(name.startswith("direct") for name in ref.children)


async def take(deliveries: Deliveries, count: int) -> list[bytes]:
    with trio.fail_after(PATIENCE):
        return [(await anext(deliveries)).body for _ in range(count)]


async def test_messages_without_acknowledgements_go_directly_both_ways(asking: Broker, channel: AMQPChannel) -> None:
    queue = await channel.declare_queue("mine", exclusive=True)
    properties = BasicProperties(headers={"a": 1}, delivery_mode=1)
    async with channel.consume(queue, no_ack=True) as deliveries:
        assert directs(asking) == 1
        for number in range(2000):
            await channel.publish("", "mine", b"%d" % number, properties)
        assert directs(asking) == 2
        first = await anext(deliveries)
        assert (first.properties, first.routing_key, first.settled) == (properties, "mine", True)
        assert await take(deliveries, 1999) == [b"%d" % number for number in range(1, 2000)]


async def test_shared_queues_and_acknowledgements_and_confirms_stay_with_amqp(
    asking: Broker, connection: AMQPConnection
) -> None:
    async with connection.open_channel() as channel:
        await channel.declare_queue("mine", exclusive=True)
        await channel.declare_queue("shared")
        await channel.publish("", "mine", b"1")
        await channel.publish("", "shared", b"2")
        async with channel.consume("mine") as mine, channel.consume("shared", no_ack=True) as shared:
            assert (await take(mine, 1), await take(shared, 1)) == ([b"1"], [b"2"])
            assert directs(asking) == 0


async def test_second_consumer_of_a_queue_shares_what_comes(asking: Broker, channel: AMQPChannel) -> None:
    await channel.declare_queue("mine", exclusive=True)
    async with channel.consume("mine", no_ack=True) as first:
        async with channel.consume("mine", no_ack=True):
            assert directs(asking) == 1
        await channel.publish("", "mine", b"x")
        assert await take(first, 1) == [b"x"]


async def test_feed_opened_by_hand_gets_no_second_direct_connection(asking: Broker, channel: AMQPChannel) -> None:
    await channel.declare_queue("mine", exclusive=True)
    async with open_dmp_feed(channel, "mine") as feed:
        assert directs(asking) == 1
        await channel.publish("", "mine", b"x")
        with trio.fail_after(PATIENCE):
            assert (await anext(feed)).body == b"x"


async def test_publishing_goes_on_after_a_direct_connection_was_lost(asking: Broker, channel: AMQPChannel) -> None:
    await channel.declare_queue("mine", exclusive=True)
    await channel.publish("", "mine", b"1")
    assert channel._sinks is not None
    (link,) = channel._sinks._links.values()
    link.end(Disconnected("lost"))
    with pytest.raises(Disconnected, match="lost"):
        await channel.publish("", "mine", b"2")
    await channel.publish("", "mine", b"3")
    async with channel.consume("mine", no_ack=True) as deliveries:
        assert await take(deliveries, 2) == [b"1", b"3"]


async def test_large_messages_keep_their_place(channel: AMQPChannel) -> None:
    await channel.declare_queue("mine", exclusive=True)
    sizes = [10, 5_000_000, 20, 300_000, 30, 40]
    for size in sizes:
        await channel.publish("", "mine", bytes(size))
    async with channel.consume("mine", no_ack=True) as deliveries:
        assert [len(body) for body in await take(deliveries, len(sizes))] == sizes


async def test_leaving_the_channel_waits_until_everything_was_read(asking: Broker, connection: AMQPConnection) -> None:
    queue = await asking.declare_queue("q")
    async with connection.open_channel(confirms=False) as channel:
        for _ in range(3000):
            await channel.publish("", "q", bytes(1000))
    assert (await queue.statistics()).ready == 3000


async def test_transactions_begin_when_what_was_published_before_is_read(
    asking: Broker, connection: AMQPConnection
) -> None:
    queue = await asking.declare_queue("q")
    async with connection.open_channel(confirms=False) as channel:
        await channel.publish("", "q", b"before")
        async with channel.transaction():
            await channel.publish("", "q", b"inside")
            assert (await queue.statistics()).ready == 1
        assert (await queue.statistics()).ready == 2


async def test_missing_exchange_raises_at_once(connection: AMQPConnection) -> None:
    async with connection.open_channel(confirms=False) as channel:
        with pytest.raises(NotFound, match="no exchange 'missing'"):
            await channel.publish("missing", "", b"x")


async def test_refusal_is_raised_when_the_channel_is_left(connection: AMQPConnection) -> None:
    with pytest.raises(TriomqError, match="user_id property set to 'root'"):
        async with connection.open_channel(confirms=False) as channel:
            await channel.publish("", "q", b"x", BasicProperties(user_id="root"))


async def test_mandatory_message_comes_back(channel: AMQPChannel) -> None:
    await channel.publish("", "missing", b"back", mandatory=True)
    with trio.fail_after(PATIENCE):
        assert (await channel.returns.receive()).body == b"back"


async def test_slow_consumer_misses_nothing(channel: AMQPChannel) -> None:
    await channel.declare_queue("mine", exclusive=True)
    async with channel.consume("mine", no_ack=True) as deliveries:
        for number in range(200):
            await channel.publish("", "mine", b"%03d" % number + bytes(100_000))
        assert [body[:3] for body in await take(deliveries, 200)] == [b"%03d" % number for number in range(200)]


async def test_after_a_reconnect_everything_goes_on_and_what_was_ones_own_is_so_again(
    asking: Broker, nursery: trio.Nursery
) -> None:
    url = parse_amqp_url(url_of(asking))
    proxy = Proxy(url.host, url.port, nursery)
    await proxy.listen()
    with trio.fail_after(PATIENCE):
        async with (
            open_amqp(proxy.url, reconnect=Reconnect(delay=0.01)) as connection,
            connection.open_channel(confirms=False) as channel,
        ):
            queue = await channel.declare_queue("mine", exclusive=True)
            async with channel.consume(queue, no_ack=True) as deliveries:
                await channel.publish("", "mine", b"1")
                assert await take(deliveries, 1) == [b"1"]
                proxy.cut()
                await connection.wait_disconnected()
                await connection.wait_connected()
                await channel.publish("", "mine", b"2")
                assert await take(deliveries, 1) == [b"2"]
    nursery.cancel_scope.cancel()


async def test_slow_direct_consumer_holds_up_no_consumer_over_amqp(asking: Broker, connection: AMQPConnection) -> None:
    async with (
        connection.open_channel(confirms=False) as channel,
        open_amqp(url_of(asking)) as foreign,
        foreign.open_channel() as publisher,
    ):
        await channel.declare_queue("mine", exclusive=True)
        await channel.declare_queue("shared")
        async with channel.consume("mine", no_ack=True) as slow, channel.consume("shared") as fast:
            for _ in range(100):
                await channel.publish("", "mine", bytes(100_000))
            with trio.fail_after(PATIENCE):
                while slow.buffered <= BUFFERED_MOST:
                    await trio.lowlevel.checkpoint()
            for _ in range(3):
                await publisher.publish("", "shared", b"x")
                assert await take(fast, 1) == [b"x"]


async def test_user_without_a_second_connection_goes_on_over_amqp() -> None:
    everything = {"default": Permission(".*", ".*", ".*")}
    users = {"one": User(password="one", permissions=everything, limits=UserLimits(connections=1))}
    async with open_broker(AMQP(port=0, direct=1), users=users) as broker:
        url = url_of(broker).replace("guest:guest", "one:one")
        async with open_amqp(url) as connection, connection.open_channel(confirms=False) as channel:
            await channel.declare_queue("mine", exclusive=True)
            async with channel.consume("mine", no_ack=True) as deliveries:
                for number in range(3):
                    await channel.publish("", "mine", b"%d" % number)
                assert await take(deliveries, 3) == [b"0", b"1", b"2"]
                assert directs(broker) == 0
