"""Streams over AMQP: what RabbitMQ is not asked in the differential test, or answers otherwise."""

from datetime import UTC, datetime

import pytest

from endpoints.client import Client, Delivered
from endpoints.conftest import Connect
from triomq.app import Broker
from triomq.core import DeclareQueue, FromOffset, Place, Properties, QueueOptions, Since, Start, StreamOptions
from triomq.endpoints.amqp.streams import start_of
from triomq.endpoints.declaring import queue_options
from triomq.errors import PreconditionFailed
from triomq.protocols import BasicProperties, decode_properties, encode_properties
from triomq.protocols.amqp import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicNack,
    BasicQos,
    BasicRecover,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
)

STREAM = {"x-queue-type": "stream"}


async def open_stream(client: Client, *bodies: bytes, name: str = "s") -> None:
    await client.declare(name, durable=True, arguments=STREAM)
    for body in bodies:
        client.publish(1, "", name, body)
    await client.flush()


async def read(client: Client, offset: object = "first", *, tag: str = "t", most: int = 100, channel: int = 1) -> None:
    await client.call(channel, BasicQos(prefetch_count=most))
    arguments = {"x-stream-offset": offset}
    await client.call(channel, BasicConsume("s", consumer_tag=tag, arguments=arguments), BasicConsumeOk)


def offset_of(delivery: Delivered) -> object:
    headers = decode_properties(delivery.properties).headers
    assert headers is not None
    return headers["x-stream-offset"]


async def seen(client: Client, count: int) -> list[tuple[object, bytes]]:
    return [(offset_of(one), one.body) for one in await client.deliveries(count)]


# Declarations


def declared(**arguments: object) -> QueueOptions:
    named = {**STREAM, **{name.replace("_", "-"): value for name, value in arguments.items()}}
    return queue_options("s", "/", named, durable=True, exclusive=False, auto_delete=False)


def test_arguments_of_streams_are_options_of_the_core() -> None:
    found = declared(x_max_age="2h", x_max_length_bytes=1000, x_stream_max_segment_size_bytes=500)
    assert found == QueueOptions(max_bytes=1000, stream=StreamOptions(max_age=7200.0, segment_bytes=500))


def test_stream_without_arguments_is_a_plain_one() -> None:
    assert declared() == declared(x_stream_max_segment_size_bytes=0) == QueueOptions(stream=StreamOptions())


async def test_record_that_a_numbered_publisher_sends_again_is_confirmed_and_stored_once(
    broker: Broker, client: Client
) -> None:
    await client.declare("s", durable=True, arguments={**STREAM, "x-stream-deduplicate": True})
    await client.call(1, ConfirmSelect(), ConfirmSelectOk)
    for number in (1, 1, 2, 2, 3):
        headers = {"x-publisher": "p", "x-publisher-number": number}
        properties = encode_properties(BasicProperties(headers=headers))
        client.publish(1, "", "s", b"%d" % number, properties=properties)
    await client.flush()
    while (await client.read(BasicAck)).delivery_tag < 5:
        pass
    await broker.publish("", "s", b"4", Properties(headers={"x-publisher": "p", "x-publisher-number": 2}))
    await read(client)  # the program's own publisher is another one than a client's of the same name
    assert await seen(client, 4) == [(0, b"1"), (1, b"2"), (2, b"3"), (3, b"4")]
    await client.say(1, QueueDeclare("s", durable=True, arguments=STREAM))
    code, text = await client.channel_closed()
    assert code == 406
    assert "inequivalent arg 'x-stream-deduplicate' for queue 's'" in text


async def test_stream_of_this_program_is_the_one_that_a_client_declares(broker: Broker, client: Client) -> None:
    options = QueueOptions(stream=StreamOptions(max_age=3600.0))
    broker.domain_ref.ask_nowait(DeclareQueue("s", options, broker.session))  # type: ignore[arg-type]
    await client.declare("s", durable=True, arguments={**STREAM, "x-max-age": "60m"})
    await client.say(1, QueueDeclare("s", durable=True, arguments={**STREAM, "x-max-age": "2h"}))
    code, text = await client.channel_closed()
    assert code == 406
    assert text.endswith("inequivalent arg 'x-max-age' for queue 's' in vhost '/': received '2h' but current is '1h'")


# Where a consumer begins


@pytest.mark.parametrize(
    ("offset", "start"),
    [
        ("first", Start.FIRST),
        (b"last", Start.LAST),
        ("next", Start.NEXT),
        (7, FromOffset(7)),
        (-7, FromOffset(0)),
        (datetime.fromtimestamp(5, UTC), Since(5.0)),
    ],
)
def test_consumer_begins_where_it_says(offset: object, start: Place) -> None:
    assert start_of("s", "/", {"x-stream-offset": offset}) == start


