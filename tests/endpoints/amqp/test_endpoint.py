"""The endpoint: its configuration, its listeners, its connections, its end."""

import logging
import socket

import pytest
import trio
import trio.testing

from endpoints.client import Client, delivered
from endpoints.conftest import LINGERING, Connect, dial, endpoint_of, open_client
from triomq.app import Broker, open_broker
from triomq.core import Deliver
from triomq.endpoints import AMQP, TLS, AMQPEndpoint, StopListening
from triomq.protocols.amqp import (
    BasicConsume,
    Closed,
    DeliverRun,
    EndOfStream,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
)


def test_the_defaults_are_those_that_clients_know() -> None:
    config = AMQP()
    assert (config.host, config.port, config.heartbeat, config.frame_max, config.channel_max) == (
        "localhost",
        5672,
        60,
        131072,
        2047,
    )
    assert config.virtual_hosts == {"/": "default"}


def test_configuration_has_the_hosts_that_a_broker_judges() -> None:
    assert AMQP().hosts == ("localhost",)
    assert AMQP(host="0.0.0.0").hosts == ("0.0.0.0",)
    assert AMQP(path="/run/triomq.sock").hosts == ()


def test_its_name_tells_where_it_listens() -> None:
    assert AMQP(host="::1", port=7).name == "amqp-::1-7"
    assert AMQP(path="/run/triomq.sock").name == "amqp-run-triomq.sock"


def test_the_settings_of_the_engine_come_from_the_configuration() -> None:
    settings = AMQP(heartbeat=7, frame_max=5000, channel_max=3, max_message_size=99).settings(("PLAIN",))
    assert settings.mechanisms == ("PLAIN",)
    assert (settings.heartbeat, settings.frame_max, settings.channel_max, settings.max_message_size) == (7, 5000, 3, 99)
    assert settings.server_properties["product"] == "triomq"
    assert settings.server_properties["version"].split(".")[0].isdecimal()


async def test_capabilities_that_work_are_announced_and_no_others(endpoint: AMQPEndpoint) -> None:
    connected = await dial(endpoint).connect()
    assert connected.server_properties["capabilities"] == {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "direct_reply_to": True,
        "triomq.control": True,
        "restms": True,
    }


async def test_limits_hold_for_each_connection(virtual_time: None) -> None:
    config = AMQP(host="127.0.0.1", port=0, channel_max=2, frame_max=4096, max_message_size=1000)
    async with open_broker(config) as broker:
        client = dial(endpoint_of(broker))
        connected = await client.connect()
        assert (connected.channel_max, connected.frame_max) == (2, 4096)
        await client.open_channel(1)
        await client.send(1, "", "q", b"x" * 1001)
        assert (await client.channel_closed())[0] == 311


async def test_virtual_hosts_lead_to_domains(virtual_time: None) -> None:
    config = AMQP(host="127.0.0.1", port=0, virtual_hosts={"/shop": "default", "/nobody": "missing"})
    async with open_broker(config) as broker:
        client = await open_client(endpoint_of(broker), virtual_host="/shop")
        await client.say(1, QueueDeclare("missing", passive=True))
        assert await client.channel_closed() == (404, "NOT_FOUND - no queue 'missing' in vhost '/shop'")
        for host in ("/", "/nobody"):
            stranger = dial(endpoint_of(broker), virtual_host=host)
            await stranger.flush()
            await stranger.next()
            assert await stranger.closed() == (530, f"NOT_ALLOWED - vhost {host} not found")


async def test_resources_of_one_name_in_two_virtual_hosts_are_two(virtual_time: None) -> None:
    config = AMQP(host="127.0.0.1", port=0, virtual_hosts={"/": "default", "/shop": "shop"})
    async with open_broker(config) as broker:
        shop = await broker.add_domain("shop")
        clients = [dial(endpoint_of(broker), virtual_host=host) for host in ("/", "/shop")]
        for number, client in enumerate(clients):
            await client.connect()
            await client.open_channel(1)
            await client.call(1, ExchangeDeclare("e", ("fanout", "direct")[number]))
            await client.declare("q", exclusive=True)  # the other one's owner is another session
            await client.call(1, QueueBind("q", "e", "k"))
            await client.send(1, "e", "k", b"%d" % number)
        for number, client in enumerate(clients):
            await client.call(1, BasicConsume("q", no_ack=True))
            assert [one.body for one in await client.deliveries(1)] == [b"%d" % number]
        await clients[0].leave()
        await trio.testing.wait_all_tasks_blocked()
        assert "q" not in broker.directory.queues
        assert "q" in shop.directory.queues


async def test_connections_are_children_with_names_of_their_own(
    client: Client, connect: Connect, endpoint: AMQPEndpoint
) -> None:
    other = await connect()
    assert list(endpoint.children) == ["connection-1", "connection-2"]
    await client.leave()
    await trio.testing.wait_all_tasks_blocked()
    assert list(endpoint.children) == ["connection-2"]
    await other.leave()


