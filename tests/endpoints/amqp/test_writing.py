"""Writing as far as the client reads, and giving back what it was not sent."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from endpoints.client import Client
from endpoints.conftest import only_connection
from triomq.app import Broker
from triomq.endpoints import AMQPEndpoint
from triomq.endpoints.base.delivery_writer import UNREAD_BYTES, WRITE_BYTES
from triomq.protocols.amqp import (
    BasicCancel,
    BasicConsume,
    DeliverRun,
    Returned,
)


@pytest.fixture
async def slow(endpoint: AMQPEndpoint) -> Client:
    """A client over a stream on which each side waits until the other has read; with channel 1 open."""
    ours, theirs = trio.testing.lockstep_stream_pair()
    endpoint.listener.connect_stream(theirs, "lockstep")
    client = Client(ours, heartbeat=4)
    await client.connect()
    await client.open_channel(1)
    return client


async def test_client_that_does_not_read_its_replies_is_not_read_either(slow: Client, endpoint: AMQPEndpoint) -> None:
    connection, body = only_connection(endpoint), b"x" * 60_000
    for _ in range(40):
        slow.publish(1, "", "nowhere", body, mandatory=True)
        with trio.move_on_after(0.1) as late:
            await slow.flush()
        if late.cancelled_caught:
            break
    else:
        raise AssertionError("everything was read")
    assert connection.engine.reading_paused
    assert UNREAD_BYTES < connection.engine.outbox.unsent < UNREAD_BYTES + 2 * 65536 + len(body)
    await trio.sleep(7)
    await slow.stream.receive_some(140_000)  # it reads slowly, and could not be heard until then
    await trio.sleep(5)
    assert endpoint.children


async def test_client_that_reads_its_replies_at_last_is_read_again(
    slow: Client, endpoint: AMQPEndpoint, nursery: trio.Nursery
) -> None:
    body, rounds = b"x" * 60_000, 40

    async def publish() -> None:
        for _ in range(rounds):
            await slow.send(1, "", "nowhere", body, mandatory=True)

    nursery.start_soon(publish)
    await trio.sleep(1)
    assert only_connection(endpoint).engine.reading_paused
    returned = 0
    while returned < rounds:
        slow.engine.receive_data(bytes(await slow.stream.receive_some(65536)))
        returned += sum(isinstance(event, Returned) for event in slow.engine.events())
    assert not only_connection(endpoint).engine.reading_paused


async def test_backlog_without_prefetch_is_written_in_pieces_with_the_loop_free_between(
    client: Client, broker: Broker, endpoint: AMQPEndpoint
) -> None:
    queue = await broker.declare_queue("q")
    for number in range(1000):
        broker.publish_nowait("", "q", number.to_bytes(2, "big") * 2_000)
    await client.say(1, BasicConsume("q", no_ack=True))
    pieces: list[int] = []
    bodies: list[bytes] = []
    with trio.fail_after(100):
        while len(bodies) < 1000:
            data = await client.stream.receive_some(10**9)
            pieces.append(len(data))
            client.engine.receive_data(bytes(data))
            for event in client.engine.events():
                if isinstance(event, DeliverRun):
                    bodies += [event.framing.body(content)[:2] for content in event.contents]
            assert only_connection(endpoint).engine.outbox.unsent <= 2 * WRITE_BYTES
    assert [int.from_bytes(body, "big") for body in bodies] == list(range(1000))
    assert max(pieces) < 2.2 * WRITE_BYTES
    assert len(pieces) > 10
    assert (await queue.statistics()).unsettled == 0


# Giving back


async def hold_back(slow: Client, broker: Broker, endpoint: AMQPEndpoint) -> None:
    """Let a slow client consume more than fits into one write; nothing of it is read."""
    await broker.declare_queue("q")
    for number in range(200):
        broker.publish_nowait("", "q", bytes([number]) * 4_000)
    await slow.say(1, BasicConsume("q", consumer_tag="t"))
    await trio.sleep(0.1)


async def marks(broker: Broker) -> dict[int, bool]:
    """Take all messages of the queue, and tell which are marked as redelivered."""
    found: dict[int, bool] = {}
    while (delivery := await broker.queue("q").get()) is not None:
        found[delivery.body[0]] = delivery.redelivered
        delivery.accept()
    return found


GiveUp = Callable[[Client], Awaitable[None]]


async def _close_channel(slow: Client) -> None:
    slow.engine.close_channel(1, 200, "enough")
    await slow.flush()


async def _hang_up(slow: Client) -> None:
    await slow.hang_up()


@pytest.mark.parametrize("give_up", [_close_channel, _hang_up], ids=["channel closes", "connection dies"])
async def test_deliveries_that_are_not_encoded_yet_come_back_unmarked(
    slow: Client, broker: Broker, endpoint: AMQPEndpoint, give_up: GiveUp
) -> None:
    await hold_back(slow, broker, endpoint)
    assert broker.directory.queues["q"].backlog.unsettled > 40
    await give_up(slow)
    await trio.sleep(0.1)
    found = await marks(broker)
    assert list(found) == list(range(200))
    seen = [number for number, marked in found.items() if marked]
    assert seen == list(range(len(seen)))  # the first ones were encoded: a consumer may have seen them
    assert 0 < len(seen) <= 2 * WRITE_BYTES // 4_000


async def test_deliveries_that_are_not_encoded_when_their_consumer_is_cancelled_come_back_unmarked(
    slow: Client, broker: Broker, endpoint: AMQPEndpoint
) -> None:
    await hold_back(slow, broker, endpoint)
    await slow.say(1, BasicCancel("t", no_wait=True))
    await trio.sleep(0.1)
    index = broker.directory.queues["q"].backlog
    out = index.unsettled  # what was encoded stays the client's until it settles it
    assert 0 < out <= 2 * WRITE_BYTES // 4_000
    found = await marks(broker)
    assert found == dict.fromkeys(range(out, 200), False)
