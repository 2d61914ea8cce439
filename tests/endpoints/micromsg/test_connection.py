"""Clients of MicroMsg2 that publish, subscribe and ack, in virtual time."""

from collections.abc import AsyncIterator

import pytest

from endpoints.conftest import counts
from endpoints.micromsg.client import dial, open_micromsg_broker
from triomq.app import Broker


@pytest.fixture
async def broker(virtual_time: None) -> AsyncIterator[Broker]:
    async with open_micromsg_broker() as broker:
        await broker.declare_queue("q", durable=False)
        yield broker


async def test_message_goes_into_a_queue_and_is_acked(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.send("queue/q", b"1", b"2", b"3")
    assert await counts(broker, "q") == (3, 0)


async def test_messages_come_from_a_queue_and_are_settled_by_acks(broker: Broker) -> None:
    peer = await dial(broker).open()
    await peer.send("q", b"1", b"2")
    assert await peer.subscribe("queue/q") == 200
    found = await peer.take(2)
    assert [(got.destination, got.body) for got in found] == [("queue/q", b"1"), ("queue/q", b"2")]
    assert await counts(broker, "q") == (0, 2)
    await peer.accept()
    await peer.send("q", b"3")
    assert await peer.bodies(1) == [b"3"]


async def test_unknown_queue_is_refused(broker: Broker) -> None:
    peer = await dial(broker).open()
    peer.publish("queue/nowhere", b"x")
    assert await peer.fails() == (404, "no queue 'nowhere' here; declare it first")