async def test_connection_that_crashes_is_not_started_again(
    client: Client, connect: Connect, endpoint: AMQPEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    other = await connect()
    await client.declare("mine", exclusive=True)
    endpoint.children["connection-1"].tell_nowait(Deliver(None, None))  # type: ignore[arg-type]
    await client.expect(EndOfStream)
    assert list(endpoint.children) == ["connection-2"]
    assert "mine" not in endpoint.context.domains["default"].directory.queues
    assert "connection-1 crashed" in caplog.text
    await other.open_channel(2)


async def test_hundred_connections_that_crash_do_not_end_the_endpoint(
    connect: Connect, endpoint: AMQPEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        client = await connect()
        (ref,) = endpoint.children.values()
        ref.tell_nowait(Deliver(None, None))  # type: ignore[arg-type]
        await client.expect(EndOfStream)
    await connect()


async def test_stop_listening_closes_the_clients_that_are_there(
    client: Client, connect: Connect, endpoint: AMQPEndpoint
) -> None:
    other = await connect()
    await endpoint.ref.tell(StopListening())
    for one in (client, other):
        assert await one.closed() == (320, "CONNECTION_FORCED - the broker is shutting down")
        await one.hang_up()
    with trio.fail_after(0.1):
        await endpoint.wait_empty()


async def test_client_that_does_not_answer_a_close_by_the_broker_is_given_up(
    client: Client, endpoint: AMQPEndpoint
) -> None:
    await endpoint.ref.tell(StopListening())
    before = trio.current_time()
    with trio.fail_after(60):
        await endpoint.wait_empty()
    assert 5 <= trio.current_time() - before <= 5 + 0.5 + LINGERING + 0.5


async def test_endpoint_without_connections_is_empty_at_once(endpoint: AMQPEndpoint) -> None:
    await endpoint.ref.tell(StopListening())
    await endpoint.ref.tell(StopListening())  # once more changes nothing
    with trio.fail_after(0.1):
        await endpoint.wait_empty()


async def test_connection_in_its_handshake_gets_no_close_and_is_let_go(endpoint: AMQPEndpoint) -> None:
    client = dial(endpoint)
    await trio.testing.wait_all_tasks_blocked()
    await endpoint.ref.tell(StopListening())
    assert await client.stream.receive_some() == b""
    await client.hang_up()
    with trio.fail_after(0.1):
        await endpoint.wait_empty()


async def test_unsettled_messages_are_back_before_the_close_is_answered(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("q")
    client.publish(1, "", "q", b"x")
    await client.call(1, BasicConsume("q"))
    await client.deliveries(1)
    await endpoint.ref.tell(StopListening())
    await client.expect(Closed)
    delivery = await broker.queue("q").get()
    assert delivery is not None
    assert delivery.redelivered


# Over real sockets, in real time


async def test_long_backlog_passes_through_a_socket_in_order() -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        await broker.declare_queue("q")
        for number in range(3000):
            broker.publish_nowait("", "q", number.to_bytes(2, "big") * 2_000)
        client = Client(await trio.open_tcp_stream(*broker.listening[0].address))
        await client.connect()
        await client.open_channel(1)
        await client.say(1, BasicConsume("q", no_ack=True), QueueDeclare("q", passive=True))
        found: list[bytes] = []
        while len(found) < 3000:
            event = await client.next()
            if isinstance(event, DeliverRun):
                found += [one.body[:2] for one in delivered(event)]
        assert found == [number.to_bytes(2, "big") for number in range(3000)]
        await client.leave()


async def test_client_that_is_gone_before_it_is_accepted_hurts_no_other() -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        address = broker.listening[0].address
        for _ in range(20):
            with socket.create_connection(address) as hasty:
                # A reset instead of a farewell.
                hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client = Client(await trio.open_tcp_stream(*address))
        await client.connect()
        await client.leave()


def events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, dict[str, object]]]:
    """Give what was logged about connections: level, event, fields."""
    return [
        (record.levelname, record.getMessage(), record.fields) for record in caplog.records if hasattr(record, "fields")
    ]


async def test_connection_is_logged_when_it_opens_and_when_it_closes(
    endpoint: AMQPEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="triomq")
    client = dial(endpoint)
    await client.connect()
    await trio.sleep(2)
    await client.leave()
    who = {"peer": "memory", "user": "guest", "vhost": "/", "connection": "1"}
    (opened, closed) = events(caplog)
    assert opened == ("INFO", "connection opened", who)
    assert closed[:2] == ("INFO", "connection closed")
    assert closed[2] == who | {"reason": "Goodbye", "seconds": 2.0}


async def test_connection_that_sends_nothing_is_worth_no_line_in_the_log(
    endpoint: AMQPEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="triomq")
    ours, theirs = trio.testing.memory_stream_pair()
    endpoint.listener.connect_stream(theirs, "memory")
    await ours.aclose()
    await trio.testing.wait_all_tasks_blocked()
    ((level, event, fields),) = events(caplog)
    assert (level, event) == ("DEBUG", "connection closed")
    assert fields["reason"] == "the client went away without closing"


async def test_connection_that_fails_is_a_warning_with_code_and_reason(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await client.say(1, ExchangeDeclare("x", "no such kind"))
    assert (await client.closed())[0] == 503
    (level, event, fields) = events(caplog)[0]
    assert (level, event, fields["code"]) == ("WARNING", "connection failed", 503)


def test_config_tells_what_clients_connect_with() -> None:
    assert AMQP().client_url("127.0.0.1:5672", "ada:secret") == "amqp://ada:secret@127.0.0.1:5672"
    assert AMQP(tls=TLS("cert", "key")).client_url("a:5671", "ada:secret") == "amqps://ada:secret@a:5671"
