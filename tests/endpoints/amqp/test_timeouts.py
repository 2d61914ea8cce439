"""Deliveries that a client leaves unsettled for too long."""

import pytest
import trio

from endpoints.client import Client
from endpoints.conftest import endpoint_of, open_client
from triomq.app import Broker, open_broker
from triomq.endpoints import AMQP
from triomq.protocols import Table
from triomq.protocols.amqp import (
    BasicAck,
    BasicConsume,
    ChannelClosed,
    TxRollback,
    TxSelect,
)

HALF_AN_HOUR = 1800


def text(channel: int, seconds: float) -> str:
    return (
        f"PRECONDITION_FAILED - delivery acknowledgement on channel {channel} timed out. Timeout value used: "
        f"{round(seconds * 1000)} ms. This timeout value can be configured, see consumers doc guide to learn more"
    )


async def late(client: Client, channel: int, after: float, *, limit: float, grain: float = 121.0) -> None:
    """See that a channel is closed so many seconds from now, since something was unsettled for its limit."""
    began = trio.current_time()
    with trio.fail_after(after + grain):
        event = await next_event(client)
    assert isinstance(event, ChannelClosed), event
    assert (event.channel, event.code, event.text) == (channel, 406, text(channel, limit))
    assert after - 1 <= trio.current_time() - began


async def hold(client: Client, arguments: Table | None = None, *, no_ack: bool = False) -> None:
    """Let a client consume from a queue, and have one message of it."""
    await client.declare("q", arguments=arguments or {})
    await client.call(1, BasicConsume("q", no_ack=no_ack))
    await client.send(1, "", "q", b"1")
    await client.deliveries(1)


async def next_event(client: Client) -> object:
    """Wait for an event for as long as it takes."""
    while not client.events:
        client.engine.receive_data(bytes(await client.stream.receive_some(1 << 16)))
        client.events.extend(client.engine.events())
    return client.events.popleft()


async def test_client_that_settles_nothing_for_half_an_hour_loses_its_channel(client: Client) -> None:
    await client.declare("q")
    await client.open_channel(2)
    await client.call(2, BasicConsume("q"))
    await client.send(1, "", "q", b"1", b"2")
    await client.deliveries(2)
    await late(client, 2, HALF_AN_HOUR, limit=HALF_AN_HOUR)
    assert (await client.declare("q")).message_count == 2  # the other channel goes on, and what was out is back
    assert (await client.get("q", no_ack=True)).redelivered


async def test_get_has_its_time_too(client: Client) -> None:
    await client.declare("q")
    client.publish(1, "", "q", b"1")
    await client.get("q")
    await late(client, 1, HALF_AN_HOUR, limit=HALF_AN_HOUR)


async def test_client_that_settles_in_time_goes_on(client: Client) -> None:
    await client.declare("q")
    await client.call(1, BasicConsume("q"))
    previous = 0
    for number in range(10):
        await client.send(1, "", "q", b"%d" % number)
        (one,) = await client.deliveries(1)
        await trio.sleep(HALF_AN_HOUR / 2)
        if previous:
            await client.say(1, BasicAck(previous))
        previous = one.tag
    await client.declare("q")


async def test_without_acknowledgements_there_is_no_limit(client: Client) -> None:
    await hold(client, no_ack=True)
    await trio.sleep(3 * HALF_AN_HOUR)
    await client.declare("q")


async def test_time_counts_from_the_delivery_and_not_from_the_consume(client: Client) -> None:
    await client.declare("q")
    await client.call(1, BasicConsume("q"))
    await trio.sleep(5 * HALF_AN_HOUR)
    await client.send(1, "", "q", b"1")
    await client.deliveries(1)
    await late(client, 1, HALF_AN_HOUR, limit=HALF_AN_HOUR)


async def test_the_oldest_delivery_counts_whatever_is_settled_after_it(client: Client) -> None:
    await hold(client)
    for _ in range(10):
        await trio.sleep(HALF_AN_HOUR / 11)
        await client.send(1, "", "q", b"x")
        (one,) = await client.deliveries(1)
        await client.say(1, BasicAck(one.tag))
    await late(client, 1, HALF_AN_HOUR / 11, limit=HALF_AN_HOUR)


async def test_delivery_whose_ack_is_rolled_back_is_as_old_as_it_is(client: Client, broker: Broker) -> None:
    await client.declare("q")
    await client.call(1, TxSelect())
    await client.call(1, BasicConsume("q"))
    await broker.publish("", "q", b"1")
    await broker.publish("", "q", b"2")
    first, _ = await client.deliveries(2)
    await client.say(1, BasicAck(first.tag))
    await trio.sleep(HALF_AN_HOUR - 100)
    await client.call(1, TxRollback())
    await late(client, 1, 100, limit=HALF_AN_HOUR)


@pytest.mark.parametrize(("own", "limit"), [(20_000, 20.0), (4_000_000, 4000.0)])
async def test_queue_may_have_a_limit_of_its_own(client: Client, own: int, limit: float) -> None:
    await hold(client, {"x-consumer-timeout": own})
    await late(client, 1, limit, limit=limit)


async def test_each_queue_of_a_channel_has_its_own_limit(client: Client) -> None:
    await client.declare("slow", arguments={"x-consumer-timeout": 4_000_000})
    await client.declare("quick", arguments={"x-consumer-timeout": 60_000})
    for name in ("slow", "quick"):
        await client.call(1, BasicConsume(name))
    await client.send(1, "", "slow", b"1")
    await client.deliveries(1)
    await trio.sleep(2000)
    await client.send(1, "", "quick", b"2")
    await client.deliveries(1)
    await late(client, 1, 60, limit=60)


async def test_no_limit_can_be_asked_for(client: Client, broker: Broker) -> None:
    await hold(client, {"x-consumer-timeout": 0})
    await trio.sleep(5 * HALF_AN_HOUR)
    await client.declare("q", arguments={"x-consumer-timeout": 0})


@pytest.mark.parametrize("seconds", [2.0, 0])
async def test_the_limit_is_configured(virtual_time: None, seconds: float) -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0, consumer_timeout=seconds)) as broker:
        client = await open_client(endpoint_of(broker))
        await hold(client)
        if seconds:
            await late(client, 1, seconds, limit=seconds, grain=2)
        else:
            await trio.sleep(5 * HALF_AN_HOUR)
            await client.declare("q")


async def test_queue_that_is_gone_leaves_the_general_limit(client: Client, broker: Broker) -> None:
    await client.declare("q", arguments={"x-consumer-timeout": 4_000_000})
    client.publish(1, "", "q", b"1")
    await client.get("q")
    await broker.queue("q").delete()
    await late(client, 1, HALF_AN_HOUR, limit=HALF_AN_HOUR, grain=2300)
