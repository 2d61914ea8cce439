"""Publishing on a channel: messages for consumers that are there now, and what heads say about their messages."""

import pytest
import trio.testing

from endpoints.client import Client
from endpoints.conftest import Connect, knock_out
from triomq.app import Broker
from triomq.protocols import BasicProperties, Table, encode_properties
from triomq.protocols.amqp import (
    BasicAck,
    BasicConsume,
    BasicQos,
    ConfirmSelect,
    QueueBind,
    Returned,
)


async def returned(client: Client) -> tuple[int, str, bytes]:
    event = await client.expect(Returned)
    return event.method.reply_code, event.method.reply_text, event.framing.body(event.content)


async def fan_to(client: Client, *names: str) -> None:
    """Bind queues to amq.fanout."""
    for name in names:
        await client.declare(name)
        await client.call(1, QueueBind(name, "amq.fanout"))


async def ready(broker: Broker, name: str) -> int:
    return (await broker.queue(name).statistics()).ready


async def test_immediate_message_reaches_a_consumer_that_has_room(client: Client) -> None:
    await client.declare("q")
    await client.call(1, BasicConsume("q"))
    await client.send(1, "", "q", b"1", b"2", immediate=True)
    assert [one.body for one in await client.deliveries(2)] == [b"1", b"2"]


async def test_immediate_message_that_no_consumer_takes_now_comes_back(client: Client, broker: Broker) -> None:
    await client.declare("q")
    await client.send(1, "", "q", b"x", immediate=True)
    assert await returned(client) == (313, "NO_CONSUMERS", b"x")
    assert await ready(broker, "q") == 0


async def test_full_window_is_no_consumer(client: Client) -> None:
    await client.declare("q")
    await client.call(1, BasicQos(prefetch_count=1))
    await client.call(1, BasicConsume("q"))
    await client.send(1, "", "q", b"1", b"2", immediate=True)
    # Returns are said when they are made, deliveries at the end of the turn.
    assert await returned(client) == (313, "NO_CONSUMERS", b"2")
    (out,) = await client.deliveries(1)
    assert out.body == b"1"
    await client.say(1, BasicAck(out.tag))
    await client.send(1, "", "q", b"3", immediate=True)
    assert [one.body for one in await client.deliveries(1)] == [b"3"]


async def test_immediate_message_does_not_pass_those_that_wait(client: Client, broker: Broker) -> None:
    await client.declare("q")
    await client.call(1, BasicQos(prefetch_count=1))
    await client.call(1, BasicConsume("q"))
    client.publish(1, "", "q", b"1", b"2")
    await client.send(1, "", "q", b"3", immediate=True)
    assert await returned(client) == (313, "NO_CONSUMERS", b"3")
    assert [one.body for one in await client.deliveries(1)] == [b"1"]
    assert await ready(broker, "q") == 1


async def test_only_the_queues_with_a_consumer_get_an_immediate_message(client: Client, broker: Broker) -> None:
    await fan_to(client, "with", "without")
    await client.call(1, BasicConsume("with"))
    await client.send(1, "amq.fanout", "", b"x", immediate=True, mandatory=True)
    assert [one.body for one in await client.deliveries(1)] == [b"x"]
    await client.silence()
    assert await ready(broker, "without") == 0


@pytest.mark.parametrize("mandatory", [False, True])
async def test_message_that_reaches_no_queue_is_the_business_of_mandatory(client: Client, mandatory: bool) -> None:
    await client.send(1, "", "missing", b"x", immediate=True, mandatory=mandatory)
    if mandatory:
        assert await returned(client) == (312, "NO_ROUTE", b"x")
    await client.silence()


async def test_the_confirm_follows_the_return_of_an_immediate_message(client: Client) -> None:
    await client.declare("q")
    await client.call(1, ConfirmSelect())
    await client.send(1, "", "q", b"1", b"2", immediate=True)
    assert [(await returned(client))[2] for _ in range(2)] == [b"1", b"2"]
    assert await client.read(BasicAck) == BasicAck(2, multiple=True)


async def test_run_that_is_dear_to_look_into_arrives_in_order_and_whole(client: Client) -> None:
    await client.declare("q")
    await client.call(1, QueueBind("q", "amq.match", arguments={"kind": "a"}))
    await client.call(1, ConfirmSelect())
    count = 2_500
    for number in range(count):
        headers: Table = {"kind": "ab"[number % 2], "id": f"{number:05}"}
        properties = encode_properties(BasicProperties(headers=headers))
        client.publish(1, "amq.match", "", b"%05d" % number, properties=properties)
    await client.flush()
    while (await client.read(BasicAck)).delivery_tag < count:
        pass
    await client.call(1, BasicConsume("q", no_ack=True))
    assert [one.body for one in await client.deliveries(count // 2)] == [b"%05d" % one for one in range(0, count, 2)]


async def test_queue_that_is_being_restarted_has_no_consumer(client: Client, broker: Broker) -> None:
    await client.declare("q")
    await knock_out(broker, "q")
    await client.send(1, "", "q", b"x", immediate=True)
    assert await returned(client) == (313, "NO_CONSUMERS", b"x")
    await broker.directory.queues["q"].ref.wait_running()
    assert await ready(broker, "q") == 0


async def test_immediate_message_finds_the_consumer_of_another_connection(client: Client, connect: Connect) -> None:
    await client.declare("q")
    other = await connect()
    await other.call(1, BasicConsume("q", no_ack=True))
    await client.send(1, "", "q", b"x", immediate=True)
    assert [one.body for one in await other.deliveries(1)] == [b"x"]
    await client.silence()


async def test_heads_tell_the_publisher_and_which_properties_are_worth_decoding(
    client: Client, connect: Connect, broker: Broker
) -> None:
    other = await connect()
    await client.declare("q", arguments={"x-max-priority": 9})
    for publisher, properties in (
        (client, BasicProperties()),
        (client, BasicProperties(priority=5)),
        (other, BasicProperties(expiration="60000", priority=1)),
        (other, BasicProperties(content_type="text/plain", delivery_mode=2, user_id="guest")),
    ):
        await publisher.send(1, "", "q", b"x", properties=encode_properties(properties))
        await trio.testing.wait_all_tasks_blocked()
    entries = sorted(broker.directory.queues["q"].backlog.entries(), key=lambda entry: entry.id)
    heads = [entry.message.head for entry in entries]
    assert [(head.traits.has_expiration, head.traits.has_priority) for head in heads] == [
        (False, False),
        (False, True),
        (True, True),
        (False, False),
    ]
    ours, theirs = heads[0].traits.publisher, heads[2].traits.publisher
    assert [head.traits.publisher for head in heads] == [ours, ours, theirs, theirs]
    assert 0 < ours != theirs > 0


async def test_routes_of_keys_in_turn_are_those_of_now(client: Client, broker: Broker) -> None:
    """Routes are kept for keys that come again; a change of bindings forgets them."""
    topic, queue = await broker.declare_sink("t", "topic"), await broker.declare_queue("q")
    await topic.bind(queue, "a.*")
    for _ in range(2):
        for key in ("a.1", "b.1", "a.2"):
            client.publish(1, "t", key, b"x")
    await client.flush()
    await trio.testing.wait_all_tasks_blocked()
    assert await ready(broker, "q") == 4
    await topic.bind(queue, "b.*")
    await topic.unbind(queue, "a.*")
    for key in ("a.1", "b.1", "a.2", "b.1"):
        client.publish(1, "t", key, b"x")
    await client.flush()
    await trio.testing.wait_all_tasks_blocked()
    assert await ready(broker, "q") == 6
