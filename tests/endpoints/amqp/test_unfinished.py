"""Connections with messages that are not whole: who may begin one, who is read on, and that nobody is locked in."""

from collections.abc import AsyncIterator

import pytest
import trio

from endpoints.client import Client
from endpoints.conftest import Connect, dial, endpoint_of, open_client
from endpoints.direct import Direct, lease_sink
from triomq.app import Broker, User, open_broker
from triomq.endpoints import AMQP
from triomq.protocols import NO_PROPERTIES
from triomq.protocols.amqp import (
    BasicAck,
    BasicConsume,
    BasicPublish,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueueDeclare,
    QueueDeclareOk,
    plain,
)
from triomq.security import ALL, Permission
from triomq.transports import LARGE_RECEIVE_SIZE, RECEIVE_SIZE

MIB = 1024 * 1024
LARGE = bytes(3 * MIB)
NOWHERE = Permission("^$x", "^$x", "^$x")


@pytest.fixture
async def broker(virtual_time: None) -> AsyncIterator[Broker]:
    """A broker with room for one MiB of unfinished messages, each of at most two MiB."""
    users = {"guest": User(password="guest", permissions={"default": ALL}), "eve": User(password="eve")}
    users["eve"] = User(password="eve", permissions={"default": NOWHERE})
    async with open_broker(AMQP(host="127.0.0.1", port=0), users=users, memory_high_watermark=8 * MIB) as broker:
        yield broker


def octets_of(client: Client, body: bytes, queue: str = "q", channel: int = 1) -> bytes:
    """Give the octets of a publish, unsent."""
    client.engine.send_content(channel, BasicPublish("", queue), NO_PROPERTIES, body)
    return b"".join(client.engine.data_to_send())


async def begin(client: Client, size: int, sent: int, queue: str = "q") -> bytes:
    """Send the first octets of a publish; give the rest."""
    data = octets_of(client, bytes(size), queue)
    await client.stream.send_all(data[:sent])
    await trio.testing.wait_all_tasks_blocked()
    return data[sent:]


async def count(client: Client) -> int:
    return (await client.declare("q", passive=True)).message_count


async def test_the_right_to_publish_is_asked_for_before_the_body_comes(broker: Broker) -> None:
    client = await open_client(endpoint_of(broker), login=plain("eve", "eve"))
    await begin(client, 2 * MIB, 300)
    refused = "ACCESS_REFUSED - access to exchange 'amq.default' in vhost '/' refused for user 'eve'"
    assert await client.channel_closed() == (403, refused)
    assert broker.context.unfinished.held < 300  # of a frame, whatever it is


async def test_messages_dropped_with_a_refused_channel_are_not_counted(broker: Broker) -> None:
    client = dial(endpoint_of(broker), login=plain("eve", "eve"))
    await client.connect()
    for _ in range(5):
        await client.open_channel()
        await client.stream.send_all(octets_of(client, bytes(2 * MIB)))
        assert (await client.channel_closed())[0] == 403
        await trio.testing.wait_all_tasks_blocked()
        assert broker.context.unfinished.held == 0


async def test_connections_share_what_unfinished_messages_may_take(
    client: Client, connect: Connect, broker: Broker
) -> None:
    await client.declare("q")
    publishers = [client, *[await connect() for _ in range(9)]]
    rests = []
    for publisher in publishers:
        rests.append(await begin(publisher, 2 * MIB, 2 * MIB - 10))
    oldest, others = 2 * MIB, 9 * (RECEIVE_SIZE + LARGE_RECEIVE_SIZE)
    assert broker.context.unfinished.held < oldest + others
    for publisher, rest in zip(publishers, rests, strict=True):
        await publisher.stream.send_all(rest)
    await trio.testing.wait_all_tasks_blocked()
    assert await count(client) <= 10
    consumer = await connect()
    await consumer.call(1, BasicConsume("q"))
    for _ in publishers:
        (message,) = await consumer.deliveries(1)
        assert len(message.body) == 2 * MIB
        await consumer.say(1, BasicAck(message.tag))
    assert broker.context.unfinished.held == 0


async def test_small_messages_go_on_beside_large_ones_that_wait(client: Client, connect: Connect) -> None:
    await client.declare("q")
    for _ in range(4):
        other = await connect()
        await begin(other, 2 * MIB, MIB)
    for number in range(20):
        await client.stream.send_all(await begin(client, 50_000, 20_000 + number))
    assert await count(client) == 20


async def test_connection_that_brings_nothing_while_others_wait_is_closed_after_ten_seconds(
    client: Client, connect: Connect
) -> None:
    await client.declare("q")
    silent, other = await connect(), await connect()
    await begin(silent, 2 * MIB, 2 * MIB - 10)
    await other.stream.send_all(octets_of(other, bytes(2 * MIB)))
    began = trio.current_time()
    code, text = await silent.closed()
    assert code == 506
    assert text == (
        "RESOURCE_ERROR - unfinished messages take more than 1048576 octets, and the rest of this one does not come"
    )
    assert 10 <= trio.current_time() - began <= 12
    await trio.sleep(1)
    assert await count(client) == 1


