"""Telling consumers of a quorum queue how often a message came back."""

from endpoints.client import Client, Delivered
from triomq.app import Broker
from triomq.core import Properties
from triomq.protocols import BasicProperties, Typed, decode_properties, encode_properties
from triomq.protocols.amqp import BasicConsume, BasicGet, BasicNack, BasicRecover

QUORUM = {"x-queue-type": "quorum"}


def count(one: Delivered) -> object:
    return (decode_properties(one.properties).headers or {}).get("x-delivery-count")


async def test_each_message_of_a_batch_has_its_own_count(client: Client) -> None:
    await client.declare("q", durable=True, arguments=QUORUM)
    await client.call(1, BasicConsume("q"))
    await client.send(1, "", "q", b"1", b"2", b"3")
    first = await client.deliveries(3)
    assert [count(one) for one in first] == [None] * 3
    await client.say(1, BasicNack(first[1].tag, requeue=True))
    (second,) = await client.deliveries(1)
    assert (count(second), second.redelivered) == (1, True)
    await client.say(1, BasicNack(0, multiple=True, requeue=True))
    assert [(one.body, count(one)) for one in await client.deliveries(3)] == [(b"1", 1), (b"2", 2), (b"3", 1)]


async def test_all_else_in_the_properties_stays(client: Client) -> None:
    await client.declare("q", durable=True, arguments=QUORUM)
    await client.call(1, BasicConsume("q"))
    headers = {"byte": Typed("B", 7), "octets": b"\xff", "text": Typed("S", b"\xff")}
    sent = BasicProperties(headers=headers, app_id="a", expiration="60000")  # type: ignore[arg-type]
    await client.send(1, "", "q", b"x" * 200_000, properties=encode_properties(sent))
    (one,) = await client.deliveries(1)
    assert one.properties == encode_properties(sent)
    await client.say(1, BasicNack(one.tag, requeue=True))
    (again,) = await client.deliveries(1)
    counted = BasicProperties(headers={**headers, "x-delivery-count": Typed("l", 1)}, app_id="a", expiration="60000")  # type: ignore[arg-type]
    assert again.properties == encode_properties(counted)
    assert again.body == b"x" * 200_000


async def test_message_from_this_process_is_counted_too(client: Client, broker: Broker) -> None:
    await client.declare("q", durable=True, arguments=QUORUM)
    await broker.publish("", "q", b"x", Properties(app_id="a"))
    one = await client.get("q")
    assert count(one) == 0  # as with RabbitMQ, a get tells from the first time on
    await client.say(1, BasicNack(one.tag, requeue=True), BasicGet("q"))
    one = await client.got()
    assert (count(one), decode_properties(one.properties).app_id) == (1, "a")


async def test_classic_queue_sends_no_counts(client: Client) -> None:
    await client.declare("q")
    client.publish(1, "", "q", b"x")
    for _ in range(2):
        one = await client.get("q")
        assert count(one) is None
        await client.say(1, BasicNack(one.tag, requeue=True))


async def test_delivery_that_is_recovered_has_not_come_back(client: Client) -> None:
    await client.declare("q", durable=True, arguments=QUORUM)
    await client.call(1, BasicConsume("q"))
    await client.send(1, "", "q", b"x")
    await client.deliveries(1)
    await client.call(1, BasicRecover(requeue=False))
    (one,) = await client.deliveries(1)
    assert (one.redelivered, count(one)) == (True, None)


async def test_queue_that_is_gone_counts_no_more(client: Client, broker: Broker) -> None:
    await client.declare("q", durable=True, arguments=QUORUM)
    client.publish(1, "", "q", b"x")
    await client.get("q")
    await broker.queue("q").delete()
    await client.say(1, BasicNack(1, requeue=True))
    await client.declare("q", durable=True, arguments=QUORUM)


async def test_counts_have_64_bits_as_clients_in_java_expect(client: Client, broker: Broker) -> None:
    await client.declare("dead")
    arguments = {**QUORUM, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    await client.declare("q", durable=True, arguments=arguments)
    await client.call(1, BasicConsume("q"))
    await client.call(1, BasicConsume("dead", no_ack=True))
    client.publish(1, "", "q", b"from AMQP", properties=encode_properties(BasicProperties(headers={"mine": 1})))
    await broker.publish("", "q", b"from this process", properties=Properties(headers={"mine": 1}))
    await client.flush()
    for one in await client.deliveries(2):
        await client.say(1, BasicNack(one.tag, requeue=True))
    for one in await client.deliveries(2):
        headers = decode_properties(one.properties, typed=True).headers
        assert headers == {"mine": 1, "x-delivery-count": Typed("l", 1)}
        await client.say(1, BasicNack(one.tag, requeue=False))
    for one in await client.deliveries(2):
        headers = decode_properties(one.properties, typed=True).headers
        assert headers is not None
        assert headers["mine"] == 1
        (death,) = headers["x-death"]  # type: ignore[misc,union-attr]
        assert death["count"] == Typed("l", 1)  # type: ignore[index,call-overload]
