"""Consuming: who gets what first, how much, and whose messages not."""

import pytest
import trio
import trio.testing

from endpoints.client import Client
from endpoints.conftest import Connect
from triomq.app import Broker
from triomq.core import Properties
from triomq.protocols import BasicProperties, decode_properties, encode_properties
from triomq.protocols.amqp import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicQos,
    BasicReject,
    QueueBind,
    QueueDeclare,
)


async def consume(client: Client, tag: str, *, channel: int = 1, queue: str = "q", **options: object) -> None:
    method = BasicConsume(queue, consumer_tag=tag, **options)  # type: ignore[arg-type]
    await client.call(channel, method, BasicConsumeOk)


async def bodies(client: Client, count: int) -> list[bytes]:
    return [one.body for one in await client.deliveries(count)]


# How much


async def test_prefetch_size_for_the_channel_counts_all_its_consumers(client: Client) -> None:
    for name in ("q1", "q2"):
        await client.declare(name)
    await client.call(1, BasicQos(prefetch_size=1000, global_=True))
    for name in ("q1", "q2"):
        await consume(client, name, queue=name)
    client.publish(1, "", "q1", b"x" * 600)
    await client.send(1, "", "q2", b"y" * 600)
    (first,) = await client.deliveries(1)
    await client.silence()
    await client.say(1, BasicAck(first.tag))
    (second,) = await client.deliveries(1)
    assert {first.consumer, second.consumer} == {"q1", "q2"}
    client.publish(1, "", "q1", b"z" * 5000)  # larger than the window: it goes when nothing is outstanding
    await client.flush()
    await client.silence()
    await client.say(1, BasicAck(second.tag))
    assert await bodies(client, 1) == [b"z" * 5000]


async def test_consumer_has_its_own_prefetch_size_and_the_channels(client: Client) -> None:
    await client.declare("q")
    await client.call(1, BasicQos(prefetch_size=500))
    await client.call(1, BasicQos(prefetch_size=2000, global_=True))
    await consume(client, "a")
    await consume(client, "b")
    await client.send(1, "", "q", *[b"x" * 200] * 10)
    out = await client.deliveries(4)
    assert sorted(one.consumer for one in out) == ["a", "a", "b", "b"]
    await client.silence()
    await client.call(1, BasicQos(prefetch_size=300, global_=True))
    await client.say(1, *(BasicAck(one.tag) for one in out[:3]))
    await client.silence()  # the last one and another would be more than the channel may have
    await client.say(1, BasicAck(out[3].tag))
    assert len(await client.deliveries(1)) == 1
    await client.silence()


async def test_prefetch_size_does_not_hold_what_is_got_or_not_acked(client: Client) -> None:
    await client.declare("q")
    await client.call(1, BasicQos(prefetch_size=10))
    await client.call(1, BasicQos(prefetch_size=10, global_=True))
    client.publish(1, "", "q", *[b"x" * 100] * 4)
    await client.say(1, BasicGet("q"), BasicGet("q"))
    for _ in range(2):
        await client.got()
    await consume(client, "t", no_ack=True)
    assert len(await client.deliveries(2)) == 2


# Who first


async def test_consumer_of_higher_priority_gets_all_that_it_has_room_for(client: Client, connect: Connect) -> None:
    await client.declare("q")
    other = await connect()
    await consume(client, "low", arguments={"x-priority": -1})
    await other.call(1, BasicQos(prefetch_count=3))
    await consume(other, "high", arguments={"x-priority": 7})
    await client.send(1, "", "q", b"1", b"2", b"3", b"4", b"5")
    assert await bodies(other, 3) == [b"1", b"2", b"3"]
    assert await bodies(client, 2) == [b"4", b"5"]


async def test_single_active_consumer_gets_all_until_it_goes_and_then_the_next(client: Client) -> None:
    await client.declare("q", arguments={"x-single-active-consumer": True})
    for tag in ("first", "second"):
        await consume(client, tag)
    await client.send(1, "", "q", b"1", b"2")
    out = await client.deliveries(2)
    assert [one.consumer for one in out] == ["first", "first"]
    await client.say(1, BasicAck(0, multiple=True))
    await client.call(1, BasicCancel("first"))
    await client.send(1, "", "q", b"3")
    assert [one.consumer for one in await client.deliveries(1)] == ["second"]


