"""What a connection does for what its engine reports: log-in, channels, refusals."""

import pytest

from endpoints.client import Client
from endpoints.conftest import Connect, dial
from triomq.app import Broker
from triomq.endpoints import AMQPEndpoint
from triomq.protocols import encode_table
from triomq.protocols.amqp import (
    BasicAck,
    BasicConsume,
    BasicGet,
    ConfirmSelect,
    EndOfStream,
    Login,
    QueueDeclare,
    ServerStarted,
    plain,
)

# The handshake


async def test_client_logs_in_with_plain(endpoint: AMQPEndpoint) -> None:
    client = dial(endpoint)
    connected = await client.connect()
    assert connected.server_properties["product"] == "triomq"
    assert (connected.channel_max, connected.frame_max, connected.heartbeat) == (2047, 131072, 0)


async def test_client_logs_in_with_amqplain(endpoint: AMQPEndpoint) -> None:
    table = encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]
    await dial(endpoint, login=Login("AMQPLAIN", table)).connect()


@pytest.mark.parametrize(
    "login",
    [plain("guest", "wrong"), plain("nobody", "guest"), Login("PLAIN", b"guest"), Login("EXTERNAL", b"guest")],
    ids=["password", "user", "form", "mechanism"],
)
async def test_wrong_login_gets_the_reason_when_the_client_can_bear_it(endpoint: AMQPEndpoint, login: Login) -> None:
    client = dial(endpoint, login=login)
    await client.flush()
    await client.expect(ServerStarted)
    code, text = await client.closed()
    assert (code, text.split(" - ")[0]) == (403, "ACCESS_REFUSED")
    assert f"using authentication mechanism {login.mechanism}" in text


async def test_wrong_login_without_the_capability_gets_nothing_more(endpoint: AMQPEndpoint) -> None:
    client = dial(endpoint, login=plain("guest", "wrong"), client_properties={})
    await client.flush()
    await client.expect(ServerStarted)
    await client.expect(EndOfStream)


# Channels


async def test_acks_that_follow_an_error_on_their_channel_are_dropped_too(client: Client, broker: Broker) -> None:
    await client.declare("q")
    client.publish(1, "", "q", b"x")
    await client.call(1, BasicConsume("q"))
    (delivery,) = await client.deliveries(1)
    await client.say(1, QueueDeclare("missing", passive=True), BasicAck(delivery.tag))
    assert (await client.channel_closed(1))[0] == 404
    assert (await broker.queue("q").statistics()).ready == 1


async def test_queue_that_crashes_over_a_request_costs_the_asking_client_its_connection(
    client: Client, connect: Connect, broker: Broker
) -> None:
    await client.declare("q")
    broker.directory.queues["q"].backlog.resident = 1  # a lie: there is nothing to take
    await client.say(1, BasicGet("q"))
    code, text = await client.closed()
    assert code == 541
    assert "queue.q crashed while it handled Get" in text
    other = await connect()
    await other.declare("another")


async def test_publishes_and_confirms_before_an_error_are_answered_first(client: Client) -> None:
    await client.declare("q")
    await client.call(1, ConfirmSelect())
    client.publish(1, "", "q", b"1", b"2")
    client.engine.send_method(1, QueueDeclare("missing", passive=True))
    await client.flush()
    assert await client.read(BasicAck) == BasicAck(2, multiple=True)
    assert (await client.channel_closed(1))[0] == 404
