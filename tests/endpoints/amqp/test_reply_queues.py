"""Direct reply-to inside the broker: replies from this process, held back for slow readers, gone with their asker."""

import pytest

from endpoints.client import Client
from endpoints.conftest import Connect, crash
from triomq.app import Broker
from triomq.core import Properties
from triomq.endpoints.content import REPLY_TO
from triomq.errors import Unroutable
from triomq.protocols import BasicProperties, decode_properties, encode_properties
from triomq.protocols.amqp import BasicCancel, BasicConsume, QueueDeclare


async def listen(client: Client, channel: int = 1) -> None:
    await client.call(channel, BasicConsume(REPLY_TO, no_ack=True))


async def ask(client: Client, channel: int = 1, **properties: str) -> None:
    encoded = encode_properties(BasicProperties(reply_to=REPLY_TO, **properties))  # type: ignore[arg-type]
    await client.send(channel, "", "requests", b"?", properties=encoded)


async def test_this_process_can_answer(client: Client, broker: Broker) -> None:
    requests = await broker.declare_queue("requests")
    await listen(client)
    await ask(client, correlation_id="7")
    async with requests.open_feed() as feed:
        async for delivery in feed:
            with delivery:
                asked = delivery.properties
                assert asked.reply_to is not None
                await broker.publish(
                    "", asked.reply_to, b"!", Properties(correlation_id=asked.correlation_id), mandatory=True
                )
            break
    (reply,) = await client.deliveries(1)
    assert (reply.body, reply.exchange, decode_properties(reply.properties).correlation_id) == (b"!", "", "7")


async def test_the_name_ends_with_the_channel(client: Client, broker: Broker) -> None:
    await listen(client)
    (name,) = broker.directory.queues
    assert name.startswith(REPLY_TO + ".")
    client.engine.close_channel(1, 200, "")
    await client.flush()
    await client.next()
    assert not broker.directory.queues
    with pytest.raises(Unroutable):
        await broker.publish("", name, b"!", mandatory=True)


async def test_the_name_ends_with_the_connection(client: Client, broker: Broker) -> None:
    await listen(client)
    await client.hang_up()
    await broker.wait_idle()
    assert not broker.directory.queues


async def test_crash_behind_the_name_cancels_the_consumer(connect: Connect, broker: Broker) -> None:
    client = await connect()
    await listen(client)
    crash(broker, next(iter(broker.directory.queues)))
    assert (await client.read(BasicCancel)).no_wait
    await listen(client)


async def test_runs_of_requests_are_all_rewritten(client: Client, broker: Broker) -> None:
    await client.declare("requests")
    await listen(client)
    for number in range(5):
        await ask(client, correlation_id=str(number))
    found = []
    for _ in range(5):
        properties = decode_properties((await client.get("requests", no_ack=True)).properties)
        found.append((properties.reply_to, properties.correlation_id))
    (name,) = set(broker.directory.queues) - {"requests"}
    assert found == [(name, str(number)) for number in range(5)]


async def test_name_that_is_declared_last_can_be_left_out(client: Client) -> None:
    declared = await client.declare(REPLY_TO)
    assert declared.consumer_count == 1
    await client.call(1, BasicConsume("", no_ack=True))
    await client.say(1, QueueDeclare(REPLY_TO, passive=True, no_wait=True))
    await client.silence()


async def test_replies_wait_while_the_client_reads_nothing(client: Client, broker: Broker) -> None:
    await listen(client)
    (name,) = broker.directory.queues
    for _ in range(40):
        await broker.publish("", name, b"x" * 64 * 1024)
    assert 0 < broker.directory.queues[name].statistics().ready < 40
    assert len(await client.deliveries(40)) == 40
