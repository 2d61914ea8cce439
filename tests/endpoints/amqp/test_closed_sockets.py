"""After close-ok the socket is the client's to close: it is heard for a while, and counts nowhere."""

import trio
import trio.testing

from endpoints.client import Client
from endpoints.conftest import Connect
from protocols.amqp.wire import method
from triomq.app import Broker, User
from triomq.endpoints import AMQPEndpoint, StopListening
from triomq.endpoints.amqp.closed_sockets import ClosedSockets
from triomq.endpoints.base.wheel import Wheel
from triomq.protocols.amqp import AMQPEngine, Closed, ConnectionClose, ConnectionCloseOk
from triomq.security import ALL, UserLimits
from triomq.transports import StreamTransport

CLOSE, CLOSE_OK = method(0, ConnectionClose(200, "bye")), method(0, ConnectionCloseOk())


async def close(client: Client) -> trio.abc.Stream:
    """Close in order, and keep the socket."""
    client.engine.close(200, "Goodbye")
    await client.flush()
    assert not (await client.expect(Closed)).by_peer
    return client.stream


async def test_the_socket_is_open_for_five_seconds_after_close_ok(client: Client, endpoint: AMQPEndpoint) -> None:
    stream = await close(client)
    before = trio.current_time()
    assert not endpoint.children
    assert await stream.receive_some() == b""
    assert 5 <= trio.current_time() - before <= 5.1
    assert len(endpoint._closed_sockets) == len(endpoint.timers) == 0


async def test_further_closes_are_answered_and_nothing_else(client: Client) -> None:
    stream = await close(client)
    for _ in range(3):
        await stream.send_all(CLOSE[:9])
        await stream.send_all(CLOSE[9:] + CLOSE)
        assert await stream.receive_some() == CLOSE_OK * 2
    await stream.send_all(b"\xce" * 8 + CLOSE)
    assert await stream.receive_some() == b""


async def test_socket_that_its_client_closes_is_gone_at_once(client: Client, endpoint: AMQPEndpoint) -> None:
    stream = await close(client)
    assert len(endpoint._closed_sockets) == 1
    await stream.aclose()
    await trio.testing.wait_all_tasks_blocked()
    assert len(endpoint._closed_sockets) == len(endpoint.timers) == 0


async def test_client_that_goes_on_sending_is_not_read_for_ever(client: Client) -> None:
    stream = await close(client)
    await stream.send_all(bytes(1024 * 1024 + 1))
    with trio.fail_after(1):
        assert await stream.receive_some() == b""


async def test_socket_that_waits_for_its_client_counts_in_no_limit_and_no_drain(
    connect: Connect, broker: Broker, endpoint: AMQPEndpoint
) -> None:
    broker.put_user("guest", User("guest", permissions={"default": ALL}, limits=UserLimits(connections=1)))
    stream = await close(await connect())
    await close(await connect())
    with trio.fail_after(0.1):
        await endpoint.ref.tell(StopListening())
        await endpoint.wait_empty()
    await stream.send_all(CLOSE)
    assert await stream.receive_some() == CLOSE_OK


async def test_replies_that_are_not_read_yet_come_before_close_ok(client: Client) -> None:
    client.publish(1, "", "nobody", bytes(10_000_000), mandatory=True)
    client.engine.close(200, "Goodbye")
    await client.flush()
    await trio.sleep(1)
    octets = b""
    while not octets.endswith(CLOSE_OK):
        octets += await client.stream.receive_some(1 << 20)
    assert len(octets) > 10_000_000


async def test_of_more_than_a_thousand_the_oldest_goes() -> None:
    now = 0.0
    wheel = Wheel(lambda: now, lambda: None)
    farewells = ClosedSockets(wheel)
    streams = []
    for number in range(1001):
        ours, theirs = trio.testing.memory_stream_pair()
        streams.append(ours)
        farewells.add(StreamTransport(theirs, "memory"), AMQPEngine("server", now=0.0), float(number))
    assert len(farewells) == len(wheel) == 1000
    now = 5.9
    wheel.turn(1000)
    assert len(farewells) == 1000  # the first one's time was over, but it has gone
    now = 100.0
    wheel.turn(1000)
    assert len(farewells) == 1000 - 95
    farewells.close()
    assert len(farewells) == len(wheel) == 0
