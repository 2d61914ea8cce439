"""What is published over direct connections: where it goes, and what comes back."""

import pytest
import trio
import trio.testing

from endpoints.client import Client
from endpoints.conftest import Connect
from endpoints.direct import Direct, open_sink
from protocols.dmp.wire import message
from triomq.app import Broker
from triomq.core import Properties, SinkKind
from triomq.endpoints import AMQPEndpoint
from triomq.endpoints.amqp.connection import AMQPServerConnection
from triomq.endpoints.base.delivery_writer import UNREAD_BYTES
from triomq.protocols import BasicProperties, FieldValue, decode_properties, encode_properties
from triomq.protocols.amqp import (
    BasicConsume,
    ExchangeDelete,
    QueueBind,
    Returned,
)

EVERYTHING = BasicProperties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers={"n": 7, "s": "v", "nested": {"list": [1, True, None, 2.5]}},
    delivery_mode=2,
    priority=5,
    correlation_id="corr",
    reply_to="reply.q",
    expiration="60000",
    message_id="mid-1",
    timestamp=1234567890,
    type="kind",
    user_id="guest",
    app_id="app",
    cluster_id="snd",
)


@pytest.fixture
async def sink(client: Client, endpoint: AMQPEndpoint) -> Direct:
    """A direct connection to the default sink, which channel 1 has leased; there is a queue q."""
    await client.declare("q")
    return await open_sink(endpoint, client, "")


async def got(client: Client) -> tuple[bytes, bytes, str, str]:
    found = await client.get("q", no_ack=True)
    return found.body, found.properties, found.exchange, found.key


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked()


# Where it goes


async def test_all_properties_reach_an_amqp_consumer_as_they_were(client: Client, sink: Direct) -> None:
    properties = encode_properties(EVERYTHING)
    await sink.publish("q", b"body", exchange="anything", properties=properties)
    await settled()
    assert await got(client) == (b"body", properties, "anything", "q")


async def test_all_properties_reach_the_program_itself(broker: Broker, sink: Direct) -> None:
    queue = await broker.declare_queue("q", durable=False)
    await sink.publish("q", b"body", properties=encode_properties(EVERYTHING))
    async with queue.open_feed() as feed:
        delivery = await anext(feed)
        assert delivery.body == b"body"
        assert delivery.properties.headers == {"n": 7, "s": "v", "nested": {"list": [1, True, None, 2.5]}}
        assert (delivery.properties.expiration, delivery.properties.app_id) == (60.0, "app")


async def test_messages_keep_their_order_and_their_bodies(client: Client, sink: Direct) -> None:
    bodies = [bytes((number % 256,)) * (number * 37 % 5000) for number in range(300)]
    await sink.publish("q", *bodies)
    await client.call(1, BasicConsume("q", "c", no_ack=True))
    assert [found.body for found in await client.deliveries(300)] == bodies