async def test_silent_one_alone_is_left_alone(client: Client) -> None:
    await client.declare("q")
    rest = await begin(client, 2 * MIB, MIB + 100)
    await trio.sleep(100)
    await client.stream.send_all(rest)
    assert await count(client) == 1


async def test_the_heart_of_a_client_that_waits_is_not_missed(connect: Connect) -> None:
    first, second = await connect(), await connect(heartbeat=2)
    await first.declare("q")
    rest = await begin(first, 2 * MIB, 2 * MIB - 10)
    own_rest = await begin(second, 2 * MIB, MIB)
    await trio.sleep(9)  # four intervals
    await first.stream.send_all(rest)
    await second.stream.send_all(own_rest)
    await trio.testing.wait_all_tasks_blocked()
    assert await count(first) == 2


async def test_consumer_with_an_unfinished_message_is_read_though_older_publishers_wait_for_the_alarm(
    client: Client, connect: Connect, broker: Broker
) -> None:
    """Only its acks end the alarm, and they stand behind its own message, which will be refused by a nack."""
    await client.declare("q")
    await client.call(1, ConfirmSelect())
    publisher = await connect()
    for _ in range(5):
        publisher.publish(1, "", "q", bytes(2 * MIB - 100))
    await client.call(1, BasicConsume("q"))
    await publisher.flush()
    last = (await client.deliveries(4))[-1]
    await begin(publisher, 2 * MIB, 2 * MIB - 10)
    assert broker.directory.memory.on
    await client.stream.send_all(octets_of(client, bytes(2 * MIB)))
    await client.say(1, BasicAck(last.tag, multiple=True))
    assert await publisher.read(ConnectionBlocked, 0)
    assert await publisher.read(ConnectionUnblocked, 0)


async def test_connection_that_has_begun_a_publish_waits_for_the_alarm_with_what_it_has(
    client: Client, connect: Connect, broker: Broker
) -> None:
    await client.declare("q")
    other = await connect()
    rest = await begin(client, 2 * MIB, 100_000)
    broker.set_memory_high_watermark(MIB)
    await other.send(1, "", "q", bytes(MIB), bytes(100))
    await trio.testing.wait_all_tasks_blocked()
    broker.directory.memory.measure()
    await other.send(1, "", "q", bytes(100))
    await other.read(ConnectionBlocked, 0)
    await client.stream.send_all(rest[:100_000])
    await client.read(ConnectionBlocked, 0)
    held = broker.context.unfinished.held
    await client.stream.send_all(rest[100_000:])
    await client.silence()
    assert broker.context.unfinished.held == held < MIB


async def test_the_largest_message_follows_the_mark(connect: Connect, broker: Broker) -> None:
    client = await connect()
    await client.stream.send_all(octets_of(client, bytes(2 * MIB + 1)))
    text = "CONTENT_TOO_LARGE - message size 2097153 is larger than configured max size 2097152"
    assert await client.channel_closed() == (311, text)
    broker.set_memory_high_watermark(32 * MIB)
    other = await connect()
    await other.stream.send_all(octets_of(other, bytes(2 * MIB + 1), "none"))
    assert await other.call(1, QueueDeclare("there"), QueueDeclareOk)


async def test_messages_of_direct_connections_are_in_the_same_account(
    client: Client, connect: Connect, broker: Broker
) -> None:
    await client.declare("q")
    await begin(client, 2 * MIB, 2 * MIB - 10)
    leaser = await connect()
    direct = await Direct(endpoint_of(broker), await lease_sink(leaser, "amq.fanout"), "sink").ready()
    direct.engine.send_message("", "q", NO_PROPERTIES, bytes(MIB))
    data = b"".join(direct.engine.data_to_send())
    await direct.say(data[:-10])
    await trio.testing.wait_all_tasks_blocked()
    assert 2 * MIB < broker.context.unfinished.held < 2 * MIB + RECEIVE_SIZE + LARGE_RECEIVE_SIZE
    await trio.sleep(11)  # the client with the other message says nothing, and is closed
    await direct.say(data[-10:])
    await trio.sleep(10)
    assert broker.context.unfinished.held == 0


async def test_silent_direct_connection_is_ended_while_others_wait(
    client: Client, connect: Connect, broker: Broker
) -> None:
    await client.declare("q")
    leaser = await connect()
    direct = await Direct(endpoint_of(broker), await lease_sink(leaser, "amq.fanout"), "sink").ready()
    direct.engine.send_message("", "q", NO_PROPERTIES, bytes(2 * MIB - 100))
    await direct.say(b"".join(direct.engine.data_to_send())[:-10])
    await trio.testing.wait_all_tasks_blocked()
    rest = await begin(client, 2 * MIB, MIB)
    code, text = await direct.refused()
    assert (code, text[:48]) == (530, "530 NOT-ALLOWED unfinished messages take more th")
    await client.stream.send_all(rest)
    assert await count(client) == 1


async def test_connection_that_ends_gives_back_what_it_has_begun(
    client: Client, connect: Connect, broker: Broker
) -> None:
    await begin(client, 2 * MIB, 2 * MIB - 10)
    other = await connect()
    await other.declare("q")
    await other.stream.send_all(octets_of(other, bytes(2 * MIB)))
    await client.hang_up()
    assert await count(other) == 1
    assert broker.context.unfinished.held == 0
