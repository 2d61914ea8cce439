"""Publishing over direct connections, against a served broker."""

import pytest
import trio

from peers.served import open_served
from triomq.clients import AMQPChannel, AMQPConnection, BasicProperties, open_amqp, open_dmp_feed, open_dmp_sink
from triomq.errors import NotFound, Refused

from .conftest import PATIENCE


async def test_what_is_published_arrives_in_order_with_its_properties(channel: AMQPChannel, queue: str) -> None:
    said = BasicProperties(content_type="text/plain", headers={"a": 1}, message_id="m")
    async with open_dmp_sink(channel, "") as sink:
        for number in range(1000):
            await sink.publish(queue, b"%d" % number, said if number == 500 else None)
    found = []
    with trio.fail_after(PATIENCE):
        async with channel.consume(queue, no_ack=True) as deliveries:
            async for delivery in deliveries:
                found.append(delivery)
                if len(found) == 1000:
                    break
    assert [delivery.body for delivery in found] == [b"%d" % number for number in range(1000)]
    assert found[500].properties.headers == {"a": 1}
    assert found[500].properties.delivery_mode == 2


async def test_leaving_the_block_waits_until_the_broker_has_read_everything(channel: AMQPChannel, queue: str) -> None:
    body = bytes(100_000)
    async with open_dmp_sink(channel, "") as sink:
        for _ in range(50):
            await sink.publish(queue, body)
    declared = await channel.declare_queue(queue, passive=True)
    assert declared.message_count == 50


async def test_an_exchange_that_is_not_there_is_not_found(connection: AMQPConnection) -> None:
    async with connection.open_channel() as channel:
        with pytest.raises(NotFound, match="no exchange 'missing'"):
            async with open_dmp_sink(channel, "missing"):
                pass


async def test_a_mandatory_message_comes_back_on_the_channel(channel: AMQPChannel) -> None:
    async with open_dmp_sink(channel, "amq.direct") as sink:
        await sink.publish("nowhere", b"back", mandatory=True)
        with trio.fail_after(PATIENCE):
            returned = await channel.returns.receive()
    assert (returned.body, returned.routing_key) == (b"back", "nowhere")


async def test_what_the_broker_refuses_ends_the_sink_and_is_said(channel: AMQPChannel, queue: str) -> None:
    with pytest.raises(Exception, match="user_id property set to 'root'") as caught:
        async with open_dmp_sink(channel, "") as sink:
            await sink.publish(queue, b"x", BasicProperties(user_id="root"))
    assert not isinstance(caught.value, BaseExceptionGroup)


async def test_an_error_in_the_block_leaves_it_bare(channel: AMQPChannel) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_dmp_sink(channel, ""):
            1 / 0  # noqa: B018


async def test_a_cancelled_block_ends_at_once(channel: AMQPChannel) -> None:
    with trio.move_on_after(0.05) as scope:
        async with open_dmp_sink(channel, ""):
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_broker_without_direct_connections_is_not_asked() -> None:
    with open_served(endpoints_0_type="amqp", endpoints_0_port="0", endpoints_0_direct_connections="false") as served:
        async with open_amqp(served.url) as connection, connection.open_channel() as channel:
            with pytest.raises(Refused, match="has no direct connections"):
                async with open_dmp_sink(channel, ""):
                    pass
            with pytest.raises(Refused, match="has no direct connections"):
                async with open_dmp_feed(channel, "q"):
                    pass
