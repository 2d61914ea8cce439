"""Asking for leases on AMQP, and what is told of direct connections."""

import pytest
import trio

from endpoints.client import Client
from endpoints.conftest import Connect, dial, endpoint_of, open_client
from endpoints.direct import Direct, lease_feed, lease_sink, open_feed, open_sink
from triomq.app import Broker, open_broker
from triomq.core import SinkKind
from triomq.core.topology.lease import MOST_UNUSED
from triomq.endpoints import AMQP, AMQPEndpoint
from triomq.endpoints.amqp.direct import PRIVATE_BYTES
from triomq.endpoints.direct import LARGEST_MESSAGE
from triomq.protocols import dmp, encode_table
from triomq.protocols.amqp import (
    BasicConsume,
    ChannelOpen,
    Closed,
    DirectGet,
    DirectPut,
    ExchangeDeclare,
)


@pytest.mark.parametrize("name", ["", "amq.direct", "amq.topic", "amq.fanout", "amq.headers"])
async def test_sink_may_be_any_exchange_and_be_leased_any_number_of_times(client: Client, name: str) -> None:
    leases = {await lease_sink(client, name) for _ in range(3)}
    assert len(leases) == 3
    assert {len(lease) for lease in leases} == {22}


async def test_feed_may_be_leased_again_while_it_has_no_connection(client: Client) -> None:
    await client.declare("mine", exclusive=True)
    assert await lease_feed(client, "mine") != await lease_feed(client, "mine")


PUT_REFUSED = {
    "missing": (404, "NOT_FOUND - no exchange 'missing' in vhost '/'"),
    "internal": (403, "ACCESS_REFUSED - cannot publish to internal exchange 'internal' in vhost '/'"),
}


@pytest.mark.parametrize("name", PUT_REFUSED)
async def test_sink_that_one_cannot_publish_into_is_refused(client: Client, broker: Broker, name: str) -> None:
    await broker.declare_sink("internal", SinkKind.DIRECT, internal=True)
    await client.say(1, DirectPut(name))
    assert await client.channel_closed() == PUT_REFUSED[name]


GET_REFUSED = {
    "missing": (404, "NOT_FOUND - no queue 'missing' in vhost '/'"),
    "shared": (
        403,
        "ACCESS_REFUSED - queue 'shared' in vhost '/' is not exclusive to this connection, as a feed must be",
    ),
    "others": (
        403,
        "ACCESS_REFUSED - queue 'others' in vhost '/' is not exclusive to this connection, as a feed must be",
    ),
}


@pytest.mark.parametrize("name", GET_REFUSED)
async def test_feed_that_is_not_ones_own_is_refused(client: Client, connect: Connect, name: str) -> None:
    other = await connect()
    await other.declare("others", exclusive=True)
    await client.declare("shared")
    await client.say(1, DirectGet(name))
    assert await client.channel_closed() == GET_REFUSED[name]


async def test_feed_without_a_name_is_a_syntax_error(client: Client) -> None:
    await client.declare("", exclusive=True)
    await client.say(1, DirectGet(""))
    assert await client.closed() == (502, "SYNTAX_ERROR - a feed needs a name")


async def test_feed_has_one_connection_at_a_time(client: Client, endpoint: AMQPEndpoint) -> None:
    await client.declare("mine", exclusive=True)
    feed = await open_feed(endpoint, client, "mine")
    await client.say(1, DirectGet("mine"))
    code, _ = await client.channel_closed()
    assert code == 405
    await feed.hang_up()
    await client.open_channel(1)
    await lease_feed(client, "mine")


async def test_so_many_leases_may_be_unused_and_no_more(client: Client) -> None:
    for _ in range(MOST_UNUSED):
        client.engine.send_method(1, DirectPut(""))
    await client.flush()
    for _ in range(MOST_UNUSED):
        await client.next()
    await client.say(1, DirectPut(""))
    assert (await client.closed())[0] == 506