async def test_exclusive_consumer_of_a_single_active_queue_is_refused(client: Client) -> None:
    await client.declare("q", arguments={"x-single-active-consumer": True})
    await client.say(1, BasicConsume("q", exclusive=True))
    assert await client.channel_closed() == (403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")


async def test_consumer_without_local_does_not_get_what_its_own_connection_publishes(
    client: Client, connect: Connect
) -> None:
    await client.declare("q")
    await consume(client, "t", no_local=True)
    other = await connect()
    await client.send(1, "", "q", b"ours")
    await other.send(1, "", "q", b"theirs")
    assert await bodies(client, 1) == [b"theirs"]
    await client.silence()


# Time and order, as arguments of the queue and properties of messages say


async def test_messages_of_a_queue_with_a_time_to_live_expire(client: Client) -> None:
    await client.declare("q", arguments={"x-message-ttl": 2000})
    await client.send(1, "", "q", b"x")
    await trio.sleep(1)
    assert (await client.declare("q", arguments={"x-message-ttl": 2000})).message_count == 1
    await trio.sleep(1.1)
    await client.call(1, BasicGet("q"), BasicGetEmpty)


async def test_message_expires_in_its_time(client: Client) -> None:
    await client.declare("q")
    client.publish(1, "", "q", b"short", properties=encode_properties(BasicProperties(expiration="100")))
    await client.send(1, "", "q", b"long")
    await trio.sleep(0.2)
    assert (await client.get("q")).body == b"long"


async def test_time_to_live_of_nothing_is_enough_for_a_consumer_that_waits(client: Client) -> None:
    await client.declare("q", arguments={"x-message-ttl": 0})
    client.publish(1, "", "q", b"nobody")
    await client.call(1, BasicGet("q"), BasicGetEmpty)
    await consume(client, "t")
    await client.send(1, "", "q", b"somebody")
    assert await bodies(client, 1) == [b"somebody"]


async def test_queue_without_uses_goes(client: Client, broker: Broker) -> None:
    await client.declare("q", arguments={"x-expires": 1000})
    await trio.sleep(2)
    assert "q" not in broker.directory.queues
    await client.say(1, QueueDeclare("q", passive=True))
    assert (await client.channel_closed())[0] == 404


async def test_higher_priorities_go_first_and_within_one_the_older(client: Client) -> None:
    await client.declare("q", arguments={"x-max-priority": 10})
    for number, priority in enumerate((1, 5, None, 200, 5)):
        properties = encode_properties(BasicProperties(priority=priority))
        client.publish(1, "", "q", bytes([number]), properties=properties)
    await consume(client, "t")
    assert await bodies(client, 5) == [b"\3", b"\1", b"\4", b"\0", b"\2"]


# Dead letters


@pytest.fixture
async def dead(client: Client) -> Client:
    """A client with a queue ``dead`` behind amq.direct and the key ``gone``."""
    await client.declare("dead")
    await client.call(1, QueueBind("dead", "amq.direct", "gone"))
    return client


LETTERS = {"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": "gone"}


async def test_rejected_message_becomes_a_dead_letter_with_its_history(dead: Client) -> None:
    await dead.declare("q", arguments=LETTERS)
    headers = {"mine": True}
    dead.publish(1, "", "q", b"x", properties=encode_properties(BasicProperties(headers=headers, message_id="m")))
    await consume(dead, "t")
    (out,) = await dead.deliveries(1)
    await dead.say(1, BasicReject(out.tag, requeue=False), BasicGet("dead"))
    letter = await dead.got()
    properties = decode_properties(letter.properties)
    assert (letter.body, letter.exchange, letter.key, properties.message_id) == (b"x", "amq.direct", "gone", "m")
    assert properties.headers is not None
    assert properties.headers["mine"] is True
    assert properties.headers["x-first-death-reason"] == "rejected"
    (death,) = properties.headers["x-death"]  # type: ignore[misc]
    assert (death["queue"], death["reason"], death["count"]) == ("q", "rejected", 1)  # type: ignore[index, call-overload]
    assert (death["exchange"], death["routing-keys"]) == ("", ["q"])  # type: ignore[index, call-overload]


async def test_expired_message_becomes_a_dead_letter_that_does_not_expire(dead: Client) -> None:
    await dead.declare("q", arguments=LETTERS)
    await dead.send(1, "", "q", b"x", properties=encode_properties(BasicProperties(expiration="500")))
    await trio.sleep(1)
    properties = decode_properties((await dead.get("dead")).properties)
    assert properties.expiration is None
    assert properties.headers is not None
    (death,) = properties.headers["x-death"]  # type: ignore[misc]
    assert (death["reason"], death["original-expiration"]) == ("expired", "500")  # type: ignore[index, call-overload]


async def test_message_that_comes_back_too_often_becomes_a_dead_letter(dead: Client) -> None:
    await dead.declare("q", durable=True, arguments={**LETTERS, "x-queue-type": "quorum", "x-delivery-limit": 2})
    dead.publish(1, "", "q", b"x")
    await consume(dead, "t")
    for _ in range(3):
        (out,) = await dead.deliveries(1)
        await dead.say(1, BasicNack(out.tag, requeue=True))
    assert (await dead.get("dead")).body == b"x"


async def test_messages_that_a_full_queue_refuses_become_dead_letters_where_configured(dead: Client) -> None:
    await dead.declare("q", arguments={**LETTERS, "x-max-length": 1, "x-overflow": "reject-publish-dlx"})
    dead.publish(1, "", "q", b"1", b"2")
    assert (await dead.get("dead")).body == b"2"


async def test_dead_letter_from_this_process_is_readable_for_clients(dead: Client, broker: Broker) -> None:
    await dead.declare("q", arguments=LETTERS)
    await broker.publish("", "q", b"x", Properties(headers={"a": 1}))
    await consume(dead, "t")
    (out,) = await dead.deliveries(1)
    await dead.say(1, BasicReject(out.tag, requeue=False), BasicGet("dead"))
    headers = decode_properties((await dead.got()).properties).headers
    assert headers is not None
    assert headers["a"] == 1
    assert headers["x-first-death-queue"] == "q"
