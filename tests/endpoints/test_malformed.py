"""Clients that are slow, silent or deaf, in virtual time; and one beside them that must not notice."""

import struct
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from endpoints.client import Client
from endpoints.conftest import Connect, dial, open_client
from triomq.app import Broker
from triomq.endpoints import AMQP, AMQPEndpoint
from triomq.protocols.amqp import (
    AMQP_METHODS,
    PROTOCOL_HEADER,
    BasicAck,
    BasicConsume,
    BasicPublish,
    BasicQos,
    ConfirmSelect,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from triomq.protocols.amqp.events import AckRun, DeliverRun, Received


@pytest.fixture(autouse=True)
async def bystander(connect: Connect) -> AsyncIterator[Client]:
    """A client with one message unacknowledged and one that waits; afterwards it gets that, and goes on."""
    client = await connect()
    await client.declare("bystander", exclusive=True)
    await client.call(1, BasicQos(0, 1))
    await client.call(1, BasicConsume("bystander"))
    await client.send(1, "", "bystander", b"before", b"kept")
    (before,) = await client.deliveries(1)
    yield client
    await client.say(1, BasicAck(before.tag))
    (kept,) = await client.deliveries(1)
    assert (kept.body, kept.redelivered) == (b"kept", False)
    await client.say(1, BasicAck(kept.tag))
    await client.call(1, ConfirmSelect())
    await client.send(1, "", "bystander", b"after")
    assert {type(await client.next()) for _ in range(2)} <= {AckRun, Received, DeliverRun}


def frame(what: Method) -> bytes:
    payload = AMQP_METHODS.encode(what)
    return struct.pack(">BHI", 1, 0, len(payload)) + payload + b"\xce"


class Frames:
    """Reads method frames off a stream, one by one."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._unread = b""

    async def next(self) -> Method | None:
        """Give the next method, or None at the end of the stream."""
        while len(self._unread) < 7 or len(self._unread) < 8 + struct.unpack_from(">I", self._unread, 3)[0]:
            data = await self._stream.receive_some()
            if not data:
                return None
            self._unread += data
        size = struct.unpack_from(">I", self._unread, 3)[0]
        payload, self._unread = self._unread[7 : 7 + size], self._unread[8 + size :]
        return AMQP_METHODS.decode(payload)


@pytest.mark.parametrize("octets", [0, 1, 7], ids=["none of them", "one", "all but the last"])
async def test_client_that_does_not_send_eight_octets_within_five_seconds_gets_ours(
    endpoint: AMQPEndpoint, octets: int
) -> None:
    began, stream = trio.current_time(), dial(endpoint).stream
    if octets:
        await stream.send_all(PROTOCOL_HEADER[:octets])
    assert await stream.receive_some() == PROTOCOL_HEADER
    assert 5 <= trio.current_time() - began < 6
    assert await stream.receive_some() == b""


START_OK = ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")
STAGES: dict[str, list[tuple[bytes, type[Method]]]] = {
    "starting": [(PROTOCOL_HEADER, ConnectionStart)],
    "tuning": [(PROTOCOL_HEADER, ConnectionStart), (frame(START_OK), ConnectionTune)],
    "opening": [
        (PROTOCOL_HEADER, ConnectionStart),
        (frame(START_OK), ConnectionTune),
        (frame(ConnectionTuneOk(0, 4096, 0)), ConnectionClose),
    ],
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("rest", [b"", frame(ConnectionOpen("/"))[:-1]], ids=["silence", "most of a frame"])
async def test_client_that_does_not_finish_its_handshake_within_ten_seconds_gets_the_reason(
    endpoint: AMQPEndpoint, stage: str, rest: bytes
) -> None:
    began, stream = trio.current_time(), dial(endpoint).stream
    frames = Frames(stream)
    for octets, answer in STAGES[stage][:-1]:
        await stream.send_all(octets)
        assert isinstance(await frames.next(), answer)
    octets, _ = STAGES[stage][-1]
    await stream.send_all(octets + rest)
    close = await frames.next()
    while not isinstance(close, ConnectionClose):
        close = await frames.next()
    assert (close.reply_code, close.reply_text.split(" - ")[0]) == (320, "CONNECTION_FORCED")
    assert close.reply_text.endswith(f"it is at {stage}")
    assert 10 <= trio.current_time() - began < 11
    assert await frames.next() is None  # nobody answers the close, and that is waited for no longer than five seconds
    assert trio.current_time() - began < 18


async def test_client_that_sends_one_octet_a_second_has_ten_of_them(endpoint: AMQPEndpoint) -> None:
    stream = dial(endpoint).stream
    frames = Frames(stream)
    await stream.send_all(PROTOCOL_HEADER)
    await frames.next()
    for octet in frame(START_OK)[:9]:
        await trio.sleep(1)
        await stream.send_all(bytes((octet,)))
    close = await frames.next()
    assert isinstance(close, ConnectionClose)
    assert close.reply_code == 320


@pytest.fixture
async def limited(broker: Broker, virtual_time: None) -> AMQPEndpoint:
    """An endpoint of the same broker that takes bodies of a hundred octets."""
    listening = await broker.listen(AMQP(host="127.0.0.1", port=0, max_message_size=100))
    actor = broker.endpoint_refs[listening.name].actor
    assert isinstance(actor, AMQPEndpoint)
    return actor


async def test_body_beyond_the_limit_closes_its_channel_and_no_other(limited: AMQPEndpoint) -> None:
    client = await open_client(limited)
    await client.open_channel(2)
    await client.declare("q", channel=2)
    client.publish(1, "", "q", b"x" * 100, b"x" * 101, b"never")
    await client.send(2, "", "q", b"y")
    text = "CONTENT_TOO_LARGE - message size 101 is larger than configured max size 100"
    assert await client.channel_closed(1) == (311, text)
    assert (await client.declare("q", channel=2, passive=True)).message_count == 2
    await client.open_channel(1)
    client.engine.send_content(1, BasicPublish("", "q"), b"\0\0", b"z")
    await client.flush()
    assert (await client.declare("q", passive=True)).message_count == 3


async def deaf(endpoint: AMQPEndpoint, broker: Broker, *, heartbeat: int = 0) -> Client:
    """A client that consumes from a queue, over a stream that hands nothing over before it is read."""
    ours, theirs = trio.testing.lockstep_stream_pair()
    endpoint.listener.connect_stream(theirs, "deaf")
    client = Client(ours, heartbeat=heartbeat)
    await client.connect()
    await client.open_channel(1)
    await client.call(1, BasicConsume("wanted"))
    for body in b"1", b"2":
        await broker.publish("", "wanted", body)
    return client


@pytest.mark.parametrize(("heartbeat", "patience"), [(0, 120), (30, 60)])
async def test_client_that_does_not_read_is_given_up_and_what_it_held_goes_back(
    heartbeat: int, patience: int, endpoint: AMQPEndpoint, broker: Broker, connect: Connect
) -> None:
    wanted = await broker.declare_queue("wanted")
    client = await deaf(endpoint, broker, heartbeat=heartbeat)
    async with trio.open_nursery() as nursery:
        if heartbeat:
            nursery.start_soon(beat, client)  # alive, as far as heartbeats tell
        await trio.sleep(patience - 5)
        assert (await wanted.statistics()).unsettled == 2
        await trio.sleep(10)
        statistics = await wanted.statistics()
        assert (statistics.ready, statistics.unsettled, statistics.feeds) == (2, 0, 0)
        nursery.cancel_scope.cancel()
    other = await connect()
    await other.call(1, BasicConsume("wanted"))
    assert [delivery.body for delivery in await other.deliveries(2)] == [b"1", b"2"]


async def beat(client: Client) -> None:
    while True:
        await trio.sleep(10)
        try:
            await client.stream.send_all(b"\x08\0\0\0\0\0\0\xce")
        except trio.BrokenResourceError:
            return


async def test_client_that_reads_slowly_is_not_given_up(endpoint: AMQPEndpoint, broker: Broker) -> None:
    await broker.declare_queue("wanted")
    client = await deaf(endpoint, broker)
    body = bytes(1024 * 1024)
    await broker.publish("", "wanted", body)
    for _ in range(10):
        await trio.sleep(100)
        await client.stream.receive_some(130 * 1024)
    wanted = broker.queue("wanted")
    assert (await wanted.statistics()).unsettled == 3


async def test_client_that_has_nothing_to_read_is_not_given_up(endpoint: AMQPEndpoint, broker: Broker) -> None:
    await broker.declare_queue("wanted")
    client = await deaf(endpoint, broker)
    assert len(await client.deliveries(2)) == 2
    await trio.sleep(1000)
    assert (await broker.queue("wanted").statistics()).unsettled == 2
