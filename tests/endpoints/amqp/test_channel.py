"""Publishing, delivering and settling on one channel."""

from datetime import UTC, datetime

import pytest
import trio.testing

from endpoints.client import Client, Delivered, delivered
from endpoints.conftest import Connect, counts, crash, only_connection
from triomq.app import Broker
from triomq.core import Properties
from triomq.endpoints import AMQPEndpoint, from_amqp
from triomq.endpoints.base.delivery_writer import WRITE_BYTES
from triomq.protocols import BasicProperties, Table, Timestamp, encode_properties
from triomq.protocols.amqp import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicNack,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    DeliverRun,
    QueueBind,
    QueueDelete,
    Received,
    Returned,
)

# Publishing


async def test_message_is_delivered_octet_by_octet_as_it_was_published(client: Client, connect: Connect) -> None:
    await client.declare("q")
    properties = encode_properties(BasicProperties(content_type="text/plain", headers={"a": [1, None, {"b": b"\xff"}]}))
    bodies = [b"", b"x", b"\xce" * 100, b"large" * 60_000]
    for body in bodies:
        client.publish(1, "", "q", body, properties=properties)
    await client.flush()
    other = await connect(frame_max=4096)
    await other.open_channel(7)  # another number and smaller frames: everything is framed anew
    for reader, channel in ((client, 1), (other, 7)):
        await reader.say(channel, BasicConsume("q"))
        await reader.next()
        out = await reader.deliveries(4)
        assert [one.body for one in out] == bodies
        assert {one.properties for one in out} == {properties}
        await reader.say(channel, BasicCancel(out[0].consumer, no_wait=True), BasicNack(0, multiple=True))


async def test_messages_reach_each_queue_once_and_in_order(client: Client) -> None:
    for name, key in (("q1", "a.*"), ("q1", "#"), ("q2", "*.b")):
        await client.declare(name)
        await client.call(1, QueueBind(name, "amq.topic", key))
    for key in ("a.b", "c.b", "a.c"):
        client.publish(1, "amq.topic", key, b"1", b"2")
    await client.call(1, BasicConsume("q1"))
    found = [(one.key, one.body) for one in await client.deliveries(6)]
    assert found == [(key, body) for key in ("a.b", "c.b", "a.c") for body in (b"1", b"2")]
    assert (await client.declare("q2")).message_count == 4


async def test_new_binding_holds_for_the_next_publish_on_the_same_channel(client: Client) -> None:
    await client.declare("q")
    client.publish(1, "amq.fanout", "", b"too early")
    await client.call(1, QueueBind("q", "amq.fanout"))
    client.publish(1, "amq.fanout", "", b"in time")
    await client.call(1, QueueDelete("q"))
    await client.declare("q")
    client.publish(1, "", "q", b"to the new one")
    assert (await client.get("q")).body == b"to the new one"


async def test_headers_exchange_compares_points_in_time(client: Client) -> None:
    await client.declare("q")
    arguments: Table = {"at": Timestamp(7), "nested": {"at": Timestamp(8)}}
    await client.call(1, QueueBind("q", "amq.headers", arguments=arguments))
    for headers in (arguments, {"at": Timestamp(9)}):
        properties = encode_properties(BasicProperties(headers=headers))
        client.publish(1, "amq.headers", "", b"x", properties=properties)
    assert (await client.declare("q")).message_count == 1


async def test_mandatory_messages_that_reach_no_queue_come_back(client: Client) -> None:
    properties = encode_properties(BasicProperties(message_id="m"))
    client.publish(1, "amq.direct", "nowhere", b"1", b"2", properties=properties, mandatory=True)
    await client.send(1, "amq.direct", "nowhere", b"silently gone")
    for body in (b"1", b"2"):
        event = await client.expect(Returned)
        assert (event.method.reply_code, event.method.reply_text) == (312, "NO_ROUTE")
        assert (event.method.exchange, event.method.routing_key) == ("amq.direct", "nowhere")
        assert (event.framing.body(event.content), event.framing.properties(event.content)) == (body, properties)
    await client.silence()


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        (BasicProperties(user_id="other"), "user_id property set to 'other' but authenticated user was 'guest'"),
        (BasicProperties(expiration="abc"), "invalid expiration 'abc': no_integer"),
        (BasicProperties(expiration="-1"), "invalid expiration '-1': {value_negative,-1}"),
    ],
    ids=["user-id", "expiration", "negative expiration"],
)
async def test_properties_that_the_broker_answers_for_are_checked(
    client: Client, properties: BasicProperties, text: str
) -> None:
    await client.send(1, "", "q", b"x", properties=encode_properties(properties))
    assert await client.channel_closed() == (406, f"PRECONDITION_FAILED - {text}")


