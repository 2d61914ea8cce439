"""Conversations that are spoilt, beside one that is not: the broker answers or closes, and nobody else notices."""

from random import Random

import pytest
import trio
import trio.testing

from endpoints.client import Client
from endpoints.conftest import Connect
from endpoints.direct import open_feed, open_sink
from protocols.dmp.wire import FULL, PLAIN, message, short
from triomq.endpoints import AMQPEndpoint
from triomq.protocols.amqp import BasicConsume, DirectPut, DirectPutOk, Received, Returned
from triomq.protocols.dmp import NULL, PROTOCOL_HEADER

INPUTS = 60


def spoil(random: Random, octets: bytes) -> bytes:
    """Change a conversation somewhere: octets, order, length."""
    found = bytearray(octets)
    for _ in range(random.randint(1, 4)):
        place = random.randrange(len(found))
        match random.randrange(4):
            case 0:
                found[place] = random.randrange(256)
            case 1:
                del found[place : place + random.randint(1, 9)]
            case 2:
                found[place:place] = random.randbytes(random.randint(1, 9))
            case _:
                found[place:place] = found[: random.randint(1, 40)]
        if not found:
            found += b"\0"
    return bytes(found)


async def lease_for(client: Client) -> str:
    """Lease a sink; what has come back meanwhile is of no interest."""
    await client.say(1, DirectPut("amq.fanout"))
    while not isinstance(event := await client.next(), Received):
        assert isinstance(event, Returned)
    assert isinstance(event.method, DirectPutOk)
    return event.method.lease


@pytest.mark.parametrize("seed", range(5))
async def test_hostile_client_does_not_keep_others_from_their_messages(
    client: Client, connect: Connect, endpoint: AMQPEndpoint, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    random, other = Random(seed), await connect()
    await client.declare("mine", exclusive=True)
    await client.call(1, BasicConsume("mine", no_ack=True))
    sink, feed = await open_sink(endpoint, client, ""), await open_feed(endpoint, client, "mine")
    for number in range(INPUTS):
        lease = await lease_for(other)
        words = [PROTOCOL_HEADER, short(lease.encode()), FULL, NULL, PLAIN, message(b"x" * 300), message(options=3)]
        hostile, theirs = trio.testing.memory_stream_pair()
        endpoint.listener.connect_stream(theirs, "hostile")
        spoilt = spoil(random, b"".join(words)) if random.random() < 0.3 else PROTOCOL_HEADER + words[1]
        if not spoilt.startswith(PROTOCOL_HEADER + words[1][:1]) or random.random() < 0.7:
            spoilt += spoil(random, b"".join(words[2:]))
        for start in range(0, len(spoilt), step := random.choice([1, 7, 10_000])):
            await hostile.send_all(spoilt[start : start + step])
        await sink.publish("mine", b"%d" % number)
        assert await feed.bodies(1) == [b"%d" % number]
        await hostile.aclose()
    await trio.sleep(10)
    assert sorted(endpoint.ref.children) == ["connection-1", "connection-2", "direct-1", "direct-2"]
    assert not [record for record in caplog.records if "crash" in record.getMessage()]
