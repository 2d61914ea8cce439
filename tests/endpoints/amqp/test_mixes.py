"""Mixes: what a client publishes with several keys at once is treated as if each publish had come alone."""

from pathlib import Path

import pytest
import trio.testing

from endpoints.client import Client
from endpoints.conftest import knock_out, only_connection
from endpoints.restarts import PERSISTENT, TRANSIENT, at_home
from triomq.app import Broker
from triomq.endpoints import AMQPEndpoint
from triomq.protocols import BasicProperties, Table, encode_properties
from triomq.protocols.amqp import (
    AckRun,
    BasicAck,
    BasicConsume,
    BasicNack,
    ConfirmSelect,
    QueueBind,
    Returned,
    TxCommit,
    TxCommitOk,
    TxSelect,
)

FULL = {"x-max-length": 1, "x-overflow": "reject-publish"}


def encoded(number: int, headers: Table | None = None, **others: object) -> bytes:
    """Properties as services send them: a header and a message-id that differ in each message."""
    trace: Table = {"trace": f"{number:08}"}
    return encode_properties(BasicProperties(headers=trace | (headers or {}), message_id=f"{number:04}", **others))  # type: ignore[arg-type]


def body(number: int) -> bytes:
    return b"%d" % number


async def bodies(client: Client, queue: str, count: int) -> list[bytes]:
    await client.call(1, BasicConsume(queue, consumer_tag=queue, no_ack=True))
    return [one.body for one in await client.deliveries(count)]