async def test_lease_names_the_sink_whatever_is_in_the_message(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("q")
    await client.call(1, QueueBind("q", "amq.topic", "a.*"))
    sink = await open_sink(endpoint, client, "amq.topic")
    for exchange in ("", "amq.topic", "other", "missing"):
        await sink.publish("a.b", exchange.encode(), exchange=exchange)
    await sink.publish("q", b"by the default sink it would come")
    await settled()
    for exchange in ("", "amq.topic", "other", "missing"):
        body, _, said, _ = await got(client)
        assert (body, said) == (exchange.encode(), exchange)
    assert broker.directory.queues["q"].backlog.ready == 0


async def test_headers_sink_looks_into_each_message(client: Client, endpoint: AMQPEndpoint, broker: Broker) -> None:
    await client.declare("q")
    arguments: dict[str, FieldValue] = {"x-match": "all", "colour": "red"}
    await client.call(1, QueueBind("q", "amq.headers", "", arguments=arguments))
    sink = await open_sink(endpoint, client, "amq.headers")
    for colour in ("red", "tan", "red"):
        properties = encode_properties(BasicProperties(headers={"colour": colour}))
        await sink.publish("", colour.encode(), properties=properties)
    await settled()
    assert broker.directory.queues["q"].backlog.ready == 2


@pytest.mark.parametrize("options", [0, 0xFC])
async def test_reserved_options_change_nothing(client: Client, sink: Direct, options: int) -> None:
    await sink.say(message(b"x", exchange=b"", key=b"q", options=options))
    await settled()
    assert (await got(client))[0] == b"x"


async def test_more_than_a_turn_is_to_do_is_done_in_several(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    for number in range(50):
        await client.declare(f"q{number}")
        await client.call(1, QueueBind(f"q{number}", "amq.fanout", ""))
    sink = await open_sink(endpoint, client, "amq.fanout")
    for number in range(400):
        sink.engine.send_message("", str(number), b"\0\0", b"x")
    await sink.flush()
    await settled()
    assert {broker.directory.queues[f"q{number}"].backlog.ready for number in range(50)} == {400}


# Messages with names of their own, sent in one piece


@pytest.mark.parametrize("exchange", ["amq.topic", "amq.headers"])
async def test_messages_with_a_key_each_keep_their_order_in_each_queue(
    client: Client, endpoint: AMQPEndpoint, broker: Broker, exchange: str
) -> None:
    bound = {"q": "*.even.#", "r": "#", "s": "3.*"}
    for queue, pattern in bound.items():
        await client.declare(queue)
        await client.call(1, QueueBind(queue, exchange, pattern, arguments={"x-match": "all", "n": 1}))
    sink = await open_sink(endpoint, client, exchange)
    keys = [f"{number}.{'odd' if number % 2 else 'even'}" for number in range(300)]
    wanted = {"q": keys[::2], "r": keys, "s": ["3.odd"]} if exchange == "amq.topic" else dict.fromkeys("qrs", keys)
    properties = encode_properties(BasicProperties(headers={"n": 1}))
    for key in keys:
        sink.engine.send_message("", key, properties, key.encode())
    await sink.flush()
    await settled()
    for queue, theirs in wanted.items():
        assert broker.directory.queues[queue].backlog.ready == len(theirs)
        found = [await client.get(queue, no_ack=True) for _ in theirs]
        assert [one.key for one in found] == [one.body.decode() for one in found] == theirs


async def test_messages_with_a_key_each_come_back_with_it_if_they_are_mandatory(client: Client, sink: Direct) -> None:
    for key in ("q", "missing", "q", "gone"):
        sink.engine.send_message("", key, b"\0\0", key.encode(), mandatory=True)
    await sink.flush()
    returned = [await client.expect(Returned) for _ in range(2)]
    assert [one.method.routing_key for one in returned] == ["missing", "gone"]
    assert [one.framing.body(one.content) for one in returned] == [b"missing", b"gone"]
    assert [(await got(client))[0] for _ in range(2)] == [b"q", b"q"]


async def test_message_that_is_refused_among_those_with_a_key_each_lets_those_before_it_count(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("q")
    await client.call(1, QueueBind("q", "amq.topic", "*"))
    sink = await open_sink(endpoint, client, "amq.topic")
    for number in range(30):
        properties = encode_properties(BasicProperties(expiration="never" if number == 20 else "60000"))
        sink.engine.send_message("", f"{number}", properties, b"")
    assert (await sink.refused())[0] == 502
    assert broker.directory.queues["q"].backlog.ready == 20


# CC, BCC, direct replies


async def test_further_keys_are_followed_and_bcc_is_taken_off(client: Client, sink: Direct, broker: Broker) -> None:
    await client.declare("r")
    await client.declare("s")
    headers: dict[str, FieldValue] = {"CC": ["r"], "BCC": ["s"]}
    await sink.publish("q", b"plain")
    await sink.publish("q", b"copied", properties=encode_properties(BasicProperties(headers=headers)))
    await settled()
    assert [broker.directory.queues[name].backlog.ready for name in "qrs"] == [2, 1, 1]
    await got(client)
    _, properties, _, _ = await got(client)
    assert decode_properties(properties).headers == {"CC": ["r"]}


async def test_client_that_asks_for_a_direct_reply_gets_it_on_the_channel_that_leased(
    client: Client, sink: Direct
) -> None:
    await client.call(1, BasicConsume("amq.rabbitmq.reply-to", "replies", no_ack=True))
    request = encode_properties(BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    await sink.publish("q", b"question", properties=request)
    await settled()
    _, properties, _, _ = await got(client)
    reply_to = decode_properties(properties).reply_to
    assert reply_to is not None
    await sink.publish(reply_to, b"answer")
    (answer,) = await client.deliveries(1)
    assert (answer.consumer, answer.body) == ("replies", b"answer")


# What is refused

REFUSED: dict[str, tuple[BasicProperties, int]] = {
    "another user's id": (BasicProperties(user_id="root"), 502),
    "an expiration that is no number": (BasicProperties(expiration="soon"), 502),
    "CC that is no array": (BasicProperties(headers={"CC": "x"}), 502),
    "a direct reply that nobody waits for": (BasicProperties(reply_to="amq.rabbitmq.reply-to"), 502),
}


@pytest.mark.parametrize("why", REFUSED)
async def test_message_that_amqp_would_refuse_is_refused_and_those_before_it_count(
    sink: Direct, broker: Broker, why: str
) -> None:
    properties, code = REFUSED[why]
    for said in (b"\0\0", encode_properties(properties), b"\0\0"):
        sink.engine.send_message("", "q", said, b"x")
    assert (await sink.refused())[0] == code
    assert broker.directory.queues["q"].backlog.ready == 1


async def test_sink_that_is_deleted_ends_its_connections(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await broker.declare_sink("s", SinkKind.FANOUT)
    sink = await open_sink(endpoint, client, "s")
    await sink.publish("", b"nowhere")
    await client.call(1, ExchangeDelete("s"))
    await sink.publish("", b"x")
    assert await sink.refused() == (404, "404 NOT-FOUND no sink 's' here; declare it first")


# What comes back


async def test_mandatory_message_without_a_queue_comes_back_on_the_channel_that_leased(
    client: Client, sink: Direct
) -> None:
    properties = encode_properties(EVERYTHING)
    await sink.publish("missing", b"back", exchange="said", properties=properties, mandatory=True)
    await sink.publish("missing", b"lost")
    await sink.publish("q", b"there", mandatory=True)
    returned = await client.expect(Returned)
    method = returned.method
    assert (returned.channel, method.reply_code, method.reply_text) == (1, 312, "NO_ROUTE")
    assert (method.exchange, method.routing_key) == ("", "missing")
    assert returned.framing.properties(returned.content) == properties
    assert returned.framing.body(returned.content) == b"back"
    await settled()
    assert (await got(client))[0] == b"there"


async def test_immediate_message_without_a_consumer_comes_back(client: Client, sink: Direct) -> None:
    await sink.publish("q", b"back", immediate=True)
    returned = await client.expect(Returned)
    assert (returned.method.reply_code, returned.method.reply_text) == (313, "NO_CONSUMERS")
    await client.call(1, BasicConsume("q", "c", no_ack=True))
    await sink.publish("q", b"taken", immediate=True)
    (found,) = await client.deliveries(1)
    assert found.body == b"taken"


async def test_immediate_message_without_a_queue_is_lost_unless_it_is_mandatory(client: Client, sink: Direct) -> None:
    await sink.publish("missing", b"lost", immediate=True)
    await sink.publish("missing", b"back", immediate=True, mandatory=True)
    returned = await client.expect(Returned)
    assert (returned.framing.body(returned.content), returned.method.reply_code) == (b"back", 312)


@pytest.mark.parametrize("ends", ["channel", "connection"])
async def test_when_the_channel_has_gone_nothing_comes_back_and_the_sink_goes_on(
    client: Client, connect: Connect, sink: Direct, ends: str
) -> None:
    other = await connect()
    if ends == "channel":
        await client.close_channel()
    else:
        await client.leave()
    await sink.publish("missing", b"lost", mandatory=True)
    await sink.publish("q", b"there", mandatory=True)
    await settled()
    assert (await got(other))[0] == b"there"


async def test_returns_that_are_not_read_hold_the_sink_and_not_the_broker(
    endpoint: AMQPEndpoint, nursery: trio.Nursery
) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    endpoint.listener.connect_stream(theirs, "lockstep")
    slow = Client(ours)
    await slow.connect()
    await slow.open_channel(1)
    sink = await open_sink(endpoint, slow, "")
    for _ in range(100):
        await sink.publish("missing", bytes(60_000), mandatory=True)
    await trio.sleep(1)
    (principal,) = [ref.actor for ref in endpoint.children.values() if isinstance(ref.actor, AMQPServerConnection)]
    assert UNREAD_BYTES < principal.engine.outbox.unsent < UNREAD_BYTES + 500_000
    returned = 0
    while returned < 100:
        slow.engine.receive_data(bytes(await slow.stream.receive_some(65536)))
        returned += sum(isinstance(event, Returned) for event in slow.engine.events())


# Memory


async def test_messages_of_the_program_and_those_that_come_directly_are_one_queue(
    client: Client, sink: Direct, broker: Broker
) -> None:
    await sink.publish("q", b"1")
    await settled()
    await broker.publish("", "q", b"2", Properties(type="t"))
    await sink.publish("q", b"3")
    await settled()
    assert [(await got(client))[0] for _ in range(3)] == [b"1", b"2", b"3"]
