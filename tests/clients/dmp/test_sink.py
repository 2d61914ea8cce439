"""Publishing over direct connections, against a served broker."""

import pytest
import trio
import trio.testing

from peers.served import open_served
from triomq.clients import (
    AMQPChannel,
    BasicProperties,
    DMPSink,
    open_amqp,
    open_dmp_feed,
    open_dmp_sink,
)
from triomq.clients.dmp.link import DirectLink
from triomq.errors import AccessRefused, NotFound, Refused
from triomq.protocols.dmp import DMPEngine, MessageRun
from triomq.protocols.dmp.codes import response
from triomq.transports import Poller, StreamTransport

from .conftest import PATIENCE


async def test_messages_arrive_in_order_with_their_properties(channel: AMQPChannel, queue: str) -> None:
    properties = BasicProperties(content_type="text/plain", headers={"a": 1}, message_id="m")
    async with open_dmp_sink(channel, "") as sink:
        for number in range(1000):
            await sink.publish(queue, b"%d" % number, properties if number == 500 else None)
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


async def test_exchange_that_is_not_there_is_not_found(channel: AMQPChannel) -> None:
    with pytest.raises(NotFound, match="no exchange 'missing'"):
        async with open_dmp_sink(channel, "missing"):
            pass


async def test_mandatory_message_comes_back_on_the_channel(channel: AMQPChannel) -> None:
    async with open_dmp_sink(channel, "amq.direct") as sink:
        await sink.publish("nowhere", b"back", mandatory=True)
        with trio.fail_after(PATIENCE):
            returned = await channel.returns.receive()
    assert (returned.body, returned.routing_key) == (b"back", "nowhere")


async def test_refusal_ends_the_sink_and_is_raised(channel: AMQPChannel, queue: str) -> None:
    with pytest.raises(Exception, match="user_id property set to 'root'") as caught:
        async with open_dmp_sink(channel, "") as sink:
            await sink.publish(queue, b"x", BasicProperties(user_id="root"))
    assert not isinstance(caught.value, BaseExceptionGroup)


async def test_error_in_the_block_leaves_it_bare(channel: AMQPChannel) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_dmp_sink(channel, ""):
            1 / 0  # noqa: B018


async def test_cancelled_block_ends_at_once(channel: AMQPChannel) -> None:
    with trio.move_on_after(0.05) as scope:
        async with open_dmp_sink(channel, ""):
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_broker_without_direct_connections_is_not_asked() -> None:
    with open_served(endpoints_0_type="amqp", endpoints_0_port="0", endpoints_0_direct_connections="false") as served:
        async with open_amqp(served.url) as connection, connection.open_channel() as channel:
            with pytest.raises(Refused, match="has no direct connections"):
                async with open_dmp_sink(channel, ""):
                    pass
            with pytest.raises(Refused, match="has no direct connections"):
                async with open_dmp_feed(channel, "q"):
                    pass


async def test_publisher_that_waits_for_room_hears_of_a_refusal(channel: AMQPChannel) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    engine = DMPEngine("client", now=trio.current_time(), lease="lease", target="sink")
    link = DirectLink(StreamTransport(ours, "peer"), Poller(), engine, "peer", ignore)
    ours.send_stream.send_all_hook = trio.sleep_forever  # type: ignore[attr-defined]  # the peer reads nothing
    server = DMPEngine("server", now=trio.current_time())
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.run)
            for word in (b"AMQP\x0a\x01\x00\x01", b"\x05lease"):
                server.receive_data(word)
                if server.events():
                    server.accept_sink("x")
                await theirs.send_all(b"".join(map(bytes, server.data_to_send())))
            await link.opened.wait()
            nursery.start_soon(refuse, link, theirs)
            with pytest.raises(AccessRefused, match="no more"):
                await publish_on(DMPSink(channel, "", link))


async def publish_on(sink: DMPSink) -> None:
    while True:
        await sink.publish("q", bytes(100_000))


def ignore(run: MessageRun) -> None:
    """Take nothing."""


async def refuse(link: DirectLink, theirs: trio.abc.Stream) -> None:
    await trio.testing.wait_all_tasks_blocked()
    assert link.full
    await theirs.send_all(response(403, "no more"))