@pytest.mark.parametrize("rounds", [1, 3])
async def test_keys_in_turn_reach_their_queues_in_order(client: Client, rounds: int) -> None:
    for name in ("a", "b", "all"):
        await client.declare(name)
    for name, pattern in (("a", "*.a"), ("b", "*.b"), ("all", "#")):
        await client.call(1, QueueBind(name, "amq.topic", pattern))
    for turn in range(rounds):
        for number in range(12):
            client.publish(1, "amq.topic", f"k.{'ab'[number % 2]}", body(number), properties=encoded(turn + number))
        await client.flush()
    numbers = list(range(12)) * rounds
    assert await bodies(client, "all", len(numbers)) == list(map(body, numbers))
    assert await bodies(client, "a", len(numbers) // 2) == [body(one) for one in numbers if not one % 2]
    assert await bodies(client, "b", len(numbers) // 2) == [body(one) for one in numbers if one % 2]


async def test_deliveries_of_a_mix_have_their_own_keys_and_properties(client: Client) -> None:
    await client.declare("q")
    await client.call(1, QueueBind("q", "amq.fanout"))
    for number in range(9):
        client.publish(1, "amq.fanout", f"key.{number % 4}", body(number), properties=encoded(number))
    await client.flush()
    await client.call(1, BasicConsume("q"))
    found = await client.deliveries(9)
    assert [(one.key, one.body, one.properties) for one in found] == [
        (f"key.{number % 4}", body(number), encoded(number)) for number in range(9)
    ]


async def test_mix_is_confirmed_by_number_and_refusals_have_theirs(client: Client) -> None:
    await client.declare("full", arguments=FULL)
    await client.declare("open")
    await client.call(1, ConfirmSelect())
    for number, key in enumerate(("open", "full", "open", "full", "nowhere", "full")):
        client.publish(1, "", key, body(number))
    await client.flush()
    assert [await client.read(BasicNack) for _ in range(2)] == [
        BasicNack(number, multiple=False, requeue=False) for number in (4, 6)
    ]
    assert await client.read(BasicAck) == BasicAck(5, multiple=True)


async def test_publishes_before_one_that_is_refused_count_and_those_behind_it_do_not(
    client: Client, broker: Broker
) -> None:
    await client.declare("q")
    await client.declare("r")
    await client.call(1, ConfirmSelect())
    for number, (exchange, key) in enumerate([("", "q"), ("", "r"), ("missing", "q"), ("", "q")]):
        client.publish(1, exchange, key, body(number))
    await client.flush()
    assert await client.read(BasicAck) == BasicAck(2, multiple=True)
    code, text = await client.channel_closed()
    assert (code, text) == (404, "NOT_FOUND - no exchange 'missing' in vhost '/'")
    assert [(await broker.queue(name).statistics()).ready for name in "qr"] == [1, 1]


async def test_first_refusal_is_told_where_there_are_several(client: Client, broker: Broker) -> None:
    await broker.declare_sink("inner", "fanout", internal=True)
    for exchange in ("amq.fanout", "inner", "missing"):
        client.publish(1, exchange, "k", b"x")
    await client.flush()
    code, text = await client.channel_closed()
    assert (code, text.split(" - ")[0]) == (403, "ACCESS_REFUSED")


async def test_bad_property_in_a_mix_ends_what_comes_behind_it(client: Client) -> None:
    await client.declare("q")
    await client.declare("r")
    for number, key in enumerate("qrqr"):
        expiration = "soon" if number == 2 else "100000"
        client.publish(1, "", key, body(number), properties=encoded(number, expiration=expiration))
    await client.flush()
    code, _ = await client.channel_closed()
    assert code == 406
    await client.open_channel(1)
    assert [(await client.declare(name)).message_count for name in "qr"] == [1, 1]


async def test_mandatory_publishes_of_a_mix_come_back_with_their_own_keys(client: Client) -> None:
    await client.declare("q")
    await client.call(1, ConfirmSelect())
    for number, key in enumerate(("q", "no", "q", "where", "no")):
        client.publish(1, "", key, body(number), mandatory=True, properties=encoded(number))
    await client.flush()
    found = [await client.expect(Returned) for _ in range(3)]
    assert sorted((one.method.routing_key, one.framing.body(one.content)) for one in found) == [
        ("no", b"1"),
        ("no", b"4"),
        ("where", b"3"),
    ]
    assert await client.read(BasicAck) == BasicAck(5, multiple=True)
    assert await bodies(client, "q", 2) == [b"0", b"2"]


async def test_copies_and_reply_names_in_a_mix_are_seen(client: Client) -> None:
    for name in ("q", "r", "cc"):
        await client.declare(name)
    for turn in range(3):  # the third time the shapes are known
        for number, key in enumerate("qrqr"):
            headers: Table = {"CC": ["cc"]} if number == 1 else {"BCC": ["cc"]} if number == 2 else {"XX": ["cc"]}
            client.publish(1, "", key, body(number), properties=encoded(turn, headers))
        await client.flush()
    assert await bodies(client, "cc", 6) == [b"1", b"2"] * 3
    assert await bodies(client, "q", 6) == [b"0", b"2"] * 3
    await client.call(1, BasicConsume("amq.rabbitmq.reply-to", no_ack=True))
    for number, key in enumerate("rqrq"):
        client.publish(1, "", key, body(number), properties=encoded(number, reply_to="amq.rabbitmq.reply-to"))
    await client.flush()
    found = await client.deliveries(2)
    assert all(b"amq.rabbitmq.reply-to." in one.properties for one in found)


async def test_copies_in_a_shape_that_is_known_are_seen(client: Client) -> None:
    for name in ("q", "cc"):
        await client.declare(name)
    for number in range(40):
        client.publish(1, "", "q", body(number), properties=encoded(number, {"CC": ["cc"]}))
        if number % 10 == 9:
            await client.flush()
    assert await bodies(client, "cc", 40) == list(map(body, range(40)))


async def test_immediate_publishes_of_a_mix_need_consumers(client: Client) -> None:
    await client.declare("with")
    await client.declare("without")
    await client.call(1, BasicConsume("with"))
    for number, key in enumerate(("with", "without", "with")):
        client.publish(1, "", key, body(number), immediate=True)
    await client.flush()
    event = await client.expect(Returned)
    assert (event.method.reply_code, event.method.routing_key, event.framing.body(event.content)) == (
        313,
        "without",
        b"1",
    )
    assert [one.body for one in await client.deliveries(2)] == [b"0", b"2"]


async def test_mix_in_a_transaction_is_published_at_the_commit(client: Client, broker: Broker) -> None:
    await client.declare("q")
    await client.declare("r")
    await client.call(1, TxSelect())
    for number, key in enumerate(("q", "r", "no", "q")):
        client.publish(1, "", key, body(number), mandatory=True)
    await client.flush()
    await client.declare("q")
    assert (await broker.queue("q").statistics()).ready == 0
    await client.say(1, TxCommit())
    event = await client.expect(Returned)
    assert (event.method.routing_key, event.framing.body(event.content)) == ("no", b"2")
    await client.read(TxCommitOk)
    assert await bodies(client, "q", 2) == [b"0", b"3"]


async def test_mix_that_is_routed_by_content_is_published_bit_by_bit_and_in_order(client: Client) -> None:
    await client.declare("q")
    await client.call(1, QueueBind("q", "amq.headers", "", arguments={"x-match": "any", "trace": "00000001"}))
    await client.call(1, ConfirmSelect())
    for number in range(100):
        client.publish(1, "amq.headers", str(number % 3), body(number), properties=encoded(number % 2))
        client.publish(1, "", "q", body(number))
    await client.flush()
    tag = 0
    while tag < 200:
        tag = (await client.read(BasicAck)).delivery_tag
    expected = [body(number) for number in range(100) for _ in range(1 + number % 2)]
    assert await bodies(client, "q", len(expected)) == expected


async def test_restart_of_a_queue_holds_up_the_confirms_of_its_own_messages_alone(
    client: Client, broker: Broker
) -> None:
    await client.declare("broken")
    await client.declare("whole")
    await client.call(1, ConfirmSelect())
    for key in ("broken", "whole"):
        client.publish(1, "", key, b"0")
    await client.flush()
    assert await client.read(BasicAck) == BasicAck(2, multiple=True)
    await knock_out(broker, "broken")
    for number in range(4):
        client.publish(1, "", ("broken", "whole")[number % 2], body(number))
    await client.flush()
    assert await client.expect(AckRun) == AckRun(1, [4, 6])


async def test_mix_with_very_many_copies_is_published_bit_by_bit_and_in_order(
    client: Client, broker: Broker, endpoint: AMQPEndpoint
) -> None:
    fan = await broker.declare_sink("fan", "topic")
    for number in range(200):
        queue = await broker.declare_queue(f"q{number}")
        await fan.bind(queue, "a.#")
        await fan.bind(queue, "b.#" if number % 2 else "c.#")
    await client.call(1, ConfirmSelect())
    for number in range(60):
        client.publish(1, "fan", ("a.1", "b.1", "c.1")[number % 3], body(number))
    connection, queue = only_connection(endpoint), broker.directory.queues["q1"]
    connection.received(b"".join(client.engine.data_to_send()))
    assert 0 < queue.backlog.ready < 40
    await trio.testing.wait_all_tasks_blocked()
    assert [entry.message.content[-2:-1] for entry in queue.backlog.entries()] == [
        body(number)[-1:] for number in range(60) if number % 3 != 2
    ]
    assert await client.read(BasicAck) == BasicAck(20, multiple=True)


async def test_persistent_and_transient_publishes_of_a_mix_stay_what_they_are(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        client = home.client
        await client.declare("q", durable=True)
        await client.declare("r", durable=True)
        await client.call(1, ConfirmSelect())
        for number in range(12):
            client.publish(1, "", "qr"[number % 2], body(number), properties=PERSISTENT if number % 3 else TRANSIENT)
        await client.flush()
        while (await client.read(BasicAck)).delivery_tag < 12:
            pass
    async with at_home(tmp_path) as home:
        left = [number for number in range(12) if number % 3]
        assert await home.drain("q") == [body(number) for number in left if not number % 2]
        assert await home.drain("r") == [body(number) for number in left if number % 2]
