"""Streams with pika and aio-pika, as their users read and write them."""

import asyncio
import contextlib
from collections.abc import Iterator

import aio_pika
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from peers.conftest import Connect
from peers.pika_client import publish

STREAM = {"x-queue-type": "stream"}
NUMBERS = [str(number).encode() for number in range(200)]


@pytest.fixture
def stream(channel: BlockingChannel, connect: Connect, name: str) -> Iterator[str]:
    """A stream with 200 records."""
    channel.queue_declare(name, durable=True, arguments=STREAM)
    channel.confirm_delivery()
    publish(channel, name, *NUMBERS)
    yield name
    connect().channel().queue_delete(name)


def read(channel: BlockingChannel, stream: str, offset: object, count: int) -> list[tuple[int, bytes]]:
    """Read so many records and ack each."""
    channel.basic_qos(prefetch_count=20)
    found = []
    for method, properties, body in channel.consume(stream, arguments={"x-stream-offset": offset}):
        found.append((properties.headers["x-stream-offset"], body))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    with contextlib.suppress(ConnectionClosedByBroker):  # pika nacks what it has and was not asked for, a 540
        channel.connection.close()
    return found


def test_pika_reads_a_stream_again_and_again(connect: Connect, stream: str) -> None:
    everything = list(enumerate(NUMBERS))
    assert read(connect().channel(), stream, "first", 200) == everything
    assert read(connect().channel(), stream, 150, 50) == everything[150:]
    assert read(connect().channel(), stream, "1h", 200) == everything


def test_pika_goes_on_behind_the_last_offset_that_it_has(connect: Connect, stream: str) -> None:
    first = read(connect().channel(), stream, "first", 70)
    second = read(connect().channel(), stream, first[-1][0] + 1, 130)
    assert [*first, *second] == list(enumerate(NUMBERS))


def test_pika_that_asks_for_next_gets_what_comes_later(connect: Connect, stream: str) -> None:
    reader, writer = connect().channel(), connect().channel()
    reader.basic_qos(prefetch_count=10)
    found: list[tuple[int, bytes]] = []

    def take(channel: BlockingChannel, method: object, properties: pika.BasicProperties, body: bytes) -> None:
        assert properties.headers is not None
        found.append((properties.headers["x-stream-offset"], body))

    reader.basic_consume(stream, take, arguments={"x-stream-offset": "next"})
    writer.confirm_delivery()
    publish(writer, stream, b"new")
    while not found:
        reader.connection.process_data_events(time_limit=0.05)
    assert found == [(200, b"new")]


def test_pika_without_a_limit_or_with_get_is_refused(connect: Connect, stream: str) -> None:
    channel = connect().channel()
    with pytest.raises(ChannelClosedByBroker, match="consumer prefetch count is not set"):
        channel.basic_consume(stream, print, arguments={"x-stream-offset": "first"})
    with pytest.raises(ConnectionClosedByBroker, match="not supported by stream queues"):
        connect().channel().basic_get(stream)


def test_aio_pika_writes_and_reads_a_stream(broker_url: str, name: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(100), await aio_pika.connect(broker_url) as connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=10)
            queue = await channel.declare_queue(name, durable=True, arguments=STREAM)
            for number in range(50):
                message = aio_pika.Message(b"%d" % number, headers={"n": number}, message_id=f"m{number}")
                await channel.default_exchange.publish(message, name)
            found = []
            async with queue.iterator(arguments={"x-stream-offset": 10}) as messages:
                async for received in messages:
                    async with received.process():
                        headers = received.headers
                        found.append((headers["x-stream-offset"], headers["n"], received.message_id, received.body))
                    if len(found) == 40:
                        break
            assert found == [(number, number, f"m{number}", b"%d" % number) for number in range(10, 50)]
            await queue.delete(if_unused=False, if_empty=False)

    asyncio.run(main())


def test_records_of_two_publishers_have_one_order_for_all_readers(connect: Connect, stream: str) -> None:
    writers = [connect().channel() for _ in range(2)]
    for number in range(30):
        publish(writers[number % 2], stream, b"more %d" % number)
    first = read(connect().channel(), stream, 200, 30)
    assert read(connect().channel(), stream, 200, 30) == first
    assert sorted(body for _, body in first) == sorted(b"more %d" % number for number in range(30))


def test_stream_that_is_declared_anew_has_none_of_the_old_records(connect: Connect, stream: str) -> None:
    channel = connect().channel()
    channel.queue_delete(stream)
    channel.queue_declare(stream, durable=True, arguments=STREAM)
    channel.confirm_delivery()
    publish(channel, stream, b"0")
    assert read(connect().channel(), stream, "first", 1) == [(0, b"0")]
