"""One port: the first eight octets decide, however they come."""

import pytest
import trio
import trio.testing

from endpoints.client import Client
from endpoints.conftest import dial, endpoint_of
from endpoints.direct import Direct, lease_sink
from triomq.app import Broker, open_broker
from triomq.endpoints import AMQP, AMQPEndpoint
from triomq.protocols.amqp import PROTOCOL_HEADER as AMQP_HEADER
from triomq.protocols.dmp import PROTOCOL_HEADER, response


def raw(endpoint: AMQPEndpoint) -> trio.abc.Stream:
    ours, theirs = trio.testing.memory_stream_pair()
    endpoint.listener.connect_stream(theirs, "memory")
    return ours


async def read_all(stream: trio.abc.Stream) -> bytes:
    with trio.fail_after(60):
        found = b""
        while data := bytes(await stream.receive_some(1024)):
            found += data
        return found


async def test_direct_header_is_greeted(endpoint: AMQPEndpoint) -> None:
    stream = raw(endpoint)
    await stream.send_all(PROTOCOL_HEADER)
    assert bytes(await stream.receive_some(100)) == response(200, "DMP/0.1")
    (name,) = endpoint.ref.children
    assert name == "direct-1"


async def test_direct_header_may_come_octet_by_octet_and_the_lease_with_it(
    client: Client, endpoint: AMQPEndpoint
) -> None:
    lease = (await lease_sink(client, "")).encode()
    stream = raw(endpoint)
    for octet in PROTOCOL_HEADER + bytes((len(lease),)) + lease:
        await stream.send_all(bytes((octet,)))
        await trio.testing.wait_all_tasks_blocked()
    found = bytes(await stream.receive_some(1000))
    assert found == response(200, "DMP/0.1") + response(200, 'Ready to write to ""')


async def test_amqp_header_may_come_octet_by_octet(endpoint: AMQPEndpoint) -> None:
    client = dial(endpoint)
    for octet in b"".join(client.engine.data_to_send()):
        await client.stream.send_all(bytes((octet,)))
        await trio.testing.wait_all_tasks_blocked()
    await client.connect()


WRONG = {
    "another version": b"AMQP\x0a\x01\x00\x02",
    "another instance": b"AMQP\x0a\x02\x00\x01",
    "something else": b"GET / HTTP/1.1\r\n\r\n",
    "an older AMQP": b"AMQP\x01\x01\x09\x01",
}


@pytest.mark.parametrize("why", WRONG)
async def test_any_other_header_is_answered_with_that_of_amqp(endpoint: AMQPEndpoint, why: str) -> None:
    stream = raw(endpoint)
    await stream.send_all(WRONG[why])
    assert await read_all(stream) == AMQP_HEADER


@pytest.mark.parametrize("begun", [b"", b"AMQP", PROTOCOL_HEADER[:7], AMQP_HEADER[:7]])
async def test_client_that_never_sends_all_of_a_header_gets_what_we_speak(endpoint: AMQPEndpoint, begun: bytes) -> None:
    stream = raw(endpoint)
    if begun:
        await stream.send_all(begun)
    started = trio.current_time()
    assert await read_all(stream) == AMQP_HEADER
    assert 5 <= trio.current_time() - started <= 7


@pytest.mark.parametrize("begun", [b"", b"AMQP\x0a"])
async def test_client_that_hangs_up_in_the_middle_of_a_header_is_forgotten(
    endpoint: AMQPEndpoint, begun: bytes
) -> None:
    stream = raw(endpoint)
    if begun:
        await stream.send_all(begun)
    await stream.aclose()
    await trio.sleep(3)
    assert not endpoint.ref.children


async def test_listener_may_have_no_direct_connections(virtual_time: None) -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0, direct_connections=False)) as broker:
        assert await Direct(endpoint_of(broker), "lease", "sink").refused() == (
            540,
            "540 NOT-IMPLEMENTED there are no direct connections at this address",
        )


async def test_lease_of_one_listener_is_nothing_to_another(client: Client, broker: Broker) -> None:
    lease = await lease_sink(client, "")
    await broker.listen(AMQP(host="127.0.0.1", port=0))
    (other,) = [ref.actor for ref in broker.endpoints.children.values() if client is not None][1:]
    assert isinstance(other, AMQPEndpoint)
    code, _ = await Direct(other, lease, "sink").refused()
    assert code == 402