async def test_lease_of_a_feed_drops_nothing_of_what_the_queue_has(
    client: Client, endpoint: AMQPEndpoint, broker: Broker
) -> None:
    await client.declare("mine", exclusive=True)
    bodies = [b"%03d" % number + bytes(1_000_000) for number in range(80)]
    for body in bodies:
        broker.publish_nowait("", "mine", body)
    feed = await open_feed(endpoint, client, "mine")
    assert broker.directory.queues["mine"].ceiling == PRIVATE_BYTES < sum(map(len, bodies))
    await client.call(1, BasicConsume("mine"))
    assert await feed.bodies(80) == bodies
    await client.declare("mine", exclusive=True)  # as before


# Server-properties


async def test_the_largest_message_the_pulse_and_the_lease_are_as_configured(virtual_time: None) -> None:
    config = AMQP(host="127.0.0.1", port=0, direct_message_size=1000, direct_heartbeat=1.0, direct_lease=2.0)
    async with open_broker(config) as broker:
        endpoint = endpoint_of(broker)
        client = await open_client(endpoint)
        await client.declare("mine", exclusive=True)
        sink, feed = await open_sink(endpoint, client, ""), await open_feed(endpoint, client, "mine")
        before = feed.octets
        await feed.silence(5.2)
        assert 16 <= feed.octets - before <= 20
        lease = await lease_sink(client, "")
        await trio.sleep(2)
        assert (await Direct(endpoint, lease, "sink").refused())[0] == 402
        await sink.say((1001).to_bytes(4, "big"))
        assert await sink.refused() == (530, "530 NOT-ALLOWED a message of 1001 octets; at most 1000 are allowed")


SPOILT = {
    "an unknown method": (1, b"\xf0\x3c\x00\x63", 540),
    "no name": (1, b"\xf0\x3c\x00\x0a", 501),
    "a name that is cut off": (1, b"\xf0\x3c\x00\x0a\x0aamq", 501),
    "on channel 0": (0, b"\xf0\x3c\x00\x0a\x00", 504),
    "on a channel that is not open": (2, b"\xf0\x3c\x00\x0a\x00", 504),
}


@pytest.mark.parametrize("why", SPOILT)
async def test_method_of_the_class_that_is_none_is_answered_as_any_other(client: Client, why: str) -> None:
    channel, payload, code = SPOILT[why]
    head = b"\x01" + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big")
    await client.stream.send_all(head + payload + b"\xce")
    assert (await client.closed())[0] == code


@pytest.mark.parametrize("preference", [0, 1])
async def test_preference_for_direct_connections_is_announced(virtual_time: None, preference: int) -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0, direct=preference)) as broker:
        connected = await dial(endpoint_of(broker)).connect()
    assert connected.server_properties["direct"] == preference


async def test_direct_connections_that_are_off_are_not_announced_and_their_class_is_unknown(virtual_time: None) -> None:
    async with open_broker(AMQP(host="127.0.0.1", port=0, direct_connections=False)) as broker:
        client = dial(endpoint_of(broker))
        connected = await client.connect()
        assert "direct" not in connected.server_properties
        await client.open_channel()
        await client.say(1, DirectPut(""))
        event = await client.expect(Closed)
        assert (event.code, event.text) == (540, "NOT_IMPLEMENTED - unknown class 61500")


def test_clients_that_read_six_types_of_fields_at_the_top_can_read_our_properties() -> None:
    table = encode_table(AMQP(direct=1).settings(("PLAIN",)).server_properties)
    position, types = 4, ""
    sizes = {"S": None, "F": None, "I": 4, "D": 5, "T": 8, "V": 0}
    while position < len(table):
        position += 1 + table[position]
        code = chr(table[position])
        types += code
        size = sizes[code]
        position += 1
        position += 4 + int.from_bytes(table[position : position + 4], "big") if size is None else size
    assert position == len(table)
    assert set(types) <= set("SIDTVF")


async def test_exchange_that_is_declared_after_the_refusal_can_be_leased(client: Client) -> None:
    await client.say(1, DirectPut("late"))
    await client.channel_closed()
    await client.say(1, ChannelOpen())
    await client.next()
    await client.call(1, ExchangeDeclare("late"))
    assert await lease_sink(client, "late")
    await trio.lowlevel.checkpoint()


def test_largest_message_that_may_be_configured_is_the_largest_that_dmp_can_encode() -> None:
    assert LARGEST_MESSAGE == dmp.LARGEST_MESSAGE
