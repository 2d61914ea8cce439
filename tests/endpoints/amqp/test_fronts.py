"""Messages that are not alike, in one batch: each consumer gets every one with its own key and properties."""

from collections.abc import Sequence

import pytest
import trio.testing

from endpoints.client import Client, Delivered
from endpoints.conftest import Connect
from triomq.app import Broker
from triomq.endpoints.amqp import fronts
from triomq.protocols import BasicProperties, encode_properties
from triomq.protocols.amqp import BasicAck, BasicConsume, BasicNack, BasicRecover, BasicRecoverOk, QueueBind

Told = list[tuple[str, bytes, bytes]]


async def publish_mixed(client: Client, count: int, keys: int = 3, exchange: str = "amq.fanout") -> Told:
    """Publish messages whose keys, properties and bodies differ, in one piece; return what consumers should get."""
    told: Told = []
    for number in range(count):
        properties = encode_properties(BasicProperties(message_id=str(10**number) if number % 4 else None))
        body = b"" if number % 5 == 4 else b"%d" % number
        key = f"key-{number % keys}"
        client.publish(1, exchange, key, body, properties=properties)
        told.append((key, properties, body))
    await client.flush()
    await trio.testing.wait_all_tasks_blocked()
    return told


def seen(deliveries: Sequence[Delivered]) -> Told:
    return [(one.key, one.properties, one.body) for one in deliveries]


async def bound(client: Client, *queues: str) -> None:
    for name in queues:
        await client.declare(name)
        await client.call(1, QueueBind(name, "amq.fanout"))


async def consume(client: Client, queue: str, channel: int = 1, *, no_ack: bool = False) -> None:
    await client.say(channel, BasicConsume(queue, consumer_tag=queue, no_ack=no_ack))
    await client.next()


@pytest.mark.parametrize("no_ack", [True, False])
async def test_consumers_get_each_message_with_its_own_key_and_properties(
    client: Client, connect: Connect, broker: Broker, no_ack: bool
) -> None:
    """On the publisher's channel number, on another one, with smaller frames."""
    small = await connect(frame_max=4096)
    await client.open_channel(2)
    await small.open_channel(7)
    await bound(client, "same", "other", "small")
    told = await publish_mixed(client, 12)
    (batch_of_all,) = (len(run.contents) for run in broker.directory.queues["same"].backlog._runs or ())
    assert batch_of_all == 12
    for reader, queue, channel in ((client, "same", 1), (client, "other", 2), (small, "small", 7)):
        await consume(reader, queue, channel, no_ack=no_ack)
        found = await reader.deliveries(12)
        assert seen(found) == told
        assert [one.tag for one in found] == list(range(1, 13))
        if not no_ack:
            await reader.say(channel, BasicAck(12, multiple=True))
    await trio.testing.wait_all_tasks_blocked()
    assert [broker.directory.queues[name].backlog.unsettled for name in ("same", "other", "small")] == [0, 0, 0]


async def test_messages_that_come_back_are_delivered_as_they_were(client: Client) -> None:
    await bound(client, "q")
    told = await publish_mixed(client, 8)
    await consume(client, "q")
    first = await client.deliveries(8)
    assert not any(one.redelivered for one in first)
    await client.say(1, BasicAck(first[2].tag), BasicNack(first[5].tag, requeue=True), BasicNack(first[0].tag))
    again = await client.deliveries(2)
    assert seen(again) == [told[0], told[5]]
    assert all(one.redelivered for one in again)
    await client.say(1, BasicRecover(requeue=False))
    await client.read(BasicRecoverOk)
    rest = await client.deliveries(7)
    assert sorted(seen(rest)) == sorted(told[:2] + told[3:])


@pytest.mark.parametrize("no_ack", [True, False])
async def test_messages_of_which_one_fits_no_frame_are_all_delivered(
    client: Client, connect: Connect, broker: Broker, no_ack: bool
) -> None:
    narrow = await connect(frame_max=4096)
    narrow.engine._core.frame_max = 8192  # it takes what comes, as most clients do
    await bound(client, "q")
    told = await publish_mixed(client, 3)
    large = encode_properties(BasicProperties(headers={"h": "x" * 5000}))
    client.publish(1, "amq.fanout", "large", b"x", properties=large)
    await client.send(1, "amq.fanout", "behind", b"y")
    await trio.testing.wait_all_tasks_blocked()
    await consume(narrow, "q", no_ack=no_ack)
    found = seen(await narrow.deliveries(5))
    assert found[:3] == told
    assert [key for key, _, _ in found[3:]] == ["large", "behind"]


async def test_fronts_are_remembered_within_a_bound(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fronts, "_FRONTS", 4)
    await bound(client, "q")
    await consume(client, "q", no_ack=True)
    for _ in range(3):
        told = await publish_mixed(client, 12, keys=12)
        assert seen(await client.deliveries(12)) == told
