"""The memory alarm and an AMQP connection: who is paused and told, and who is refused."""

import pytest
import trio

from endpoints.client import Client
from endpoints.conftest import Connect, counts, only_connection
from triomq.app import Broker
from triomq.endpoints import AMQPEndpoint
from triomq.protocols import BasicProperties, encode_properties
from triomq.protocols.amqp import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicNack,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionUnblocked,
    EndOfStream,
    QueueDeclare,
    QueueDeclareOk,
    Returned,
    TxSelect,
)

FILLING = b"x" * 20_000
MARK = 10_000
PERSISTENT = encode_properties(BasicProperties(delivery_mode=2))


@pytest.fixture
async def other(connect: Connect) -> Client:
    """Who consumes."""
    client = await connect()
    return client


async def ring(client: Client, broker: Broker) -> None:
    """Let a durable queue hold more than the mark."""
    await client.declare("q", durable=True)
    client.publish(1, "", "q", FILLING)
    await client.declare("q", durable=True)
    broker.set_memory_high_watermark(MARK)


async def drain(client: Client, count: int = 1) -> list[bytes]:
    """Consume what is there, and some that follows."""
    await client.call(1, BasicConsume("q", consumer_tag="t"))
    found = await client.deliveries(count)
    await client.say(1, BasicAck(found[-1].tag, multiple=True))
    return [one.body for one in found]


async def blocked(client: Client) -> None:
    assert await client.read(ConnectionBlocked, 0) == ConnectionBlocked("low on memory")


async def test_client_that_can_only_add_is_paused_and_gets_a_notice(
    client: Client, other: Client, broker: Broker
) -> None:
    await ring(client, broker)
    client.publish(1, "", "q", b"1", b"2")
    await client.say(1, QueueDeclare("new"))
    await blocked(client)
    await client.silence()
    assert "new" not in broker.directory.queues  # what follows waits too
    assert (await other.declare("q", durable=True)).message_count == 1
    assert await drain(other) == [FILLING]
    await client.read(ConnectionUnblocked, 0)
    await client.read(QueueDeclareOk)
    assert [one.body for one in await other.deliveries(2)] == [b"1", b"2"]


async def test_connection_is_not_paused_before_it_publishes(client: Client, broker: Broker) -> None:
    await ring(client, broker)
    await client.declare("another")
    assert (await client.get("q", no_ack=True)).body == FILLING


async def test_client_that_does_not_know_the_notice_does_not_get_it(
    connect: Connect, other: Client, broker: Broker
) -> None:
    client = await connect(client_properties={"capabilities": {}})
    await ring(client, broker)
    client.publish(1, "", "q", b"1")
    await client.say(1, QueueDeclare("new"))
    await client.silence()
    assert await drain(other) == [FILLING]
    await client.read(QueueDeclareOk)


async def test_client_that_consumes_is_refused_by_nack(client: Client, broker: Broker) -> None:
    await ring(client, broker)
    await client.declare("mine")
    await client.call(1, BasicConsume("mine", consumer_tag="t"))
    await client.call(1, ConfirmSelect())
    await client.send(1, "", "q", b"1", b"2")
    assert [await client.read(BasicNack) for _ in range(2)] == [
        BasicNack(number, multiple=False, requeue=False) for number in (1, 2)
    ]
    # As soon as it has no consumer any more it is paused.
    await client.call(1, BasicCancel("t"))
    await client.send(1, "", "q", b"3")
    await blocked(client)
    broker.set_memory_high_watermark(0)
    await client.read(ConnectionUnblocked, 0)
    assert await client.read(BasicAck) == BasicAck(3)


async def test_client_that_has_something_to_settle_is_not_paused(client: Client, broker: Broker) -> None:
    await ring(client, broker)
    await client.call(1, ConfirmSelect())
    got = await client.get("q")
    await client.send(1, "", "q", b"1")
    assert await client.read(BasicNack) == BasicNack(1, multiple=False, requeue=False)
    await client.say(1, BasicAck(got.tag))
    await trio.sleep(1)
    await client.send(1, "", "q", b"2")
    assert await client.read(BasicAck) == BasicAck(2)


async def test_unroutable_message_is_returned_during_an_alarm_too(client: Client, broker: Broker) -> None:
    await ring(client, broker)
    await client.call(1, BasicConsume("q"))
    await client.deliveries(1)
    await client.send(1, "", "nobody", b"1", mandatory=True)
    assert (await client.expect(Returned)).method.reply_code == 312


async def publish_and_ack(client: Client, broker: Broker) -> None:
    """Let a client that has a message out publish another one without confirms, and then ack."""
    await ring(client, broker)
    await client.call(1, BasicConsume("q"))
    (first,) = await client.deliveries(1)
    client.publish(1, "", "q", b"1", properties=PERSISTENT)
    await client.say(1, BasicAck(first.tag))
    await blocked(client)


async def test_publish_without_confirms_pauses_a_consumer_and_no_ack_overtakes_it(
    client: Client, broker: Broker
) -> None:
    await publish_and_ack(client, broker)
    await trio.sleep(29)
    assert await counts(broker, "q") == (0, 1)
    broker.set_memory_high_watermark(0)
    await client.read(ConnectionUnblocked, 0)
    assert [one.body for one in await client.deliveries(1)] == [b"1"]
    await trio.sleep(30)
    assert await counts(broker, "q") == (0, 1)