@pytest.mark.parametrize(
    ("offset", "shown"),
    [
        ("1x", '{longstr,<<"1x">>}'),
        (b"\xff", '{longstr,<<"\ufffd">>}'),
        (True, "{bool,true}"),
        (None, "{void,undefined}"),
        (1.5, "{double,1.5}"),
    ],
)
def test_consumer_that_begins_nowhere_is_refused(offset: object, shown: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        start_of("s", "/", {"x-stream-offset": offset})
    place = "invalid arg 'x-stream-offset' for queue 's' in vhost '/'"
    assert str(refused.value) == f"{place}: {{invalid_stream_offset_arg,{shown}}}"


# Records


async def test_records_of_many_kinds_come_in_order_with_their_offsets(client: Client) -> None:
    await open_stream(client)
    kinds = [
        encode_properties(BasicProperties(message_id=f"m{number % 3}" * (number % 5), delivery_mode=1 + number % 2))
        for number in range(40)
    ]
    await client.call(1, QueueBind("s", "amq.topic", "#"), QueueBindOk)
    for number, properties in enumerate(kinds):
        client.publish(1, "amq.topic", f"k{number % 7}", b"%d" % number, properties=properties)
    await client.flush()
    await read(client)
    found = await client.deliveries(40)
    for number, (one, properties) in enumerate(zip(found, kinds, strict=True)):
        basic = decode_properties(one.properties)
        assert (one.body, one.key, offset_of(one), one.redelivered) == (b"%d" % number, f"k{number % 7}", number, False)
        sent = decode_properties(properties)
        assert (basic.message_id, basic.delivery_mode) == (sent.message_id, sent.delivery_mode)


async def test_records_of_this_program_have_an_offset_too(broker: Broker, client: Client) -> None:
    await open_stream(client)
    for number in range(3):
        await broker.publish("", "s", b"%d" % number, Properties(headers={"n": number}))
    await read(client, 1)
    first, second = await client.deliveries(2)
    assert decode_properties(first.properties).headers == {"x-stream-offset": 1, "n": 1}
    assert (offset_of(second), second.body) == (2, b"2")


async def test_records_of_this_program_whose_headers_fit_no_frame_have_the_offset_alone(
    broker: Broker, client: Client
) -> None:
    await open_stream(client)
    for size in (131_000, 200_000):
        await broker.publish("", "s", b"x", Properties(headers={"large": "x" * size}))
    await read(client, 0)
    for number, one in enumerate(await client.deliveries(2)):
        assert decode_properties(one.properties).headers == {"x-stream-offset": number}


async def test_properties_that_fit_no_frame_with_the_offset_are_delivered(connect: Connect) -> None:
    client, small = await connect(), await connect(frame_max=4096)
    small.engine._core.frame_max = 8192  # it takes what comes, as most clients do
    await open_stream(client)
    properties = encode_properties(BasicProperties(headers={"h": "x" * 4050}))
    client.publish(1, "", "s", b"x", properties=properties)
    await client.flush()
    await read(small)
    (one,) = await small.deliveries(1)
    assert len(one.properties) > 4050


# Acks


async def test_limit_lets_as_many_come_as_are_acked(client: Client) -> None:
    await open_stream(client, *(b"%d" % number for number in range(10)))
    await read(client, most=3)
    assert await seen(client, 3) == [(number, b"%d" % number) for number in range(3)]
    await client.silence()
    await client.say(1, BasicAck(2, multiple=True))
    assert await seen(client, 2) == [(3, b"3"), (4, b"4")]
    await client.silence()


async def test_what_is_out_when_a_connection_ends_is_where_it_was(connect: Connect) -> None:
    first, second = await connect(), await connect()
    await open_stream(first, b"0", b"1")
    await read(first)
    await seen(first, 2)
    await first.hang_up()
    await read(second)
    assert await seen(second, 2) == [(0, b"0"), (1, b"1")]


@pytest.mark.parametrize("method", [BasicNack(0, multiple=True), BasicNack(3), BasicRecover(requeue=False)])
async def test_record_beside_messages_of_queues_cannot_be_put_back(
    client: Client, method: BasicNack | BasicRecover
) -> None:
    await client.declare("q")
    client.publish(1, "", "q", b"x")
    await open_stream(client, b"0")
    await client.call(1, BasicConsume("q", consumer_tag="q"), BasicConsumeOk)
    await client.deliveries(1)
    await read(client)
    assert (await client.deliveries(1))[0].tag == 2
    if isinstance(method, BasicNack) and method.delivery_tag:
        await client.say(1, BasicNack(1))  # of the queue's message, which comes again
        (again,) = await client.deliveries(1)
        assert (again.tag, again.redelivered) == (3, True)
        await client.say(1, BasicNack(2, requeue=False))
    else:
        await client.say(1, method)
    code, text = await client.closed()
    assert code == 540
    assert text.endswith("not supported by stream queues queue 's' in vhost '/'")


async def test_confirm_of_a_record_comes_once_it_can_be_read(connect: Connect) -> None:
    writer, reader = await connect(), await connect()
    await open_stream(writer)
    await read(reader, "next")
    await writer.call(1, ConfirmSelect(), ConfirmSelectOk)
    await writer.send(1, "", "s", b"0", b"1")
    while (await writer.read(BasicAck)).delivery_tag < 2:
        pass
    assert await seen(reader, 2) == [(0, b"0"), (1, b"1")]


# Partitions


async def test_partition_is_declared_by_clients_if_it_is_there_and_not_alone(broker: Broker, client: Client) -> None:
    await broker.declare_stream("orders", partitions=2)
    part = {**STREAM, "x-partition-of": "orders"}
    await client.declare("orders-1", durable=True, arguments=part)
    await client.say(1, QueueDeclare("orders-2", durable=True, arguments=part))
    code, text = await client.channel_closed()
    assert code == 406
    assert "queue 'orders-2' is a partition of stream 'orders', and cannot be declared alone" in text
    await client.open_channel()
    await client.say(1, QueueDeclare("orders-1", durable=True, arguments=STREAM))
    code, text = await client.channel_closed()
    assert code == 406
    assert "'x-partition-of' for queue 'orders-1' in vhost '/': received none but current is the value 'orders'" in text
