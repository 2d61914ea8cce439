"""What leaves by direct feeds: from whom, in which order, and what happens to who does not read."""

import pytest
import trio
import trio.testing

from endpoints.client import Client, delivered
from endpoints.conftest import Connect, crash
from endpoints.direct import Direct, Taken, lease_feed, open_feed, open_sink
from endpoints.dmp.test_sink import EVERYTHING
from protocols.dmp.wire import EMPTY, message
from triomq.app import Broker
from triomq.core import Properties
from triomq.endpoints import AMQPEndpoint
from triomq.protocols import decode_properties, encode_properties
from triomq.protocols.amqp import (
    BasicCancel,
    BasicConsume,
    ChannelFlow,
    DeliverRun,
    QueueBind,
)


@pytest.fixture
async def feed(client: Client, endpoint: AMQPEndpoint) -> Direct:
    """A direct connection from the queue q, which is the client's own and which nobody consumes yet."""
    await client.declare("q", exclusive=True)
    return await open_feed(endpoint, client, "q")


async def consume(client: Client, tag: str = "c", **options: object) -> None:
    await client.call(1, BasicConsume("q", tag, **options))  # type: ignore[arg-type]


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked()


# From everywhere


async def test_amqp_publish_reaches_a_feed_with_all_its_properties(client: Client, feed: Direct) -> None:
    await consume(client)
    properties = encode_properties(EVERYTHING)
    client.publish(1, "", "q", b"1", b"", properties=properties)
    await client.send(1, "", "q", b"x" * 300_000)
    assert await feed.take(3) == [
        Taken(b"1", "", "q", properties),
        Taken(b"", "", "q", properties),
        Taken(b"x" * 300_000, "", "q", b"\0\0"),
    ]


async def test_message_of_the_program_reaches_a_feed_with_its_properties(
    client: Client, feed: Direct, broker: Broker
) -> None:
    await consume(client)
    await broker.publish("", "q", b"body", Properties(type="t", headers={"a": 1}, persistent=False))
    (found,) = await feed.take(1)
    properties = decode_properties(found.properties)
    assert (found.body, properties.type, properties.headers, properties.delivery_mode) == (b"body", "t", {"a": 1}, 1)


@pytest.mark.parametrize("options", [0, 2, 0xFF])
async def test_direct_message_goes_on_as_it_came_but_for_its_options(
    client: Client, feed: Direct, endpoint: AMQPEndpoint, options: int
) -> None:
    await consume(client)
    sink = await open_sink(endpoint, client, "")
    properties = encode_properties(EVERYTHING)
    before = feed.octets
    await sink.say(message(b"body", exchange=b"other", key=b"q", properties=properties, options=options))
    assert await feed.take(1) == [Taken(b"body", "other", "q", properties)]
    assert feed.octets - before == len(message(b"body", exchange=b"other", key=b"q", properties=properties))


async def test_messages_of_both_wires_with_a_key_each_reach_a_feed_in_order(
    client: Client, feed: Direct, endpoint: AMQPEndpoint
) -> None:
    await client.call(1, QueueBind("q", "amq.topic", "#"))
    sink = await open_sink(endpoint, client, "amq.topic")
    for number in range(3):
        for _ in range(20):
            sink.engine.send_message("direct", f"{number}", b"\x10\0\x02", b"d", mandatory=number == 1)
        await sink.flush()
        await settled()
        for _ in range(20):
            client.publish(1, "amq.topic", f"a{number}", b"a", properties=b"\x10\0\x02")
        await client.flush()
        await settled()
    await consume(client)
    found = await feed.take(120)
    assert [(one.key, one.body) for one in found[::20]] == [
        (key, key[:1].encode() if key[0] == "a" else b"d") for key in ("0", "a0", "1", "a1", "2", "a2")
    ]


async def test_the_shortest_message_goes_on_as_well(client: Client, feed: Direct, endpoint: AMQPEndpoint) -> None:
    await client.call(1, QueueBind("q", "amq.fanout", ""))
    await consume(client)
    sink = await open_sink(endpoint, client, "amq.fanout")
    await sink.say(EMPTY)
    assert await feed.take(1) == [Taken(b"", "", "", b"\0\0")]


async def test_fanout_reaches_feeds_and_amqp_consumers_alike(
    client: Client, connect: Connect, feed: Direct, endpoint: AMQPEndpoint
) -> None:
    await consume(client)
    other = await connect()
    await other.declare("r", exclusive=True)
    await other.call(1, BasicConsume("r", "c", no_ack=True))
    for who, name in ((client, "q"), (other, "r")):
        await who.call(1, QueueBind(name, "amq.fanout", ""))
    sink = await open_sink(endpoint, other, "amq.fanout")
    await sink.publish("k", b"1", b"2")
    assert await feed.bodies(2) == [b"1", b"2"]
    assert [found.body for found in await other.deliveries(2)] == [b"1", b"2"]


# When


async def test_feed_begins_when_its_queue_is_consumed_with_the_backlog_in_order(
    client: Client, feed: Direct, broker: Broker
) -> None:
    for number in range(5):
        await broker.publish("", "q", b"%d" % number)
    await feed.silence()
    await consume(client)
    await broker.publish("", "q", b"5")
    assert await feed.bodies(6) == [b"%d" % number for number in range(6)]