async def test_publish_without_confirms_ends_a_consumer_after_a_while_and_gives_back_what_it_had(
    client: Client, broker: Broker
) -> None:
    await publish_and_ack(client, broker)
    began = trio.current_time()
    code, text = await client.closed()
    assert (code, text[:32]) == (506, "RESOURCE_ERROR - low on memory: ")
    assert 29 < trio.current_time() - began < 31
    assert isinstance(await client.next(), EndOfStream)
    delivery = await broker.queue("q").get()
    assert delivery is not None
    with delivery:
        assert (delivery.body, delivery.redelivered) == (FILLING, True)
    assert await counts(broker, "q") == (0, 0)


async def test_consumer_whose_queue_goes_while_it_is_paused_has_nothing_to_give_back_and_stays(
    client: Client, broker: Broker
) -> None:
    await ring(client, broker)
    await client.declare("mine")
    await client.call(1, BasicConsume("mine", consumer_tag="t"))
    await client.send(1, "", "q", b"1")
    await blocked(client)
    await broker.queue("mine").delete()
    assert (await client.read(BasicCancel)).consumer_tag == "t"
    await client.silence()
    broker.set_memory_high_watermark(0)
    await client.read(ConnectionUnblocked, 0)


async def test_transaction_is_refused_as_a_whole(client: Client, broker: Broker) -> None:
    await client.declare("mine")
    await client.call(1, TxSelect())
    client.publish(1, "", "mine", b"before")
    await client.open_channel(2)
    await client.call(2, BasicConsume("mine", consumer_tag="t"))
    broker.set_memory_high_watermark(0)
    await broker.declare_queue("q")
    await broker.publish("", "q", FILLING)
    broker.set_memory_high_watermark(MARK)
    await client.send(1, "", "mine", b"during")
    code, text = await client.channel_closed()
    assert (code, text) == (406, "PRECONDITION_FAILED - low on memory; the whole transaction was rolled back")
    await client.silence()


async def test_copies_and_headers_exchanges_are_refused_as_well(client: Client, broker: Broker) -> None:
    await ring(client, broker)
    sink = await broker.declare_sink("h", "headers")
    await sink.bind(broker.queue("q"), arguments={"a": 1})
    await client.call(1, BasicConsume("q"))
    await client.deliveries(1)
    await client.call(1, ConfirmSelect())
    client.publish(1, "", "nobody", b"1", properties=encode_properties(BasicProperties(headers={"CC": ["q"]})))
    client.publish(1, "h", "", b"2", properties=encode_properties(BasicProperties(headers={"a": 1})))
    await client.send(1, "h", "", b"3", properties=encode_properties(BasicProperties(headers={"b": 1})))
    assert sorted([(await client.read(BasicNack)).delivery_tag for _ in range(2)]) == [1, 2]
    assert await client.read(BasicAck) == BasicAck(3)


async def test_heartbeats_go_on_and_silence_is_not_held_against_a_paused_client(
    connect: Connect, other: Client, broker: Broker
) -> None:
    client = await connect(heartbeat=1)
    await ring(client, broker)
    await client.send(1, "", "q", b"1")
    await blocked(client)
    await trio.sleep(60)
    assert await drain(other) == [FILLING]
    await client.read(ConnectionUnblocked, 0)


async def test_client_that_goes_while_it_is_paused_is_missed_afterwards(
    endpoint: AMQPEndpoint, client: Client, broker: Broker
) -> None:
    await ring(client, broker)
    await client.send(1, "", "q", b"1")
    await blocked(client)
    await client.hang_up()
    await trio.sleep(10)
    assert only_connection(endpoint).user == "guest"
    broker.set_memory_high_watermark(0)
    await trio.sleep(3)
    assert not endpoint.children
    assert (await broker.queue("q").statistics()).ready == 2


async def test_paused_client_gets_the_close(client: Client, broker: Broker) -> None:
    await ring(client, broker)
    await client.send(1, "", "q", b"1")
    await blocked(client)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.drain)
        assert (await client.closed())[0] == 320
        assert isinstance(await client.next(), EndOfStream)
    assert trio.current_time() - began < 2
    assert (await broker.queue("q").statistics()).ready == 1  # what was not taken in is not taken in any more


async def test_fanout_does_not_grow_without_end(client: Client, other: Client, broker: Broker) -> None:
    """Each publish costs hundreds of copies: the alarm comes within a chunk, and the rest of the chunk waits."""
    fan = await broker.declare_sink("fan", "fanout")
    for number in range(300):
        await fan.bind(await broker.declare_queue(f"q{number}"))
    broker.set_memory_high_watermark(20_000_000)
    for _ in range(500):
        client.publish(1, "fan", "", b"x" * 1000)
    await client.flush()
    await blocked(client)
    queues = list(broker.directory.queues.values())
    counts = {queue.backlog.ready for queue in queues}
    assert len(counts) == 1
    assert 50 < counts.pop() < 250
    for queue in queues:
        await broker.queue(queue.name).delete()
    await client.read(ConnectionUnblocked, 0)