async def test_messages_published_before_a_bad_one_stay(client: Client, broker: Broker) -> None:
    await client.declare("q")
    for expiration in ("100", "200", "abc", "300"):
        properties = encode_properties(BasicProperties(expiration=expiration))
        client.publish(1, "", "q", b"x", properties=properties)
    await client.flush()
    assert (await client.channel_closed())[0] == 406
    assert (await broker.queue("q").statistics()).ready == 2


async def test_channel_remembers_no_more_than_some_keys(client: Client) -> None:
    await client.declare("q")
    await client.call(1, QueueBind("q", "amq.fanout"))
    keys = [f"key.{number}" for number in range(1500)]
    for key in keys * 2:
        client.publish(1, "amq.fanout", key, b"x")
    await client.call(1, BasicConsume("q"))
    assert [one.key for one in await client.deliveries(3000)] == keys * 2


# Confirms


async def test_confirms_come_together_and_in_order(client: Client) -> None:
    await client.declare("q")
    await client.call(1, ConfirmSelect())
    client.publish(1, "", "q", *[b"x"] * 100)
    await client.send(1, "", "nobody", b"y")
    assert await client.read(BasicAck) == BasicAck(101, multiple=True)


async def test_full_queue_refuses_by_nack_each_by_itself(client: Client) -> None:
    await client.declare("q", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    await client.call(1, ConfirmSelect())
    await client.send(1, "", "q", *[b"x"] * 4)
    assert await client.read(BasicNack) == BasicNack(3, multiple=False, requeue=False)
    assert await client.read(BasicNack) == BasicNack(4, multiple=False, requeue=False)
    assert await client.read(BasicAck) == BasicAck(2, multiple=True)


async def test_connection_may_publish_more_than_its_queue_takes_and_consume_from_it(client: Client) -> None:
    await client.declare("q", arguments={"x-max-length": 100, "x-overflow": "reject-publish"})
    await client.call(1, BasicQos(prefetch_count=5))
    await client.call(1, ConfirmSelect())
    await client.call(1, BasicConsume("q"))
    await client.send(1, "", "q", *[b"x"] * 200)
    refused: set[int] = set()
    confirmed = delivered = 0
    while confirmed + len(refused) < 200 or delivered < confirmed:
        event = await client.next()
        if isinstance(event, DeliverRun):
            delivered += len(event.tags)
            await client.say(1, BasicAck(event.tags[-1], multiple=True))
            continue
        assert isinstance(event, Received)
        if isinstance(event.method, BasicNack):
            refused.add(event.method.delivery_tag)
        else:
            assert event.method == BasicAck(105, multiple=True)
            confirmed = 105
    assert refused == set(range(106, 201))
    assert delivered == 105


# Delivering across the house


async def test_message_published_in_process_arrives_with_its_properties(client: Client, broker: Broker) -> None:
    await broker.declare_queue("q")
    said = Properties(
        content_type="text/plain",
        headers={"n": 1, "deep": {"list": [True, None, "x"]}},
        persistent=False,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration=1.5,
        message_id="m",
        timestamp=datetime(2024, 5, 17, 12, tzinfo=UTC),
        type="t",
        app_id="a",
    )
    for body in (b"1", b"2", b""):
        await broker.publish("", "q", body, said)
    got = await client.get("q")
    assert (got.body, from_amqp(got.properties)) == (b"1", said)
    await client.call(1, BasicConsume("q"))
    assert [(one.body, one.tag, from_amqp(one.properties)) for one in await client.deliveries(2)] == [
        (b"2", 2, said),
        (b"", 3, said),
    ]


async def test_headers_of_another_wire_that_fit_no_frame_are_left_out_and_cost_nobody_a_connection(
    client: Client, connect: Connect, broker: Broker
) -> None:
    await client.declare("q")
    for size in (3_000, 4_000, 200_000):
        said = Properties(type="order", persistent=False, headers={"large": "x" * size})
        for _ in range(2):
            await broker.publish("", "q", b"%d" % size, said)
    narrow = await connect(frame_max=4096)
    got = await narrow.get("q")
    assert len(from_amqp(got.properties).headers or {}) == 1
    await narrow.call(1, BasicConsume("q"))
    deliveries = [(one.body, from_amqp(one.properties)) for one in await narrow.deliveries(5)]
    assert [(body, properties.type, bool(properties.headers)) for body, properties in deliveries] == [
        (b"3000", "order", True),
        *[(b"4000", "order", False)] * 2,
        *[(b"200000", "order", False)] * 2,
    ]


async def test_properties_that_do_not_fit_a_consumers_frames_are_delivered_whole(
    client: Client, connect: Connect
) -> None:
    await client.declare("q")
    client.publish(1, "", "q", b"1")
    headers = encode_properties(BasicProperties(headers={"a": "x" * 5000}))
    await client.send(1, "", "q", b"2", properties=headers)
    narrow = await connect(frame_max=4096)
    narrow.engine._core.frame_max = 8192  # it takes what comes, as most clients do
    await narrow.call(1, BasicConsume("q"))
    assert [(one.body, len(one.properties)) for one in await narrow.deliveries(2)] == [(b"1", 2), (b"2", 5013)]


# Windows that channels share


async def test_unsettled_messages_of_a_crashed_queue_are_taken_off_the_channels_window(
    client: Client, broker: Broker
) -> None:
    await client.declare("q")
    await client.call(1, BasicQos(prefetch_count=2, global_=True))
    client.publish(1, "", "q", b"1", b"2", b"3")
    await client.call(1, BasicConsume("q", consumer_tag="t"))
    old = await client.deliveries(2)
    crash(broker, "q")
    assert (await client.read(BasicCancel)).consumer_tag == "t"
    await client.call(1, BasicConsume("q", consumer_tag="t"))
    await client.say(1, BasicAck(old[1].tag, multiple=True))
    new = await client.deliveries(2)
    assert [(one.body, one.redelivered) for one in new] == [(b"1", True), (b"2", True)]
    await client.say(1, BasicAck(new[1].tag, multiple=True))
    assert (await client.deliveries(1))[0].body == b"3"


async def test_unsettled_messages_of_a_deleted_queue_are_taken_off_the_channels_window(client: Client) -> None:
    for name in ("q1", "q2"):
        await client.declare(name)
    await client.call(1, BasicQos(prefetch_count=2, global_=True))
    client.publish(1, "", "q1", b"1", b"2")
    await client.call(1, BasicConsume("q1", consumer_tag="t"))
    old = await client.deliveries(2)
    await client.say(1, BasicCancel("t", no_wait=True))
    await client.call(1, QueueDelete("q1"))
    client.publish(1, "", "q2", b"3")
    await client.call(1, BasicConsume("q2"))
    await client.say(1, BasicAck(old[1].tag, multiple=True))
    assert (await client.deliveries(1))[0].body == b"3"


# Settling and ending


async def test_channel_that_is_closed_and_opened_again_under_deliveries_counts_from_one(client: Client) -> None:
    await client.declare("q")
    client.publish(1, "", "q", *(bytes([number]) for number in range(100)))
    await client.call(1, BasicConsume("q"))
    await client.deliveries(100)
    for settled in range(3):
        client.engine.send_method(1, BasicAck(1))
        await client.close_channel()
        await client.open_channel(1)
        await client.call(1, BasicConsume("q"))
        out = await client.deliveries(99 - settled)
        assert [one.tag for one in out] == list(range(1, 100 - settled))
        assert [one.body[0] for one in out] == list(range(1 + settled, 100))
        assert all(one.redelivered for one in out)


async def test_channel_that_closes_puts_back_what_is_out_marked_and_in_its_place(client: Client) -> None:
    await client.declare("q")
    client.publish(1, "", "q", b"1", b"2", b"3")
    await client.open_channel(2)
    await client.call(2, BasicQos(prefetch_count=2))
    await client.call(2, BasicConsume("q"))
    await client.deliveries(2)
    await client.close_channel(2)
    for body, redelivered in ((b"1", True), (b"2", True), (b"3", False)):
        got = await client.get("q", no_ack=True)
        assert (got.body, got.redelivered) == (body, redelivered)


async def test_channel_that_has_delivered_for_years_closes_at_once(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("q")
    only_connection(endpoint).open_channels[1].unsettled.next_number = 10**15
    client.publish(1, "", "q", b"1", b"2", b"3")
    await client.call(1, BasicConsume("q"))
    tags = [one.tag for one in await client.deliveries(3)]
    assert tags == [10**15, 10**15 + 1, 10**15 + 2]
    await client.say(1, BasicReject(tags[1], requeue=False), BasicAck(tags[0], multiple=True))
    await client.close_channel()
    assert await counts(broker, "q") == (1, 0)
    await trio.testing.wait_all_tasks_blocked()


# Delivering again (basic.recover without requeue)


async def consuming(client: Client, count: int, *, queue: str = "q", tag: str = "t") -> list[Delivered]:
    """Let a consumer have so many messages."""
    await client.declare(queue)
    client.publish(1, "", queue, *(bytes([number]) for number in range(count)))
    await client.call(1, BasicConsume(queue, consumer_tag=tag))
    return await client.deliveries(count)


async def recover(client: Client) -> None:
    await client.call(1, BasicRecover(requeue=False))


async def test_unsettled_messages_come_again_to_their_own_consumer_under_new_tags(
    client: Client, connect: Connect, broker: Broker
) -> None:
    out = await consuming(client, 5)
    other = await connect()
    await other.call(1, BasicConsume("q"))  # who would get them, if they were requeued
    await client.say(1, BasicAck(out[1].tag), BasicAck(out[3].tag))
    await recover(client)
    again = await client.deliveries(3)
    assert [(one.body, one.tag, one.redelivered, one.consumer) for one in again] == [
        (b"\0", 6, True, "t"),
        (b"\2", 7, True, "t"),
        (b"\4", 8, True, "t"),
    ]
    await other.silence()
    await client.say(1, BasicAck(7), BasicAck(8), BasicAck(6))
    await client.declare("q")
    assert await counts(broker, "q") == (0, 0)


async def test_messages_that_came_again_can_come_again(client: Client, broker: Broker) -> None:
    out = await consuming(client, 3)
    for round_ in range(3):
        await recover(client)
        out = await client.deliveries(3)
        assert [one.tag for one in out] == [4 + 3 * round_ + number for number in range(3)]
        assert [one.body for one in out] == [b"\0", b"\1", b"\2"]
    await client.say(1, BasicNack(out[1].tag, requeue=True), BasicAck(out[2].tag, multiple=True))
    assert [(one.body, one.redelivered) for one in await client.deliveries(1)] == [(b"\1", True)]
    assert (await broker.queue("q").statistics()).unsettled == 1


async def test_the_old_tags_of_what_came_again_are_unknown(client: Client) -> None:
    (old,) = await consuming(client, 1)
    await recover(client)
    await client.deliveries(1)
    await client.say(1, BasicAck(old.tag))
    assert await client.channel_closed() == (406, f"PRECONDITION_FAILED - unknown delivery tag {old.tag}")


async def test_messages_without_a_consumer_go_back_to_their_queue_at_recover(client: Client, broker: Broker) -> None:
    await consuming(client, 2)
    await client.call(1, BasicCancel("t"))
    await client.declare("got")
    client.publish(1, "", "got", b"x")
    await client.get("got")
    await recover(client)
    await client.silence()
    for name, count in (("q", 2), ("got", 1)):
        assert await counts(broker, name) == (count, 0)
        assert (await client.get(name, no_ack=True)).redelivered


async def test_each_consumer_gets_its_own_again(client: Client) -> None:
    await consuming(client, 2, queue="q1", tag="one")
    await consuming(client, 2, queue="q2", tag="two")
    await recover(client)
    again = await client.deliveries(4)
    assert [(one.consumer, one.body) for one in again] == [
        ("one", b"\0"),
        ("one", b"\1"),
        ("two", b"\0"),
        ("two", b"\1"),
    ]


async def test_windows_count_what_comes_again_once(client: Client) -> None:
    await client.declare("q")
    await client.call(1, BasicQos(prefetch_count=2))
    await client.call(1, BasicQos(prefetch_count=3, global_=True))
    for tag in ("a", "b"):
        await client.call(1, BasicConsume("q", consumer_tag=tag))
    await client.send(1, "", "q", *(bytes([number]) for number in range(10)))
    await client.deliveries(3)
    for _ in range(3):
        await recover(client)
        again = await client.deliveries(3)
        await client.silence()
    await client.say(1, BasicAck(again[0].tag))
    assert len(await client.deliveries(1)) == 1
    await client.silence()
    await client.say(1, BasicAck(0, multiple=True))
    assert len(await client.deliveries(3)) == 3
    await client.silence()


async def test_messages_of_another_wire_come_again_too(client: Client, broker: Broker) -> None:
    await broker.declare_queue("q")
    for number in range(3):
        await broker.publish("", "q", bytes([number]), Properties(message_id=str(number)))
    await client.call(1, BasicConsume("q"))
    out = await client.deliveries(3)
    await recover(client)
    again = await client.deliveries(3)
    assert [(one.body, one.properties) for one in again] == [(one.body, one.properties) for one in out]


async def test_messages_that_are_settled_before_they_come_again_do_not_come(client: Client) -> None:
    out = await consuming(client, 2)
    await client.say(1, BasicRecover(requeue=False), BasicAck(out[0].tag))  # in one turn: nothing is encoded yet
    await client.read(BasicRecoverOk)
    assert [one.body for one in await client.deliveries(1)] == [b"\1"]
    await client.silence()


async def test_consumer_that_is_cancelled_before_it_gets_them_again_does_not(client: Client, broker: Broker) -> None:
    await consuming(client, 2)
    await client.say(1, BasicRecover(requeue=False), BasicRecover(requeue=False), BasicCancel("t"))
    await client.read(BasicRecoverOk)
    await client.read(BasicRecoverOk)
    await client.read(BasicCancelOk)
    await client.silence()
    assert await counts(broker, "q") == (2, 0)


async def test_channel_that_closes_before_they_come_again_puts_them_back(client: Client, broker: Broker) -> None:
    await consuming(client, 2)
    client.engine.send_method(1, BasicRecoverAsync(requeue=False))
    await client.close_channel()
    assert await counts(broker, "q") == (2, 0)


async def test_queue_that_crashes_before_they_come_again_has_them(client: Client, broker: Broker) -> None:
    await consuming(client, 2)
    await client.call(1, ChannelFlow(active=False))
    await recover(client)
    crash(broker, "q")
    await client.read(BasicCancel)
    await client.call(1, ChannelFlow(active=True))
    await client.silence()
    assert await counts(broker, "q") == (2, 0)


async def test_long_redelivery_is_written_in_pieces_with_the_loop_free_between(
    client: Client, endpoint: AMQPEndpoint
) -> None:
    await client.declare("q")
    for number in range(500):
        await client.send(1, "", "q", number.to_bytes(2, "big") * 2_000)
    await client.call(1, BasicConsume("q"))
    await client.deliveries(500)
    await recover(client)
    again: list[Delivered] = []
    while len(again) < 500:
        again += delivered(await client.expect(DeliverRun))
        assert only_connection(endpoint).engine.outbox.unsent <= 2 * WRITE_BYTES
    assert [int.from_bytes(one.body[:2], "big") for one in again] == list(range(500))
    assert [one.tag for one in again] == list(range(501, 1001))
    window = only_connection(endpoint).writer.window
    await trio.testing.wait_all_tasks_blocked()
    assert (window.used, window.used_bytes) == (0, 0)


# Pausing (channel.flow)


async def test_messages_on_their_way_when_the_client_pauses_stay_in_their_queue_unmarked(
    client: Client, broker: Broker
) -> None:
    await client.declare("q")
    await client.call(1, BasicConsume("q"))
    client.publish(1, "", "q", b"x")
    await client.say(1, ChannelFlow(active=False))
    await client.read(ChannelFlowOk)
    await client.silence()
    assert await counts(broker, "q") == (1, 0)
    await client.call(1, ChannelFlow(active=True))
    assert [(one.body, one.redelivered, one.tag) for one in await client.deliveries(1)] == [(b"x", False, 1)]


async def test_settling_goes_on_while_the_client_pauses_and_windows_keep_their_count(
    client: Client, broker: Broker
) -> None:
    await client.declare("q")
    await client.call(1, BasicQos(prefetch_count=2))
    await client.call(1, BasicConsume("q"))
    await client.send(1, "", "q", b"1", b"2", b"3", b"4")
    out = await client.deliveries(2)
    await client.call(1, ChannelFlow(active=False))
    await client.say(1, BasicAck(out[0].tag))
    await client.silence()
    assert await counts(broker, "q") == (2, 1)
    await client.call(1, ChannelFlow(active=True))
    assert [one.body for one in await client.deliveries(1)] == [b"3"]
    await client.silence()


async def test_recover_waits_while_the_client_pauses(client: Client) -> None:
    (out,) = await consuming(client, 1)
    await client.say(1, BasicRecoverAsync(requeue=False), ChannelFlow(active=False))
    await client.read(ChannelFlowOk)
    await client.silence()
    await client.call(1, ChannelFlow(active=True))
    assert [(one.tag, one.redelivered) for one in await client.deliveries(1)] == [(out.tag + 1, True)]
    await client.call(1, ChannelFlow(active=False))
    await recover(client)
    await client.silence()
    await client.call(1, ChannelFlow(active=True))
    assert [one.tag for one in await client.deliveries(1)] == [out.tag + 2]