async def test_feed_that_comes_late_takes_over_where_amqp_was(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("q", exclusive=True, auto_delete=True)
    await consume(client, no_ack=True)
    await broker.publish("", "q", b"1")
    assert [found.body for found in await client.deliveries(1)] == [b"1"]
    feed = await open_feed(endpoint, client, "q")
    await broker.publish("", "q", b"2")
    assert await feed.bodies(1) == [b"2"]
    await feed.hang_up()
    await broker.publish("", "q", b"3")
    assert [found.body for found in await client.deliveries(1)] == [b"3"]


async def test_messages_delivered_over_amqp_are_still_to_be_settled_there(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("q", exclusive=True)
    await consume(client)
    await broker.publish("", "q", b"1")
    await client.deliveries(1)
    feed = await open_feed(endpoint, client, "q")
    await client.close_channel()
    await client.open_channel(1)
    await consume(client)
    assert await feed.bodies(1) == [b"1"]


async def test_messages_that_a_feed_takes_are_accepted(client: Client, feed: Direct, broker: Broker) -> None:
    await consume(client)
    await broker.publish("", "q", b"x")
    await feed.bodies(1)
    statistics = broker.directory.queues["q"].statistics()
    assert (statistics.ready, statistics.unsettled, statistics.delivered) == (0, 0, 1)


# Flow, cancel, no-local


async def test_channel_flow_holds_a_feed(client: Client, feed: Direct, broker: Broker) -> None:
    await consume(client)
    await client.call(1, ChannelFlow(active=False))
    await broker.publish("", "q", b"x")
    await feed.silence()
    await client.call(1, ChannelFlow(active=True))
    assert await feed.bodies(1) == [b"x"]


async def test_feed_that_was_held_goes_on_when_its_client_is_gone(client: Client, feed: Direct, broker: Broker) -> None:
    await consume(client)
    await client.call(1, ChannelFlow(active=False))
    await broker.publish("", "q", b"x")
    await client.leave()
    assert await feed.bodies(1) == [b"x"]


@pytest.mark.parametrize("how", ["cancel", "channel.close"])
async def test_the_end_of_the_consumer_ends_the_flow_and_another_one_begins_it_again(
    client: Client, feed: Direct, broker: Broker, how: str
) -> None:
    await consume(client)
    if how == "cancel":
        await client.call(1, BasicCancel("c"))
    else:
        await client.close_channel()
        await client.open_channel(1)
    await broker.publish("", "q", b"x")
    await feed.silence()
    await consume(client)
    assert await feed.bodies(1) == [b"x"]


async def test_feed_ends_when_cancelling_deletes_its_queue(client: Client, endpoint: AMQPEndpoint) -> None:
    await client.declare("q", exclusive=True, auto_delete=True)
    feed = await open_feed(endpoint, client, "q")
    await consume(client)
    await client.call(1, BasicCancel("c"))
    await feed.ended()


async def test_no_local_keeps_what_its_own_session_publishes_whichever_way(
    client: Client, connect: Connect, feed: Direct, endpoint: AMQPEndpoint
) -> None:
    await client.call(1, QueueBind("q", "amq.fanout", ""))
    await consume(client, no_local=True)
    own = await open_sink(endpoint, client, "amq.fanout")
    other = await connect()
    foreign = await open_sink(endpoint, other, "amq.fanout")
    await own.publish("", b"own")
    await client.send(1, "amq.fanout", "", b"own too")
    await settled()
    await foreign.publish("", b"foreign")
    assert await feed.bodies(1) == [b"foreign"]
    await feed.silence()


async def test_consumer_of_a_queue_that_crashes_gets_a_cancel_over_amqp_and_may_come_again(
    client: Client, feed: Direct, broker: Broker
) -> None:
    await consume(client)
    crash(broker, "q")
    assert (await client.read(BasicCancel)).consumer_tag == "c"
    await consume(client)
    await broker.publish("", "q", b"x")
    assert await feed.bodies(1) == [b"x"]


# Who does not read


async def slow_feed(client: Client, endpoint: AMQPEndpoint) -> Direct:
    """A feed over a stream on which each side waits until the other has read."""
    await client.declare("q", exclusive=True)
    return await Direct(endpoint, await lease_feed(client, "q"), "feed", lockstep=True).ready()


async def test_client_that_reads_nothing_for_long_is_cut_off_and_what_was_not_written_goes_on_over_amqp(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await slow_feed(client, endpoint)
    await consume(client, no_ack=True)
    for number in range(100):
        broker.publish_nowait("", "q", b"%03d" % number + bytes(50_000))
    await trio.sleep(125)
    assert list(endpoint.ref.children) == ["connection-1"]
    found: list[bytes] = []
    while not found or found[-1] != b"099":
        found += [delivery.body[:3] for delivery in delivered(await client.expect(DeliverRun))]
    assert found == [b"%03d" % number for number in range(100 - len(found), 100)]
    assert len(found) > 70


async def test_message_longer_than_24_bits_can_tell_is_a_dead_letter(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("letters")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    await client.declare("q", exclusive=True, arguments=arguments)
    feed = await open_feed(endpoint, client, "q", max_message_size=1 << 24 - 1)
    await consume(client)
    for body in (b"1", bytes(1 << 24), b"2"):
        await broker.publish("", "q", body)
    assert await feed.bodies(2) == [b"1", b"2"]
    assert broker.directory.queues["letters"].backlog.ready == 1
